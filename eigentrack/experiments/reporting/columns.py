"""Further columns of a report's table: how far a model is right, what it does at far lengths, what a constant answer scores."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Sequence

import torch

from eigentrack.experiments.design.experiment import Column, Panel
from eigentrack.experiments.running.length_test import DEAD, LengthTest
from eigentrack.experiments.running.task_cell import CellResult
from eigentrack.tasks import TrackingTask
from eigentrack.tasks.registry import make_task
from eigentrack.training import scaled_accuracy

WORDS = 1024  # the number of words on which a constant answer is scored


def _horizon(runs: Sequence[CellResult]) -> str:
    reach, longest = statistics.median(run.scores.horizon for run in runs), max(run.scores.longest for run in runs)
    if longest == 0:  # all diverged
        return "–"
    return f"≥ {longest:,}" if reach == longest else f"{reach:,.0f}"


def _dead_by(runs: Sequence[CellResult]) -> str:
    reach = statistics.median(math.inf if run.scores.dead_by is None else run.scores.dead_by for run in runs)
    return "never" if reach == math.inf else f"{reach:,.0f}"


HORIZON = Column(
    "horizon",
    "the longest length up to which 99 % of the answers are right, from the shortest that training asks for; median over the "
    "seeds",
    _horizon,
)
DEAD_BY = Column("dead by", "the length from which fewer than 10 % of the sequences are right, median over the seeds", _dead_by)


def far_column(test: LengthTest, streamed: Collection[str]) -> Column:
    """Return the column of the accuracy at the far end of a test, or where the test stopped and why.

    `streamed`: the panels whose tasks answer after every token.
    """

    def entry(run: CellResult) -> str:
        if run.diverged_at is not None:
            return "–"
        if run.panel not in streamed:
            return f"tested to {run.scores.longest:,}"
        if run.scores.longest >= test.far:
            return f"{run.scores.curve[-1].accuracy:.3f}"
        why = "dead" if run.state_size else "attention"
        return f"stopped at {run.scores.longest:,} ({why})"

    def show(runs: Sequence[CellResult]) -> str:
        entries = [entry(run) for run in runs]
        return entries[0] if len(set(entries)) == 1 else ", ".join(entries)

    meaning = (
        "the share of right answers at the last 5 % of these lengths, every seed; stopped before: (dead) the horizon is known "
        f"and fewer than {100 * DEAD:.0f} % of the sequences are right, so that no greater length changes a score; (attention) "
        "its cache would grow"
    )
    return Column(f"at {test.far:,}", meaning, show)


def constant_column(panels: Sequence[Panel], lengths: tuple[int, int]) -> Column:
    """Return the column of what one answer scores, given always: above 0 where some answers come more often than others."""

    def show(runs: Sequence[CellResult]) -> str:
        panel = next(panel for panel in panels if panel.label == runs[0].panel)
        task = make_task(panel.task, panel.options)
        assert isinstance(task, TrackingTask)
        return f"{constant_score(task, lengths):.3f}"

    return Column("constant", "the score of the one answer that is right most often, given always", show)


def constant_score(task: TrackingTask, lengths: tuple[int, int]) -> float:
    """Return the scaled accuracy of the most frequent answer, on a sample of words."""
    shortest, longest = lengths
    *_, (_, answers) = task.stream(WORDS, longest, piece=longest, seed=0)  # the answers of one piece; a begin token comes first
    shares = torch.bincount(answers[:, shortest - 1 :].flatten(), minlength=task.classes).double()
    return scaled_accuracy((shares / shares.sum()).max(), task.classes).item()
