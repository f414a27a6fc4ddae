"""Figures 4, 7, 8 and Table 4: twins that differ in their range alone, shared training runs, and pages with both ranges."""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from eigentrack.experiments.catalogue import LANGUAGE, named_experiment
from eigentrack.experiments.design.experiment import BUDGETS
from eigentrack.experiments.language import evaluation, settings
from eigentrack.experiments.language.cell import RUNS_FOLDER, LanguageResult, LearningPoint, PerplexityPoint, read_learning
from eigentrack.experiments.language.evaluation import LanguageTest, TextSource
from eigentrack.experiments.language.report import PerplexityTable
from eigentrack.experiments.language.settings import CORPUS, PAPER, SMOKE, prepare_text
from eigentrack.experiments.paper import table4
from eigentrack.experiments.reproduce import reproduce
from eigentrack.experiments.running.cell import Cell, run_cell, stored_result
from eigentrack.experiments.running.ledger import Ledger, launching
from eigentrack.lm.corpus import Corpus, CorpusIndex
from eigentrack.lm.prepare import prepare

ROOT = Path(__file__).resolve().parents[3]


def cells_of(name: str, budget: str) -> list[Cell]:
    experiment = named_experiment(name)
    return experiment.cells(experiment.settings[budget], (0, 1))


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("name", LANGUAGE)
def test_twins_differ_in_their_range_alone(name: str, budget: str) -> None:
    cells = cells_of(name, budget)
    by_label = {(cell.series, cell.seed): cell for cell in cells}
    assert len(by_label) == len(cells)
    for (series, seed), wide in by_label.items():
        if "[-1, 1]" in series:
            narrow = by_label[series.replace("[-1, 1]", "[0, 1]"), seed]
            assert wide.run.model["eigenvalues"] == [-1, 1]
            assert {**wide.run.model, "eigenvalues": [0, 1]} == narrow.run.model
            assert wide.run.training == narrow.run.training
            assert wide.test == narrow.test


def test_the_papers_training() -> None:
    cells = {cell.series: cell.run for cell in cells_of("table4", "paper") if cell.seed == 0}
    assert len(cells) == 6
    deltanet, mamba = cells["DeltaNet [-1, 1]"], cells["Mamba [0, 1]"]
    assert (deltanet.training.learning_rate, mamba.training.learning_rate) == (3.1e-3, 5e-4)
    for run in (deltanet, mamba):
        training = run.training
        assert (training.steps, training.batch, training.length, training.warmup) == (200_000, 80, 2048, 5000)
        assert training.weight_decay == 0.1
    assert deltanet.model["layers"] * deltanet.model["d_model"] == 24 * 1024
    (test,) = {cell.test for cell in cells_of("figure4", "paper")}
    assert [text.label for text in test.texts] == ["CodeParrot", "Math-Hard", "TriviaQA", "SlimPajama"]
    assert test.length == 8 * 2048


def test_the_papers_models_fit_on_one_gpu() -> None:
    """By what steps of 8 sequences were measured to take; the largest recomputes its activations."""
    measured = json.loads((ROOT / "results" / "lm_step.json").read_text())["settings"]
    names = {"DeltaNet": "340m-b8", "Mamba": "370m-b8", "DeltaNet 1.3B": "1.3b-b8"}
    for cell in cells_of("table4", "paper"):
        training, model = cell.run.training, cell.series.partition(" [")[0]
        assert training.batch // training.accumulation == 8
        training.check_ranks(1)
        assert measured[names[model]]["rows"]["ours, compiled, CUDA graph"]["peak_gib"] < 80
        assert training.activation_checkpointing == (model == "DeltaNet 1.3B")
    tokens = cells_of("figure4", "paper")[0].run.training
    rows = PAPER.train.first
    assert rows is not None
    assert 1.2 < rows * 650 / (tokens.steps * tokens.tokens_per_step) < 1.5  # enough, and not all of FineWeb's sample


def test_figures_share_their_cells() -> None:
    for budget in BUDGETS:
        figure7 = {cell.name: cell for cell in cells_of("figure7", budget)}
        for name in ("figure4", "figure8"):
            assert {cell.name: cell for cell in cells_of(name, budget)}.items() <= figure7.items()


