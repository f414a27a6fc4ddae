"""Trained networks that do modular arithmetic: what more is measured of them, its columns and what it shows."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from eigentrack.experiments.design.experiment import Column, Key, Settings
from eigentrack.experiments.reporting.findings import beside_paper, by_series, median_score
from eigentrack.experiments.reporting.wording import counted, joined, verb
from eigentrack.experiments.running.cell import Cell
from eigentrack.experiments.running.length_test import RIGHT
from eigentrack.experiments.running.task_cell import CellResult, kept_networks, with_more
from eigentrack.experiments.studies.arithmetic_measures import (
    SEQUENCES,
    answer_offsets,
    first_failing_length,
    leading_pair,
    repeated_term_reach,
    turning_error,
)
from eigentrack.models import load_model
from eigentrack.tasks.modular_arithmetic import ModularArithmetic

LEADS, FEWEST_WRONG = 0.75, 20  # share of the wrong answers, and how many there must be for a word about them
TURNS = 0.05  # an error of a head below which it turns: 3 degrees, or 5 % lost with every term
RESOLVED = 5e-7  # the difference of losses near ½ that float32 resolves
FEWEST_COMPARED = 5  # networks, for a word about what their scores go with


@dataclass(frozen=True)
class StudiedResult(CellResult):
    """A result with what is measured of the network, all empty where the network was not kept."""

    offsets: tuple[int, ...] = ()  # how many answers are off by 0, 1, … m-1
    offsets_at: int = 0  # the length at which they are counted
    turning_error: float | None = None  # the error of the head that turns best
    repeated: tuple[int, ...] = ()  # how far it is right while one term is added, by term


def study(
    results: Sequence[CellResult], cells: Sequence[Cell], folder: Path, settings: Settings, say: Callable[[str], None]
) -> list[StudiedResult]:
    found = []
    for result, cell, network in kept_networks(results, cells, folder):
        if network is None:
            say(f"{cell.name}: the network was not kept, so nothing is said about its wrong answers and its heads")
            found.append(with_more(StudiedResult, result))
            continue
        model, task = load_model(network), cell.run.build_task().as_tested()
        assert isinstance(task, ModularArithmetic)
        length = first_failing_length(result, settings.test.lengths[1])
        offsets = answer_offsets(model, task, length, cell.seed)
        repeated = repeated_term_reach(model, task, settings.test.lengths[1], cell.seed)
        studied = {"offsets_at": length, "turning_error": turning_error(model, task), "repeated": repeated}
        found.append(with_more(StudiedResult, result, offsets=offsets, **studied))
    return found


def loss_floor(smoothing: float) -> float:
    """Return the least loss that labels smoothed over the vocabulary allow, which is their entropy."""
    other = smoothing / ModularArithmetic().vocab_size
    right = 1 - (ModularArithmetic().vocab_size - 1) * other
    return -right * math.log(right) - (1 - right) * (math.log(other) if other else 0.0)


def millionths(excess: float) -> str:
    """Return an excess of loss in millionths; below what float32 resolves it says so."""
    return f"{1e6 * excess:.3g}" if excess >= RESOLVED else f"below {1e6 * RESOLVED:g}"


def _fell_at(runs: Sequence[CellResult]) -> str:
    return ", ".join("never" if run.record.halved_at is None else f"{run.record.halved_at:,}" for run in runs)


def _off_by(runs: Sequence[StudiedResult]) -> str:
    return "; ".join(f"{', '.join(map(str, run.offsets[1:]))} at {run.offsets_at}" if run.offsets else "–" for run in runs)


def _turning(runs: Sequence[StudiedResult]) -> str:
    return ", ".join("–" if run.turning_error is None else f"{run.turning_error:.2f}" for run in runs)


def _repeated(runs: Sequence[StudiedResult]) -> str:
    return "; ".join(_reaches(run.repeated) if run.repeated else "–" for run in runs)


def _reaches(repeated: Sequence[int]) -> str:
    nothing, *others = repeated
    return f"{nothing}, {statistics.median(others):.0f} ({min(others)}–{max(others)})"


def rank_correlation(pairs: Sequence[tuple[float, float]]) -> float:
    """Return Spearman's rank correlation; equal values share their rank."""
    values = np.array(pairs)
    below, equal = ((compare(values[:, None], values[None])).sum(1) for compare in (np.greater, np.equal))
    return float(np.corrcoef(below + (equal + 1) / 2, rowvar=False)[0, 1])


def best_median(results: Sequence[CellResult]) -> list[str]:
    """Say which two layers have the best median scores."""
    medians = {layer: median_score(runs) for layer, runs in by_series(results).items()}
    if len(medians) < 2:
        return []
    best, second, *_ = sorted(medians, key=lambda layer: -medians[layer])
    return [
        f"The best median score is {medians[best]:.3f}, of “{best}”; the second best is {medians[second]:.3f}, of “{second}”. "
        "The table has all of them."
    ]


@dataclass(frozen=True)
class BestOfASearch:
    """The best layer beside the first one and the paper's, with a warning where its settings were searched for."""

    lengths: tuple[int, int]  # the first and the last length of the test
    first: str  # the series that is trained as the paper's
    paper: Mapping[Key, str]
    searched: str  # a part of the label of every series whose settings were chosen at the test lengths

    def __call__(self, results: Sequence[CellResult]) -> str:
        runs = by_series(results)
        medians = {layer: median_score(of_layer) for layer, of_layer in runs.items()}
        if not (compared := beside_paper(runs.get(self.first, []), self.paper)):
            return ""
        best = max(medians, key=lambda layer: medians[layer])
        lowest = min(run.scores.scaled_accuracy for run in runs[best])
        said = (
            f"The best network, “{best}”, has a median score of {medians[best]:.3f} at lengths "
            f"{self.lengths[0]}–{self.lengths[1]} and {lowest:.3f} with its worst seed (0 is guessing, 1 is perfect); "
            f"“{self.first}”, the paper's layer, has a median of {medians[self.first]:.3f} here and of "
            f"{compared[0].paper_median:.3f} in the paper."
        )
        warning = " Its settings were searched for at the test lengths, so this is no fair comparison with the paper."
        return said + warning * (self.searched in best)


