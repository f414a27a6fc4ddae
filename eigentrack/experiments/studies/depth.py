"""The smallest depth that learned a language, beside the smallest that theory knows to be enough: table and findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eigentrack.experiments.design.theory import Theory
from eigentrack.experiments.reporting.markdown_table import markdown_table
from eigentrack.experiments.running.task_cell import FITTED, REACH, CellResult, learned


def label(name: str, depth: int) -> str:
    return f"{name}, depth {depth}"


@dataclass(frozen=True)
class SmallestDepth:
    """Of these layers at these depths, in series that are labelled as `label` does."""

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
            lines += [f"## {name}", "", *markdown_table(head, rows), ""]
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
        """The smallest depth that learned, against the smallest that theory knows to be enough: languages by kind and layer."""
        kinds = {
            "at": "Learned at the bound of theory",
            "fewer": "Learned with fewer layers than theory's bound, which is a depth that suffices: no proof says that fewer "
            "do not",
            "more": "Learned only with more layers than suffice in theory",
            "against": f"Right to {REACH} times the training length at a depth that theory rules out, a shortcut",
            "fitted": f"Bounded by {self.depths[-1]} layers and learned at no depth, though right at the training lengths "
            f"({FITTED:.0%})",
            "never": f"Bounded by {self.depths[-1]} layers and not right at the training lengths at any depth",
        }
        told: dict[tuple[str, str], list[str]] = {}
        for name in self.layers:
            for panel in dict.fromkeys(result.panel for result in results):
                if compared := self._compared(results, panel, name):
                    told.setdefault((compared[0], name), []).append(f"{panel} ({compared[1]})")
        return [
            f"{text}; {name}, {len(told[kind, name])}: {'; '.join(told[kind, name])}."
            for kind, text in kinds.items()
            for name in self.layers
            if (kind, name) in told
        ]

    def _compared(self, results: Sequence[CellResult], panel: str, name: str) -> tuple[str, str] | None:
        """The kind, and the depths in words; None for a language without a bound that is not learned, or not trained."""
        runs = {depth: [r for r in results if r.key == (panel, label(name, depth))] for depth in self.depths}
        answers = {depth: self.theory.answer(panel, label(name, depth)) for depth in self.depths}
        found = min((depth for depth in self.depths if learned(runs[depth])), default=None)
        enough = min((depth for depth in self.depths if answers[depth] == "can"), default=None)
        bound = f"bound {'unknown' if enough is None else enough}"
        if found is None:
            if enough is None or not any(runs.values()):
                return None
            fitted = any(run.validation_accuracy >= FITTED for of_depth in runs.values() for run in of_depth)
            return "fitted" if fitted else "never", bound
        if answers[found] == "cannot":
            return "against", str(found)
        if enough == found:
            return "at", str(found)
        return "fewer" if enough is None or found < enough else "more", f"{found}, {bound}"
