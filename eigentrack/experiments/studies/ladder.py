"""Theory against practice, field by field: the study of networks that fail beyond their training lengths, table and findings.

A field is a language and an architecture. Networks that are right at the training lengths and fail beyond are asked what
becomes of their past (`two_pasts.py`).
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from eigentrack.automata import classify, holonomy, minimal
from eigentrack.experiments.design.experiment import Key, Settings
from eigentrack.experiments.design.theory import Theory
from eigentrack.experiments.reporting.horizon_map import MARKS
from eigentrack.experiments.reporting.markdown_table import markdown_table
from eigentrack.experiments.reporting.wording import all_of, counted, joined, verb
from eigentrack.experiments.running.cell import Cell
from eigentrack.experiments.running.task_cell import FITTED, REACH, CellResult, TaskCell, kept_networks, learned, with_more
from eigentrack.experiments.studies.two_pasts import TwoPasts, two_pasts
from eigentrack.models import load_model
from eigentrack.tasks import TrackingTask

SECTIONS = {  # the sections of the page, by kind of field
    "drifts": (
        f"Can, right at the training lengths, and not to {REACH} times them",
        "Numbers near to the exact ones do that, and so does a shortcut.",
    ),
    "not learned": (
        "Can, and not learned at the training lengths either",
        "A network exists, and training at this budget has not found it.",
    ),
    "beyond theory": (
        f"Cannot, and right to {REACH} times the training length",
        "It gives way at some greater length, or on words that random letters seldom make.",
    ),
    "shortcut": (
        "Cannot, and right at the training lengths: shortcuts",
        "No contradiction: theory speaks of every length.",
    ),
    "unknown, learned": (
        f"Unknown, and right to {REACH} times the training length",
        "Theory has neither a network nor a proof that there is none.",
    ),
}
HOW_IT_FAILS = (
    "How a network fails that fits its training lengths: it reads pairs of words that begin with different letters and go on "
    "with the same ones. It **forgets** if it mostly gives both the same answer where the automaton gives two, like a number "
    "that should keep its size and shrinks. It **holds on to what it should forget** if it often gives two answers where the "
    "automaton is in one state, like a sum of all that was ever written. It **drifts** if it does neither and is still wrong, "
    "like an angle that is slightly off. The shares of such answers are measured; the causes are only what would explain them. "
    "Nothing is said where letters in common always reset the state, or 99 % are right at that length "
    "(`experiments/studies/two_pasts.py`).",
)
FATES = {  # what became of several networks
    "forgets": "forget",
    "holds on to what it should forget": "hold on to what they should forget",
    "drifts": "drift",
    "do not tell": "do not show how",
}


@dataclass(frozen=True)
class StudiedResult(CellResult):
    """A result with what becomes of the network's past."""

    pasts: TwoPasts | None = None  # None for a network that fits nothing, or does not fail, or was not kept

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> StudiedResult:
        found, pasts = super().from_json({**values, "pasts": None}), values["pasts"]
        assert isinstance(found, StudiedResult)
        return replace(found, pasts=None if pasts is None else TwoPasts(**pasts))


def study(
    results: Sequence[CellResult], cells: Sequence[Cell], folder: Path, settings: Settings, say: Callable[[str], None]
) -> list[StudiedResult]:
    found = []
    for result, cell, network in kept_networks(results, cells, folder):
        pasts = None
        if result.validation_accuracy >= FITTED and not learned([result]):
            if network is None:
                say(f"{cell.name}: the network was not kept, so nothing is said of how it fails")
            else:
                pasts = _pasts(network, cell, result)
        found.append(with_more(StudiedResult, result, pasts=pasts))
    return found


