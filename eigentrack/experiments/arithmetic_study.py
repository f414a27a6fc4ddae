"""What more is measured of trained networks that do modular arithmetic: wrong answers, heads that turn, repeated terms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from eigentrack.experiments.answer_offsets import answer_offsets, first_failing_length
from eigentrack.experiments.cell import Cell, CellResult
from eigentrack.experiments.experiment import Settings
from eigentrack.experiments.kept_networks import kept_networks, with_more
from eigentrack.experiments.repeated_terms import repeated_term_reach
from eigentrack.experiments.turning_heads import turning_error
from eigentrack.models import load_model
from eigentrack.tasks.modular_arithmetic import ModularArithmetic
from eigentrack.training.run import RunConfig


@dataclass(frozen=True)
class StudiedResult(CellResult):
    """All empty where the network was not kept."""

    offsets: tuple[int, ...] = ()  # how many answers are off by 0, 1, … m-1
    offsets_at: int = 0  # the length at which they are counted
    turning_error: float | None = None  # of the head that turns best
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
        assert isinstance(cell.run, RunConfig)
        model, task = load_model(network), cell.run.build_task().as_tested()
        assert isinstance(task, ModularArithmetic)
        length = first_failing_length(result, settings.test.lengths[1])
        offsets = answer_offsets(model, task, length, cell.seed)
        repeated = repeated_term_reach(model, task, settings.test.lengths[1], cell.seed)
        studied = {"offsets_at": length, "turning_error": turning_error(model, task), "repeated": repeated}
        found.append(with_more(StudiedResult, result, offsets=offsets, **studied))
    return found