def only(name: str, *series: str) -> Cell:
    (cell,) = (cell for cell in cells_of(name, "smoke") if cell.series in series and cell.seed == 0)
    return cell


def test_a_cell_runs_and_its_training_is_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare_text(SMOKE, tmp_path, lambda text: None)
    assert Corpus.open(tmp_path / CORPUS).tokens > 10_000
    cell, steps = only("figure4", "DeltaNet [-1, 1]"), []
    folder = tmp_path / "cells" / cell.name
    result = run_cell(cell, folder, "cpu", steps.append)
    assert steps[-1] == 12
    assert isinstance(result, LanguageResult)
    assert {text: [point.position for point in curve] for text, curve in result.perplexities.items()} == {
        "code": list(range(64, 513, 64)),
        "prose": list(range(64, 513, 64)),
    }
    assert all(1 < point.perplexity < 1000 for curve in result.perplexities.values() for point in curve)
    assert [point.tokens for point in result.learning] == [128 * step for step in range(1, 13)]
    assert sum(point.validation_loss is not None for point in result.learning) in (0, 2)  # none: no file went to validation
    assert stored_result(cell, folder) == result
    assert not list(tmp_path.rglob("checkpoints"))
    seen = []
    monkeypatch.setattr(table4.LanguageTest, "scores", lambda self, model, *_: seen.append(model.folder) or {"t": {"acc": 0.5}})
    again = only("table4", "DeltaNet [-1, 1]")
    steps.clear()
    scored = run_cell(again, tmp_path / "cells" / again.name, "cpu", steps.append)
    assert steps == []  # trained once
    assert scored.scores == {"t": {"acc": 0.5}}
    assert scored.learning == result.learning
    assert seen[0].is_relative_to(tmp_path / RUNS_FOLDER)
    other = replace(again, run=replace(again.run, training=replace(again.run.training, steps=13)), family="other")
    with pytest.raises(ValueError, match="holds a run with another configuration or corpus: name another --out folder"):
        run_cell(other, tmp_path / "cells" / other.name, "cpu")
    third, stored = replace(again, family="third"), seen[0].parent / "run.json"
    stored.write_text(json.dumps({**json.loads(stored.read_text()), "corpus_fingerprint": "of another text"}))
    with pytest.raises(ValueError, match="holds a run with another configuration or corpus: name another --out folder"):
        run_cell(third, tmp_path / "cells" / third.name, "cpu")


def result_of(series: str, **changes: object) -> LanguageResult:
    learning = (LearningPoint(10, 3.0, 1.5, None), LearningPoint(20, 2.0, 0.5, 2.5))
    curve = tuple(PerplexityPoint(position, value) for position, value in ((32, 4.0), (64, 9.0), (128, 7.0)))
    values = {"rate": 1e-3, "seed": 0, "trained_to": 64, "steps": 2, "diverged_at": None, "learning": learning}
    values |= {"perplexities": {"code": curve}, "scores": {}, "parameters": 10, "seconds": 1.0, "hardware": "abacus"}
    return LanguageResult(panel="language models", series=series, **{**values, **changes})


def test_results_are_stored_and_read() -> None:
    result = result_of("Mamba [0, 1]")
    assert LanguageResult.from_json(json.loads(json.dumps(result.to_json()))) == result
    assert result.last_loss == 2.5
    assert math.isnan(result_of("Mamba [0, 1]", learning=(), diverged_at=0).last_loss)


def test_tables_hold_medians_and_the_papers_words() -> None:
    runs = [result_of("A [0, 1]"), result_of("A [-1, 1]", perplexities={}, diverged_at=7)]
    text = PerplexityTable({"A [0, 1]": "the baseline"})(runs)
    assert "| A [0, 1] | 10 | 1 | 6 | 7 | the baseline |" in text  # the geometric mean of 4 and 9, and the last
    assert "| A [-1, 1] | 10 | 1 | – | – | – |" in text
    assert "- A [-1, 1], seed 0: diverged at step 7" in text


