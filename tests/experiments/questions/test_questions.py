"""The presets on open questions: what their tasks ask, what their tables and plots say, and what the short budget costs."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from itertools import product
from pathlib import Path

import pytest
import torch

from eigentrack.automata import LANGUAGES
from eigentrack.experiments.catalogue import OPEN, named_experiment
from eigentrack.experiments.design.experiment import Panel
from eigentrack.experiments.design.theory import Theory
from eigentrack.experiments.questions import curriculum, depth, family, hybrids, ladder, tradeoff
from eigentrack.experiments.questions.regular_languages import LETTERS, language_panel, rarely_reset
from eigentrack.experiments.reporting.horizon_map import plot_horizons
from eigentrack.experiments.running.length_test import NO_SCORES
from eigentrack.experiments.running.task_cell import REACH, CellResult, learned, with_more
from eigentrack.experiments.studies.depth import label
from eigentrack.experiments.studies.ladder import StudiedResult
from eigentrack.layers import MIXERS, LinearMixer
from eigentrack.layers.gla import GLA, TEMPERATURE
from eigentrack.models import SequenceModel
from eigentrack.tasks import TrackingTask
from eigentrack.tasks.curriculum import Curriculum
from eigentrack.tasks.registry import make_task
from eigentrack.training.step import TrainingStep
from tests.experiments.figures import drawn
from tests.experiments.toy import toy_result
from tests.training.test_captured_step import host_traffic


def result(panel: str, series: str, horizon: int, seed: int = 0, score: float = 0.5) -> CellResult:
    """Trained to length 9, tested to 100."""
    toy = toy_result(series, seed=seed, score=score)
    return replace(toy, panel=panel, scores=replace(toy.scores, horizon=horizon, longest=100))


@pytest.mark.parametrize("name", OPEN)
def test_the_short_budget_is_at_most_some_million_steps(name: str) -> None:
    experiment = named_experiment(name)
    settings = experiment.settings["short"]
    cells = experiment.cells(settings, settings.seeds)
    rates = {settings.seeds[0]: settings.rates} if settings.pilot else dict.fromkeys(settings.seeds, settings.rates)
    run = [cell for cell in cells if cell.rate in rates.get(cell.seed, settings.rates[:1])]
    assert 50_000 < sum(cell.steps for cell in run) <= 2_500_000


@pytest.mark.parametrize("name", OPEN)
def test_layers_are_those_that_theory_speaks_of(name: str) -> None:
    """No convolution, but for recall, where theory is not asked."""
    experiment = named_experiment(name)
    cells = experiment.cells(experiment.settings["short"], (0,))
    for cell in {cell.series: cell for cell in cells}.values():
        mixer = cell.run.build_model_config().build_mixer(0)
        assert (getattr(mixer, "convolution", None) is None) == (name != "tradeoff")


def test_rare_resets_compute_what_they_say() -> None:
    task = make_task("language-state", rarely_reset("", 5, lambda x: x + 1, lambda x: 2 * x).options)
    assert isinstance(task, TrackingTask)
    assert task.letters == len(LETTERS) + 1 == 16
    for word in product((0, 1, 2, 13, 15), repeat=4):
        number, state = 0, task.start
        for letter in word:
            number = 0 if letter == 15 else (number + 1) % 5 if letter % 2 == 0 else 2 * number % 5
            state = task.transitions[state][letter]
            # states are numbered as they are found, so compare what they answer to
            assert (task.outputs[state] == task.outputs[task.start]) == (number == 0)
    tokens = task.sample(200, (50, 50), seed=0, step=0).tokens
    assert (tokens == 15).float().mean().item() == pytest.approx(1 / 16, abs=0.01)


@pytest.mark.parametrize("panel", hybrids.PANELS, ids=lambda panel: panel.label)
def test_a_memory_of_the_training_length_is_not_enough(panel: Panel) -> None:
    """From the last 40 letters alone the answer follows too seldom to count as learned, however well the rest is guessed."""
    task, window = make_task(panel.task, panel.options), hybrids.EXPERIMENT.settings["short"].training.lengths[1]
    assert isinstance(task, TrackingTask)
    words = task.sample(500, (256, 256), seed=0, step=0).tokens[:, -window:].tolist()
    states = range(len(task.transitions))
    possible = [{reduce(lambda q, letter: task.transitions[q][letter], word, start) for start in states} for word in words]
    guessed = [1 / len({task.outputs[state] for state in ends}) for ends in possible]
    assert sum(guessed) / len(guessed) < 0.97  # learned: 0.99


def test_the_layers_of_the_family_are_of_one_size() -> None:
    sizes = {
        cell.series: sum(weight.numel() for weight in SequenceModel(cell.run.build_model_config()).parameters())
        for cell in family.EXPERIMENT.cells(family.EXPERIMENT.settings["short"], (0,))
        if cell.panel == "parity"
    }
    assert max(sizes.values()) < 1.5 * min(sizes.values()), sizes


def test_learned_is_right_far_beyond_training_for_one_seed() -> None:
    assert not learned([result("p", "s", REACH * 9 - 1), result("p", "s", 3, seed=1)])
    assert learned([result("p", "s", 3), result("p", "s", REACH * 9, seed=1)])
    assert not learned([])


def test_the_ladder_has_twenty_languages_and_seven_architectures() -> None:
    cells = ladder.EXPERIMENT.cells(ladder.EXPERIMENT.settings["short"], (0,))
    assert len({cell.panel for cell in cells}) >= 20
    assert len({cell.series for cell in cells}) == 7
    steps = {cell.panel: cell.steps for cell in cells}
    assert steps["S5, swaps"] == 2 * steps["parity"]


def test_the_ladder_names_every_disagreement() -> None:
    found = [
        result("parity", "Mamba [0, 1]", 90),  # cannot, yet right
        result("parity", "Mamba [-1, 1]", 7),  # can, yet not learned
        result("parity", "DeltaNet [-1, 1]", 100),  # can, and learned
        replace(result("parity", "DeltaProduct, n = 2, [-1, 1]", 50), validation_accuracy=1.0),  # can, and drifts
        result("parity", "DeltaNet [0, 1]", 2),  # cannot, and not learned
        result("no 000", "DeltaNet [-1, 1]", 100),  # unknown, and learned
        replace(result("odd runs (Tomita 3)", "Mamba [0, 1]", 8), validation_accuracy=1.0),  # cannot, and a shortcut
    ]
    text = ladder.COMPARISON.table([with_more(StudiedResult, each) for each in found])
    assert text.startswith("The networks have two layers and no convolution.")
    assert "| parity | 2 | 2 | 1 | ✗ **90** (90) | ✓ 7 (7) | ✓ **100** (100) | ✓ 50 (50) | ✗ 2 (2) |" in text
    assert "| no 000 | 4 | 1 | 3 | – | – | ? **100** (100) | – | – |" in text
    _, drifting, missed, beyond, shortcuts, unknown = text.split("\n#### ")
    assert drifting.startswith("Can, right at the training lengths, and not to 6 times them: 1\n")
    assert (
        "- parity; DeltaProduct, n = 2, [-1, 1]: seed 0, validation accuracy 1.000, loss 0 at the end; right to 50 of 100"
        in drifting
    )
    assert "5.6 times the training length, 50% of the answers right at 2. Theory: can, " in drifting
    assert (
        "- parity; Mamba [-1, 1]: seed 0, validation accuracy 0.500, loss 0 at the end (guessing: 0.500, 0.69); right to 7 of"
        in missed
    )
    assert "- parity; Mamba [0, 1]: seed 0, validation accuracy 0.500" in beyond
    assert "Theory: cannot, nonnegative" in beyond
    assert "- parity; GLA, disk" not in text  # no results
    assert shortcuts.startswith("Cannot, and right at the training lengths: shortcuts: 1\n")
    assert "- odd runs (Tomita 3); Mamba [0, 1]: seed 0, validation accuracy 1.000" in shortcuts
    assert "- no 000; DeltaNet [-1, 1]" in unknown
    assert text.count("- parity; ") == 3


def test_depth_has_every_named_language_with_a_bound() -> None:
    theory = Theory(tuple(language_panel(name, name) for name in LANGUAGES), depth.THEORY.series, depth.PAPER)
    series = [entry.label for entry in theory.series]
    bounded = {name for name in LANGUAGES if any(theory.answer(name, label) == "can" for label in series)}
    assert set(depth.LANGUAGES.values()) == bounded - {"unary60"}  # lengths up to 40 show nothing of it
    for name in depth.GROUPS:
        assert any(depth.THEORY.answer(name, label("DeltaNet [-1, 1]", layers)) == "can" for layers in depth.DEPTHS)


def test_the_depth_table_finds_the_smallest() -> None:
    reach = {1: (3, 4), 2: (5, 80), 3: (100, 100), 4: (6, 2)}
    found = [
        result("S3", label("DeltaNet [-1, 1]", layers), horizon, seed)
        for layers, horizons in reach.items()
        for seed, horizon in enumerate(horizons)
    ]
    text = depth.SMALLEST.table(found)
    assert "| S3 | 2 | 2 | 1 | 3, 4 | 5, 80 | 100, 100 | 6, 2 |" in text
    assert "| S3 | – | – | 4 | – | – | – | – |" in text  # GLA: S3 is no 2-group, so no depth will do


def test_the_horizon_map_draws_verdict_and_seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [result("Z3", "a", 3, seed) for seed in (0, 1)] + [result("Z3", "a", 90, 2), result("S3", "b", 0)]
    answers = {("Z3", "a"): "can", ("S3", "b"): "cannot"}

    def plot(path: str) -> None:
        plot_horizons(found, path, answer=lambda *key: answers[key])

    figure = drawn(monkeypatch, plot, tmp_path / "map.png")
    axes, bar = figure.axes
    texts = {(text.get_position(), text.get_text(), text.get_fontweight()) for text in axes.texts}
    assert texts == {((0, 0), "✓ 3\n(3–90)", "bold"), ((1, 1), "✗ 0", "normal")}  # 90 is more than 6 times 9
    assert [label.get_text() for label in axes.get_yticklabels()] == ["Z3", "S3"]
    assert (axes.get_xlabel(), axes.get_ylabel(), bar.get_ylabel()) == ("model", "task", "horizon (tokens, logarithmic)")
    assert [label.get_text() for label in bar.get_yticklabels()] == ["1", "9, trained to", "100"]  # 10 would touch 9
    assert "median over the seeds" in figure.get_suptitle()


def test_the_horizon_map_tells_what_diverged_and_what_was_trained_for_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = {"scores": NO_SCORES, "diverged_at": 2, "steps": 2}
    found = [result("Z3", "a", 60), replace(result("Z3", "b", 0), **failed)]
    found += [replace(result("S5", model, 8), steps=36) for model in "ab"]

    def plot(path: str) -> None:
        plot_horizons(found, path, answer=lambda *key: "unknown")

    figure = drawn(monkeypatch, plot, tmp_path / "map.png")
    axes = figure.axes[0]
    texts = {text.get_position(): text.get_text() for text in axes.texts}
    assert texts == {(0, 0): "? 60", (1, 0): "? diverged", (0, 1): "? 8", (1, 1): "? 8"}
    assert [label.get_text() for label in axes.get_yticklabels()] == ["Z3", "S5 (3 × the steps)"]
    assert axes.images[0].get_array().mask.tolist() == [[False, True], [False, False]]
    assert "the only seed, 0" in figure.get_suptitle()
    found += [replace(result("Z3", "a", 0, seed=1), **failed)]
    assert "? 30\n(0–60)\n1 diverged" in [
        text.get_text() for text in drawn(monkeypatch, plot, tmp_path / "map.png").axes[0].texts
    ]


def test_the_tradeoff_says_where_gates_start() -> None:
    settings = tradeoff.EXPERIMENT.settings["smoke"]
    cells = {cell.series: cell for cell in tradeoff.EXPERIMENT.cells(settings, (0,))}
    starts = {"GLA [0, 1]": 0.958, "GLA [-1, 1]": 0.958, tradeoff.FLAT: 0.915, f"{tradeoff.NEARER} [-1, 1]": 0.99}
    for series, first in starts.items():
        mixer = cells[series].run.build_model_config().build_mixer(0)
        assert isinstance(mixer, GLA)
        assert mixer.gate_proj is not None
        if mixer.gate_temperature == TEMPERATURE:
            torch.nn.init.zeros_(mixer.gate_proj[1].bias)  # what is left is the start without chance
        gates = mixer.gates(torch.zeros(1, 1, settings.d_model))["eigenvalue"]
        torch.testing.assert_close(gates, torch.full_like(gates, first), rtol=0, atol=1e-3)


def test_the_tradeoff_joins_the_two_ranges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scores = {
        (tradeoff.RECALL, "GLA [0, 1]"): (0.9, 0.8),
        (tradeoff.TRACKING, "GLA [0, 1]"): (0.1, 0.1),
        (tradeoff.RECALL, "GLA [-1, 1]"): (0.6, 0.6),
        (tradeoff.TRACKING, "GLA [-1, 1]"): (0.3, 0.5),
        (tradeoff.RECALL, "Mamba [0, 1]"): (0.4,),  # its other results are missing
    }
    found = [result(*key, 1, seed, score) for key, seeds in scores.items() for seed, score in enumerate(seeds)]
    found.append(replace(result(tradeoff.RECALL, "DeltaNet [0, 1]", 0), scores=NO_SCORES, diverged_at=2))
    figure = drawn(monkeypatch, lambda path: tradeoff.COMPARISON.plot(found, path), tmp_path / "scatter.png")
    (axes,), (legend,) = figure.axes, figure.legends
    (arrow,) = axes.texts
    assert (arrow.xyann, arrow.xy) == (pytest.approx((0.85, 0.1)), pytest.approx((0.6, 0.4)))  # from [0, 1] to [-1, 1]
    names = ["GLA [0, 1], state 4", "GLA [-1, 1], state 4", "DeltaNet [0, 1], state 4; 1 of 1 seeds diverged"]
    assert [text.get_text() for text in legend.get_texts()] == names
    seeds, median = axes.lines[:2]
    assert (list(seeds.get_xdata()), list(seeds.get_ydata())) == ([0.9, 0.8], [0.1, 0.1])
    assert seeds.get_markersize() < median.get_markersize()
    assert all(low < 0 < 1 < high for low, high in (axes.get_xlim(), axes.get_ylim()))
    assert "small: seeds 0, 1, large: median" in axes.get_title()


def test_recall_and_tracking_are_scored_at_the_same_length() -> None:
    cells = tradeoff.EXPERIMENT.cells(tradeoff.EXPERIMENT.settings["short"], (0,))
    for cell in cells:
        task, trained = cell.run.build_task(), cell.run.training.lengths
        assert cell.test.lengths == (64, 64)
        assert trained == ((64, 64) if cell.panel == tradeoff.RECALL else (32, 32))
        task.sample(1, trained, seed=0, step=0)


def test_a_gpu_can_replay_every_layer_of_the_family() -> None:
    settings = family.EXPERIMENT.settings["smoke"]
    cells = [cell for cell in family.EXPERIMENT.cells(settings, (0,)) if cell.panel == "Z3"]
    for cell in cells:
        model = SequenceModel(cell.run.build_model_config())
        assert host_traffic(TrainingStep(model, cell.run.build_task(), cell.run.training)) == [], cell.series


def test_every_linear_layer_is_in_the_family() -> None:
    linear = {name for name, mixer in MIXERS.items() if issubclass(mixer, LinearMixer)}
    cells = family.EXPERIMENT.cells(family.EXPERIMENT.settings["short"], (0,))
    later = {"pd_ssm", "sd_ssm"}  # they came after that page's runs
    assert linear - later <= {cell.run.build_model_config().mixers[0] for cell in cells}


def test_a_curriculum_changes_nothing_but_the_letters() -> None:
    experiment = named_experiment("curriculum")
    cells = {(cell.panel, cell.series): cell for cell in experiment.cells(experiment.settings["paper"], (0,))}
    assert len(cells) == 4 * 3
    for panel in ("S3", "S4", "A5", "S5"):
        alone = cells[panel, curriculum.AT_ONCE].run
        for series, order in (("by rank", "rank"), ("by words", "words")):
            run = cells[panel, series].run
            assert run.training.curriculum == Curriculum(order)
            assert replace(run, training=replace(run.training, curriculum=None)) == alone
            assert len(Curriculum(order).stages(run.build_task())) > 2


def test_the_answer_counts_the_groups_that_are_fitted() -> None:
    def run(panel: str, series: str, fitted: float) -> CellResult:
        return replace(result(panel, series, 30), validation_accuracy=fitted)

    results = [run("S3", curriculum.AT_ONCE, 0.995), run("S3", "by rank", 1.0), run("S5", curriculum.AT_ONCE, 0.1)]
    results += [run("S5", "by rank", 0.999), run("S5", "by rank", 0.2), run("S5", "by rank", 0.992)]
    assert curriculum.COMPARISON.answer(results) == (
        "Of 2 groups the median seed fits 1 (S3) at the training length where all letters come at once, by rank 2 (S3 and S5) "
        "where they come in stages. To fit means that 99 % of the answers are right."
    )
    assert curriculum.COMPARISON(results)[1].startswith(
        "S5, in the median over the seeds:\n    - all letters at once: 0.100 of the answers at the training length are right"
    )
