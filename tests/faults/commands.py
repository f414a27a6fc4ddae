"""The commands that write, each in a size that takes a second or so: what their output comes to, and how it is read again."""

from __future__ import annotations

import importlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from eigentrack.automata.regex import regex_dfa
from eigentrack.compiler import choose_plan, compile_network, save_compiled
from eigentrack.files import write_json
from eigentrack.models import ModelConfig, SequenceModel, save_model
from eigentrack.spectrum import EigenRange
from tests.experiments.toy import EXPERIMENT
from tests.faults.short_demo import shorten
from tests.lm.runs import small_run, write_learnable_corpus

OUT = "out"
Bytes = dict[str, bytes]


@dataclass(frozen=True)
class WritingCommand:
    """A command that writes into the folder `out`."""

    name: str
    set_up: Callable[[Path], None]  # makes the inputs in a folder
    arguments: tuple[str, ...]
    result: Callable[[Path], Any]  # what matters of a complete output, from the folder in which the command ran
    again: tuple[str, ...]  # further arguments that go on with what a fault has left
    damaged: Callable[[Path], list[Path]]  # the files whose damage a reader must notice
    reader: Callable[[Path, Path], tuple[str, ...]]  # the command that reads a damaged file
    reader_result: Callable[[Path, str], Any]  # what matters of what the reader has found, its standard output included
    prepare: Callable[[], None] = lambda: None  # in the process, before the command
    share: float = 1.0  # of the faults, below 1 for a slow command


