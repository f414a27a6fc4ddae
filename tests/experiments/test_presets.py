"""Every experiment at every budget: its cells, the paper's settings, and, in the slow target, a run at smoke."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from eigentrack.experiments.catalogue import NAMES, OPEN, named_experiment
from eigentrack.experiments.design.experiment import BUDGETS, Key
from eigentrack.experiments.design.theory import Theory
from eigentrack.experiments.paper import parity_and_arithmetic
from eigentrack.experiments.questions import ablation, hybrids, ladder, more_steps
from eigentrack.experiments.running.task_cell import FITTED, state_size
from eigentrack.experiments.running.training_record import EigenvalueCounts
from eigentrack.experiments.studies.stability import table
from eigentrack.experiments.studies.stability_plot import plot
from eigentrack.models import ModelConfig, SequenceModel
from tests.experiments.figures import drawn
from tests.experiments.toy import toy_result

RESULTS = Path(__file__).resolve().parents[2] / "results"


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("name", NAMES)
def test_every_preset_can_be_built(name: str, budget: str) -> None:
    experiment = named_experiment(name)
    settings = experiment.settings[budget]
    cells = experiment.cells(settings, settings.seeds[:2])
    assert len({cell.name for cell in cells}) == len(cells)
    assert {cell.seed for cell in cells} == set(settings.seeds[:2])
    keys = {(cell.panel, cell.series) for cell in cells}
    for column, values in experiment.paper.items():
        assert keys & set(values), column  # a value for a model that nobody trains would be lost
    if experiment.every_rate:
        assert experiment.table is not None
    shapes = defaultdict(set)
    for cell in cells:
        shapes[cell.panel, cell.series].add(json.dumps(cell.run.model))
    assert all(len(models) == 1 for models in shapes.values())


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("ablation", "stability", "mat", *OPEN)])
def test_all_of_the_papers_values_have_a_cell(name: str) -> None:
    experiment = named_experiment(name)
    panels = {cell.panel for cell in experiment.cells(experiment.settings["paper"], (0,))}
    keys = {(cell.panel, cell.series) for cell in experiment.cells(experiment.settings["paper"], (0,))}
    assert experiment.paper
    if (
        experiment.paper is not parity_and_arithmetic.PAPER_VALUES or name == "table3"
    ):  # figures 1, 2, 5 show a part of the table
        assert all(set(values) <= keys for values in experiment.paper.values())
    assert all(panel in panels for values in experiment.paper.values() for panel, series in values if (panel, series) in keys)


def test_figures_share_their_cells_with_the_table() -> None:
    def names(experiment: str) -> dict[str, dict]:
        found = named_experiment(experiment)
        return {cell.name: cell.to_json() for cell in found.cells(found.settings["short"], (0, 1))}

    table3 = names("table3")
    for figure, cells in (("figure1", 28), ("figure2", 24), ("figure5", 72)):
        part = names(figure)
        assert len(part) == cells
        assert part.items() <= table3.items()


def test_longer_takes_the_rates_that_the_pilot_of_the_table_chose() -> None:
    table = json.loads((RESULTS / "table3.json").read_text())
    chosen = {(row["panel"], row["series"]): row["rate"] for row in table["summary"]}
    longer, table3 = named_experiment("longer"), named_experiment("table3")
    short = {(cell.panel, cell.series): cell.run for cell in table3.cells(table3.settings["short"], (0,))}
    cells = longer.cells(longer.settings["short"], (0,))
    assert len(cells) == 10
    for cell in cells:
        assert cell.rate == chosen[cell.panel, cell.series]
        before = short[cell.panel, cell.series]
        assert (cell.run.model, cell.run.training.batch) == (before.model, before.training.batch)
        assert cell.steps == 10 * before.training.steps == 100_000


def missed_fields(name: str, theory: Theory) -> dict[Key, float]:
    """Of a published page: the rates of the fields that theory allows and no seed fits at the training lengths."""
    page = json.loads((RESULTS / f"{name}.json").read_text())
    rates = {(row["panel"], row["series"]): row["rate"] for row in page["summary"]}
    runs = defaultdict(list)
    for run in page["results"]:
        if run["rate"] == rates[run["panel"], run["series"]]:
            runs[run["panel"], run["series"]].append(run)
    return {
        key: rates[key]
        for key, of_key in runs.items()
        if theory.answer(*key) == "can" and max(run["validation_accuracy"] for run in of_key) < FITTED
    }


def test_patience_has_what_ladder_and_hybrids_did_not_learn_at_their_rates() -> None:
    missed = missed_fields("ladder", ladder.THEORY)
    for (panel, series), rate in missed_fields("hybrids", hybrids.THEORY).items():
        missed[panel, f"{series}, one layer"] = rate
    assert missed == more_steps.MISSED_RATES
    cells = more_steps.PATIENCE.cells(more_steps.PATIENCE.settings["short"], (0, 1, 2))
    assert len(cells) == 3 * len(missed)
    before = {(cell.panel, cell.series): cell for cell in ladder.EXPERIMENT.cells(ladder.SHORT, (0,))}
    short = hybrids.EXPERIMENT.cells(hybrids.EXPERIMENT.settings["short"], (0,))
    before |= {(cell.panel, f"{cell.series}, one layer"): cell for cell in short}
    for cell in cells:
        shorter = before[cell.panel, cell.series]
        assert cell.run.model == shorter.run.model
        times = 12 if cell.series.endswith("one layer") else 10
        assert (cell.steps, cell.run.training.warmup) == (times * shorter.steps, times * shorter.run.training.warmup)


def test_the_papers_settings_for_the_table() -> None:
    experiment = named_experiment("table3")
    assert experiment.settings["paper"].seeds == (0, 1, 2)
    cells = experiment.cells(experiment.settings["paper"], (0,))
    assert len(cells) == 7 * 3 * 4
    assert {cell.rate for cell in cells} == {1e-2, 1e-3, 5e-4, 1e-4}
    for cell in cells:
        training, model = cell.run.training, cell.run.model
        assert (training.steps, training.warmup, training.weight_decay) == (100_000, 10_000, 0.1)
        assert training.batch == (512 if cell.series == "sLSTM" else 1024)
        assert training.rate(100_000) == pytest.approx(1e-6)
        assert training.lengths == (3, 40)
        assert (cell.test.lengths, cell.test.sequences) == ((40, 256), 8192)
        assert (model["d_model"], model["layers"]) == (128, 2 if cell.panel == "parity" else 3)
        task = cell.run.build_task()
        weight = task.sample(4, (3, 40), seed=0, step=0).weight
        assert ((weight > 0).sum(1) == 1).all()  # the loss falls on one answer


def test_the_papers_settings_for_s5() -> None:
    experiment = named_experiment("figure3")
    cells = experiment.cells(experiment.settings["paper"], (0,))
    assert len(cells) == 4 * 7
    lengths = {cell.panel: cell.run.training.lengths for cell in cells}
    assert lengths == {
        "S5, swaps": (32, 32),
        "S5, up to 3 points": (32, 32),
        "S5, 4 tokens an element": (64, 64),
        "S5, all": (32, 32),
    }
    inputs = {cell.panel: cell.run.build_task().letters for cell in cells}
    assert inputs == {"S5, swaps": 11, "S5, up to 3 points": 31, "S5, 4 tokens an element": 120, "S5, all": 120}
    for cell in cells:
        training = cell.run.training
        assert training.steps * training.batch == 100 * 1_600_000
        assert (training.rate(0), training.rate(training.steps)) == (1e-4, 1e-4)
        assert (training.weight_decay, training.clip, cell.test.sequences) == (0.01, 1.0, 40_000)
        assert cell.test.lengths[1] == 500
        if "DeltaNet" in cell.series:
            assert cell.run.model["mixer_options"] == {"heads": 4, "conv": 0}
    full = next(cell.run for cell in cells if "full matrix" in cell.series)
    mixer = full.build_model_config().build_mixer(0)
    assert (mixer.memory_shape, mixer.eigenvalues) == ((1, 32, 32), None)


@pytest.mark.parametrize(("d_model", "heads"), [(16, 1), (64, 4), (128, 4)])
def test_the_ablation_compares_like_with_like(d_model: int, heads: int) -> None:
    settings = replace(ablation.PAPER, d_model=d_model, heads=heads)
    series = [replace(entry, model=settings.filled_in(entry.model)) for entry in ablation.EXPERIMENT.series]
    assert len(series) == 10
    models = [SequenceModel(ModelConfig.from_json({"vocab_size": 13, "d_model": d_model, **entry.model})) for entry in series]
    parameters = [sum(weight.numel() for weight in model.parameters()) for model in models]
    assert max(parameters) <= 1.05 * min(parameters)
    assert {state_size(model) for model in models} == {2 * heads * 16 * 16}
    for narrow, wide in pairwise(series):
        if narrow.label.split(" [")[0] == wide.label.split(" [")[0]:
            expected = {**narrow.model, "eigenvalues": wide.model["eigenvalues"]}
            if narrow.label.startswith("diagonal"):  # with the steep gates and the start that are its own there
                expected["mixer_options"] = {**narrow.model["mixer_options"], **ablation.STEEP}
                expected["initial"] = {"gates": [ablation.START, ablation.START]}
            assert expected == wide.model


def test_the_stability_table_names_what_diverged_and_what_exploded() -> None:
    calm = toy_result("d = 8", rate=1e-3)
    calm = replace(calm, record=replace(calm.record, last_loss=0.5, median_gradient=1.0, highest_gradient=99.0))
    burst = replace(calm, seed=1, record=replace(calm.record, highest_gradient=101.0))
    lost = replace(calm, rate=1e-1, diverged_at=7)
    text = table([calm, burst, lost, replace(lost, seed=1, diverged_at=None)])
    assert "| d = 8 | loss 0.500; **1 of 2 explode**, gradient at most 101 | **1 of 2 diverged**, first at step 7 |" in text
    assert "| d = 8 | loss 0.500; gradient at most 99 |" in table([calm])
    assert table([]).startswith("Loss: ")  # before the first cell is finished
    assert "| parity | – |" in table([calm])  # an older result: nothing was counted
    counted = [replace(run, record=replace(run.record, gradient_quantiles=(1.0, 2.0, 3.0, 4.0))) for run in (calm, calm)]
    assert "| d = 8 | loss 0.500; gradient 1 / 2 / 3 / 4, at most 99 |" in table(counted)


def test_stability_shows_the_eigenvalues_of_the_middle_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two layers, a quarter of their eigenvalues in the lowest of 40 bins, a quarter in the bin below 0, half in the last."""
    spread = EigenvalueCounts(step=12, rows=((2, *[0] * 39), (*[0] * 19, 2, *[0] * 19, 4)))
    elsewhere = EigenvalueCounts(step=12, rows=((*[0] * 30, 8, *[0] * 9),))
    results = [
        replace(result, record=replace(result.record, eigenvalues=spread if size == "d = 16" else elsewhere))
        for size in ("d = 8", "d = 16", "d = 32")
        for rate in (1e-3, 1e-1)
        for result in [toy_result(size, rate)]
    ]
    results[3] = replace(results[3], diverged_at=7)
    assert "Eigenvalues at the end, d = 16" in table(results)
    assert "| parity | 25.0% / 50.0% / 50.0% | 25.0% / 50.0% / 50.0% |" in table(results)

    results[0] = replace(results[0], record=replace(results[0].record, median_gradient=1.0, highest_gradient=101.0))
    results += [replace(results[1], seed=1, record=replace(results[1].record, last_loss=1.25))]
    figure = drawn(monkeypatch, lambda path: plot(results, path, task="sums"), tmp_path / "stability.png")
    losses, gradients, histograms = (subfigure.axes for subfigure in figure.subfigs)
    assert figure.subfigs[0].get_suptitle().startswith("sums, trained to length 9, no clipping, seeds 0, 1\n")
    assert losses[0].get_ylabel() == "model width"
    said = [text.get_text() for text in losses[0].texts]  # in each field the median, each seed, and what went wrong
    assert said[:6] == ["0.00", "", "1 !", "0.62", "0.00\n1.25", ""]
    assert [text for text in said[2::3] if text] == ["1 !", "1 ✕"]
    assert [len(line.get_xdata()) for line in gradients[0].lines] == [2, 3, 1, 1, 2, 2]  # of d = 16 one has diverged
    for axes in histograms:  # one for each rate
        heights = [bar.get_height() for bar in axes.patches]
        assert [(n, height) for n, height in enumerate(heights) if height] == [(0, 0.25), (19, 0.25), (39, 0.5)]
        assert axes.patches[19].get_x() + axes.patches[19].get_width() == pytest.approx(0)
    assert [axes.texts[0].get_text() for axes in histograms] == ["", "diverged at step 7"]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_preset_runs_at_smoke(name: str, tmp_path: Path) -> None:
    if name == "table4":
        pytest.importorskip("lm_eval")
    command = [sys.executable, "-W", "error", "-m", "eigentrack", "reproduce", name, "--out", str(tmp_path), "--json"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["finished"] == report["cells"] > 0
    assert report["failures"] == {}
    assert "prove the path only" in (tmp_path / f"{name}.md").read_text().splitlines()[0]
    assert (tmp_path / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
    assert not list(tmp_path.glob("cells/**/step-*.safetensors"))
    again = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    assert json.loads(again.stdout)["results"] == report["results"]  # nothing is run twice, not even timed
