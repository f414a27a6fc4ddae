"""eigentrack inspect: what it opens, what it prints and writes, and what it says to bad input."""

from __future__ import annotations

import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch

from eigentrack.analysis import InspectedNetwork, Inspection, inspect_network, load_inspected, write_inspection
from eigentrack.automata import regex_dfa
from eigentrack.cli import main
from eigentrack.compiler import choose_plan, compile_network, save_compiled, verify
from eigentrack.models import ModelConfig, SequenceModel, save_model
from eigentrack.training.run import RunConfig, run_training


def silent(what: str, done: int, total: int) -> None:
    assert 0 <= done <= total, what


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["eigentrack", *arguments])
    with pytest.raises(SystemExit) as left:
        main()
    return left.value.code or 0


@pytest.fixture
def compiled_folder(tmp_path: Path) -> Path:
    save_compiled(compile_network(choose_plan(regex_dfa("(ab|ba)*"))), tmp_path / "net")
    return tmp_path / "net"


class _Page(HTMLParser):
    """Every address that the page asks for, and whether its tags are closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.asked += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "data", "action")]
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def check_page(path: Path) -> str:
    text = path.read_text()
    page = _Page(text)
    assert page.open == []
    assert page.asked
    assert all(address.startswith("data:image/png;base64,") for address in page.asked)
    assert "<th></th>" not in text
    assert not re.search(r"https?:|url\(|@import|<script", text)
    return text


def test_a_compiled_network(compiled_folder: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    out = tmp_path / "report"
    assert run(monkeypatch, "inspect", str(compiled_folder), "--longest", "5e1", "--out", str(out)) == 0
    said = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "beyond 50 letters" in said
    assert "4 states" in said
    assert "equal to the true one" in said
    assert "noise borne for ever none: a robust linear recurrence is contracting" in said
    page = check_page(out / "inspection.html")
    for title in ("Spectra of A(x)", "Horizon", "other precisions", "States, labelled", "The automaton"):
        assert title in page
    numbers = json.loads((out / "inspection.json").read_text())
    assert numbers["kind"] == "compiled network"
    assert {item["letters"] for item in numbers["horizons"]} == {50}
    assert numbers["certified_noise"]["epsilon"] == 0
    assert numbers["extraction"]["machine"]["transitions"] == [[1, 2], [3, 0], [0, 3], [3, 3]]
    assert numbers["provenance"]["command"].startswith("eigentrack inspect")


def test_json_is_all_that_is_printed(compiled_folder: Path, monkeypatch, capsys) -> None:
    assert run(monkeypatch, "inspect", str(compiled_folder), "--longest", "8", "--json") == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == json.loads((compiled_folder / "inspection.json").read_text())
    assert printed.err == ""


def test_a_run_knows_its_task_and_its_letters(tmp_path: Path) -> None:
    config = RunConfig.from_json(
        {
            "task": "language",
            "task_options": {"regex": "(ab)*"},
            "model": {"d_model": 8, "layers": 2, "mixer": ["gla", "deltanet"], "mixer_options": {"heads": 2}},
            "training": {"steps": 1, "batch": 4, "lengths": [3, 6], "warmup": 1},
        }
    )
    run_training(config, tmp_path / "run", say=lambda text: None)
    loaded = load_inspected(tmp_path / "run", None, {}, "cpu")
    assert loaded.network is not None
    assert loaded.network.machine.letters == ("a", "b")
    assert loaded.trained_to == 6
    found = inspect_network(loaded, longest=60, seed=0, progress=silent)
    assert [layer.mixer for layer in found.spectra] == ["gla", "deltanet"]
    assert found.worst.letters < 6  # one step is no training
    assert found.extraction is not None
    page, _ = write_inspection(found, "run", {"commit": "<unknown>"}, tmp_path)
    assert "&lt;unknown&gt;" in check_page(page)


def test_a_trained_network(trained_parity: InspectedNetwork, tmp_path: Path) -> None:
    save_model(trained_parity.model, tmp_path / "model")
    loaded = load_inspected(tmp_path / "model", "parity", {}, "cpu")
    found = inspect_network(loaded, longest=64, seed=0, progress=silent)
    assert found.spectra[0].may_flip
    assert found.extraction is not None
    assert found.extraction.is_equal
    assert found.noise[0].noise >= found.noise[1].noise > 0
    assert [item.precision for item in found.precisions][:2] == ["float64", "float32"]
    assert found.horizons[0].letters >= 24
    assert found.snapped is not None
    page, _ = write_inspection(found, "model", {}, tmp_path)
    assert "proved for every word of every length" in check_page(page)
    assert verify(tmp_path / "exact").holds


def test_without_a_task_only_the_spectra(tmp_path: Path, monkeypatch, capsys) -> None:
    save_model(SequenceModel(ModelConfig(vocab_size=50, d_model=8, layers=2, mixer=("mamba", "lstm"))), tmp_path / "model")
    assert run(monkeypatch, "inspect", str(tmp_path / "model")) == 0
    said = capsys.readouterr().out
    assert "only its spectra are shown" in said
    assert "not linear recurrences" in said
    numbers = json.loads((tmp_path / "model" / "inspection.json").read_text())
    assert len(numbers["spectra"]) == 1
    assert len(numbers["spectra"][0]["tokens"]) == 32
    assert numbers["extraction"] is None
    assert "Horizon" not in check_page(tmp_path / "model" / "inspection.html")


def test_attention_is_followed_as_far_as_it_can_be(tmp_path: Path) -> None:
    torch.manual_seed(0)
    save_model(SequenceModel(ModelConfig(vocab_size=3, d_model=8, layers=1, mixer="attention")), tmp_path)
    found: Inspection = inspect_network(load_inspected(tmp_path, "parity", {}, "cpu"), longest=10**6, seed=0, progress=silent)
    assert found.horizons
    assert found.geometry == ()
    assert any("cost grows with the square" in note for note in found.notes)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{empty}"], "it is no run, model or compiled network"),
        (["{empty}/nothing"], "is no folder"),
        (["{net}", "--task", "parity"], "a compiled network, which knows its language: leave the task out"),
        (["{net}", "--longest", "inf"], "--longest inf must be a whole number of letters"),
        (["{net}", "--longest", "0.5"], "--longest 0.5 must be a whole number of letters"),
        (["{net}", "--task-option", "name=S3"], "task options need a task"),
        (["{model}", "--task", "group"], "it was trained on another task"),
        (["{model}", "--task", "pairty"], "task 'pairty' is not known"),
        (["{net}", "--out", "{file}"], "is a file: name a folder"),
        (["{mamba}"], "holds a mamba of transformers: `eigentrack lm convert` makes it ours first"),
    ],
)
def test_bad_input_is_one_line(arguments, message, compiled_folder: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "mamba").mkdir()
    (tmp_path / "mamba" / "config.json").write_text('{"model_type": "mamba", "hidden_size": 8}')
    save_model(SequenceModel(ModelConfig(vocab_size=3, d_model=4, layers=1)), tmp_path / "model")
    places = {name: tmp_path / name for name in ("empty", "file", "mamba", "model")} | {"net": compiled_folder}
    assert run(monkeypatch, "inspect", *(argument.format(**places) for argument in arguments)) == 2
    said = capsys.readouterr().err
    assert message in " ".join(said.split())
    assert "Traceback" not in said
