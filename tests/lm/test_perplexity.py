"""Perplexity by position against one pass with all logits, for every cut into windows, pieces and buckets."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from eigentrack.lm import perplexity
from eigentrack.lm.documents import ShareSplit
from eigentrack.lm.language_model import find_model_folder, load_language_model
from eigentrack.lm.perplexity import TokenText, Windows, perplexity_by_position, perplexity_of, read_token_text
from eigentrack.lm.text_files import FileDocuments, find_files
from eigentrack.lm.tokenizer import bytes_of_tokens
from eigentrack.models import ModelConfig, SequenceModel
from eigentrack.ops.cross_entropy import op as cross_entropy
from tests.lm.corpora import write_corpus
from tests.lm.small_language_models import TEXT, write_language_model


def random_text(tokens: int, vocabulary: int, documents: tuple[int, ...] = (0,)) -> TokenText:
    ids = np.random.default_rng(0).integers(vocabulary, size=tokens).astype(np.uint32)
    return TokenText(ids, np.array(documents, np.int64))


def by_definition(model: SequenceModel, text: TokenText, starts: list[int], length: int) -> np.ndarray:
    """-log p of every prediction, [windows, length]; NaN where a document begins."""
    rows = []
    for start in starts:
        ids = torch.from_numpy(text.ids[start : start + length + 1].astype(np.int64))
        logits, _ = model(ids[None, :-1])
        losses = F.cross_entropy(logits[0].double(), ids[1:], reduction="none").detach().numpy()
        for position in text.starts:
            if start < position <= start + length:
                losses[position - start - 1] = np.nan
        rows.append(losses)
    return np.stack(rows)


@pytest.mark.parametrize("mixer", ["deltanet", "mamba", "attention"])
@pytest.mark.parametrize(("length", "buckets"), [(64, 1), (64, 5), (50, 50)])
def test_it_is_the_definition(mixer: str, length: int, buckets: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perplexity, "PIECE", 17)  # several pieces, the last a shorter one
    monkeypatch.setattr(perplexity, "AT_ONCE", 2)
    monkeypatch.setattr(cross_entropy, "CHUNK_ENTRIES", 5 * 11)  # logits of 5 tokens at a time
    model = SequenceModel(ModelConfig(vocab_size=11, d_model=16, layers=2, mixer=mixer)).eval()
    text = random_text(3 * length + 5, 11, (0, 7, length, length + 1, 2 * length + 30))
    found = perplexity_by_position(model, text, Windows(length), buckets=buckets)
    expected = by_definition(model, text, [0, length, 2 * length], length)
    assert found.windows == 3
    assert found.tokens == np.isfinite(expected).sum()
    assert found.perplexity == pytest.approx(math.exp(np.nanmean(expected)), rel=1e-4)
    assert [bucket.first for bucket in found.buckets] == [1, *(bucket.last + 1 for bucket in found.buckets[:-1])]
    assert found.buckets[-1].last == length
    for bucket in found.buckets:
        part = expected[:, bucket.first - 1 : bucket.last]
        assert bucket.tokens == np.isfinite(part).sum()
        if bucket.tokens:
            assert bucket.perplexity == pytest.approx(math.exp(np.nanmean(part)), rel=1e-4)


def test_whole_documents_are_those_that_are_longer_than_a_window() -> None:
    text = random_text(100, 11, (0, 20, 51, 60))
    assert Windows(20, whole=True).starts(text).tolist() == [20, 60]  # document 0 lacks the last target
    assert Windows(19, whole=True).starts(text).tolist() == [0, 20, 60]
    with pytest.raises(ValueError, match="the longest document has 40 tokens, too few for a window of length=40"):
        Windows(40, whole=True).starts(text)
    with pytest.raises(ValueError, match="the text has 100 tokens, too few for a window of length=100"):
        Windows(100).starts(text)


def test_few_windows_are_spread_over_the_text() -> None:
    assert Windows(10, most=3).starts(random_text(91, 11)).tolist() == [0, 30, 60]
    assert len(Windows(10, most=100).starts(random_text(91, 11))) == 9


def test_a_corpus_is_read_as_its_text(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path, [30, 40, 50], shard_tokens=25, dtype="uint16")
    text = TokenText(np.arange(120, dtype=np.uint32), np.array([0, 30, 70]))
    model = SequenceModel(ModelConfig(vocab_size=120, d_model=8, layers=1))
    found = [perplexity_by_position(model, row, Windows(29), buckets=3) for row in (corpus, text)]
    assert found[0] == found[1]


def test_memory_does_not_grow_with_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """The longest tensor that the head sees is a piece of a few windows, however long they are."""
    model = SequenceModel(ModelConfig(vocab_size=11, d_model=8, layers=1, mixer="mamba2"))
    seen = []
    whole = model.hidden
    monkeypatch.setattr(model, "hidden", lambda tokens, state: seen.append(tokens.shape) or whole(tokens, state))
    perplexity_by_position(model, random_text(4 * 5000 + 1, 11), Windows(5000), buckets=2)
    assert seen == [(4, 1024)] * 4 + [(4, 5000 - 4 * 1024)]


def test_bits_per_byte_count_the_bytes_of_the_text(tmp_path: Path) -> None:
    language_model = load_language_model(write_language_model(tmp_path / "model"))
    (tmp_path / "a.txt").write_text(TEXT)
    (tmp_path / "b.txt").write_text("b" * 50)
    documents = FileDocuments(find_files([tmp_path / "a.txt", tmp_path / "b.txt"]), ShareSplit(0.0))
    text = read_token_text(documents, language_model.tokenizer)
    sizes = bytes_of_tokens(language_model.tokenizer)
    assert sizes is not None
    assert sizes[text.ids].sum() == len(TEXT.encode()) + 50
    assert text.starts.tolist() == [0, int(np.flatnonzero(text.ids == language_model.tokenizer.end)[0]) + 1]
    found = perplexity_by_position(language_model.model, text, Windows(text.tokens - 1), buckets=1, token_bytes=sizes)
    predicted = len(TEXT.encode()) + 50 - sizes[text.ids[0]] - sizes[text.ids[text.starts[1]]]
    assert found.bytes == predicted
    assert found.bits_per_byte == pytest.approx(found.tokens * math.log2(found.perplexity) / predicted)
    shorter = read_token_text(documents, language_model.tokenizer, most=10)
    assert shorter.ids.tolist() == text.ids[:10].tolist()
    assert shorter.starts.tolist() == [0]


def test_tokens_of_another_kind_have_no_bytes(tmp_path: Path) -> None:
    from dataclasses import replace

    from tokenizers import decoders

    tokenizer = load_language_model(write_language_model(tmp_path)).tokenizer
    tokenizer.rust.decoder = decoders.WordPiece()
    assert bytes_of_tokens(replace(tokenizer)) is None


def test_a_hopeless_model_has_an_infinite_perplexity() -> None:
    assert perplexity_of(800.0, 1) == math.inf
    assert math.isnan(perplexity_of(0.0, 0))


def test_bad_windows_are_named() -> None:
    with pytest.raises(ValueError, match="length=0 and most=16 windows must both be at least 1"):
        Windows(0)
    with pytest.raises(ValueError, match="buckets=9 must lie between 1 and length=8"):
        perplexity_by_position(
            SequenceModel(ModelConfig(vocab_size=11, d_model=8, layers=1)), random_text(9, 11), Windows(8), buckets=9
        )


def test_a_models_folder_is_found(tmp_path: Path) -> None:
    write_language_model(tmp_path / "run" / "model")
    assert find_model_folder(tmp_path / "run" / "model") == tmp_path / "run" / "model"
    (tmp_path / "run" / "run.json").write_text("{}")
    assert find_model_folder(tmp_path / "run") == tmp_path / "run" / "model"
    (tmp_path / "unfinished").mkdir()
    (tmp_path / "unfinished" / "run.json").write_text("{}")
    with pytest.raises(ValueError, match="a run without a model, for it is not finished: go on with --resume"):
        find_model_folder(tmp_path / "unfinished")
    (tmp_path / "run" / "model" / "tokenizer.json").unlink()
    with pytest.raises(ValueError, match=r"has no tokenizer.json: copy the tokenizer of its corpus"):
        load_language_model(tmp_path / "run")
