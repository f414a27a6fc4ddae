"""By how much wrong answers are off, modulo m.

A network that adds modulo m by rotations reads its answer from an angle. Where it has learned the angle with a small error, the
state leaves its sector after some turns, and on one side: at first most wrong answers have the same offset.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from eigentrack.experiments.cell import Cell, CellResult
from eigentrack.experiments.experiment import Settings
from eigentrack.models import SequenceModel, load_model
from eigentrack.tasks import Task
from eigentrack.tasks.counter_random import derived_seed
from eigentrack.training.run import MODEL, RunConfig

SEQUENCES = 256


@dataclass(frozen=True)
class OffsetResult(CellResult):
    """`offsets`: how many answers are off by 0, 1, … m-1, at one length; empty where the network was not kept."""

    offsets: tuple[int, ...] = ()


def study(
    results: Sequence[CellResult], cells: Sequence[Cell], folder: Path, settings: Settings, say: Callable[[str], None]
) -> list[OffsetResult]:
    """At three quarters of the longest test length."""
    by_run = {(cell.panel, cell.series, cell.rate, cell.seed): cell for cell in cells}
    length = settings.test.lengths[1] * 3 // 4
    found = []
    for result in results:
        cell = by_run[result.panel, result.series, result.rate, result.seed]
        assert isinstance(cell.run, RunConfig)
        network = folder / cell.name / MODEL
        offsets: tuple[int, ...] = ()
        if network.exists():
            offsets = answer_offsets(load_model(network), cell.run.build_task(), length, cell.seed)
        else:
            say(f"{cell.name}: the network was not kept, so nothing is said about its wrong answers")
        values = {field.name: getattr(result, field.name) for field in dataclasses.fields(CellResult)}
        found.append(OffsetResult(**values, offsets=offsets))
    return found


@torch.no_grad()
def answer_offsets(model: SequenceModel, task: Task, length: int, seed: int) -> tuple[int, ...]:
    """Of a task that asks once, at the end."""
    batch = task.sample(SEQUENCES, (length, length), seed=derived_seed(seed, "offsets"), step=0)
    asked = batch.weight > 0
    logits, _ = model.eval()(batch.tokens)
    answers = logits[asked][:, : task.classes].argmax(-1)
    offsets = (answers - batch.targets[asked]) % task.classes
    return tuple(torch.bincount(offsets, minlength=task.classes).tolist())