def test_table_4_averages_all_six_accuracies_or_none() -> None:
    scores = {task: {metric: 0.1 * number} for number, (task, metric) in enumerate(table4.ACCURACY.values(), 1)}
    whole = result_of("DeltaNet [0, 1]", scores={**scores, "wikitext": {"word_perplexity": 30.0}})
    table = named_experiment("table4").table
    assert table is not None
    assert "| 30 | 0.1 | 0.2 | 0.3 | 0.4 | 0.5 | 0.6 | 0.35 | ICLR: WikiText 24.68" in table([whole])
    assert "average |" not in table([result_of("DeltaNet [0, 1]", scores={"piqa": {"acc": 0.5}})])


@pytest.mark.parametrize("name", LANGUAGE)
def test_every_picture_can_be_drawn(name: str, tmp_path: Path) -> None:
    scores = {"piqa": {"acc": 0.5}}
    results = [result_of(f"DeltaNet [{low}, 1]", seed=seed, scores=scores) for low in (0, -1) for seed in (0, 1)]
    named_experiment(name).plot(results, str(tmp_path / "picture.png"))
    assert (tmp_path / "picture.png").read_bytes()[:4] == b"\x89PNG"


def test_learning_is_summed_up_in_stretches(tmp_path: Path) -> None:
    lines = [
        {"step": n, "tokens": 8 * n, "loss": float(n), "gradient_norm": float(-n % 7), "tokens_per_second": 8.0}
        for n in range(1, 601)
    ]
    lines[298]["validation_loss"] = 1.25
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    points = read_learning(tmp_path)
    assert len(points) == 200
    assert points[0] == LearningPoint(24, 2.0, 6.0, None)
    assert [number for number, point in enumerate(points) if point.validation_loss == 1.25] == [99]


