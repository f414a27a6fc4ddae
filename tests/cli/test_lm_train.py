"""eigentrack lm train: a preset or a file, one line for what is wrong, and a model at the end."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from eigentrack.cli import app, main
from eigentrack.lm.tokenizer import fingerprint
from eigentrack.lm.train import LanguageRunResult
from eigentrack.models import load_model
from tests.lm.runs import VOCAB, small_run, write_learnable_corpus


def test_a_file_becomes_a_model(tmp_path: Path) -> None:
    config = small_run(write_learnable_corpus(tmp_path / "corpus"))
    tokenizer, index = tmp_path / "corpus" / "tokenizer", tmp_path / "corpus" / "index.json"
    tokenizer.mkdir()
    (tokenizer / "tokenizer.json").write_text("{}")
    index.write_text(json.dumps({**json.loads(index.read_text()), "tokenizer_sha256": fingerprint(tokenizer)}))
    (tmp_path / "run.json").write_text(json.dumps(config.to_json()))
    result = CliRunner().invoke(app, ["lm", "train", str(tmp_path / "run.json"), "--out", str(tmp_path / "run")])
    assert result.exit_code == 0, result.output
    assert "10 steps, 640 tokens, loss" in result.stdout
    assert load_model(tmp_path / "run" / "model").config.vocab_size == VOCAB
    assert (tmp_path / "run" / "model" / "tokenizer.json").read_text() == "{}"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tiny"], "preset tiny needs --corpus"),
        (["tinny", "--corpus", "nowhere"], "tinny is neither a file nor a preset"),
        (["tinny"], "tinny is neither a file nor a preset; presets are deltanet-340m"),
        (["tiny", "--corpus", "nowhere"], "nowhere is not a corpus; `eigentrack lm prepare` makes one"),
        (["FILE", "--corpus", "nowhere"], "--corpus goes with a preset"),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, arguments: list[str], message: str) -> None:
    file = tmp_path / "run.json"
    file.write_text("{}")
    given = [str(file) if argument == "FILE" else argument for argument in arguments]
    result = CliRunner().invoke(app, ["lm", "train", *given, "--out", str(tmp_path / "run")])
    assert isinstance(result.exception, (ValueError, OSError))
    assert message in str(result.exception)
    assert not (tmp_path / "run").exists()


def test_a_vocabulary_that_is_too_small_is_named(tmp_path: Path) -> None:
    config = small_run(write_learnable_corpus(tmp_path / "corpus")).to_json()
    (tmp_path / "run.json").write_text(json.dumps({**config, "model": {**config["model"], "vocab_size": 5}}))
    result = CliRunner().invoke(app, ["lm", "train", str(tmp_path / "run.json"), "--out", str(tmp_path / "run")])
    assert f"a vocabulary of {VOCAB}, the model knows 5" in str(result.exception)


def test_a_loss_beyond_all_perplexities_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run.json").write_text(json.dumps(small_run(write_learnable_corpus(tmp_path / "corpus")).to_json()))
    result = LanguageRunResult(3, 192, 1e4, None)
    monkeypatch.setattr("eigentrack.lm.train.run_language_training", lambda *_, **__: result)
    done = CliRunner().invoke(app, ["lm", "train", str(tmp_path / "run.json"), "--out", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    assert "loss 10000.0000 (perplexity inf)" in done.stdout


def test_out_of_memory_is_one_line_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def allocate(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.\nand more lines")

    (tmp_path / "run.json").write_text(
        json.dumps(small_run(write_learnable_corpus(tmp_path / "corpus"), accumulation=2).to_json())
    )
    monkeypatch.setattr("eigentrack.lm.step.LanguageStep.learn", allocate)
    monkeypatch.setattr(sys, "argv", ["eigentrack", "lm", "train", str(tmp_path / "run.json"), "--out", str(tmp_path / "run")])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    (error,) = [line for line in capsys.readouterr().err.splitlines() if "error:" in line]
    assert error == (
        "error: out of memory with 2 sequences of 16 tokens at a time on cpu: raise training.accumulation (it is 2) "
        "or set training.activation_checkpointing"
    )


@pytest.mark.parametrize("command", ["evaluate", "inspect"])
def test_commands_for_tasks_name_those_for_language_models(tmp_path: Path, command: str) -> None:
    (tmp_path / "run.json").write_text(json.dumps(small_run(tmp_path / "corpus").to_json()))
    result = CliRunner().invoke(app, [command, str(tmp_path)])
    assert isinstance(result.exception, ValueError)
    assert "is the run of a language model: use `eigentrack lm`" in str(result.exception)
