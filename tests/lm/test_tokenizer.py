"""Tokenizers: trained ones give back every text, transformers reads the same folder, no text smuggles in a special token."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eigentrack.lm.tokenizer import END_OF_TEXT, NamedTokenizer, Tokenizer, TrainedBpe, load_tokenizer

TEXTS = [f"def function_{number}(value):\n    return value * {number}\n" for number in range(50)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    TrainedBpe(300).write(folder, iter(TEXTS))
    return folder


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Tokenizer:
    return load_tokenizer(folder)


@given(st.text(max_size=40))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_a_trained_bpe_gives_back_every_text(tokenizer: Tokenizer, text: str) -> None:
    text = text.encode(errors="replace").decode()
    (tokens,) = tokenizer.encode([text], "uint16")
    assert tokens.dtype == np.uint16
    assert tokenizer.rust.decode(tokens.tolist(), skip_special_tokens=False) == text


def test_it_learns_what_is_frequent(tokenizer: Tokenizer) -> None:
    assert tokenizer.vocab_size == 300
    (tokens,) = tokenizer.encode(["def function"], "uint16")
    assert len(tokens) <= 3


def test_training_twice_gives_the_same_tokenizer(folder: Path, tmp_path: Path, tokenizer: Tokenizer) -> None:
    TrainedBpe(300).write(tmp_path, TEXTS)
    assert load_tokenizer(tmp_path).fingerprint == tokenizer.fingerprint


def test_transformers_reads_the_folder_and_agrees(folder: Path, tokenizer: Tokenizer) -> None:
    from transformers import AutoTokenizer

    theirs = AutoTokenizer.from_pretrained(str(folder))
    assert theirs.eos_token_id == tokenizer.end
    assert len(theirs) == tokenizer.vocab_size
    for text, tokens in zip(TEXTS, tokenizer.encode(TEXTS, "uint16"), strict=True):
        assert theirs(text, add_special_tokens=False)["input_ids"] == tokens.tolist()
        assert theirs.decode(tokens.tolist()) == text


def test_a_text_that_spells_a_special_token_does_not_contain_it(tokenizer: Tokenizer) -> None:
    (tokens,) = tokenizer.encode([f"a{END_OF_TEXT}b"], "uint16")
    assert tokenizer.end == 0
    assert tokenizer.end not in tokens.tolist()
    assert tokenizer.rust.decode(tokens.tolist()) == f"a{END_OF_TEXT}b"


def test_a_tokenizer_is_taken_over_whole(folder: Path, tmp_path: Path, tokenizer: Tokenizer) -> None:
    changed = tmp_path / "theirs"
    changed.mkdir()
    for file in folder.iterdir():
        (changed / file.name).write_bytes(file.read_bytes())
    values = json.loads((changed / "tokenizer.json").read_text())
    values["truncation"] = {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0}
    (changed / "tokenizer.json").write_text(json.dumps(values))
    NamedTokenizer(str(changed)).write(tmp_path / "ours", [])
    ours = load_tokenizer(tmp_path / "ours")
    assert (ours.vocab_size, ours.end) == (300, 0)
    for ours_tokens, tokens in zip(ours.encode(TEXTS, "uint16"), tokenizer.encode(TEXTS, "uint16"), strict=True):
        assert ours_tokens.tolist() == tokens.tolist()  # not cut after 3


def test_unknown_and_damaged_tokenizers_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        ValueError, match=r"tokenizer '.*empty' cannot be loaded, neither from a folder nor by name: "
    ) as caught:
        NamedTokenizer(str(tmp_path / "empty")).write(tmp_path / "out", [])
    assert "\n" not in str(caught.value)
    with pytest.raises(FileNotFoundError, match=r"tokenizer\.json is missing"):
        load_tokenizer(tmp_path / "empty")
    (tmp_path / "empty" / "tokenizer.json").write_text("{}")
    with pytest.raises(ValueError, match="holds no readable tokenizer"):
        load_tokenizer(tmp_path / "empty")
    TrainedBpe(300).write(tmp_path / "bpe", ["some text"])
    for text in ("[]", '{"eos_token": 5}', '{"eos_token": {"content": ["x"]}}'):
        (tmp_path / "bpe" / "tokenizer_config.json").write_text(text)
        with pytest.raises(ValueError, match="holds no readable tokenizer"):
            load_tokenizer(tmp_path / "bpe")
    with pytest.raises(ValueError, match="a byte-level BPE has at least 257 tokens, got 256"):
        TrainedBpe(256)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"tokenizers trains a BPE, and is not installed: pip install 'eigentrack\[lm\]'"):
        TrainedBpe(300).write(tmp_path / "out", [])