def contents(folder: Path, *patterns: str) -> Bytes:
    paths = [path for pattern in patterns for path in sorted(folder.glob(pattern)) if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def files(*patterns: str) -> Callable[[Path], list[Path]]:
    return lambda home: [path for pattern in patterns for path in sorted(home.glob(pattern)) if path.is_file()]


def _said(home: Path, out: str) -> str:
    return out


TRAINING = {
    "task": "parity",
    "model": {"d_model": 8, "layers": 1, "mixer": "deltanet", "mixer_options": {"heads": 2, "conv": 0}},
    "training": {"steps": 60, "batch": 4, "lengths": [3, 6], "warmup": 2},
    "validate_every": 30,
    "checkpoint_every": 10,
    "telemetry_every": 0,
    "stop_when_solved": False,
}


def _trained(home: Path, *_: str) -> Any:
    steps = [json.loads(line)["step"] for line in (home / OUT / "metrics.jsonl").read_text().splitlines()]
    return steps, contents(home / OUT, "model/*")


def _read_training(home: Path, file: Path) -> tuple[str, ...]:
    if file.parent.name == "model":
        return "evaluate", OUT, "--longest", "12", "--sequences", "8", "--json"
    shutil.rmtree(home / OUT / "model")
    return "train", "--config", "run.json", "--out", OUT, "--resume"


def _read_trained(home: Path, out: str) -> Any:
    return out if out.startswith("{") else _trained(home)


def _language_inputs(home: Path) -> None:
    config = small_run(write_learnable_corpus(home / "corpus"), steps=24).to_json()
    write_json(home / "run.json", {**config, "corpus": "corpus", "corpus_fingerprint": None})


def _read_language(home: Path, file: Path) -> tuple[str, ...]:
    shutil.rmtree(home / OUT / "model")
    return "lm", "train", "run.json", "--out", OUT, "--resume"


def _network(home: Path) -> None:
    save_compiled(compile_network(choose_plan(regex_dfa("(ab|ba)*"))), home / "net")


def _model(home: Path) -> None:
    config = ModelConfig(vocab_size=12, d_model=8, layers=1, mixer_options={"heads": 2}, eigenvalues=EigenRange(0, 1))
    save_model(SequenceModel(config), home / "model")


def _text(home: Path) -> None:
    for number in range(12):
        (home / "text" / f"{number}.txt").parent.mkdir(exist_ok=True)
        (home / "text" / f"{number}.txt").write_text(f"Document {number}: " + f"{number * number} words, " * 30)


def _inspection(home: Path, *_: str) -> Any:
    values = json.loads((home / OUT / "inspection.json").read_text())
    del values["provenance"]
    return values, (home / OUT / "inspection.html").read_text().endswith("</body></html>\n")


def _drawing(home: Path) -> bool:
    text = (home / OUT / "picture.svg").read_text()
    return text.startswith("<?xml") and text.rstrip().endswith("</svg>")


def _figures(path: Path) -> list[Any]:
    results = json.loads(path.read_text())["results"]
    return [
        {name: value for name, value in result.items() if name not in ("seconds", "hardware", "commit")} for result in results
    ]


def _toy_experiment() -> None:
    settings = replace(EXPERIMENT.settings["smoke"], rates=(1e-2,), seeds=(0,))
    toy = replace(EXPERIMENT, settings={**EXPERIMENT.settings, "smoke": settings})
    # by name: the package has a function of the module's name
    vars(importlib.import_module("eigentrack.cli.reproduce"))["named_experiment"] = lambda name: toy


NETWORK_FILES = ("*.json", "model/*")
COMMANDS = (
    WritingCommand(
        "train",
        lambda home: write_json(home / "run.json", TRAINING),
        ("train", "--config", "run.json", "--out", OUT),
        _trained,
        ("--resume",),
        files(f"{OUT}/model/*", f"{OUT}/checkpoints/*"),
        _read_training,
        _read_trained,
    ),
    WritingCommand(
        "compile",
        lambda home: None,
        ("compile", "(ab|ba)*", "-o", OUT),
        lambda home: contents(home / OUT, *NETWORK_FILES),
        (),
        files(f"{OUT}/*.json", f"{OUT}/model/*"),
        lambda home, file: ("verify", OUT, "--json"),
        _said,
    ),
    WritingCommand(
        "inspect",
        _network,
        ("inspect", "net", "--longest", "40", "--out", OUT),
        _inspection,
        (),
        files("net/*.json", "net/model/*"),
        lambda home, file: ("inspect", "net", "--longest", "40", "--out", OUT, "--overwrite"),
        _inspection,
        share=0.5,
    ),
    WritingCommand(
        "explain --draw",
        _network,
        ("explain", "(abab)*", "--draw", f"{OUT}/picture.svg"),
        _drawing,
        ("--overwrite",),
        files("net/automaton.json"),
        lambda home, file: ("verify", "net", "--dfa", "net/automaton.json", "--json"),
        _said,
    ),
    WritingCommand(
        "demo",
        lambda home: None,
        ("demo", "--out", OUT),
        lambda home: (_figures(home / OUT / "demo.json"), contents(home / OUT, "models/*/*")),
        (),
        files(f"{OUT}/models/*/*"),
        lambda home, file: (
            *("inspect", str(file.parent.relative_to(home)), "--task", "parity", "--longest", "50"),
            *("--out", "inspected", "--overwrite", "--json"),
        ),
        lambda home, out: {**json.loads(out), "provenance": None},
        shorten,
        share=0.45,
    ),
    WritingCommand(
        "reproduce",
        lambda home: None,
        ("reproduce", "figure1", "--out", OUT, "--jobs", "1"),
        lambda home: _figures(home / OUT / "toy.json"),
        (),
        files(f"{OUT}/cells/**/result.json"),
        lambda home, file: ("reproduce", "figure1", "--out", OUT, "--jobs", "1"),
        lambda home, out: _figures(home / OUT / "toy.json"),
        _toy_experiment,
        share=0.5,
    ),
    WritingCommand(
        "lm prepare",
        _text,
        ("lm", "prepare", "text", "--train-bpe", "300", "--processes", "1", "--validation-share", "0.3", "--out", OUT),
        lambda home: contents(home / OUT, "*.json", "*.tokens", "*.starts", "tokenizer/*"),
        (),
        files(f"{OUT}/*.json", f"{OUT}/*.tokens", f"{OUT}/*.starts", f"{OUT}/tokenizer/tokenizer.json"),
        lambda home, file: ("lm", "prepare", "--verify", "--out", OUT, "--json"),
        _said,
    ),
    WritingCommand(
        "lm train",
        _language_inputs,
        ("lm", "train", "run.json", "--out", OUT),
        lambda home: contents(home / OUT, "model/*"),
        ("--resume",),
        files(f"{OUT}/checkpoints/*/*", "corpus/*"),
        _read_language,
        lambda home, out: contents(home / OUT, "model/*"),
    ),
    WritingCommand(
        "lm convert",
        _model,
        ("lm", "convert", "model", "-o", OUT, "--eigenvalues=-1,1"),
        lambda home: contents(home / OUT, "[!.]*"),
        (),
        files("model/*"),
        lambda home, file: ("lm", "convert", "model", "-o", OUT, "--eigenvalues=-1,1", "--overwrite"),
        lambda home, out: contents(home / OUT, "[!.]*"),
    ),
)
