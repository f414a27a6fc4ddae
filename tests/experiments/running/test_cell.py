"""A cell is run once: interrupted, it goes on; finished, it is only read."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from eigentrack.experiments.running.cell import RESULT_FILE, Cell, run_cell, store_result, stored_result
from eigentrack.experiments.running.length_test import NO_SCORES, CurvePoint
from eigentrack.experiments.running.provenance import NOT_RECORDED, provenance
from eigentrack.experiments.running.task_cell import CellResult
from eigentrack.experiments.running.training_record import NO_RECORD, TrainingRecord, read_record, thin_metrics
from eigentrack.files import LOCK_FILE
from eigentrack.models import load_model
from eigentrack.training.run import CHECKPOINTS, METRICS_FILE, MODEL
from tests.experiments.toy import toy_cells, toy_result


class Interrupted(Exception):
    pass


def interrupt_at(wanted: int):
    def report(step: int) -> None:
        if step == wanted:
            raise Interrupted

    return report


def without_time(result: CellResult) -> CellResult:
    return replace(result, seconds=0.0)


def test_an_interrupted_cell_ends_with_the_same_result(tmp_path: Path) -> None:
    cell = toy_cells()[2]
    whole = run_cell(cell, tmp_path / "whole", "cpu")
    with pytest.raises(Interrupted):
        run_cell(cell, tmp_path / "broken", "cpu", interrupt_at(7))
    steps: list[int] = []
    resumed = run_cell(cell, tmp_path / "broken", "cpu", steps.append)
    assert steps == list(range(5, 13))  # the last checkpoint was at 4
    assert without_time(resumed) == without_time(whole)
    assert whole.scores.curve[-1].length == 24
    assert whole.steps == 12


def test_a_finished_cell_is_only_read_and_keeps_little(tmp_path: Path) -> None:
    cell = toy_cells()[0]
    result = run_cell(cell, tmp_path, "cpu")
    steps: list[int] = []
    assert run_cell(cell, tmp_path, "cpu", steps.append) == result
    assert steps == []
    stored = json.loads((tmp_path / RESULT_FILE).read_text())["result"]["scores"]["curve"]
    assert stored["length"] == [point.length for point in result.scores.curve]
    assert not (tmp_path / CHECKPOINTS).exists()
    assert {path.name for path in tmp_path.iterdir()} == {RESULT_FILE, METRICS_FILE, MODEL, "run.json", LOCK_FILE}
    assert sum(weight.numel() for weight in load_model(tmp_path / MODEL).parameters()) == result.parameters
    assert result.state_size == 2 * 4 * 4  # heads, keys, values


def test_a_result_from_before_has_its_horizon_from_the_lengths_that_were_asked(tmp_path: Path) -> None:
    """A parity whose loss asks for the last bit alone, trained from length 3 on, right from there to 6."""
    cell = toy_cells()[0]
    cell = replace(cell, run=replace(cell.run, task_options={"last_weight": 1.0}))
    points = tuple(CurvePoint(length, accuracy, 0.0) for length, accuracy in enumerate((0.5, 0.9, 1, 1, 1, 1, 0.5), start=1))
    result = toy_result()
    store_result(cell, replace(result, scores=replace(result.scores, horizon=0, curve=points)), tmp_path)
    stored = json.loads((tmp_path / RESULT_FILE).read_text())
    del stored["result"]["scores"]["asked_from"], stored["sha256"]
    (tmp_path / RESULT_FILE).write_text(json.dumps(stored))
    read = stored_result(cell, tmp_path)
    assert isinstance(read, CellResult)
    assert (read.scores.horizon, read.scores.asked_from) == (6, 3)


def test_a_result_of_another_configuration_is_refused(tmp_path: Path) -> None:
    cell = toy_cells()[0]
    run_cell(cell, tmp_path, "cpu")
    other = replace(cell, test=replace(cell.test, sequences=17))
    with pytest.raises(ValueError, match="holds the result of another configuration: name another --out folder"):
        run_cell(other, tmp_path, "cpu")


def test_a_cell_stored_before_options_moved_is_known(tmp_path: Path) -> None:
    """`first_gates` was an option of the layer and is an initial value of the model now."""
    cell = toy_cells()[0]
    model = {**cell.run.model, "initial": {"gates": [0.9, 0.99]}}
    model["mixer_options"] = {**model.get("mixer_options", {}), "gate": [0, 1]}
    cell = replace(cell, run=replace(cell.run, model=model))
    store_result(cell, toy_result(), tmp_path)
    stored = json.loads((tmp_path / RESULT_FILE).read_text())
    del stored["sha256"]
    old = stored["cell"]["run"]["model"]
    old["mixer_options"]["first_gates"] = old.pop("initial")["gates"]
    (tmp_path / RESULT_FILE).write_text(json.dumps(stored))
    assert stored_result(cell, tmp_path) == toy_result()
    old["mixer_options"]["first_gates"] = [0.9, 0.98]
    (tmp_path / RESULT_FILE).write_text(json.dumps(stored))
    with pytest.raises(ValueError, match="holds the result of another configuration"):
        stored_result(cell, tmp_path)


def test_a_diverged_run_is_a_result(tmp_path: Path) -> None:
    cell = toy_cells()[0]
    dense = {"d_model": 8, "layers": 1, "mixer": "dense", "mixer_options": {"state_size": 8, "eigenvalues": None}}
    training = replace(cell.run.training, learning_rate=1e6, warmup=0, clip=1e9, steps=400)
    result = run_cell(replace(cell, run=replace(cell.run, model=dense, training=training)), tmp_path, "cpu")
    assert result.diverged_at is not None
    assert 1 < result.diverged_at == result.steps < 400
    assert result.scores == NO_SCORES
    assert result.validation_accuracy == 0
    assert result.record.highest_gradient > 0


def test_results_survive_json(tmp_path: Path) -> None:
    result = run_cell(toy_cells()[1], tmp_path, "cpu")
    assert CellResult.from_json(json.loads(json.dumps(result.to_json()))) == result


def test_a_result_carries_where_it_was_made(tmp_path: Path) -> None:
    result, here = run_cell(toy_cells()[0], tmp_path, "cpu"), provenance()
    assert (result.commit, result.versions) == (here["commit"], here["versions"])
    assert here["hardware"].endswith(result.hardware)  # of the processor alone, whatever GPU there is
    stored = result.to_json()
    older = {name: value for name, value in stored.items() if name not in ("commit", "versions")}
    assert CellResult.from_json(older) == replace(result, commit=NOT_RECORDED, versions=NOT_RECORDED)


def test_every_cell_has_a_folder_of_its_own() -> None:
    names = [cell.name for cell in toy_cells(seeds=(0, 1))]
    assert len(set(names)) == 8
    assert names[0] == "toy/parity/DeltaNet_0_1/rate-0.01-seed-0"
    assert names[2] == "toy/parity/DeltaNet_-1_1/rate-0.01-seed-0"


def test_a_long_record_is_thinned(tmp_path: Path) -> None:
    metrics = tmp_path / METRICS_FILE
    metrics.write_text("".join(json.dumps({"step": step, "loss": 1.0}) + "\n" for step in range(1, 1204)))
    thin_metrics(tmp_path)
    steps = [json.loads(line)["step"] for line in metrics.read_text().splitlines()]
    assert len(steps) == 401
    assert steps[-1] == 1203
    assert {later - earlier for earlier, later in pairwise(steps)} == {3}
    thin_metrics(tmp_path)
    assert len(metrics.read_text().splitlines()) == 401


def test_the_record_leaves_out_the_start(tmp_path: Path) -> None:
    lines = [{"loss": 9.0, "gradient_norm": 9.0}] * 2 + [{"loss": 2.0, "gradient_norm": 1.0}] * 16
    lines += [{"loss": 1.0, "gradient_norm": 5.0}, {"loss": 0.5, "gradient_norm": 1.0}]
    (tmp_path / METRICS_FILE).write_text("".join(json.dumps({"step": 10 * n, **line}) + "\n" for n, line in enumerate(lines)))
    expected = TrainingRecord(
        last_loss=0.75,
        highest_loss=2.0,
        median_gradient=1.0,
        highest_gradient=5.0,
        halved_at=20,
        gradient_quantiles=(1.0, 1.0, 1.0, 5.0),
    )
    assert read_record(tmp_path) == expected
    (tmp_path / METRICS_FILE).write_text("")
    assert read_record(tmp_path) == NO_RECORD


def test_the_record_keeps_the_last_eigenvalues(tmp_path: Path) -> None:
    cell = toy_cells()[0]
    result = run_cell(replace(cell, run=replace(cell.run, telemetry_every=5)), tmp_path, "cpu")
    assert isinstance(result, CellResult)
    kept = result.record.eigenvalues
    assert kept is not None
    assert kept.step == 12
    (row,) = kept.rows  # one layer, of [0, 1]
    assert sum(row[:20]) == 0 < sum(row[20:])
    lines = [json.loads(line) for line in (tmp_path / METRICS_FILE).read_text().splitlines()]
    assert list(row) == lines[-1]["telemetry"]["histograms"]["blocks.0.mixer"]["eigenvalue"]["counts"]
    norms = [line["gradient_norm"] for line in lines[1:]]
    assert min(norms) <= result.record.gradient_quantiles[0] <= result.record.gradient_quantiles[-1] <= max(norms)
    stored = json.loads(json.dumps(result.to_json()))
    assert CellResult.from_json(stored) == result
    older = {name: value for name, value in stored["record"].items() if name not in ("gradient_quantiles", "eigenvalues")}
    without = replace(result.record, gradient_quantiles=(), eigenvalues=None)
    assert CellResult.from_json({**stored, "record": older}) == replace(result, record=without)


def test_the_description_names_all_that_matters() -> None:
    cell: Cell = toy_cells()[0]
    described = cell.to_json()
    assert described["run"]["training"]["learning_rate"] == cell.rate == 1e-2
    assert described["run"]["training"]["final_rate"] == pytest.approx(1e-4)  # of the rate: 1e-6
    assert described["run"]["stop_when_solved"] is False
