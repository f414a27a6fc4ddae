"""The networks behind results, for a study of them: a cell's folder keeps its network, an archive of results may not."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from eigentrack.experiments.cell import Cell, CellResult
from eigentrack.training.run import MODEL

Studied = TypeVar("Studied", bound=CellResult)


def kept_networks(
    results: Sequence[CellResult], cells: Sequence[Cell], folder: Path
) -> Iterator[tuple[CellResult, Cell, Path | None]]:
    """Every result with its cell, and where its network lies; None if it was not kept."""
    by_run = {(cell.panel, cell.series, cell.rate, cell.seed): cell for cell in cells}
    for result in results:
        cell = by_run[result.panel, result.series, result.rate, result.seed]
        network = folder / cell.name / MODEL
        yield result, cell, network if network.exists() else None


def with_more(kind: type[Studied], result: CellResult, **more: Any) -> Studied:
    """The result as one of a `kind` that has further fields."""
    return kind(**{field.name: getattr(result, field.name) for field in dataclasses.fields(CellResult)}, **more)
