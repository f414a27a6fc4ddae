"""Text as it is made: whole characters, the same text as all at once, and an end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from eigentrack.cli import app
from eigentrack.lm.generation import UNFINISHED, IncrementalDecoder, stream_text
from eigentrack.lm.language_model import LanguageModel, load_language_model
from tests.lm.small_language_models import write_language_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_language_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def language_model(folder: Path) -> LanguageModel:
    return load_language_model(folder)


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_the_parts_join_to_what_all_tokens_decode_to(language_model: LanguageModel, data: st.DataObject) -> None:
    """Of any tokens: bytes that are no text among them."""
    ids = data.draw(st.lists(st.integers(0, language_model.tokenizer.vocab_size - 1), max_size=12))
    decoder = IncrementalDecoder(language_model.tokenizer)
    parts = [decoder.push(token) for token in ids]
    assert "".join(parts) + decoder.finish() == language_model.tokenizer.rust.decode(ids)


@settings(max_examples=50, deadline=None)
@given(text=st.text(max_size=20))
def test_no_part_of_a_text_has_half_a_character(language_model: LanguageModel, text: str) -> None:
    (ids,) = language_model.tokenizer.encode([text], "int64")
    decoder = IncrementalDecoder(language_model.tokenizer)
    parts = [decoder.push(int(token)) for token in ids] + [decoder.finish()]
    assert "".join(parts) == text
    assert UNFINISHED not in "".join(parts) or UNFINISHED in text


def test_a_word_keeps_its_space_where_the_tokenizer_joins_words() -> None:
    from tokenizers import Tokenizer as Rust
    from tokenizers import decoders, models, pre_tokenizers

    from eigentrack.lm.tokenizer import Tokenizer

    rust = Rust(models.WordLevel({"▁a": 0, "▁cat": 1}))
    rust.pre_tokenizer, rust.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    decoder = IncrementalDecoder(Tokenizer(rust, None, 2, ""))
    assert [decoder.push(0), decoder.push(1), decoder.push(1), decoder.finish()] == ["a", " cat", " cat", ""]


def test_the_text_is_that_of_generate(language_model: LanguageModel) -> None:
    (prompt,) = language_model.tokenizer.encode(["def add("], "int64")
    generator = torch.Generator().manual_seed(3)
    ids = language_model.model.generate(torch.from_numpy(prompt)[None], 20, temperature=0.7, top_k=9, generator=generator)[
        0
    ].tolist()
    if language_model.tokenizer.end in ids:
        ids = ids[: ids.index(language_model.tokenizer.end)]
    text = "".join(stream_text(language_model, "def add(", 20, temperature=0.7, top_k=9, seed=3))
    assert text == language_model.tokenizer.rust.decode(ids)


def test_it_is_made_as_it_is_asked_for(language_model: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    taken, step = [], language_model.model.step
    monkeypatch.setattr(language_model.model, "step", lambda *given: taken.append(1) or step(*given))
    stream = stream_text(language_model, "a", 10**9)
    for _ in range(5):
        next(stream)
    assert len(taken) == 4


def test_it_ends_where_the_model_ends_the_text(language_model: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    (ids,) = language_model.tokenizer.encode(["ab"], "int64")
    assert language_model.tokenizer.end is not None
    drawn = [*ids.tolist(), language_model.tokenizer.end, *ids.tolist()]
    monkeypatch.setattr(language_model.model, "stream", lambda *_, **__: (torch.tensor([token]) for token in drawn))
    assert "".join(stream_text(language_model, "x", 100)) == "ab"


def test_the_command_prints_prompt_and_text(folder: Path) -> None:
    arguments = ["lm", "generate", str(folder), "--tokens", "8", "--temperature", "0"]
    result = CliRunner().invoke(app, [*arguments, "--prompt", "def add("])
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("def add(")
    assert len(result.stdout) > len("def add(\n")
    piped = CliRunner().invoke(app, [*arguments, "--prompt", "-"], input="def add(")
    assert piped.stdout == result.stdout
    next_to_zero = CliRunner().invoke(app, [*arguments[:-1], "1e-50", "--prompt", "def add("])
    assert next_to_zero.stdout == result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--prompt", ""], "the prompt is empty"),
        (["--prompt", "a\udcff"], "the prompt 'a\\udcff' is no text in UTF-8"),
        (["--prompt", "a", "--tokens", "0"], "tokens=0 must be at least 1"),
        (["--prompt", "a", "--tokens", "9" * 20], f"tokens={'9' * 20} must be at least 1 and at most"),
        (["--prompt", "a", "--seed", "9" * 20], f"seed={'9' * 20} must be a whole number from"),
        (["--prompt", "a", "--temperature", "-1"], "temperature=-1.0 must be 0 (greedy) or above"),
        (["--prompt", "a", "--temperature", "nan"], "temperature=nan must be 0 (greedy) or above"),
        (["--prompt", "a", "--top-k", "0"], "top_k=0 must lie between 1 and vocab_size"),
    ],
)
def test_mistakes_are_named_before_anything_is_printed(folder: Path, arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(app, ["lm", "generate", str(folder), *arguments])
    assert isinstance(result.exception, ValueError)
    assert message in str(result.exception)
    assert result.stdout == ""


def test_a_wrong_folder_is_one_line_and_exit_code_two(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "eigentrack", "lm", "generate", str(tmp_path), "--prompt", "a"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert result.returncode == 2
    assert "is not a saved model" in result.stderr
    assert "Traceback" not in result.stderr
