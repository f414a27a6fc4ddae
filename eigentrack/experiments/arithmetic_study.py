"""What more is measured of trained networks that do modular arithmetic: how their answers are wrong, and how a head turns."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from eigentrack.experiments.answer_offsets import answer_offsets, first_failing_length
from eigentrack.experiments.cell import Cell, CellResult
from eigentrack.experiments.experiment import Settings
from eigentrack.experiments.turning_heads import turning_error
from eigentrack.models import load_model
from eigentrack.tasks.modular_arithmetic import ModularArithmetic
from eigentrack.training.run import MODEL, RunConfig


@dataclass(frozen=True)
class StudiedResult(CellResult):
    """All empty where the network was not kept."""

    offsets: tuple[int, ...] = ()  # how many answers are off by 0, 1, … m-1
    offsets_at: int = 0  # the length at which they are counted
    turning_error: float | None = None  # of the head that turns best


def study(
    results: Sequence[CellResult], cells: Sequence[Cell], folder: Path, settings: Settings, say: Callable[[str], None]
) -> list[StudiedResult]:
    by_run = {(cell.panel, cell.series, cell.rate, cell.seed): cell for cell in cells}
    found = []
    for result in results:
        cell = by_run[result.panel, result.series, result.rate, result.seed]
        values = {field.name: getattr(result, field.name) for field in dataclasses.fields(CellResult)}
        network = folder / cell.name / MODEL
        if not network.exists():
            say(f"{cell.name}: the network was not kept, so nothing is said about its wrong answers and its heads")
            found.append(StudiedResult(**values))
            continue
        assert isinstance(cell.run, RunConfig)
        model, task = load_model(network), cell.run.build_task().as_tested()
        assert isinstance(task, ModularArithmetic)
        length = first_failing_length(result, settings.test.lengths[1])
        offsets = answer_offsets(model, task, length, cell.seed)
        found.append(StudiedResult(**values, offsets=offsets, offsets_at=length, turning_error=turning_error(model, task)))
    return found