def _pasts(network: Path, cell: TaskCell, result: CellResult) -> TwoPasts:
    task = cell.run.build_task()
    assert isinstance(task, TrackingTask)
    return two_pasts(load_model(network), task, result.trained_to // 2, REACH * result.trained_to, cell.seed)


@dataclass(frozen=True)
class TheoryAgainstPractice:
    """The page's table and findings, beside the verdicts of theory; `hard` panels are trained for `more` times the steps."""

    theory: Theory
    hard: Sequence[str]
    more: int

    def table(self, results: Sequence[StudiedResult]) -> str:
        panels, series = (list(dict.fromkeys(getattr(result, name) for result in results)) for name in ("panel", "series"))
        head = ("language", "states", "group", "levels", *series)
        lines = [
            "The networks have two layers and no convolution. Each field has what theory says (✓ can, ✗ cannot, ? unknown) "
            "and the horizon, the length up to which 99 % of the answers are right: the median over the seeds, and in brackets "
            f"each seed. A bold field is learned: a seed gets to {REACH} times the training length. {all_of(self.hard)} were "
            f"trained for {self.more} times the steps.",
            "",
            "- states: of the minimal automaton",
            "- group: the order of the largest group in its syntactic monoid; 1: the language is star-free",
            "- levels: of its cascade of resets and groups, each level read with those above it known (holonomy)",
            "",
        ]
        runs = _by_field(results)
        rows = (
            [panel, *self.difficulty(panel), *(self._entry(panel, model, runs.get((panel, model), [])) for model in series)]
            for panel in panels
        )
        return "\n".join([*lines, *markdown_table(head, rows), "", *self._sections(runs), ""])

    def findings(self, results: Sequence[StudiedResult]) -> list[str]:
        """Count the fields by what theory says and training did, and the networks by how they fail."""
        kinds = {kind: len(keys) for kind, keys in self._kinds(_by_field(results)).items()}
        undecided, lines = kinds["open"] + kinds["unknown, learned"], []
        if missed := kinds["drifts"] + kinds["not learned"]:
            lines.append(
                f"In {counted(missed, 'field')} theory says that the architecture can, and training does not get to {REACH} "
                f"times the training length: {kinds['drifts']} {verb(kinds['drifts'])} right at the training lengths and "
                f"{verb(kinds['drifts'], 'fails', 'fail')} beyond, {kinds['not learned']} {verb(kinds['not learned'])} not "
                "learned there either."
            )
        if kinds["beyond theory"]:
            lines.append(
                f"{counted(kinds['beyond theory'], 'field')} {verb(kinds['beyond theory'])} right to {REACH} times the "
                "training length though theory says that the architecture cannot."
            )
        else:
            lines.append(
                f"No field that theory rules out is learned; {kinds['shortcut']} of them {verb(kinds['shortcut'])} right at "
                "the training lengths, by a shortcut."
            )
        if kinds["unknown, learned"]:
            lines.append(
                f"Of the {counted(undecided, 'field')} that theory leaves open, {kinds['unknown, learned']} "
                f"{verb(kinds['unknown, learned'])} learned."
            )
        if fates := Counter(run.pasts.fate or "do not tell" for run in results if run.pasts is not None):
            failing = sum(run.validation_accuracy >= FITTED and not learned([run]) for run in results)
            counts = joined([f"{count} {FATES[fate]}" for fate, count in fates.most_common()])
            lines.append(
                f"{counted(failing, 'network')} {verb(failing, 'fits', 'fit')} the training lengths and "
                f"{verb(failing, 'fails', 'fail')} beyond. Of the {fates.total()} that were kept and looked at, {counts} "
                "(these words are explained below)."
            )
        return lines

    def answer(self, results: Sequence[StudiedResult]) -> str:
        """Count the fields in which theory and training agree, and the kinds of disagreement."""
        kinds = {kind: len(keys) for kind, keys in self._kinds(_by_field(results)).items()}
        agreed, missed = kinds["agree"] + kinds["shortcut"], kinds["drifts"] + kinds["not learned"]
        if not (decided := agreed + missed + kinds["beyond theory"]):
            return ""
        said = (
            f"They agree in {agreed} of the {counted(decided, 'field')} (a language and an architecture) that theory decides."
        )
        if missed:
            said += (
                f" In {missed} a network exists that training does not find: {kinds['drifts']} of these fit the training "
                "lengths and fail beyond, the others do not even fit them."
            )
        beyond = counted(kinds["beyond theory"], "field") if kinds["beyond theory"] else "No field"
        return f"{said} {beyond} that theory rules out {verb(kinds['beyond theory'] or 1)} learned."

    def difficulty(self, panel: str) -> tuple[str, str, str]:
        """Return the number of states, the order of the largest group, and the number of levels."""
        dfa = minimal(self.theory.automaton(panel))
        largest = max((group.order for group in classify(dfa).subgroups), default=1)
        return str(dfa.states), str(largest), str(len(holonomy(dfa).levels))

    def _entry(self, panel: str, series: str, runs: Sequence[StudiedResult]) -> str:
        if not runs:
            return "–"
        horizons = [run.scores.horizon for run in runs]
        reach, each = f"{statistics.median(horizons):,.0f}", ", ".join(f"{horizon:,}" for horizon in horizons)
        return f"{MARKS[self.theory.answer(panel, series)]} {f'**{reach}**' if learned(runs) else reach} ({each})"

    def _kinds(self, runs: dict[Key, list[StudiedResult]]) -> dict[str, list[Key]]:
        """Return the fields by what theory says and training did; "agree" holds those with nothing to explain."""
        kinds: dict[str, list[Key]] = {kind: [] for kind in ("agree", *SECTIONS, "open")}
        for key, of_key in runs.items():
            fitted = max(run.validation_accuracy for run in of_key) >= FITTED
            match self.theory.answer(*key), learned(of_key):
                case "can", False:
                    kinds["drifts" if fitted else "not learned"].append(key)
                case "cannot", True:
                    kinds["beyond theory"].append(key)
                case "cannot", False if fitted:
                    kinds["shortcut"].append(key)
                case "unknown", True:
                    kinds["unknown, learned"].append(key)
                case "unknown", False:
                    kinds["open"].append(key)
                case _:
                    kinds["agree"].append(key)
        return kinds

    def _sections(self, runs: dict[Key, list[StudiedResult]]) -> list[str]:
        kinds = self._kinds(runs)
        lines = ["### Field by field", "", "Of several seeds, the one with the longest horizon.", "", *HOW_IT_FAILS, ""]
        for kind, (title, meaning) in SECTIONS.items():
            lines += [f"#### {title}: {len(kinds[kind])}", ""]
            lines += [meaning, "", *(self._fact(key, runs[key]) for key in kinds[kind]), ""] if kinds[kind] else []
        return lines[:-1]

    def _fact(self, key: Key, runs: Sequence[StudiedResult]) -> str:
        verdict = self.theory.verdict(*key)
        assert verdict is not None  # otherwise the field would have no kind
        best = max(runs, key=lambda run: run.scores.horizon)
        theory = f"Theory: {verdict.answer}, {verdict.reason} ({verdict.theorem})."
        if best.diverged_at is not None:
            return f"- {key[0]}; {key[1]}: diverged at step {best.diverged_at}. {theory}"
        classes, reach = best.scores.classes, best.scores.horizon
        training = f"validation accuracy {best.validation_accuracy:.3f}, loss {best.record.last_loss:.2g} at the end"
        if best.validation_accuracy < FITTED:
            training += f" (guessing: {1 / classes:.3f}, {math.log(classes):.2g})"
        beyond = f"right to {reach:,} of {best.scores.longest:,}"
        if reach > best.trained_to:
            beyond += f", {reach / best.trained_to:.1f} times the training length"
        if not learned(runs):
            curve, far = best.scores.curve, REACH * best.trained_to
            later = next((point for point in curve if point.length >= far), curve[-1])
            beyond += f", {later.accuracy:.0%} of the answers right at {later.length:,}"
        return f"- {key[0]}; {key[1]}: seed {best.seed}, {training}; {beyond}.{_fate(runs)} {theory}"


def _by_field(results: Sequence[StudiedResult]) -> dict[Key, list[StudiedResult]]:
    """Return the results by field, language by language and layer by layer."""
    panels, series = (list(dict.fromkeys(getattr(result, name) for result in results)) for name in ("panel", "series"))
    fields = {(panel, model): [r for r in results if r.key == (panel, model)] for panel in panels for model in series}
    return {key: runs for key, runs in fields.items() if runs}


def _fate(runs: Sequence[StudiedResult]) -> str:
    """Say how the network fails that gets furthest of those that were kept."""
    kept = [run for run in runs if run.pasts is not None]
    if not kept:
        return ""
    best = max(kept, key=lambda run: run.scores.horizon)
    pasts = best.pasts
    assert pasts is not None
    shares = []
    if pasts.told_apart is not None:
        shares.append(f"{pasts.told_apart:.0%} of the pairs whose right answers differ get different answers")
    if pasts.mixed_up is not None:
        shares.append(f"{pasts.mixed_up:.0%} of the pairs in one state get different answers")
    shares.append(f"{pasts.right:.0%} of all answers are right")
    fate = f"**{pasts.fate}**" if pasts.fate is not None else "does not tell how it fails"
    return f" Seed {best.seed} {fate}: after {pasts.length} letters {', '.join(shares)}."