def test_data_takes_the_place_of_the_texts(tmp_path: Path) -> None:
    settings = SMOKE.with_data({"train": "books", "mine": "mine.txt"})
    assert settings.train == TextSource("train", ("books",))
    assert settings.test.texts == (TextSource("mine", ("mine.txt",)),)
    assert SMOKE.with_data({"train": "books"}).test == SMOKE.test
    with pytest.raises(ValueError, match="the test is made of tasks, not of texts: of --data only train=PATH fits, not mine"):
        named_experiment("table4").settings["smoke"].with_data({"train": "books", "mine": "mine.txt"})
    with pytest.raises(ValueError, match="figure1 makes its own data: leave out --data"):
        reproduce(named_experiment("figure1"), "smoke", tmp_path, launching(lambda ledger: None), data={"train": "books"})


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("code.jsonl", '{"content": "x"}', r"code.jsonl, line 1 has no field 'text', it has content: rename the one that"),
        ("code.txt", "", r"the test text code \(.*code.txt\) holds no text: give another --data code=PATH"),
        ("code.txt.gz", "plain", r"code.txt.gz is damaged or cut short"),
    ],
)
def test_test_texts_are_read_before_anything_is_trained(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        prepare_text(SMOKE.with_data({"code": str(tmp_path / name)}), tmp_path / "out", lambda text: None)
    assert not (tmp_path / "out").exists()


def test_lm_eval_is_asked_for_before_anything_is_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(
        ValueError, match=r"lm_eval runs the benchmarks, and is not installed: pip install 'eigentrack\[eval\]'"
    ):
        prepare_text(named_experiment("table4").settings["smoke"], tmp_path / "out", lambda text: None)
    assert not (tmp_path / "out").exists()


def test_the_text_is_prepared_on_all_cores_and_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said, processes = [], []

    def prepare_and_note(*given: Any, **options: Any) -> CorpusIndex:
        processes.append(options["processes"])
        return prepare(*given, **options)

    monkeypatch.setattr(settings, "prepare", prepare_and_note)
    monkeypatch.setattr(settings, "SECONDS_BETWEEN_WORDS", 0)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    prepare_text(SMOKE, tmp_path, said.append)
    assert processes == [2]
    assert said[0].startswith("preparing the training text: stdlib:argparse.py")
    size = sum((Path(argparse.__file__).parent / name.removeprefix("stdlib:")).stat().st_size for name in SMOKE.train.files)
    assert said[-2].startswith(f"encoding: {size / 1e6:.0f} MB read, ")
    tokens = sum(split.tokens for split in CorpusIndex.load(tmp_path / CORPUS).splits.values())
    assert said[-1] == f"the training text has {tokens:,} tokens"


def test_a_task_that_lm_eval_does_not_know_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, said = [], []
    monkeypatch.setattr(evaluation, "unknown_tasks", lambda tasks, folder: ["fda", "swde"])
    monkeypatch.setattr(evaluation, "evaluate_with_harness", lambda folder, tasks, **_: asked.append(tasks) or {"t": {}})
    test = LanguageTest(tasks=("piqa", "fda", "swde", evaluation.PROGRAMS))
    assert test.scores(SimpleNamespace(folder=tmp_path), tmp_path / "tasks", "cpu", said.append) == {"t": {}}
    assert asked == [["piqa", evaluation.PROGRAMS]]
    assert said == ["lm-eval does not know fda, swde: left out"]


def test_another_text_needs_another_folder(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("some text of mine, again and again\n" * 50)
    mine = replace(SMOKE.with_data({"train": str(tmp_path / "mine.txt")}), validation_share=0.0)
    prepare_text(mine, tmp_path, lambda text: None)
    prepare_text(mine, tmp_path, lambda text: None)
    with pytest.raises(
        ValueError, match="was made from another text or tokenizer, or the text has changed: name another --out"
    ):
        prepare_text(SMOKE, tmp_path, lambda text: None)
    (tmp_path / "mine.txt").write_text("the same file with another text\n" * 50)
    with pytest.raises(ValueError, match="or the text has changed: name another --out folder"):
        prepare_text(mine, tmp_path, lambda text: None)


def test_the_page_names_texts_and_ranges(tmp_path: Path) -> None:
    def answer(ledger: Ledger) -> None:
        while (cell := ledger.take()) is not None:
            ledger.finished(cell, result_of(cell.series))

    experiment = replace(named_experiment("figure8"), prepare=None)
    report, (page, numbers, _) = reproduce(experiment, "smoke", tmp_path, launching(answer))
    text = page.read_text()
    assert "| training text | stdlib:argparse.py" in text
    assert "code: stdlib:typing.py; prose: stdlib:pydoc_data/topics.py, 4 windows of 512" in text
    assert "| Mamba [-1, 1] | 10 | 1 | 6 | 7 | higher, on code and mathematics |" in text
    assert "| budget | smoke: 12 steps of 128 tokens" in text
    assert len(json.loads(numbers.read_text())["results"]) == report.cells == 2


def test_answers_compare_the_ranges() -> None:
    wide = tuple(PerplexityPoint(position, 5.0) for position in (32, 64, 128))
    twins = [result_of("DeltaNet [0, 1]"), result_of("DeltaNet [-1, 1]", perplexities={"code": wide})]
    answer = named_experiment("figure4").answer(twins)
    assert answer.startswith(
        "At the last positions, beyond the training length, [-1, 1] has the lower perplexity on 1 of 1 text."
    )
    assert answer.endswith("largest on code, with 5 for DeltaNet in [-1, 1] and 7 in [0, 1].")
    losses = named_experiment("figure7").answer([*twins, result_of("Mamba [0, 1]", learning=(), diverged_at=0)])
    assert losses == "The loss at the end of training is 2.500 in [-1, 1] and 2.500 in [0, 1] (DeltaNet). 1 of 3 runs diverged."
    scored = [
        result_of(f"DeltaNet {range_}", scores={"piqa": {"acc": acc}}) for range_, acc in (("[0, 1]", 0.5), ("[-1, 1]", 0.6))
    ]
    said = named_experiment("table4").answer(scored)
    assert said == "The accuracy on “PIQA” is 0.600 in [-1, 1] and 0.500 in [0, 1] for DeltaNet."
    assert [named_experiment(name).answer(twins[:1]) for name in LANGUAGE] == [""] * len(LANGUAGE)  # no twin
