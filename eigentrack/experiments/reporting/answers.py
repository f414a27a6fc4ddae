"""Kinds of answers: the one or two sentences with which a page opens, after its question.

An answer is called with the results that a page shows. Every number in it is computed from them, and it is empty where there is
nothing to answer with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eigentrack.experiments.design.experiment import Key
from eigentrack.experiments.design.theory import Theory
from eigentrack.experiments.reporting.comparisons import GAIN, NARROW, SOLVED, WIDE
from eigentrack.experiments.reporting.findings import (
    CLOSE,
    MOSTLY_FITTED,
    beside_paper,
    by_key,
    by_panel,
    by_series,
    median_right_to,
    median_score,
    never_fails,
)
from eigentrack.experiments.reporting.wording import all_of, counted, joined, named, quoted, rounded, sentence, verb
from eigentrack.experiments.running.task_cell import REACH, CellResult, learned

GUESSING = 0.1  # a median score below this is near guessing
SCALE = "0 is guessing, 1 is perfect"


@dataclass(frozen=True)
class TwinsBeyondTraining:
    """An answer on how good layers are beyond the training lengths in the wide range, and their twins in the narrow one."""

    layers: Sequence[str]  # labels without their range
    lengths: tuple[int, int]  # the first and the last length of the test

    def __call__(self, results: Sequence[CellResult]) -> str:
        medians = {series: median_score(runs) for series, runs in by_series(results).items()}
        layers = [name for name in self.layers if {f"{name} {NARROW}", f"{name} {WIDE}"} <= set(medians)]
        if not layers:
            return ""
        wide, narrow = ([medians[f"{name} {width}"] for name in layers] for width in (WIDE, NARROW))
        where = f" in the median at lengths {self.lengths[0]}–{self.lengths[1]} ({SCALE})"
        scores = joined(
            f"{name} {'' if place else 'scores '}{rounded(score)}{'' if place else where}"
            for place, (name, score) in enumerate(zip(layers, wide, strict=True))
        )
        twins = verb(len(layers), "its twin", "their twins")
        low = (
            verb(len(layers), "stays", "stay") + " near guessing"
            if max(narrow) < GUESSING
            else verb(len(layers), "has", "have")
        )
        return f"With eigenvalues in {WIDE} {scores}; {twins} in {NARROW} {low} ({joined(map(rounded, narrow))})."


@dataclass(frozen=True)
class WhoSolves:
    """An answer that names the models that are right beyond the training lengths, or the best median where none is."""

    lengths: tuple[int, int]  # the first and the last length of the test

    def __call__(self, results: Sequence[CellResult]) -> str:
        solved, missed = [], []
        for panel, inside in by_panel(results).items():
            medians = {series: median_score(runs) for series, runs in by_series(inside).items()}
            who = [series for series, median in medians.items() if median > SOLVED]
            if who:
                least = min(medians[series] for series in who)
                names = named(who, counted(len(who), "model"))
                does = verb(len(who), "does", "do")
                solved.append(f"on {quoted(panel)} {names} {does}, with median scores of {rounded(least)} or more")
            else:
                best = max(medians, key=lambda series: medians[series])
                missed.append(f"{rounded(medians[best])} on {quoted(panel)} ({quoted(best)})")
        where = f" at lengths {self.lengths[0]}–{self.lengths[1]} ({SCALE})"
        parts = [sentence(f"{'; '.join(solved)}{where}.")] if solved else []
        if missed:
            tasks, where = ("the other tasks", "") if solved else ("these tasks", where)
            best = verb(len(missed), "median score is", "median scores are")
            parts.append(f"No model does on {tasks}: the best {best} {joined(missed)}{where}.")
        return " ".join(parts)


@dataclass(frozen=True)
class RangeGains:
    """An answer that names the tasks on which the score of one layer depends on the range, and its scores there."""

    layer: str
    lengths: tuple[int, int]  # the first and the last length of the test

    def __call__(self, results: Sequence[CellResult]) -> str:
        medians = {key: median_score(runs) for key, runs in by_key(results).items()}
        pairs = {
            panel: (medians[panel, f"{self.layer} {NARROW}"], medians[panel, f"{self.layer} {WIDE}"])
            for panel in by_panel(results)
            if {(panel, f"{self.layer} {NARROW}"), (panel, f"{self.layer} {WIDE}")} <= set(medians)
        }
        if not pairs:
            return ""
        changed = {panel: pair for panel, pair in pairs.items() if abs(pair[1] - pair[0]) > GAIN}
        where = f"at lengths {self.lengths[0]}–{self.lengths[1]} ({SCALE})"
        alike = [panel for panel in pairs if panel not in changed]
        if not changed:
            return f"On none of the tasks does the range change the median score {where} by more than {GAIN}."
        said = joined(
            [f"from {rounded(narrow)} to {rounded(wide)} on {quoted(panel)}" for panel, (narrow, wide) in changed.items()]
        )
        rest = f" It changes by at most {GAIN} on {all_of(alike)}." if alike else ""
        return f"From {NARROW} to {WIDE} the median score {where} goes {said}.{rest}"


@dataclass(frozen=True)
class FurthestReach:
    """An answer that names the model that is right to the greatest length on each task.

    The series `baseline` is no candidate; the answer says how far it gets at least.
    """

    baseline: str = ""

    def __call__(self, results: Sequence[CellResult]) -> str:
        candidates = [run for run in results if run.series != self.baseline]
        if not candidates:
            return ""
        reached, unfitted = [], []
        for panel, inside in by_panel(candidates).items():
            reach = {series: median_right_to(runs) for series, runs in by_series(inside).items()}
            best = max(reach.values())
            who = [series for series, length in reach.items() if length == best]
            said = f"{best:,.0f} on {quoted(panel)} ({named(who, counted(len(who), 'model'))})"
            fits = max(run.validation_accuracy for run in inside) >= MOSTLY_FITTED
            reached += [said] if fits else []
            unfitted += [] if fits else [panel]
        parts = []
        if reached:
            trained = " or ".join(map(str, sorted({run.trained_to for run in candidates})))
            parts.append(
                f"Trained at length {trained}, the best models are right on 90 % of the sequences, in the median over the "
                f"seeds, up to length {joined(reached)}."
            )
        if unfitted:
            highest = max(run.validation_accuracy for run in candidates if run.panel in unfitted)
            none = "none of them fits" if reached else "no model fits"
            where = sentence(f"on {all_of(unfitted)} {none} even the training length")
            parts.append(f"{where}, where the best validation accuracy is {highest:.3f}.")
        if of_baseline := by_panel([run for run in results if run.series == self.baseline]):
            least = min(median_right_to(runs) for runs in of_baseline.values())
            parts.append(f"The baseline, {quoted(self.baseline)}, gets at least to length {least:,.0f} on every task.")
        return " ".join(parts)


@dataclass(frozen=True)
class BesideThePaper:
    """An answer that counts the models within reach of the paper's scores, and names the one that is furthest below."""

    paper: Mapping[Key, str]

    def __call__(self, results: Sequence[CellResult]) -> str:
        compared = beside_paper(results, self.paper)
        if not compared:
            return ""
        close = [model for model in compared if model.is_close]
        below = [model for model in compared if not model.is_close and model.difference < 0]
        above = len(compared) - len(close) - len(below)
        said = (
            f"{len(close)} of {len(compared)} scores (a task and a model) {verb(len(close))} within {CLOSE} of the paper's, by "
            f"the best seed and by the median; {len(below)} {verb(len(below))} below and {above} {verb(above)} above."
        )
        if not below:
            return said
        lowest = min(below, key=lambda model: model.difference)
        panel, series = lowest.key
        return (
            f"{said} Furthest below is {quoted(series)} on {quoted(panel)}, with a median of {rounded(lowest.median)} where "
            f"the paper has {lowest.paper_median:.3f}."
        )


