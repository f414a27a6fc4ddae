"""Kinds of findings, II: models of one experiment beside each other, and beside what theory says of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
from eigentrack.experiments.running.task_cell import FITTED, REACH, CellResult, learned

NARROW, WIDE = "[0, 1]", "[-1, 1]"  # as labels of series end
SOLVED = 0.5  # scaled accuracy from which a task counts as learned, median over the seeds
GAIN = 0.1  # of the median score, from which a change helps


@dataclass(frozen=True)
class Division:
    """Whether a list of models does a task that all others do not, as the paper says."""

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
            f"The paper's division {holds}: with {self.words} the lowest median is "
            f"{can[least]:.3f} ({least}), without them the highest is {cannot[most]:.3f} ({most})."
        ]


@dataclass(frozen=True)
class TimesTheTrainingLength:
    """How far these models are right, in training lengths."""

    models: Sequence[str]

    def __call__(self, results: Sequence[CellResult]) -> list[str]:
        runs = {model: of for model, of in by_series(results).items() if model in self.models}
        said = [
            f"{m} to {median_horizon(of):,.0f}, {median_horizon(of) / of[0].trained_to:.1f} times the training length"
            for m, of in runs.items()
        ]
        return [f"99 % of the answers are right, median over the seeds: {'; '.join(said)}."] if said else []


@dataclass(frozen=True)
class Furthest:
    """Panel by panel, who is right furthest, and how far twins are in both ranges."""

    def __call__(self, results: Sequence[CellResult]) -> list[str]:
        lines = []
        for panel, inside in by_panel(results).items():
            ours = {series: median_right_to(runs) for series, runs in by_series(inside).items()}
            furthest = max(ours.values())
            best = ", ".join(series for series, length in ours.items() if length == furthest)
            twins = [(name, name.replace(WIDE, NARROW)) for name in ours if WIDE in name]
            gains = [f"{wide} {ours[wide]:.0f} ({ours[narrow]:.0f})" for wide, narrow in twins if narrow in ours]
            fitted = max(run.validation_accuracy for run in inside)
            compared = f"; in the wide range (in the narrow one) {', '.join(gains)}" if gains else ""
            lines.append(
                f"{panel}: furthest is {best}, right to {furthest:.0f}{compared};"
                f" best validation accuracy {fitted:.3f}{', so nobody fits the training length' * (fitted < MOSTLY_FITTED)}."
            )
        return lines


@dataclass(frozen=True)
class SecondToken:
    """Who gets over more elements where each takes two tokens (panel `two`) than where it takes one (panel `one`)."""

    one: str
    two: str

    def __call__(self, results: Sequence[CellResult]) -> list[str]:
        reach = {key: median_right_to(runs) for key, runs in by_key(results).items()}
        both = [series for panel, series in reach if panel == self.two and (self.one, series) in reach]
        helped = [series for series in both if reach[self.two, series] // 2 > reach[self.one, series]]
        return [f"Over more elements with a second token for each: {', '.join(helped) or 'nobody'}."] if both else []


@dataclass(frozen=True)
class FewestFactors:
    """The fewest Householder factors that were learned, beside those that are enough in theory."""

    series: Mapping[int, str]  # by the number of factors
    theory: Theory

    def __call__(self, results: Sequence[CellResult]) -> list[str]:
        said, keys = [], by_key(results)
        for panel in by_panel(results):
            reach = {n: keys[panel, label] for n, label in self.series.items() if (panel, label) in keys}
            learned = [n for n, runs in reach.items() if median_right_to(runs) >= 2 * runs[0].trained_to]
            enough = min((n for n, label in self.series.items() if self.theory.answer(panel, label) == "can"), default="–")
            said.append(f"{panel} {min(learned) if learned else f'none of {max(self.series)}'} ({enough})")
        return [
            f"The fewest factors right at twice the training length, and in brackets those enough in theory: {'; '.join(said)}."
        ]


@dataclass(frozen=True)
class OnlyTogether:
    """Who learned each language, and whether two parts together learned what neither did alone."""

    kinds: Mapping[str, str]  # of a series, by the beginning of its label
    together: str  # the kind that has both parts
    words: str

    def __call__(self, results: Sequence[CellResult]) -> list[str]:
        lines, only_together, panels = [], [], by_panel(results)
        kinds = dict.fromkeys(self.kinds.values())
        for panel, inside in panels.items():
            runs = by_series(inside)
            who = [series for series in runs if learned(runs[series])]
            if {self._kind(s) for s in runs} == set(kinds) and {self._kind(s) for s in who} == {self.together}:
                only_together.append(panel)
            medians = {series: median_score(of_series) for series, of_series in runs.items()}
            best = {kind: max((medians[s] for s in runs if self._kind(s) == kind), default=None) for kind in kinds}
            scores = ", ".join(f"{kind} {score:.3f}" for kind, score in best.items() if score is not None)
            names = ", ".join(f"{s} ({sum(learned([run]) for run in runs[s])} of {len(runs[s])} seeds)" for s in who) or "none"
            if len(who) > len(runs) / 2:
                names = " but ".join(["all", *filter(None, [", ".join(series for series in runs if series not in who)])])
            lines.append(f"{panel}: learned by {names}. Best median score: {scores}.")
        said = f"in {len(only_together)} of {len(panels)} languages ({', '.join(only_together)})"
        return [
            f"{self.words} together learn, and neither alone does, {said if only_together else 'in no language'}. Learned: a "
            f"seed is right to {REACH} times the training length.",
            *lines,
        ]

    def _kind(self, series: str) -> str:
        return next(kind for start, kind in self.kinds.items() if series.startswith(start))


@dataclass(frozen=True)
class SignHelps:
    """Task by task what the wide range changes in each layer, and where two others stand."""

    layers: Sequence[str]  # labels without their range
    flat: str
    rival: str

    def __call__(self, results: Sequence[CellResult]) -> list[str]:
        lines = []
        for panel, inside in by_panel(results).items():
            runs = by_series(inside)
            medians = {series: median_score(of_series) for series, of_series in runs.items()}
            changes = {}
            for name in self.layers:
                narrow, wide = (f"{name} {width}" for width in (NARROW, WIDE))
                if narrow in medians and wide in medians:
                    changes[name] = (medians[narrow], medians[wide], max(run.scores.scaled_accuracy for run in runs[wide]))
            gains = [name for name, (narrow, wide, _) in changes.items() if wide - narrow > GAIN]
            said = ", ".join(
                f"{name} {narrow:.3f} → {wide:.3f} (best {best:.3f})" for name, (narrow, wide, best) in changes.items()
            )
            rival = f" {self.rival}: {medians[self.rival]:.3f}" if self.rival in medians else ""
            if rival and changes:
                above = medians[self.rival] > max(wide for _, wide, _ in changes.values())
                rival += ", above all of them." if above else ", not above the best of them."
            if self.flat in medians:
                rival = f" {self.flat}: {medians[self.flat]:.3f}.{rival}"
            reached = [series for series in runs if learned(runs[series])]
            lines.append(
                f"{panel}: the sign helps {', '.join(gains) or 'no layer'}; medians of [0, 1] → [-1, 1]: {said}.{rival} "
                f"Right to {REACH} times the training length with a seed: {', '.join(reached) or 'none'}."
            )
        return lines


@dataclass(frozen=True)
class WithMoreSteps:
    """Field by field what more steps have brought: learned now, fitted now, or neither."""

    def __call__(self, results: Sequence[CellResult]) -> list[str]:
        told: dict[str, list[str]] = {"learned": [], "fitted": [], "neither": []}
        fields = by_key(results)
        for (panel, series), runs in fields.items():
            best = max(run.validation_accuracy for run in runs)
            kind = "learned" if learned(runs) else "fitted" if best >= FITTED else "neither"
            told[kind].append(f"{panel}: {series}" + (f", {best:.3f}" if kind == "neither" else ""))
        names = {
            "learned": f"Learned, a seed is right to {REACH} times the training length, so the budget was too small",
            "fitted": f"Right at the training lengths ({FITTED:.0%}), as with fewer steps they were not, and not so far",
            "neither": "Not learned at the training lengths either, with the best validation accuracy",
        }
        return [f"{names[kind]}; {len(of)} of {len(fields)} fields. {'; '.join(of)}." for kind, of in told.items() if of]


@dataclass(frozen=True)
class RangeOrStructure:
    """What a task asks for: the wide range, more than the first structure, both, or what nobody had."""

    structures: Sequence[str]  # the simplest first

    def __call__(self, results: Sequence[CellResult]) -> list[str]:
        expected = {f"{name} {width}" for name in self.structures for width in (NARROW, WIDE)}
        lines = []
        for panel, runs in by_panel(results).items():
            medians = {series: median_score(of_series) for series, of_series in by_series(runs).items()}
            if set(medians) == expected:
                lines.append(f"{panel}: {self._verdict(medians)}.")
        return lines

    def _verdict(self, medians: Mapping[str, float]) -> str:
        simplest = self.structures[0]
        gains = ", ".join(f"{name} {medians[f'{name} {WIDE}'] - medians[f'{name} {NARROW}']:+.2f}" for name in self.structures)
        best = {width: max(self.structures, key=lambda name: medians[f"{name} {width}"]) for width in (NARROW, WIDE)}
        narrow, wide = (medians[f"{best[width]} {width}"] for width in (NARROW, WIDE))
        simple = medians[f"{simplest} {WIDE}"]
        if max(narrow, wide) < SOLVED:
            needed = "nobody learns it"
        elif narrow >= SOLVED:
            neither = medians[f"{simplest} {NARROW}"] >= SOLVED
            needed = "neither is needed" if neither else "it is the structure: the wide range is not needed"
        elif simple >= SOLVED:
            needed = f"it is the range: wide, even a {simplest} matrix learns it"
        else:
            needed = "it takes the range and the structure"
        return (
            f"{needed}; best in {NARROW} {best[NARROW]} {narrow:.2f}, in {WIDE} {best[WIDE]} {wide:.2f}, the {simplest} there "
            f"{simple:.2f}; what the wide range adds: {gains}"
        )
