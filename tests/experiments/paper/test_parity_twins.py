"""The demo: twins that differ in nothing but the range, and a report with its provenance."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from eigentrack.compiler.correction_proof import CorrectionProof
from eigentrack.experiments.paper.parity_kept import Kept
from eigentrack.experiments.paper.parity_twins import (
    LONGEST,
    NARROW,
    WIDE,
    Outcome,
    claim_holds,
    plot,
    run_twin,
    run_twins,
    twins,
    write_report,
)
from eigentrack.models import load_model
from eigentrack.spectrum import EigenRange
from tests.experiments.figures import drawn

PROOF = CorrectionProof(16, 2, 4, 0.01, 1.0, 0.16, 1.0, 2.0, 0.001, 20, ("reference",), "float32")
KEPT = Kept(PROOF, ((1, 1.0), (10**6, 1.0)), ((1, 1.0), (10**6, 0.5)))


def outcome(eigenvalues: EigenRange, accuracy: float) -> Outcome:
    twin = next(twin for twin in twins(0) if twin.model.eigenvalues == eigenvalues)
    return Outcome(twin, (accuracy,) * LONGEST, 1.0)


def test_twins_differ_in_the_range_alone() -> None:
    cells = twins(3)
    assert [cell.name for cell in cells] == ["Mamba [0, 1]", "Mamba [-1, 1]", "DeltaNet [0, 1]", "DeltaNet [-1, 1]"]
    for narrow, wide in (cells[:2], cells[2:]):
        assert replace(narrow, model=replace(narrow.model, eigenvalues=WIDE)) == wide
        assert narrow.model.eigenvalues == NARROW


def test_the_claim_can_fail() -> None:
    assert claim_holds([outcome(NARROW, 0.5), outcome(WIDE, 1.0)])
    assert not claim_holds([outcome(NARROW, 0.5), outcome(WIDE, 0.9)])
    assert not claim_holds([outcome(NARROW, 0.7), outcome(WIDE, 1.0)])


def test_the_report_says_where_it_comes_from(tmp_path: Path) -> None:
    cell = twins(0)[3]
    result = run_twin(replace(cell, training=replace(cell.training, steps=2, warmup=1)))
    assert len(result.accuracy) == LONGEST
    numbers, picture = write_report([result, outcome(NARROW, 0.5)], KEPT, tmp_path / "new" / "folder")
    report = json.loads(numbers.read_text())
    assert set(report["provenance"]) == {"command", "commit", "date", "hardware", "versions"}
    assert report["results"][0]["steps"] == 2
    assert report["results"][1]["scaled_accuracy"] == pytest.approx(0.0)
    assert report["claim_holds"] is False
    assert report["kept"]["every_answer_right"] is True
    assert report["kept"]["proof"]["every"] == 16
    assert picture.read_bytes()[:4] == b"\x89PNG"


def test_the_plot_shows_a_twin_under_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = [Outcome(twin, (1.0 if twin.model.eigenvalues == WIDE else 0.2,) * LONGEST, 1.0) for twin in twins(7)]
    figure = drawn(monkeypatch, lambda path: plot(outcomes, KEPT, path), tmp_path / "plot.png")
    (axes,), (legend,) = figure.axes, figure.legends
    under, over = axes.lines[1], axes.lines[3]
    assert under.get_linewidth() > over.get_linewidth()
    labels = [line.get_label() for line in axes.lines]
    assert labels[:5] == [*(twin.name for twin in twins(7)), "DeltaNet [-1, 1], corrected"]
    assert axes.lines[4].get_xdata()[-1] == 10**6
    assert list(axes.lines[5].get_xdata()) == [10**6]  # of the twin that was corrected, what lies beyond its own curve
    assert legend.get_texts()[0].get_text() == "training lengths: 3–40"
    low, high = axes.get_ylim()
    assert low < 0.2 < 1 < high
    assert "seed 7" in axes.get_title()


@pytest.mark.slow
def test_twins_side_by_side_are_the_twins_alone(tmp_path: Path) -> None:
    cells = [replace(cell, training=replace(cell.training, steps=2, warmup=1)) for cell in twins(0)[2:]]
    reports: list[tuple[int, int]] = []
    together = run_twins(cells, lambda number, step, loss: reports.append((number, step)), tmp_path)
    assert sorted(reports) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert [found.accuracy for found in together] == [run_twin(cell).accuracy for cell in cells]
    kept = [load_model(tmp_path / name).config for name in ("deltanet_0_1", "deltanet_-1_1")]
    assert kept == [cell.model for cell in cells]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_the_demo_holds(seed: int) -> None:
    assert claim_holds([run_twin(cell) for cell in twins(seed)])