def neighbouring_offsets(results: Sequence[StudiedResult]) -> list[str]:
    """Say whether the first wrong answers are those of neighbouring angles."""
    if wrong := [run for run in results if sum(run.offsets[1:]) >= FEWEST_WRONG]:
        led = sum(leading_pair(run.offsets)[1] >= LEADS for run in wrong)
        alone = sum(max(run.offsets[1:]) >= LEADS * sum(run.offsets[1:]) for run in wrong)
        return [
            f"Where answers begin to fail, at least {LEADS:.0%} of the wrong answers are off by ±1, or at least {LEADS:.0%} by "
            f"±2, in {led} of {len(wrong)} networks. A small error of an angle would do that; the larger of the two shares is "
            f"at least 50 % in any case. In {alone} of the networks a single offset has {LEADS:.0%} or more, which we had "
            "expected of most."
        ]
    return []


def turning_heads(results: Sequence[StudiedResult]) -> list[str]:
    """Set the error of the head that turns best beside the score."""
    turning = [(run.turning_error, run.scores.scaled_accuracy) for run in results if run.turning_error is not None]
    if len(turning) < FEWEST_COMPARED:
        return []
    near, far = ([score for error, score in turning if (error < TURNS) == turns] for turns in (True, False))
    groups = [
        f"{statistics.median(scores):.3f} in the {counted(len(scores), 'network')} whose best head has an error {words}"
        for scores, words in ((near, f"below {TURNS}"), (far, f"of {TURNS} or more"))
        if scores
    ]
    return [
        "Some heads turn their state as addition modulo 5 does. The score of a network and the error of its best such head "
        f"have a rank correlation of {rank_correlation(turning):.2f}. The median score is {joined(groups)}; with real "
        "eigenvalues alone the error is at least 0.95."
    ]


def repeated_terms(results: Sequence[StudiedResult]) -> list[str]:
    """Say up to which lengths one term can be added over and over."""
    if repeated := [run for run in results if run.repeated]:
        end = max(max(run.repeated) for run in repeated)
        held = sum(run.repeated[0] == end for run in repeated)
        others = [statistics.median(run.repeated[1:]) for run in repeated]
        all_terms = sum(reach == end for reach in others)
        return [
            f"When one term is added over and over to a random start, {held} of {counted(len(repeated), 'network')} "
            f"{verb(held)} right up to length {end}, where the test ends, if the term is 0. If it is one of ±1 to ±4, "
            f"{all_terms or 'none'} {verb(all_terms or 1)} right so far and the worst "
            f"up to length {min(others):.0f}, in the median over these terms. Where only terms other than 0 do harm, the sum "
            "does not fade with time, but each term adds a small error."
        ]
    return []


@dataclass(frozen=True)
class LossAboveFloor:
    """A column and a finding on how far the training loss ends above the least that smoothed labels allow.

    The finding compares it with the scores of the networks whose labels are smoothed by `compared`.
    """

    smoothing: Mapping[str, float]
    compared: float

    def above_floor(self, run: CellResult) -> float:
        """Return how far the training loss ends above its floor: mean over the last tenth of the steps."""
        return run.record.last_loss - loss_floor(self.smoothing[run.series])

    @property
    def column(self) -> Column:
        def show(runs: Sequence[CellResult]) -> str:
            return ", ".join("–" if run.diverged_at is not None else millionths(self.above_floor(run)) for run in runs)

        meaning = (
            "training loss over the last tenth of the steps, less the least that smoothed labels allow, in millionths; "
            "every seed"
        )
        return Column("loss above its floor", meaning, show)

    def __call__(self, results: Sequence[CellResult]) -> list[str]:
        smoothed = [run for run in results if self.smoothing[run.series] == self.compared and run.diverged_at is None]
        if len(smoothed) >= FEWEST_COMPARED:
            pairs = sorted((self.above_floor(run), run.scores.scaled_accuracy) for run in smoothed)
            return [
                f"In the {counted(len(pairs), 'network')} with labels smoothed by {self.compared}, the score and how far the "
                f"loss at the training lengths ends above its floor have a rank correlation of {rank_correlation(pairs):.2f}; "
                "the table has both."
            ]
        return []


LOSS_FELL_AT = Column(
    "loss fell at",
    "the step at which the training loss was half of its first, every seed; smoothed by 0.4 it never gets so low, as "
    "even exact answers cost more",
    _fell_at,
)
OFF_BY = Column(
    "off by 1, 2, 3, 4",
    f"answers that are wrong by so much modulo 5, of {SEQUENCES} at the length named, the first tested one at which "
    "fewer than 90 % are right, or the longest; every seed",
    _off_by,
)
TURNING_ERROR = Column(
    "error of turning",
    "of the head that turns best: how far its eigenvalues are from those of addition modulo 5, every seed "
    "(`experiments/studies/arithmetic_measures.py`)",
    _turning,
)
AGAIN_AND_AGAIN = Column(
    "again and again",
    f"up to which length {RIGHT:.0%} of the answers are right while one term is added over and over to a random start: "
    "+ 0; then the median of + 1 to + 4 and - 1 to - 4 (lowest–highest); every seed "
    "(`experiments/studies/arithmetic_measures.py`)",
    _repeated,
)
