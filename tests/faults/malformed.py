"""Malformed inputs: wrong values of every option and broken files, one in each call of a command.

Each ends with exit code 2 and one or two lines, and changes nothing.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.faults.commands import TRAINING, _model, _network, _text
from tests.faults.forked import run
from tests.lm.runs import small_run, write_learnable_corpus

NUMBERS = ("-1", "1.5e", "abc", "")  # for options that take a count
BROKEN = {  # files by name
    "empty.json": b"",
    "half.json": b'{"task": "parity", "mod',
    "binary.json": bytes(range(256)),
    "list.json": b"[1, 2]",
    "twice.json": b'{"task": "parity", "task": "group"}',
    "deep.json": b"[" * 20000,
    "unknown.json": json.dumps({**TRAINING, "speed": 3}).encode(),
    "missing.json": b'{"task": "parity"}',
    "wrong.json": json.dumps({**TRAINING, "training": {"steps": "many", "batch": 4, "lengths": [3, 6]}}).encode(),
    "tabs.yaml": b"task:\n\t- x",
    "bits.safetensors": b"\xff" * 64,
}
# a valid call of every command, then its options with values that are wrong for each
CALLS: dict[tuple[str, ...], dict[str, tuple[str, ...]]] = {
    ("train", "--steps", "2", "--d-model", "8", "--out", "new"): {
        "--task": ("nope", "", "[red]", "../x"),
        "--task-option": ("x", "=3", "size=3", "last_weight=abc", "last_weight=[1]"),
        "--layer": ("nope", ""),
        "--layer-option": ("heads", "heads=0", "heads=-1", "heads=3", "heads=1.5", "nope=1", "gate=3", "heads=null"),
        "--eigenvalues": ("1,-1", "-2,1", "nan,1", "1", "disk", "polygon 2", "a,b", "", "inf,1"),
        "--layers": ("0", *NUMBERS),
        "--d-model": ("0", "7", *NUMBERS),
        "--steps": ("0", *NUMBERS),
        "--batch": ("0", *NUMBERS),
        "--lengths": ("3", "a,b", "9,3", "0,4", "-1,4", ""),
        "--lr": ("0", "-1", "nan", "inf", "x"),
        "--label-smoothing": ("-1", "1", "nan", "x"),
        "--weight-decay": ("-1", "nan", "x"),
        "--precision": ("float8", ""),
        "--seed": ("1.5", "x", "99999999999999999999"),
        "--validate-every": ("0", *NUMBERS),
        "--checkpoint-every": ("0", *NUMBERS),
        "--telemetry-every": NUMBERS,
        "--device": ("meta", "gpu", "cuda:99", ""),
        "--out": ("file.txt", "", "net", "file.txt/x"),
    },
    ("train", "--out", "new"): {"--config": (*BROKEN, "nope.yaml", "net", "", "file.txt")},
    ("evaluate", "run"): {
        "--longest": ("0", *NUMBERS),
        "--sequences": ("0", *NUMBERS),
        "--device": ("meta", "x"),
        "": ("nope", "net", "file.txt", "model"),
    },
    ("explain",): {
        "": ("(", "a)", "*", "[", "a{2,1}", "(?=a)", ""),
        "--alphabet": ("",),
        "--dfa": (*BROKEN, "nope.json", "net"),
        "--language": ("nope",),
        "--group": ("X9", "S0", "S99", "Z", "-1"),
    },
    ("compile", "(aa)*", "-o", "new"): {
        "--dtype": ("int8", ""),
        "--architecture": ("nope", "diagonal3", ""),
        "--construction": ("nope", ""),
        "--state-limit": ("0", *NUMBERS),
        "--image-limit": ("0", *NUMBERS),
        "--out": ("file.txt", "", "text"),
        "--draw": ("picture.pdf", "file.txt", ""),
    },
    ("verify", "net"): {
        "": ("nope", "file.txt", "text", "model"),
        "--state-limit": ("0", *NUMBERS),
        "--dfa": (*BROKEN, "nope.json"),
        "--group": ("X9",),
    },
    ("run", "net"): {"--word": ("c", "ax", "ab c")},
    ("inspect", "net", "--longest", "20", "--out", "new"): {
        "": ("nope", "file.txt", "text"),
        "--longest": ("0", "1e99", "1.5", "nan", "x"),
        "--seed": ("x", "99999999999999999999"),
        "--device": ("meta",),
        "--out": ("file.txt", "text"),
        "--task-option": ("x",),
    },
    ("demo",): {"--seed": ("x", "1.5", "99999999999999999999"), "--out": ("file.txt", "text", "")},
    ("reproduce", "figure1", "--out", "new"): {
        "": ("figure99", ""),
        "--budget": ("huge", ""),
        "--jobs": ("0", *NUMBERS),
        "--launcher": ("slurm", ""),
        "--device": ("meta",),
        "--seeds": ("a", "1.5", "-1", ""),
        "--data": ("x", "train=", "=y", "train=nope"),
        "--minutes": ("0", "-1", "x"),
        "--archive": ("bits.safetensors", "half.json", ""),
        "--out": ("file.txt", "text"),
    },
    ("lm", "prepare", "text", "--train-bpe", "300", "--processes", "1", "--out", "new"): {
        "--train-bpe": ("0", "256", *NUMBERS),
        "--processes": ("0", *NUMBERS),
        "--validation-share": ("1", "-0.1", "nan", "x"),
        "--split-by": ("year", "folder"),
        "--rows": ("5", "0", "x"),
        "--out": ("file.txt", "text", "net", ""),
        "--tokenizer": ("net",),
    },
    ("lm", "prepare", "--train-bpe", "300", "--processes", "1", "--out", "new"): {
        "": ("nope.txt", "binary.json", "half.json", "list.json", "nothing"),
    },
    ("lm", "train", "run.json", "--out", "new"): {
        "": ("nope", "tiny", *BROKEN),
        "--corpus": ("corpus", "nope", ""),
        "--device": ("meta",),
        "--out": ("file.txt", "text", "corpus", ""),
    },
    ("lm", "evaluate", "model", "--corpus", "corpus"): {
        "": ("nope", "net", "file.txt"),
        "--corpus": ("nope", "net", "file.txt"),
        "--split": ("nope", ""),
        "--length": ("0", *NUMBERS),
        "--buckets": ("0", *NUMBERS),
        "--windows": ("0", *NUMBERS),
        "--text": ("nope.txt",),
    },
    ("lm", "generate", "model", "--prompt", "a"): {"--tokens": NUMBERS, "--temperature": ("-1", "x"), "": ("nope", "net")},
    ("lm", "convert", "model", "-o", "new"): {
        "": ("nope/x", "net", "text"),
        "--to": ("gpt2", ""),
        "--eigenvalues": ("x", "0,0.5", "2,3", ""),
        "-o": ("file.txt", "text", "model", ""),
    },
}


@dataclass(frozen=True)
class Refusal:
    """A malformed call and what was wrong with its refusal, if anything."""

    call: str
    said: str
    trouble: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def malformed_calls() -> Iterator[tuple[str, ...]]:
    """Yield every call with one wrong value; the empty name stands for the argument, which the value replaces."""
    for call, options in CALLS.items():
        for name, values in options.items():
            for value in values:
                if name == "":
                    taken = 2 if call[0] == "lm" else 1
                    rest = call[taken:]
                    has_argument = bool(rest) and not rest[0].startswith("-")
                    yield (*call[:taken], value, *rest[has_argument:])
                else:
                    yield (*_without(call, name), name, value)


def _without(call: tuple[str, ...], name: str) -> tuple[str, ...]:
    """Return the call without an option, which would be given twice."""
    names = {"--out": ("--out", "-o")}.get(name, (name,))
    place = next((place for place, word in enumerate(call) if word in names), None)
    return call if place is None else call[:place] + call[place + 2 :]


def set_up(home: Path) -> None:
    _network(home)
    _model(home)
    _text(home)
    (home / "nothing").mkdir()
    (home / "file.txt").write_text("text")
    corpus = write_learnable_corpus(home / "corpus")
    (home / "run.json").write_text(json.dumps({**small_run(corpus).to_json(), "corpus": "corpus"}))
    for name, data in BROKEN.items():
        (home / name).write_bytes(data)
    ended = run(("train", "--steps", "2", "--d-model", "8", "--layer-option", "heads=2", "--batch", "4", "--out", "run"), home)
    assert ended.code == 0, ended.err


def refusals(home: Path, share: float = 1.0) -> Iterator[Refusal]:
    """Yield what became of every malformed call, or of an evenly spread `share` of them."""
    set_up(home)
    before = _files(home)
    for call in itertools.islice(malformed_calls(), 0, None, round(1 / share)):
        ended = run(call, home)
        lines = [line for line in ended.err.splitlines() if line.strip()]
        trouble = ""
        if ended.has_trace:
            trouble = "a trace"
        elif ended.code != 2:
            trouble = f"it ended with {ended.code}"
        elif not 1 <= len(lines) <= 2:
            trouble = f"{len(lines)} lines"
        after = _files(home)
        if after != before:
            trouble = trouble or f"changed: {sorted(set(after) ^ set(before))[:3]}"
        before = after
        yield Refusal(" ".join(word or "''" for word in call), "\n".join(lines)[-600:], trouble)


def _files(home: Path) -> dict[str, int]:
    return {
        str(path.relative_to(home)): path.stat().st_mtime_ns
        for path in home.rglob("*")
        if not path.name.startswith(".") and not path.is_dir()
    }
