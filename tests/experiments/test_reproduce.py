"""From cells to the page: the pilot, the paper's values beside ours, and what fails is named."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from eigentrack.experiments.catalogue import named_experiment
from eigentrack.experiments.reporting.columns import DEAD_BY
from eigentrack.experiments.reporting.page import answer_of, markdown, numbers_text, write_report
from eigentrack.experiments.reporting.report import Report
from eigentrack.experiments.reproduce import reproduce, run_cells
from eigentrack.experiments.running.cell import Cell, store_result
from eigentrack.experiments.running.ledger import Ledger, SweepOutcome, Unlock, launching
from eigentrack.experiments.running.task_cell import CellResult
from tests.experiments.toy import EXPERIMENT, SETTINGS, toy_cells, toy_result

FACTS = {"command": "toy", "commit": "abc", "date": "today", "hardware": "abacus", "versions": "none"}


def answers(cell: Cell) -> CellResult:
    """Validation prefers rate 1e-3 where the test prefers 1e-2: only one of them may count."""
    validation, score = (0.9, 0.1) if cell.rate == 1e-3 else (0.6, 0.8)
    return toy_result(cell.series, cell.rate, cell.seed, validation, score + 0.05 * cell.seed)


class Sweeper:
    """Answers at once, and remembers what it ran; the last `unfinished` of the cells it is given are left over."""

    def __init__(self, fails: str = "", unfinished: int = 0) -> None:
        self.ran: list[Cell] = []
        self.fails, self.unfinished = fails, unfinished

    def __call__(self, cells: Sequence[Cell], folder: Path, unlock: Unlock = lambda *_: ()) -> SweepOutcome:
        ledger, left = Ledger(cells, folder, say=lambda text: None, unlock=unlock), cells[len(cells) - self.unfinished :]
        while (cell := ledger.take()) is not None:
            if cell in left:
                continue
            self.ran.append(cell)
            if self.fails and self.fails in cell.name:
                ledger.died(cell, "gone", by_accident=False)
            else:
                ledger.finished(cell, answers(cell))
        return ledger.outcome()


def test_without_a_pilot_every_rate_runs_on_every_seed(tmp_path: Path) -> None:
    sweep = Sweeper()
    report, _ = reproduce(EXPERIMENT, "paper", tmp_path, sweep)
    assert len(sweep.ran) == 8
    assert set(report.chosen.values()) == {1e-3}  # by validation, though the test prefers the other


def test_a_pilot_leaves_one_rate_to_the_other_seeds(tmp_path: Path) -> None:
    sweep = Sweeper()
    report, _ = reproduce(EXPERIMENT, "short", tmp_path, sweep, seeds=(5, 6, 7))
    # of each of the two models
    assert [(cell.seed, cell.rate) for cell in sweep.ran] == [(5, 1e-2), (5, 1e-3), (6, 1e-3), (7, 1e-3)] * 2
    assert report.cells == len(report.outcome.results) == 8
    assert report.summary[0]["by_seed"] == pytest.approx({5: 0.35, 6: 0.4, 7: 0.45})
    assert report.summary[0]["best"] == pytest.approx(0.45)
    assert report.summary[0]["deviation"] == pytest.approx(0.05)


def test_the_rows_of_a_study_are_no_cells(tmp_path: Path) -> None:
    """A study that tells each network twice."""
    twice = replace(EXPERIMENT, study=lambda results, *_: [result for result in results for _ in range(2)])
    report, (page, numbers, _) = reproduce(twice, "paper", tmp_path, Sweeper())
    stored = json.loads(numbers.read_text())
    assert (stored["cells"], stored["finished"], len(stored["results"])) == (8, 8, 16)
    assert "8 of 8 finished" in page.read_text()
    assert len(report.outcome.results) == 16


def test_a_pilot_that_is_interrupted_holds_back_its_own_series_alone(tmp_path: Path) -> None:
    sweep = Sweeper(unfinished=1)
    report, (page, *_) = reproduce(EXPERIMENT, "short", tmp_path, sweep, seeds=(0, 1))
    assert [cell.series for cell in sweep.ran if cell.seed == 1] == ["DeltaNet [0, 1]"]
    assert "| cells | 4 of 6 finished; the others can still change rates and medians |" in page.read_text()
    assert report.outcome.unfinished == 2  # the last of the pilot's, and seed 1 of the same model


def test_a_rate_that_fails_is_out_of_the_choice(tmp_path: Path) -> None:
    sweep = Sweeper(fails="DeltaNet_0_1/rate-0.001-seed-0")
    report, _ = reproduce(EXPERIMENT, "short", tmp_path, sweep, seeds=(0, 1))
    assert [(cell.series, cell.rate) for cell in sweep.ran if cell.seed == 1] == [
        ("DeltaNet [0, 1]", 1e-2),
        ("DeltaNet [-1, 1]", 1e-3),
    ]
    assert (report.finished, report.cells, report.outcome.unfinished) == (5, 6, 0)


def test_an_interrupted_pilot_keeps_what_was_finished_before(tmp_path: Path) -> None:
    """Say, seed 1 of both models; then a rate was added, and the pilot of one model cut short."""
    for cell in toy_cells(seeds=(1,)):
        store_result(cell, answers(cell), tmp_path / "cells" / cell.name)
    report, _ = reproduce(EXPERIMENT, "short", tmp_path, Sweeper(unfinished=1), seeds=(0, 1))
    assert [(result.seed, result.rate) for result in report.shown if result.seed == 1] == [(1, 1e-3), (1, 1e-2)]
    assert (report.finished, report.outcome.unfinished) == (5, 1)


def test_a_cell_that_failed_is_not_tried_again_in_the_same_call(tmp_path: Path) -> None:
    """Neither after the pilot, nor for the report of one experiment of several."""
    tried: list[str] = []

    def launch(ledger: Ledger) -> None:
        while (cell := ledger.take()) is not None:
            tried.append(cell.name)
            if cell.name.endswith("DeltaNet_0_1/rate-0.01-seed-0"):
                ledger.died(cell, "gone")
            else:
                store_result(cell, answers(cell), ledger.folder / cell.name)
                ledger.finished(cell, answers(cell))

    sweep = launching(launch, say=lambda text: None)
    assert run_cells([EXPERIMENT, replace(EXPERIMENT, name="other")], "short", tmp_path, sweep) == 0
    report, (page, *_) = reproduce(EXPERIMENT, "short", tmp_path, sweep)
    (failed,) = report.outcome.failures
    assert tried.count(failed) == 2  # a cell that dies gets one more try
    assert len(tried) == 1 + len(set(tried)) == 7
    assert (report.finished, report.cells, report.outcome.unfinished) == (5, 6, 0)
    assert f"- `{failed}`: gone" in page.read_text()


def test_the_page_sets_our_values_beside_the_papers(tmp_path: Path) -> None:
    _, (page, numbers, picture) = reproduce(EXPERIMENT, "smoke", tmp_path, Sweeper())
    text = page.read_text()
    assert "prove the path only" in text.splitlines()[0]
    assert "| DeltaNet [-1, 1] | 10 | 4 | 0.001 | 0.100 | 0.150 | 0.150 | 0.125 | 0.025 | 0 | 1.000 [.999] |" in text
    assert "| DeltaNet [0, 1] | 10 | 4 | 0.001 |" in text
    assert ".017 [.010] |" in text
    assert "| parity | DeltaNet [0, 1] | **0.900** | 0.600 |" in text
    assert "8 of 8 finished" in text
    for fact in ("command", "commit", "hardware", "budget", "seeds", "wall time"):
        assert f"| {fact} |" in text
    assert "| commit | not recorded |" in text
    stored = json.loads(numbers.read_text())
    assert set(stored["provenance"]) == {"command", "commit", "date", "hardware", "versions"}
    assert len(stored["results"]) == 8
    assert stored["summary"][1]["paper"] == {"paper": "1.000 [.999]"}
    assert picture.read_bytes()[:4] == b"\x89PNG"


def test_other_budgets_start_with_the_answer_in_place_of_the_warning(tmp_path: Path) -> None:
    _, (page, *_) = reproduce(EXPERIMENT, "paper", tmp_path, Sweeper())
    opening = "# toy: A toy\n\n**Does the toy work?**\n\nIt has 4 results.\n\n![A toy](toy.png)\n\n*Curves.*\n\n"
    assert page.read_text().startswith(opening)
    _, (page, *_) = reproduce(EXPERIMENT, "smoke", tmp_path, Sweeper())
    assert "**Does the toy work?**\n\n![A toy]" in page.read_text()
    assert "It has" not in page.read_text()


def test_an_answer_says_that_cells_are_missing(tmp_path: Path) -> None:
    report, (page, *_) = reproduce(EXPERIMENT, "paper", tmp_path, Sweeper(unfinished=1))
    assert "It has 3 results. Only 7 of 8 cells are finished: the others can still change this.\n" in page.read_text()
    assert answer_of(report_of()) == ""  # and without any there is none
    assert report.finished == 7


def report_of(*results: CellResult) -> Report:
    cells = tuple(toy_cells(replace(SETTINGS, rates=(1e-2,))))
    return Report(EXPERIMENT, "paper", SETTINGS, (0, 1), cells, results, SweepOutcome(results, {}, 0), 1.0, FACTS)


@pytest.mark.parametrize("results", [(), (toy_result(),), (toy_result(), toy_result(seed=1))])
def test_the_numbers_have_one_result_a_line(results: tuple[CellResult, ...]) -> None:
    values = json.loads(json.dumps(report_of(*results).to_json()))
    text = numbers_text(values)
    assert json.loads(text) == values
    assert sum(line.startswith('    {"panel":') for line in text.splitlines()) == len(results)


def test_the_page_tells_where_the_cells_were_trained_and_where_it_was_written() -> None:
    trained = replace(toy_result(), commit="def", versions="torch 3"), replace(toy_result(seed=1), hardware="slide rule")
    text = markdown(report_of(*trained))
    assert "| commit | def<br>not recorded |" in text
    assert "| hardware | abacus<br>slide rule |" in text
    assert "| versions | not recorded<br>torch 3 |" in text
    assert "| gathered | today, at commit abc, with none |" in text
    assert "| commit | none yet |" in markdown(report_of())


def test_a_diverged_seed_is_named_and_a_missing_one_is_a_dash(tmp_path: Path) -> None:
    text = markdown(report_of(replace(toy_result(score=0.0), diverged_at=7)))
    assert "| diverged at step 7 | – | 0.000 | 0.000 | 0.000 |" in text


def test_a_horizon_at_the_end_of_the_test_is_a_lower_bound() -> None:
    result = toy_result()
    text = markdown(report_of(replace(result, scores=replace(result.scores, horizon=24))))
    assert "| ≥ 24 |" in text


def test_dead_by_is_a_median_that_may_never_come() -> None:
    runs = [
        replace(run, scores=replace(run.scores, dead_by=at)) for run, at in zip([toy_result()] * 3, (40, None, 60), strict=True)
    ]
    assert DEAD_BY.show(runs) == "60"
    assert DEAD_BY.show([runs[1]] * 2 + runs[:1]) == "never"


def test_a_report_without_any_result_can_be_written(tmp_path: Path) -> None:
    assert [path.suffix for path in write_report(report_of(), tmp_path)] == [".md", ".json"]


def test_experiments_together_take_one_sweep_and_share_their_cells(tmp_path: Path) -> None:
    ran: list[str] = []

    def launch(ledger: Ledger) -> None:
        while (cell := ledger.take()) is not None:
            ran.append(cell.name)
            store_result(cell, answers(cell), ledger.folder / cell.name)
            ledger.finished(cell, answers(cell))

    sweep = launching(launch)
    other = replace(EXPERIMENT, name="other", series=EXPERIMENT.series[:1])
    assert run_cells([EXPERIMENT, other], "short", tmp_path, sweep, seeds=(0, 1, 2)) == 0
    assert len(set(ran)) == len(ran) == 8  # two models at two rates, then two seeds each; the other experiment has some of them
    assert sorted(name.rsplit("/")[-1] for name in ran if "seed-0" not in name) == [
        *["rate-0.001-seed-1"] * 2,
        *["rate-0.001-seed-2"] * 2,
    ]
    for experiment in (EXPERIMENT, other):
        report, _ = reproduce(experiment, "short", tmp_path, sweep, (0, 1, 2))
        assert report.finished == report.cells > 0
    assert len(ran) == 8


def test_experiments_together_end_with_an_interruption(tmp_path: Path) -> None:
    assert run_cells([EXPERIMENT, EXPERIMENT], "short", tmp_path, Sweeper(unfinished=1)) == 1


def test_unknown_names_list_what_there_is(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="experiment 'figure9' is not known; there are figure1, figure2"):
        named_experiment("figure9")
    with pytest.raises(ValueError, match="budget 'huge' is not known; there are smoke, short, paper"):
        reproduce(EXPERIMENT, "huge", tmp_path, Sweeper())
