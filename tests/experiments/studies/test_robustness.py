"""The robustness study: what it measures of trained, snapped and compiled networks, and how it is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from eigentrack.automata import language
from eigentrack.compiler import choose_plan, compile_network
from eigentrack.experiments.questions import robustness
from eigentrack.experiments.running.cell import Cell, run_cell
from eigentrack.experiments.studies.robustness import NetworkFacts, compiled_facts, study
from eigentrack.experiments.studies.robustness_table import RING, plot, table
from eigentrack.expressivity import Architecture
from tests.experiments.figures import drawn
from tests.experiments.toy import toy_result

SETTINGS = replace(robustness.SMOKE, test=replace(robustness.SMOKE.test, far=64))
SERIES = ("sLSTM", "Mamba [0, 1]", "DeltaNet [-1, 1]")


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> list[NetworkFacts]:
    """Of parity and counting modulo 3."""
    folder: Path = tmp_path_factory.mktemp("cells")
    panels = ("parity", "modulo 3")
    cells = [cell for cell in robustness.EXPERIMENT.cells(SETTINGS, (0,)) if cell.panel in panels and cell.series in SERIES]
    results = [run_cell(cell, folder / cell.name, "cpu", say=lambda text: None) for cell in cells]
    said: list[str] = []
    found = study(results, cells, folder, SETTINGS, said.append)
    assert [line.split(":")[0] for line in said] == list(panels)
    return found


def test_every_network_is_there(facts: list[NetworkFacts]) -> None:
    for panel, linear in (("parity", "deltanet"), ("modulo 3", "dense")):
        own = [fact.series for fact in facts if fact.panel == panel and fact.kind != "snapped"]
        assert own == [*SERIES, f"compiled {linear}", "compiled sLSTM"]


def test_a_network_that_was_not_kept_is_named_and_passed_over(tmp_path: Path) -> None:
    cells = [cell for cell in robustness.EXPERIMENT.cells(SETTINGS, (0,)) if cell.panel == "parity" and cell.series == "sLSTM"]
    results = [toy_result(cell.series, cell.rate, cell.seed) for cell in cells]
    said: list[str] = []
    (tmp_path / cells[0].name).mkdir(parents=True)
    found = study(results, cells, tmp_path, SETTINGS, said.append)
    assert [fact.kind for fact in found] == ["compiled", "compiled"]
    assert said[1] == f"{cells[0].name}: its network was not kept, so nothing is said about it"


def test_compiled_networks_are_proved_and_slstm_bears_what_it_proves(facts: list[NetworkFacts]) -> None:
    compiled = [fact for fact in facts if fact.kind == "compiled"]
    for fact in compiled:
        assert fact.random_horizon is fact.worst_horizon is fact.validation_accuracy is None
        assert fact.can == "can"
        assert fact.noise > 0
        if fact.series == "compiled sLSTM":
            assert fact.certified is not None
            assert 0.1 < fact.certified <= fact.noise  # a ball of that radius lies in the cube
            assert fact.robustly == "can"
        else:
            assert fact.certified == 0
            assert fact.robustly == "cannot"


def test_untrained_networks_are_measured_as_they_are(facts: list[NetworkFacts]) -> None:
    for fact in (fact for fact in facts if fact.kind == "trained"):
        assert fact.worst_horizon is not None
        assert fact.random_horizon is not None
        assert 0 <= fact.worst_horizon <= fact.random_horizon <= fact.tested == 64
        assert (fact.worst_pattern == "") == (fact.worst_horizon == 64)
        assert fact.noisy_letters == 8
        assert (fact.certified == 0) == (fact.series != "sLSTM")


def test_a_linear_network_is_snapped_or_the_table_says_why_not(facts: list[NetworkFacts]) -> None:
    names, text = {fact.key for fact in facts}, table(facts)
    for fact in (fact for fact in facts if fact.kind == "trained" and fact.series != "sLSTM"):
        assert ((fact.panel, f"{fact.series}, snapped") in names) == (fact.obstacle == "")
        assert fact.obstacle == "" or f"- {fact.series}, seed 0, could not be snapped: {fact.obstacle}\n" in text
    assert any(fact.obstacle for fact in facts)
    assert not any(fact.obstacle for fact in facts if fact.series == "sLSTM")


def test_theory_is_asked_about_the_layer(facts: list[NetworkFacts]) -> None:
    said = {fact.key: (fact.can, fact.robustly) for fact in facts if fact.kind == "trained"}
    assert said["parity", "Mamba [0, 1]"] == ("cannot", "cannot")
    assert said["parity", "DeltaNet [-1, 1]"] == ("can", "cannot")
    assert said["modulo 3", "DeltaNet [-1, 1]"] == ("cannot", "cannot")
    assert said["modulo 3", "sLSTM"] == ("can", "can")


def test_the_table_has_a_row_for_every_network_and_tells_proofs(facts: list[NetworkFacts]) -> None:
    text = table(facts)
    assert text.count("\n| compiled sLSTM | – | all | all | ") == 2
    assert "within 8 letters" in text
    assert "| 0.25 | can; robustly: can |" in text
    lucky = replace(facts[0], worst_horizon=64, random_horizon=64, worst_pattern="")
    assert "| ≥ 64 | ≥ 64 |" in table([lucky])
    median = table([replace(facts[0], random_horizon=length, seed=length) for length in (10, 30, 20)])
    assert "| 20 |" in median


def test_the_plot_names_every_network_and_the_trained_length(
    facts: list[NetworkFacts], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figure = drawn(monkeypatch, lambda path: plot(facts, path), tmp_path / "plot.png")
    (legend,) = figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert set(names) == {fact.series for fact in facts} | {
        "longest in training: 8",
        "right of it: every length, by proof",
        RING,
    }
    assert legend.get_title().get_text() == "one seed: 0"
    for axes in figure.axes:
        points = [line for line in axes.lines if line.get_label() in {fact.series for fact in facts}]
        assert len(points) == sum(fact.panel == axes.get_title() for fact in facts)
        (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
        assert all(left < line.get_xdata()[0] < right and low < line.get_ydata()[0] < high for line in points)
        proved = [line.get_xdata()[0] > 64 for line in points if line.get_label().startswith("compiled")]
        assert proved == [True, True]
        assert any(label.get_text() == "all" for label in axes.get_xticklabels())


def test_only_a_proof_for_every_length_is_told_as_one() -> None:
    like, architecture = toy_result(), Architecture("dense", layers=1)
    proved = compile_network(choose_plan(language("parity")))
    short = replace(proved, certificate=replace(proved.certificate, length_bound=5))
    failed = replace(proved, certificate=replace(proved.certificate, holds=False))
    horizons = [
        compiled_facts(like, "compiled", "compiled", network, architecture, SETTINGS) for network in (proved, short, failed)
    ]
    assert [(facts.random_horizon, facts.worst_horizon, facts.tested) for facts in horizons] == [
        (None, None, 0),
        (64, 64, 64),  # as measured
        (64, 64, 64),
    ]
    assert ["| all | all |" in table([facts]) for facts in horizons] == [True, False, False]


def test_cells_are_one_layer_without_a_convolution() -> None:
    cells: list[Cell] = robustness.EXPERIMENT.cells(robustness.PAPER, (0,))
    assert len(cells) == 7 * 7
    for cell in cells:
        config = cell.run.build_model_config()
        assert config.layers == 1
        assert config.options[0].get("conv", 0) == 0


def test_the_answer_counts_networks(facts: list[NetworkFacts]) -> None:
    trained = [replace(fact, worst_horizon=64, certified=0.0) for fact in facts if fact.kind == "trained"]
    assert robustness.EXPERIMENT.answer(trained) == (
        "Of the trained networks 2 of 2 non-linear ones (sLSTM and LSTM) and 4 of 4 linear ones are right on the worst words "
        "up to length 64. For no network is an error in every step proved to be borne at every length."
    )
    worse = [replace(trained[0], worst_horizon=63, random_horizon=64), replace(trained[1], certified=0.1), *trained[2:]]
    assert "Of the trained networks 1 of 2 non-linear ones" in robustness.EXPERIMENT.answer(worse)
    assert robustness.EXPERIMENT.answer(worse).endswith("for 1 of all 6 networks, namely those of the kind “Mamba [0, 1]”.")
    first, hidden, *_ = robustness.EXPERIMENT.found(worse)
    assert first.startswith(
        "5 of 6 networks that were trained are right on the worst words as far as they were tested; for none of"
    )
    assert hidden.startswith("1 network is right on random words as far as they were tested, and fails on the worst ones")
