"""Networks that are right at the training lengths and fail beyond: what becomes of their past (`two_pasts.py`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from eigentrack.experiments.cell import Cell, CellResult
from eigentrack.experiments.experiment import Settings
from eigentrack.experiments.kept_networks import kept_networks, with_more
from eigentrack.experiments.open_questions import REACH, learned
from eigentrack.experiments.two_pasts import TwoPasts, two_pasts
from eigentrack.models import load_model
from eigentrack.tasks import TrackingTask
from eigentrack.training.run import RunConfig

FITTED = 0.99  # of the answers at training lengths


@dataclass(frozen=True)
class StudiedResult(CellResult):
    pasts: TwoPasts | None = None  # None for a network that fits nothing, or does not fail, or was not kept


def study(
    results: Sequence[CellResult], cells: Sequence[Cell], folder: Path, settings: Settings, say: Callable[[str], None]
) -> list[StudiedResult]:
    found = []
    for result, cell, network in kept_networks(results, cells, folder):
        pasts = None
        if result.validation_accuracy >= FITTED and not learned([result]):
            if network is None:
                say(f"{cell.name}: the network was not kept, so nothing is said of how it fails")
            else:
                pasts = _pasts(network, cell, result)
        found.append(with_more(StudiedResult, result, pasts=pasts))
    return found


def _pasts(network: Path, cell: Cell, result: CellResult) -> TwoPasts:
    assert isinstance(cell.run, RunConfig)
    task = cell.run.build_task()
    assert isinstance(task, TrackingTask)
    return two_pasts(load_model(network), task, result.trained_to // 2, REACH * result.trained_to, cell.seed)
