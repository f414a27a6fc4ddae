"""The order in which cells are taken: what is named first is finished first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from eigentrack.experiments.running.cell import Cell, store_result
from eigentrack.experiments.running.ledger import Ledger
from tests.experiments.toy import toy_cells, toy_result

FIRST, SECOND, THIRD, UNLOCKED = toy_cells()


def unlock(cell: Cell, results: Mapping[str, Any], failures: Mapping[str, str]) -> Iterable[Cell]:
    return [UNLOCKED] if cell == FIRST else []


def test_an_unlocked_cell_takes_the_place_of_the_one_it_waited_for(tmp_path: Path) -> None:
    ledger = Ledger([FIRST, SECOND, THIRD], tmp_path, unlock=unlock)
    assert ledger.take() == FIRST
    assert ledger.take() == SECOND
    ledger.finished(FIRST, toy_result())
    assert [ledger.take(), ledger.take(), ledger.take()] == [UNLOCKED, THIRD, None]


def test_so_does_one_that_an_earlier_call_has_unlocked(tmp_path: Path) -> None:
    store_result(FIRST, toy_result(), tmp_path / FIRST.name)
    assert list(Ledger([FIRST, SECOND, THIRD], tmp_path, unlock=unlock).waiting) == [UNLOCKED, SECOND, THIRD]
