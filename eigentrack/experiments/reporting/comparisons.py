"""Kinds of findings, II: models of one experiment beside each other, and beside what theory says of them.

Where an experiment's answer counts the same things as its findings, the kind has a method `answer` as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from eigentrack.experiments.design.theory import Theory
from eigentrack.experiments.reporting.findings import (
    MOSTLY_FITTED,
    by_key,
    by_panel,
    by_series,
    median_horizon,
    median_right_to,
    median_score,
)
from eigentrack.experiments.reporting.wording import (
    all_of,
    counted,
    gain,
    joined,
    named,
    nested,
    quoted,
    rounded,
    sentence,
    verb,
)
from eigentrack.experiments.running.task_cell import FITTED, REACH, CellResult, learned

NARROW, WIDE = "[0, 1]", "[-1, 1]"  # how the labels of series end
SOLVED = 0.5  # scaled accuracy from which a task counts as learned, median over the seeds
GAIN = 0.1  # the least change of the median score that counts as a help


@dataclass(frozen=True)
class Division:
    """A finding on whether a list of models does a task that all others do not, as the paper says."""

    tracks: Sequence[str]
    words: str  # what the models of the list have

    def __call__(self, results: Sequence[CellResult]) -> list[str]:
        medians = {model: median_score(runs) for model, runs in by_series(results).items()}
        can, cannot = ({m: of for m, of in medians.items() if (m in self.tracks) == tracks} for tracks in (True, False))
        if not can or not cannot:
            return []
        least, most = min(can, key=lambda m: can[m]), max(cannot, key=lambda m: cannot[m])
        holds = "holds" if can[least] > SOLVED > cannot[most] else "does not hold"
        return [
            f"The paper's division {holds}: the models with {self.words} have median scores of {rounded(can[least])} ({least}) "
            f"or more, and all others of {rounded(cannot[most])} ({most}) or less."
        ]


@dataclass(frozen=True)
class TimesTheTrainingLength:
    """A finding on how far these models are right, in training lengths."""

    models: Sequence[str]

    def __call__(self, results: Sequence[CellResult]) -> list[str]:
        runs = {model: of for model, of in by_series(results).items() if model in self.models}
        said = [
            f"{m}: up to length {median_horizon(of):,.0f}, {median_horizon(of) / of[0].trained_to:.1f} times the training "
            "length."
            for m, of in runs.items()
        ]
        return (
            [nested("In the median over the seeds, 99 % of the answers are right up to these lengths:", said)] if said else []
        )


@dataclass(frozen=True)
class Furthest:
    """Findings on who is right furthest on each panel, and how far twins get in both ranges."""

    def __call__(self, results: Sequence[CellResult]) -> list[str]:
        lines = []
        for panel, inside in by_panel(results).items():
            ours = {series: median_right_to(runs) for series, runs in by_series(inside).items()}
            furthest = max(ours.values())
            best = [series for series, length in ours.items() if length == furthest]
            twins = [(name, name.replace(WIDE, NARROW)) for name in ours if WIDE in name]
            gains = [
                f"{quoted(wide)} is right up to length {ours[wide]:.0f}, its twin in {NARROW} up to {ours[narrow]:.0f}."
                for wide, narrow in twins
                if narrow in ours
            ]
            fitted = max(run.validation_accuracy for run in inside)
            nobody = "No model fits the training length: the" if fitted < MOSTLY_FITTED else "The"
            said = (
                f"On {quoted(panel)}, {all_of(best)} {verb(len(best), 'gets', 'get')} furthest, with 90 % of the sequences "
                f"right up to length {furthest:.0f}. {nobody} best validation accuracy is {fitted:.3f}."
            )
            lines.append(nested(said, gains))
        return lines


@dataclass(frozen=True)
class SecondToken:
    """A finding that names who gets over more elements with two tokens each (panel `two`) than with one (panel `one`)."""

    one: str
    two: str

    def __call__(self, results: Sequence[CellResult]) -> list[str]:
        reach = {key: median_right_to(runs) for key, runs in by_key(results).items()}
        both = [series for panel, series in reach if panel == self.two and (self.one, series) in reach]
        helped = [series for series in both if reach[self.two, series] // 2 > reach[self.one, series]]
        who = f"{all_of(helped)} {verb(len(helped), 'gets', 'get')}" if helped else "No model gets"
        return [f"{who} over more elements when each element has a second token."] if both else []


@dataclass(frozen=True)
class FewestFactors:
    """Findings on the fewest Householder factors with which a group was learned, beside those that are enough in theory."""

    series: Mapping[int, str]  # the label of the series with each number of factors
    theory: Theory

    def __call__(self, results: Sequence[CellResult]) -> list[str]:
        lines = []
        for panel, (learned_with, enough) in self._fewest(results).items():
            theory = f"in theory {enough} {verb(enough)} enough" if enough else "theory knows no number that is enough"
            if learned_with is None:
                lines.append(f"{panel} is not learned with up to {counted(max(self.series), 'factor')}; {theory}.")
            else:
                lines.append(f"{panel} is learned from {counted(learned_with, 'factor')} on; {theory}.")
        if not lines:
            return []
        return [nested("A group counts as learned when the median seed is right at twice the training length:", lines)]

    def answer(self, results: Sequence[CellResult]) -> str:
        """Say from how many factors on each group was learned, and how many are enough in theory."""
        fewest = self._fewest(results)
        found = {panel: (n, enough) for panel, (n, enough) in fewest.items() if n is not None}
        missed = {panel: enough for panel, (n, enough) in fewest.items() if n is None}
        parts = []
        if found:
            said = [
                f"{counted(n, 'factor')} for {panel} ({enough or 'unknown'} in theory)" for panel, (n, enough) in found.items()
            ]
            parts.append(f"One layer takes {joined(said)} to be right at twice the training length.")
        if missed:
            theory = joined([str(enough or "unknown") for enough in missed.values()])
            parts.append(
                f"{all_of(missed)} {verb(len(missed))} learned with none of up to {max(self.series)} factors, though {theory} "
                "are enough in theory."
            )
        return " ".join(parts)

    def _fewest(self, results: Sequence[CellResult]) -> dict[str, tuple[int | None, int | None]]:
        """Return by panel the fewest factors that are right at twice the training length, and those enough in theory."""
        keys, found = by_key(results), {}
        for panel in by_panel(results):
            reach = {n: keys[panel, label] for n, label in self.series.items() if (panel, label) in keys}
            right = [n for n, runs in reach.items() if median_right_to(runs) >= 2 * runs[0].trained_to]
            enough = [n for n, label in self.series.items() if self.theory.answer(panel, label) == "can"]
            found[panel] = (min(right, default=None), min(enough, default=None))
        return found


@dataclass(frozen=True)
class OnlyTogether:
    """Findings on who learned each language, and on whether two parts together learned what neither did alone."""

    kinds: Mapping[str, str]  # the kind of a series, by the beginning of its label
    together: str  # the kind that has both parts
    legend: str  # what the labels of the series mean

    def __call__(self, results: Sequence[CellResult]) -> list[str]:
        lines = []
        for panel, inside in by_panel(results).items():
            runs = by_series(inside)
            who = [series for series in runs if learned(runs[series])]
            medians = {series: median_score(of_series) for series, of_series in runs.items()}
            best = {kind: max((medians[s] for s in runs if self._kind(s) == kind), default=None) for kind in self._all_kinds}
            scores = joined([f"{rounded(score)} ({kind})" for kind, score in best.items() if score is not None])
            seeds = [f"{quoted(s)} ({sum(learned([run]) for run in runs[s])} of {len(runs[s])} seeds)" for s in who]
            names = joined(seeds) if who else "no layer"
            if len(who) > len(runs) / 2:
                others = [series for series in runs if series not in who]
                names = f"all layers but {all_of(others)}" if others else "all layers"
            lines.append(f"“{panel}” is learned by {names}. The best median scores are {scores}.")
        return [self.legend, f"A language counts as learned when a seed is right to {REACH} times the training length.", *lines]

    def answer(self, results: Sequence[CellResult]) -> str:
        """Say in how many languages only layers with both parts have learned, and how many each kind has learned."""
        panels, only, by_kind = by_panel(results), [], dict.fromkeys(self._all_kinds, 0)
        if not panels:
            return ""
        for panel, inside in panels.items():
            runs = by_series(inside)
            who = {self._kind(series) for series in runs if learned(runs[series])}
            if who == {self.together} and {self._kind(series) for series in runs} == set(self._all_kinds):
                only.append(panel)
            for kind in who:
                by_kind[kind] += 1
        counts = joined([f"{count} with {kind}" for kind, count in by_kind.items()])
        verdict = (
            f"Yes: {len(only)} of {counted(len(panels), 'language')} ({all_of(only)}) {verb(len(only))} learned only by layers "
            "with both."
            if only
            else "No: there is no language that only layers with both learn."
        )
        return (
            f"{verdict} Of {counted(len(panels), 'language')}, layers learn {counts}; a language counts as learned when a seed "
            f"is right to {REACH} times the training length."
        )

    @property
    def _all_kinds(self) -> list[str]:
        return list(dict.fromkeys(self.kinds.values()))

    def _kind(self, series: str) -> str:
        return next(kind for start, kind in self.kinds.items() if series.startswith(start))


class _Change(NamedTuple):
    narrow: float  # the median score in [0, 1]
    wide: float  # the median score in [-1, 1]
    best: float  # the score of the best seed in [-1, 1]


@dataclass(frozen=True)
class SignHelps:
    """Findings on what the wide range changes in each layer on each task, beside two further series."""

    layers: Sequence[str]  # labels without their range
    flat: str
    rival: str

    def __call__(self, results: Sequence[CellResult]) -> list[str]:
        lines = []
        for panel, inside in by_panel(results).items():
            runs = by_series(inside)
            medians = {series: median_score(of_series) for series, of_series in runs.items()}
            changes = self._changes(inside)
            gains = [name for name, change in changes.items() if change.wide - change.narrow > GAIN]
            reached = [series for series in runs if learned(runs[series])]
            far = f"{all_of(reached)} {verb(len(reached))}" if reached else "No layer is"
            items = [
                f"{name}: the median score is {rounded(change.narrow)} in {NARROW} and {rounded(change.wide)} in {WIDE}, where "
                f"the best seed has {rounded(change.best)}."
                for name, change in changes.items()
            ]
            items += [f"{self.flat}: the median score is {rounded(medians[self.flat])}."] if self.flat in medians else []
            if self.rival in medians:
                above = changes and medians[self.rival] > max(change.wide for change in changes.values())
                items.append(
                    f"{self.rival}: the median score is {rounded(medians[self.rival])}, "
                    f"{'above all' if above else 'not above the best'} of these."
                )
            said = f"On {quoted(panel)}, negative gates help {all_of(gains) if gains else 'no layer'}. "
            said += f"{far} right to {REACH} times the training length with at least one seed."
            lines.append(nested(said, items))
        return lines

    def answer(self, results: Sequence[CellResult]) -> str:
        """Say on which tasks all layers profit from the sign, and how good the best of them is on the others."""
        helped, others, far = [], [], []
        for panel, inside in by_panel(results).items():
            if not (changes := self._changes(inside)):
                continue
            least, most = (pick(change.wide for change in changes.values()) for pick in (min, max))
            if least > SOLVED:
                before = max(change.narrow for change in changes.values())
                helped.append(
                    f"On {quoted(panel)} all of them do, with median scores of {rounded(least)} or more where those in "
                    f"{NARROW} are {rounded(before)} or less."
                )
            else:
                best = max(changes, key=lambda name: changes[name].wide)
                far += [name for name in changes if learned(by_series(inside)[f"{name} {WIDE}"])]
                others.append(f"{rounded(most)} on {quoted(panel)} ({quoted(best)})")
        if others:
            reach = "" if far else f", and no layer is right to {REACH} times the training length"
            helped.append(
                f"On the other tasks the best median {verb(len(others), 'score is', 'scores are')} {joined(others)}{reach}."
            )
        return " ".join(helped)

    def _changes(self, inside: Sequence[CellResult]) -> dict[str, _Change]:
        """Return what the wide range changes in each layer of which both twins have results."""
        runs, found = by_series(inside), {}
        for name in self.layers:
            narrow, wide = (runs.get(f"{name} {width}", []) for width in (NARROW, WIDE))
            if narrow and wide:
                best = max(run.scores.scaled_accuracy for run in wide)
                found[name] = _Change(median_score(narrow), median_score(wide), best)
        return found


@dataclass(frozen=True)
class WithMoreSteps:
    """Findings on what more steps have brought in each field: learned now, fitted now, or neither."""

    def __call__(self, results: Sequence[CellResult]) -> list[str]:
        fields, lines = by_key(results), []
        titles = {
            "learned": f"learned now, as a seed is right to {REACH} times the training length: the budget was too small",
            "fitted": f"right at the training lengths now ({FITTED:.0%} of the answers), but not so far beyond them",
            "neither": "not right at the training lengths either",
        }
        for kind, keys in self._kinds(results).items():
            if keys:
                best = {key: max(run.validation_accuracy for run in fields[key]) for key in keys}
                items = [
                    f"{panel}: {series}" + (f" (validation accuracy {best[panel, series]:.3f})" if kind == "neither" else "")
                    for panel, series in keys
                ]
                lead = f"{len(keys)} of {counted(len(fields), 'field')} {verb(len(keys))} {titles[kind]}."
                lines.append(nested(lead, items))
        return lines

    def answer(self, results: Sequence[CellResult]) -> str:
        """Count the fields that more steps have learned, fitted, and left as they were."""
        kinds = {kind: len(keys) for kind, keys in self._kinds(results).items()}
        if not (fields := sum(kinds.values())):
            return ""
        verdict = "Mostly" if kinds["learned"] > fields / 2 else "Mostly not" if kinds["learned"] else "No"
        return (
            f"{verdict}: of {counted(fields, 'field')} (a language and an architecture) {kinds['learned']} "
            f"{verb(kinds['learned'])} learned to {REACH} times the training length. {kinds['fitted']} "
            f"{verb(kinds['fitted'])} now right at the training lengths but not so far beyond them, and {kinds['neither']} "
            f"{verb(kinds['neither'])} not right there either."
        )

    def _kinds(self, results: Sequence[CellResult]) -> dict[str, list[tuple[str, str]]]:
        told: dict[str, list[tuple[str, str]]] = {"learned": [], "fitted": [], "neither": []}
        for key, runs in by_key(results).items():
            best = max(run.validation_accuracy for run in runs)
            told["learned" if learned(runs) else "fitted" if best >= FITTED else "neither"].append(key)
        return told


class _Needed(NamedTuple):
    kind: str  # range, structure, both, neither or nobody
    best: Mapping[str, tuple[str, float]]  # by range: the best structure there, and its median score
    simple: float  # the median score of the simplest structure in the wide range


@dataclass(frozen=True)
class RangeOrStructure:
    """Findings on what a task needs: the wide range, more than the simplest structure, both, neither, or something else."""

    structures: Sequence[str]  # the simplest first
    legend: str  # what their labels mean

    def __call__(self, results: Sequence[CellResult]) -> list[str]:
        words = {
            "nobody": "no structure learns the task in either range",
            "neither": f"neither is needed: even a {self.structures[0]} matrix in {NARROW} learns the task",
            "structure": "the structure is what helps, and the wide range is not needed",
            "range": f"the wide range is what helps: in {WIDE} even a {self.structures[0]} matrix learns the task",
            "both": "it takes both the wide range and the structure",
        }
        lines = []
        for panel, medians in self._medians(results).items():
            found = self._needed(medians)
            gains = joined(
                [f"{gain(medians[f'{name} {WIDE}'] - medians[f'{name} {NARROW}'])} ({name})" for name in self.structures]
            )
            best = joined([f"{rounded(score)} in {width} ({name})" for width, (name, score) in found.best.items()])
            items = [
                f"The best median scores are {best}; the {self.structures[0]} matrix has {rounded(found.simple)} in {WIDE}.",
                f"The wide range changes the median score by {gains}.",
            ]
            lines.append(nested(f"On {quoted(panel)}, {words[found.kind]}.", items))
        return [self.legend, *lines] if lines else []

    def answer(self, results: Sequence[CellResult]) -> str:
        """Say on which tasks it takes the range, the structure, or both."""
        needed = {panel: self._needed(medians) for panel, medians in self._medians(results).items()}
        words = {
            "range": f"On {{}} the wide range is enough, even for a {self.structures[0]} matrix",
            "both": f"on {{}} it takes both the wide range and a matrix that is not {self.structures[0]}",
            "structure": "on {} the structure is enough",
            "neither": "on {} neither is needed",
            "nobody": "{} is learned by nobody",
        }
        parts = [
            text.format(all_of(panels))
            for kind, text in words.items()
            if (panels := [panel for panel, found in needed.items() if found.kind == kind])
        ]
        if not parts:
            return ""
        narrow = max(found.best[NARROW][1] for found in needed.values())
        return f"{sentence('; '.join(parts))}. In {NARROW} no median score of any structure is above {rounded(narrow)}."

    def _medians(self, results: Sequence[CellResult]) -> dict[str, dict[str, float]]:
        """Return the medians of the panels in which every structure has results in both ranges."""
        expected = {f"{name} {width}" for name in self.structures for width in (NARROW, WIDE)}
        found = {
            panel: {series: median_score(of_series) for series, of_series in by_series(runs).items()}
            for panel, runs in by_panel(results).items()
        }
        return {panel: medians for panel, medians in found.items() if set(medians) == expected}

    def _needed(self, medians: Mapping[str, float]) -> _Needed:
        simplest, best = self.structures[0], {}
        for width in (NARROW, WIDE):
            name = max(self.structures, key=lambda name: medians[f"{name} {width}"])
            best[width] = name, medians[f"{name} {width}"]
        simple = medians[f"{simplest} {WIDE}"]
        if max(best[NARROW][1], best[WIDE][1]) < SOLVED:
            kind = "nobody"
        elif best[NARROW][1] >= SOLVED:
            kind = "neither" if medians[f"{simplest} {NARROW}"] >= SOLVED else "structure"
        else:
            kind = "range" if simple >= SOLVED else "both"
        return _Needed(kind, best, simple)


@dataclass(frozen=True)
class LearnedBy:
    """Findings on how many layers learned each task, and on where that is against theory."""

    theory: Theory

    def __call__(self, results: Sequence[CellResult]) -> list[str]:
        lines = []
        for panel, inside in by_panel(results).items():
            runs = by_series(inside)
            who = [series for series in runs if learned(runs[series])]
            missed = [series for series in runs if series not in who and self.theory.answer(panel, series) == "can"]
            beyond = [series for series in who if self.theory.answer(panel, series) == "cannot"]
            said = f"{quoted(panel)} is learned by {len(who) or 'none'} of {counted(len(runs), 'layer')}"
            said += f": {named(who)}." if who else "."
            others = named(missed, f"{len(missed)} {'other ' * bool(who)}layers")
            said += f" In theory {others} can do it{', too' * bool(who)}, but did not learn it." if missed else ""
            said += f" Theory says that {all_of(beyond)} cannot, at every length." if beyond else ""
            lines.append(said)
        return [f"A task counts as learned when a seed is right to {REACH} times the training length.", *lines]
