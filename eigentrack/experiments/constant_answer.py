"""What a model scores that always gives the same answer: more than 0 where some answers come more often than others."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from eigentrack.experiments.cell import CellResult
from eigentrack.experiments.experiment import Column, Panel
from eigentrack.tasks import TrackingTask
from eigentrack.tasks.registry import make_task
from eigentrack.training import scaled_accuracy

WORDS = 1024


def constant_column(panels: Sequence[Panel], lengths: tuple[int, int]) -> Column:
    """At the lengths of the test."""

    def show(runs: Sequence[CellResult]) -> str:
        panel = next(panel for panel in panels if panel.label == runs[0].panel)
        task = make_task(panel.task, panel.options)
        assert isinstance(task, TrackingTask)
        return f"{constant_score(task, lengths):.3f}"

    return Column("constant", "the score of the one answer that is right most often, given always", show)


def constant_score(task: TrackingTask, lengths: tuple[int, int]) -> float:
    """Scaled accuracy, on a sample of words."""
    shortest, longest = lengths
    *_, (_, answers) = task.stream(WORDS, longest, piece=longest, seed=0)  # in one piece, behind a begin token
    shares = torch.bincount(answers[:, shortest - 1 :].flatten(), minlength=task.classes).double()
    return scaled_accuracy((shares / shares.sum()).max(), task.classes).item()
