"""The smallest depth that learned a language, beside the smallest that theory knows to be enough: table and findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from eigentrack.experiments.design.theory import Theory
from eigentrack.experiments.reporting.markdown_table import markdown_table
from eigentrack.experiments.reporting.wording import MOST_NAMED, counted, joined, nested
from eigentrack.experiments.running.task_cell import FITTED, REACH, CellResult, learned


def label(name: str, depth: int) -> str:
    return f"{name}, depth {depth}"


@dataclass(frozen=True)
class SmallestDepth:
    """The smallest depth that learns each language with these layers; series are labelled as `label` does."""

    layers: Sequence[str]
    depths: Sequence[int]
    theory: Theory

    def table(self, results: Sequence[CellResult]) -> str:
        lines = [
            f"- learned at: the smallest depth with a seed that is right to {REACH} times the training length",
            "- enough in theory: the smallest depth for which `eigentrack explain` says can; – where it says so for none of "
            "them",
            "- impossible up to: the largest depth for which it says cannot",
            "- horizons: by depth, every seed",
            "",
        ]
        for name in self.layers:
            head = (
                "language",
                "learned at",
                "enough in theory",
                "impossible up to",
                *(f"horizons, {depth}" for depth in self.depths),
            )
            rows = (self._row(results, panel, name) for panel in dict.fromkeys(result.panel for result in results))
            lines += [f"### {name}", "", *markdown_table(head, rows), ""]
        return "\n".join(lines)

    def _row(self, results: Sequence[CellResult], panel: str, name: str) -> list[str]:
        runs = {depth: [result for result in results if result.key == (panel, label(name, depth))] for depth in self.depths}
        answers = {depth: self.theory.answer(panel, label(name, depth)) for depth in self.depths}
        return [
            panel,
            str(min((depth for depth in self.depths if learned(runs[depth])), default="–")),
            str(min((depth for depth in self.depths if answers[depth] == "can"), default="–")),
            str(max((depth for depth in self.depths if answers[depth] == "cannot"), default="–")),
            *(", ".join(f"{run.scores.horizon:,}" for run in runs[depth]) or "–" for depth in self.depths),
        ]

    def findings(self, results: Sequence[CellResult]) -> list[str]:
        """Say of each kind of outcome how many languages each layer has, and which, where they are few."""
        kinds = {
            "at": "Learned at the smallest depth that suffices in theory:",
            "fewer": "Learned with fewer layers than theory knows to suffice, while no proof says that fewer do not:",
            "more": "Learned only with more layers than suffice in theory:",
            "against": f"Right to {REACH} times the training length at a depth that theory rules out, so by a shortcut:",
            "fitted": f"Learned at no depth up to {self.depths[-1]}, though such a depth suffices in theory and {FITTED:.0%} "
            "of the answers are right at the training lengths:",
            "never": f"Not right at the training lengths at any depth up to {self.depths[-1]}, though such a depth suffices in "
            "theory:",
        }
        told, lines = self._told(results), []
        for kind, text in kinds.items():
            said = []
            for name in self.layers:
                if found := told.get((kind, name)):
                    few = len(found) <= MOST_NAMED
                    names = joined([f"“{panel}” ({depths})" for panel, depths in found.items()]) if few else "see its table"
                    said.append(f"{name}: {counted(len(found), 'language')}, {names}.")
            lines += [nested(text, said)] if said else []
        return lines

    def answer(self, results: Sequence[CellResult]) -> str:
        """Count the languages that were learned at, below and above the depth that suffices in theory."""
        counts = Counter(kind for (kind, _), found in self._told(results).items() for _ in found)
        if not (total := counts.total()):
            return ""
        missed = counts["fitted"] + counts["never"]
        against = f" {counts['against']} are right far beyond training at a depth that theory rules out." * bool(
            counts["against"]
        )
        return (
            f"Of {total} pairs of a language and a layer, {counts['at']} are learned at exactly the depth that suffices in "
            f"theory, {counts['fewer']} with fewer layers and {counts['more']} only with more.{against} The other {missed} are "
            f"learned at no depth up to {self.depths[-1]}, though theory knows one that suffices."
        )

    def _told(self, results: Sequence[CellResult]) -> dict[tuple[str, str], dict[str, str]]:
        """Return by kind and layer the languages, with the depths in words."""
        told: dict[tuple[str, str], dict[str, str]] = {}
        for name in self.layers:
            for panel in dict.fromkeys(result.panel for result in results):
                if compared := self._compared(results, panel, name):
                    told.setdefault((compared[0], name), {})[panel] = compared[1]
        return told

    def _compared(self, results: Sequence[CellResult], panel: str, name: str) -> tuple[str, str] | None:
        """Return the kind of outcome and the depths in words; None for a language that has neither been learned nor a bound."""
        runs = {depth: [r for r in results if r.key == (panel, label(name, depth))] for depth in self.depths}
        answers = {depth: self.theory.answer(panel, label(name, depth)) for depth in self.depths}
        found = min((depth for depth in self.depths if learned(runs[depth])), default=None)
        enough = min((depth for depth in self.depths if answers[depth] == "can"), default=None)
        bound = "theory knows none" if enough is None else f"{enough} suffice" if enough > 1 else "1 suffices"
        if found is None:
            if enough is None or not any(runs.values()):
                return None
            fitted = any(run.validation_accuracy >= FITTED for of_depth in runs.values() for run in of_depth)
            return "fitted" if fitted else "never", bound
        if answers[found] == "cannot":
            return "against", f"at {found}"
        if enough == found:
            return "at", f"at {found}"
        return "fewer" if enough is None or found < enough else "more", f"at {found}, {bound}"
