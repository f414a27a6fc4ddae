"""A corpus gives back what was written, across shards; anything damaged, missing or edited is named in one line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from eigentrack.lm.corpus import Corpus
from tests.lm.corpora import VOCAB, write_corpus

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.parametrize("shard_tokens", [7, 50, 120, 1000])
@pytest.mark.parametrize("dtype", ["uint16", "uint32"])
def test_reading_across_shards(tmp_path: Path, shard_tokens: int, dtype: str) -> None:
    lengths = [30, 1, 49, 40]
    corpus = write_corpus(tmp_path, lengths, shard_tokens=shard_tokens, dtype=dtype)
    assert (corpus.tokens, corpus.documents, corpus.vocab_size) == (120, 4, VOCAB)
    assert len(list(tmp_path.glob("*.tokens"))) == -(-120 // shard_tokens)
    for position, length in [(0, 120), (0, 0), (120, 0), (49, 2), (13, 100), (119, 1)]:
        read = corpus.read(position, length)
        assert read.tolist() == list(range(position, position + length))
        assert read.dtype == dtype
    assert [len(corpus.document(number)) for number in range(4)] == lengths
    assert corpus.document(2).tolist() == list(range(31, 80))
    for position, length in [(-1, 3), (100, 21), (5, -1)]:
        with pytest.raises(ValueError, match="do not lie within the split's 120"):
            corpus.read(position, length)
    with pytest.raises(ValueError, match="document 4 is not among the split's 4"):
        corpus.document(4)


def test_the_fingerprint_tells_tokens_and_documents_apart(tmp_path: Path) -> None:
    lengths = {"a": [30, 30], "b": [30, 30], "c": [31, 29], "d": [30, 31]}
    prints = {name: write_corpus(tmp_path / name, lengths[name]).fingerprint for name in lengths}
    assert prints["a"] == prints["b"]
    assert len(set(prints.values())) == 3


def test_damage_is_found_at_once_or_by_verifying(tmp_path: Path) -> None:
    write_corpus(tmp_path, [30, 90])
    Corpus.open(tmp_path, "train", verify=True)
    shard = tmp_path / "train-00001.tokens"
    whole = shard.read_bytes()
    shard.write_bytes(bytes([whole[0] ^ 1]) + whole[1:])
    Corpus.open(tmp_path, "train")  # sizes alone do not show it
    with pytest.raises(ValueError, match=r"train-00001\.tokens is damaged \(its checksum differs\)"):
        Corpus.open(tmp_path, "train", verify=True)
    shard.write_bytes(whole[:-1])
    with pytest.raises(ValueError, match=r"train-00001\.tokens has 199 bytes, 50 entries of uint32 take 200: it is damaged"):
        Corpus.open(tmp_path, "train")
    shard.unlink()
    with pytest.raises(FileNotFoundError, match=r"train-00001\.tokens is missing: copy it, or prepare"):
        Corpus.open(tmp_path, "train")


def test_damaged_starts_are_found(tmp_path: Path) -> None:
    write_corpus(tmp_path, [30, 90])
    (tmp_path / "train.starts").write_bytes(np.array([0, 31], "<i8").tobytes())
    with pytest.raises(ValueError, match=r"train\.starts is damaged"):
        Corpus.open(tmp_path, "train", verify=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dtype": "uint16"}, r"has 200 bytes, 50 entries of uint16 take 100"),
        ({"dtype": "float32"}, r"index\.json: dtype 'float32' is not known; there are uint16, uint32"),
        ({"format": 7}, r"index\.json is not the index of a corpus of format 1"),
        ({"colour": "red"}, r"index\.json is incomplete or was edited"),
        ({"splits": {"train": {}}}, r"index\.json is incomplete or was edited"),
        ({"splits": {}}, "has no split 'train'; there are none"),
        ({"vocab_size": "120"}, r"index\.json is incomplete or was edited \(vocab_size is a whole number"),
        ({"end_of_document": 1.5}, r"was edited \(vocab_size .* end_of_document None or one below it"),
        ({"dtype": ["uint32"]}, r"index\.json is incomplete or was edited \(dtype and tokenizer_sha256 are text"),
        ({"vocab_size": 100}, "token 119 lies outside the vocabulary of 100"),
    ],
)
def test_a_wrong_index_is_named(tmp_path: Path, change: dict[str, object], message: str) -> None:
    write_corpus(tmp_path, [30, 90])
    index = json.loads((tmp_path / "index.json").read_text())
    (tmp_path / "index.json").write_text(json.dumps(index | change))
    with pytest.raises(ValueError, match=message):
        Corpus.open(tmp_path, "train", verify=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"documents": 2.0}, "tokens, documents and shard_tokens are whole numbers"),
        ({"starts": {"file": 3, "entries": 2, "sha256": ""}}, "a file has a name, a number of entries and a checksum"),
        ({"starts": {"file": "x", "entries": -2, "sha256": ""}}, "a file has a name, a number of entries and a checksum"),
        ({"shards": 3}, "incomplete or was edited"),
    ],
)
def test_a_wrong_split_is_named(tmp_path: Path, change: dict[str, object], message: str) -> None:
    write_corpus(tmp_path, [30, 90])
    index = json.loads((tmp_path / "index.json").read_text())
    index["splits"]["train"] |= change
    (tmp_path / "index.json").write_text(json.dumps(index))
    with pytest.raises(ValueError, match=message):
        Corpus.open(tmp_path, "train")


def test_counts_that_disagree_an_empty_split_and_no_corpus_are_named(tmp_path: Path) -> None:
    write_corpus(tmp_path, [30, 90])
    index = json.loads((tmp_path / "index.json").read_text())
    index["splits"]["train"]["tokens"] = 119
    (tmp_path / "index.json").write_text(json.dumps(index))
    with pytest.raises(ValueError, match="shards and counts disagree"):
        Corpus.open(tmp_path, "train")
    index["splits"]["train"] |= {"tokens": 0, "shards": []}
    (tmp_path / "index.json").write_text(json.dumps(index))
    with pytest.raises(ValueError, match="split 'train' is empty"):
        Corpus.open(tmp_path, "train")
    (tmp_path / "index.json").write_text("{")
    with pytest.raises(ValueError, match=r"index\.json is not valid JSON"):
        Corpus.open(tmp_path, "train")
    with pytest.raises(FileNotFoundError, match=r"is not a corpus; `eigentrack lm prepare` makes one"):
        Corpus.open(tmp_path / "elsewhere", "train")


def test_a_model_must_know_every_token(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path, [30])
    corpus.check_vocabulary(VOCAB)
    corpus.check_vocabulary(VOCAB + 1)
    with pytest.raises(ValueError, match=f"a vocabulary of {VOCAB}, the model knows 256: set vocab_size={VOCAB}"):
        corpus.check_vocabulary(256)


def test_reading_needs_no_optional_package(tmp_path: Path) -> None:
    write_corpus(tmp_path, [30, 30])
    script = (
        "import sys; from eigentrack.lm.batches import PackedBatches; from eigentrack.lm.corpus import Corpus\n"
        f"PackedBatches(Corpus.open({str(tmp_path)!r}), batch=2, length=8, seed=0).take(0)\n"
        "print([name for name in ('transformers', 'tokenizers', 'datasets', 'pyarrow') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert result.stdout.strip() == "[]"