@dataclass(frozen=True)
class BestChange:
    """An answer that names the change of the training that helps each model most, and counts the networks that never fail.

    The changes of a model are the series whose labels begin with the model's and a comma.
    """

    bases: Sequence[str]
    lengths: tuple[int, int]  # the first and the last length of the test

    def __call__(self, results: Sequence[CellResult]) -> str:
        medians, said = {series: median_score(runs) for series, runs in by_series(results).items()}, []
        for base in self.bases:
            changes = {series: median for series, median in medians.items() if series.startswith(f"{base}, ")}
            if base not in medians or not changes:
                continue
            best = max(changes, key=lambda series: changes[series])
            way = "from" if changes[best] > medians[base] else "which does not raise it, from"
            said.append(
                f"“{best.removeprefix(f'{base}, ')}” for {base} ({way} {rounded(medians[base])} to {rounded(changes[best])})"
            )
        if not said:
            return ""
        unbroken, longest = sum(map(never_fails, results)), max(run.scores.longest for run in results)
        return (
            f"Of the changes tried, the median score at lengths {self.lengths[0]}–{self.lengths[1]} ({SCALE}) is highest with "
            f"{joined(said)}. {sentence(str(unbroken or 'none'))} of the {len(results)} networks {verb(unbroken or 1)} right "
            f"at every length up to {longest:,}."
        )


@dataclass(frozen=True)
class AgreementWithTheory:
    """An answer that counts the fields in which theory and training agree, and names the layers that learn the most tasks."""

    theory: Theory

    def __call__(self, results: Sequence[CellResult]) -> str:
        fields = by_key(results)
        if not fields:
            return ""
        verdicts = {key: self.theory.answer(*key) for key in fields}
        decided = [key for key in fields if verdicts[key] in ("can", "cannot")]
        agreed = [key for key in decided if learned(fields[key]) == (verdicts[key] == "can")]
        beyond = sum(verdicts[key] == "cannot" and learned(fields[key]) for key in decided)
        learned_by = {series: [key for key in fields if key[1] == series and learned(fields[key])] for _, series in fields}
        most = max(map(len, learned_by.values()))
        best = [series for series, keys in learned_by.items() if len(keys) == most]
        tasks = len({panel for panel, _ in fields})
        who = f"{all_of(best)} {verb(len(best), 'learns', 'learn')}" if len(best) < 4 else f"{len(best)} layers learn"
        against = f"{counted(beyond, 'field')} {verb(beyond)} learned" if beyond else "no field is learned"
        return (
            f"{who} the most tasks, {most} of {tasks}, right to {REACH} times the training length. Training agrees with theory "
            f"in {len(agreed)} of the {len(decided)} fields (a task and a layer) that theory decides, and {against} that "
            "theory rules out."
        )
