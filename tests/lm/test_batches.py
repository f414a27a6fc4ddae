"""Batches against a brute-force definition, and their order as a function of (seed, step) alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from eigentrack.lm.batches import PackedBatch, PackedBatches
from eigentrack.ops.cross_entropy.op import IGNORED
from eigentrack.ops.shared.packing import Packing
from tests.lm.corpora import VOCAB, write_corpus

LENGTHS = [5, 1, 1, 37, 12, 4, 80, 2, 9, 9, 9, 31]  # 200 tokens; one document lies across three windows of 16
STARTS = {sum(LENGTHS[:number]) for number in range(len(LENGTHS))}


def lengths_of(batch: PackedBatch) -> list[int]:
    """The lengths of the packed sequences, checked against the row."""
    packing = Packing.of(batch.tokens, batch.cu_seqlens)
    return [batch.tokens.shape[1]] * len(batch.tokens) if packing is None else list(packing.lengths)


def batches(folder: Path, **changes: object) -> PackedBatches:
    return PackedBatches(write_corpus(folder, LENGTHS), **{"batch": 4, "length": 16, "seed": 3, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("length", [1, 5, 16, 50, 199])
@pytest.mark.parametrize("step", [0, 1, 7])
def test_targets_and_bounds_by_their_definition(tmp_path: Path, length: int, step: int) -> None:
    batch = batches(tmp_path, length=length).take(step)
    tokens, targets = batch.tokens.view(4, length), batch.targets.view(4, length)
    assert batch.tokens.shape == batch.targets.shape == (1, 4 * length)
    bounds = {0, 4 * length}
    for row in range(4):
        first = int(tokens[row, 0])
        assert first % length == 0
        assert tokens[row].tolist() == list(range(first, first + length))  # token n of the corpus is n
        for place in range(length):
            following = first + place + 1
            assert targets[row, place] == (IGNORED if following in STARTS else following)
            if first + place in STARTS or place == 0:
                bounds.add(row * length + place)
    assert batch.cu_seqlens is not None
    assert batch.cu_seqlens.tolist() == sorted(bounds)
    assert sum(lengths_of(batch)) == 4 * length


def test_without_resets_the_same_tokens_come_as_rows(tmp_path: Path) -> None:
    packed, rows = batches(tmp_path).take(5), batches(tmp_path, reset_documents=False).take(5)
    assert rows.cu_seqlens is None
    assert rows.tokens.shape == (4, 16)
    assert torch.equal(packed.tokens.view(4, 16), rows.tokens)
    assert torch.equal(packed.targets.view(4, 16), rows.targets)


def test_every_epoch_shows_every_window_once_in_another_order(tmp_path: Path) -> None:
    source = batches(tmp_path, length=10)
    assert source.windows == 19  # the 20th would lack its last target
    drawn = torch.cat([source.take(step).tokens.view(4, 10)[:, 0] for step in range(19)]).tolist()  # 4 epochs, 19 steps of 4
    epochs = [drawn[19 * epoch : 19 * (epoch + 1)] for epoch in range(4)]
    assert all(sorted(epoch) == list(range(0, 190, 10)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 4
    assert source.epoch(19) == 4


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_the_ranks_share_one_global_batch(tmp_path: Path, ranks: int) -> None:
    source = batches(tmp_path)
    for step in (0, 3, 100):
        whole = source.take(step)
        parts = [source.take(step, rank, ranks) for rank in range(ranks)]
        assert torch.equal(torch.cat([part.tokens for part in parts], 1), whole.tokens)
        assert torch.equal(torch.cat([part.targets for part in parts], 1), whole.targets)
        lengths = [length for part in parts for length in lengths_of(part)]
        assert lengths == lengths_of(whole)


def test_the_order_depends_on_seed_and_step_and_nothing_else(tmp_path: Path) -> None:
    source = batches(tmp_path)
    later = source.take(9).tokens
    assert torch.equal(batches(tmp_path / "again").take(9).tokens, later)  # without the steps before
    assert not torch.equal(source.take(10).tokens, later)
    assert not torch.equal(batches(tmp_path / "other", seed=4).take(9).tokens, later)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"length": 200}, "split 'train' has 200 tokens, too few for one row of length=200 and its targets"),
        ({"length": 0}, "batch=4 and length=0 must both be at least 1"),
        ({"batch": 0}, "batch=0 and length=16 must both be at least 1"),
    ],
)
def test_bad_sizes_are_named(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        batches(tmp_path, **changes)


def test_ranks_must_divide_the_batch(tmp_path: Path) -> None:
    source = batches(tmp_path)
    for rank, ranks in [(0, 3), (4, 4), (-1, 2)]:
        with pytest.raises(ValueError, match=f"batch=4 must be a multiple of ranks={ranks}, and rank={rank} one of them"):
            source.take(0, rank, ranks)


def test_documents_without_a_token_make_no_empty_sequences(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path, LENGTHS)
    whole = PackedBatches(corpus, batch=4, length=16, seed=3).take(0)
    corpus.starts = np.repeat(corpus.starts, 2)
    found = PackedBatches(corpus, batch=4, length=16, seed=3).take(0)
    assert found.cu_seqlens is not None
    assert whole.cu_seqlens is not None
    assert torch.equal(found.cu_seqlens, whole.cu_seqlens)
    assert torch.equal(found.targets, whole.targets)


def test_a_token_outside_of_the_vocabulary_is_named_before_a_model_meets_it(tmp_path: Path) -> None:
    source = batches(tmp_path, batch=12)
    shard = np.memmap(tmp_path / source.corpus.split.shards[1].file, source.corpus.dtype, mode="r+")
    shard[7] = VOCAB
    shard.flush()
    with pytest.raises(ValueError, match=rf"holds token {VOCAB}, outside of its vocabulary of {VOCAB}: .* --verify --out .*"):
        source.take(0)
