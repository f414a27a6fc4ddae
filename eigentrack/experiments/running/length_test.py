"""A test at lengths beyond the trained ones: accuracy a(L) and sequence accuracy s(L) at every length L = 1..longest.

Tasks that answer after every token are streamed: one sequence tests all its lengths. The others are tested stretch by stretch
of lengths, and every length takes the value of its stretch; the training lengths are one of them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import torch

from eigentrack.models import SequenceModel
from eigentrack.tasks import Task, TrackingTask
from eigentrack.tasks.counter_random import derived_seed
from eigentrack.tasks.task import check_lengths
from eigentrack.training import LengthCurve, accuracy_between, horizon, length_curve, scaled_accuracy, shortest_asked

REACHED = 0.99  # accuracy that ends no horizon
RIGHT, DEAD = 0.9, 0.1  # sequence accuracy down to which a model is right, and below which it is dead
AT_ONCE = 512  # streamed sequences: at the paper's sizes a model holds them in 2 GB
FAR_SEQUENCES = 256
STRETCH = 12  # lengths that are tested together where a task is not streamed


@dataclass(frozen=True)
class LengthTest:
    """A test by length: `lengths` hold the score; a streamed task goes on to `far` while that can tell more."""

    lengths: tuple[int, int]
    sequences: int
    far: int = 0

    def __post_init__(self) -> None:
        check_lengths(self.lengths)
        if self.sequences < 1 or self.far < 0:
            raise ValueError(f"sequences={self.sequences} must be at least 1, and far={self.far} at least 0")

    @property
    def goes_far(self) -> bool:
        return self.far > self.lengths[1]

    @property
    def words(self) -> str:
        """The lengths over which the score is taken, and the number of sequences, in words."""
        shortest, longest = self.lengths
        lengths = f"length {longest}" if shortest == longest else f"lengths {shortest}–{longest}"
        return f"{lengths}, {self.sequences:,} sequences"

    @property
    def stretch_words(self) -> str:
        return f"where a task asks at the end alone, {STRETCH} lengths at a time, and all training lengths as one"

    @property
    def far_words(self) -> str:
        return (
            f"where a task asks after every token on to {self.far:,}, {FAR_SEQUENCES} sequences, unless the horizon is known "
            f"and fewer than {100 * DEAD:.0f} % of the sequences are right, or attention's cache would grow"
        )


@dataclass(frozen=True)
class CurvePoint:
    """The mean accuracy at the lengths since the point before, and the sequence accuracy at this one."""

    length: int
    accuracy: float
    sequence_accuracy: float


CURVE_COLUMNS = tuple(field.name for field in fields(CurvePoint))


def first_tested(task: Task, trained: tuple[int, int]) -> int:
    """Return the shortest length that is tested by itself and that training asks for."""
    return shortest_asked(task, trained) if isinstance(task, TrackingTask) else trained[1]


def run_length_test(model: SequenceModel, task: Task, test: LengthTest, trained: tuple[int, int], seed: int) -> LengthCurve:
    longest = test.lengths[1]
    if not isinstance(task, TrackingTask):
        return _by_stretches(model, task, test, trained, seed)
    curve = _streamed(model, task, longest, test.sequences, seed)
    cache_grows = "attention" in model.config.mixers
    if not test.goes_far or cache_grows or _is_settled(curve, first_tested(task, trained)):
        return curve
    far = _streamed(model, task, test.far, FAR_SEQUENCES, derived_seed(seed, "far"))
    return LengthCurve(
        torch.cat([curve.accuracy, far.accuracy[longest:]]),
        torch.cat([curve.sequence_accuracy, far.sequence_accuracy[longest:]]),
    )


def _is_settled(curve: LengthCurve, asked_from: int) -> bool:
    """Return whether no greater length can change the horizon, nor where the model is no longer right, or dead."""
    is_dead = bool((curve.sequence_accuracy < DEAD).any())
    return is_dead and horizon(curve.accuracy, REACHED, shortest=asked_from) < len(curve.accuracy)


def _streamed(model: SequenceModel, task: TrackingTask, longest: int, sequences: int, seed: int) -> LengthCurve:
    accuracy, sequence_accuracy = torch.zeros(longest), torch.zeros(longest)
    for first in range(0, sequences, AT_ONCE):
        count = min(AT_ONCE, sequences - first)
        curve = length_curve(model, task, longest, sequences=count, seed=derived_seed(seed, f"from {first}"))
        accuracy += curve.accuracy * count / sequences
        sequence_accuracy += curve.sequence_accuracy * count / sequences
    return LengthCurve(accuracy, sequence_accuracy)


def _by_stretches(model: SequenceModel, task: Task, test: LengthTest, trained: tuple[int, int], seed: int) -> LengthCurve:
    longest = test.lengths[1]
    starts = range(trained[1] + 1, longest + 1, STRETCH)
    stretches = [trained, *((start, min(start + STRETCH - 1, longest)) for start in starts)]
    if len(stretches) > 2 and stretches[-1][0] == stretches[-1][1]:  # a task may have no sequence of just this length
        stretches[-2:] = [(stretches[-2][0], longest)]
    sequences = -(-test.sequences // len(stretches))
    accuracy, sequence_accuracy = torch.zeros(longest), torch.zeros(longest)
    for stretch in stretches:
        found = accuracy_between(model, task, stretch, sequences=sequences, seed=seed)
        first = 0 if stretch == trained else stretch[0] - 1
        accuracy[first : stretch[1]] = found.answers
        sequence_accuracy[first : stretch[1]] = found.sequences
    return LengthCurve(accuracy, sequence_accuracy)


@dataclass(frozen=True)
class LengthScores:
    """The result of a test; `accuracy` and `scaled_accuracy` are means over the test lengths."""

    accuracy: float
    scaled_accuracy: float
    sequence_accuracy: float  # the share of sequences that are all right at the longest of the test lengths
    horizon: int  # from the shortest length asked for up to this one, 99 % of the answers are right
    right_to: int  # up to this length, 90 % of the sequences are all right
    dead_by: int | None  # from this length on, fewer than 10 % of the sequences are all right; None if never
    longest: int  # the longest length that was tested
    classes: int  # among which a guess is right once
    curve: tuple[CurvePoint, ...]
    asked_from: int = 1  # `first_tested` of the task

    def to_json(self) -> dict[str, Any]:
        """Return the scores, with the curve as one list per column, which is a third as long as one object per point."""
        columns = {name: [getattr(point, name) for point in self.curve] for name in CURVE_COLUMNS}
        return {**asdict(self), "curve": columns}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> LengthScores:
        columns = (values["curve"][name] for name in CURVE_COLUMNS)
        return cls(**{**values, "curve": tuple(CurvePoint(*point) for point in zip(*columns, strict=True))})

    def counted_from(self, shortest: int) -> LengthScores:
        """Return the scores with a horizon that counts from `shortest`, for results stored with one from length 1.

        Where the horizon ended before `shortest`, it is read from the curve: exact up to length 40, then up to 5 % too low.
        """
        if shortest == self.asked_from or not self.curve:
            return self
        if self.horizon >= shortest:
            return replace(self, asked_from=shortest)
        reach = 0
        for point in self.curve:
            if point.length >= shortest and point.accuracy < REACHED:
                break
            reach = point.length if point.length >= shortest else 0
        return replace(self, horizon=reach, asked_from=shortest)


NO_SCORES = LengthScores(0.0, 0.0, 0.0, 0, 0, 1, 0, 2, ())  # the scores of a run that diverged: it answers nothing


def length_scores(curve: LengthCurve, test: LengthTest, classes: int, asked_from: int = 1) -> LengthScores:
    shortest, longest = test.lengths
    accuracy = curve.accuracy[shortest - 1 : longest].mean()
    dead = torch.nonzero(curve.sequence_accuracy < DEAD)
    return LengthScores(
        accuracy=accuracy.item(),
        scaled_accuracy=scaled_accuracy(accuracy, classes).item(),
        sequence_accuracy=curve.sequence_accuracy[longest - 1].item(),
        horizon=horizon(curve.accuracy, REACHED, shortest=asked_from),
        right_to=horizon(curve.sequence_accuracy, RIGHT),
        dead_by=int(dead[0]) + 1 if len(dead) else None,
        longest=len(curve.accuracy),
        classes=classes,
        curve=_points(curve, longest),
        asked_from=asked_from,
    )


def _points(curve: LengthCurve, longest: int) -> tuple[CurvePoint, ...]:
    """Return every length up to 40, then steps of 5 %, so that 10⁵ takes 200 points; `longest` is one for all curves."""
    points, first = [], 0
    while first < len(curve.accuracy):
        last = min(longest if first < longest else len(curve.accuracy), max(first + 1, int(first * 1.05)))
        mean, unbroken = curve.accuracy[first:last].mean().item(), curve.sequence_accuracy[last - 1].item()
        points.append(CurvePoint(last, round(mean, 4), round(unbroken, 4)))
        first = last
    return tuple(points)
