"""Parity batches against a slow definition."""

from __future__ import annotations

import pytest
import torch

from eigentrack.tasks import Parity
from eigentrack.tasks.parity import PADDING


def test_answers_count_the_ones() -> None:
    batch = Parity().sample(200, (3, 17), seed=0, step=4)
    lengths = set()
    for tokens, targets, weight in zip(batch.tokens.tolist(), batch.targets.tolist(), batch.weight, strict=True):
        length = tokens.index(PADDING) if PADDING in tokens else len(tokens)
        lengths.add(length)
        assert set(tokens[length:]) <= {PADDING}
        assert [sum(tokens[: t + 1]) % 2 for t in range(length)] == targets[:length]
        assert (weight[length:] == 0).all()
        assert weight.sum().item() == pytest.approx(1)
        assert weight[length - 1] == weight.max()
    assert lengths == set(range(3, 18))


def test_the_loss_can_fall_on_the_last_bit_alone() -> None:
    batch = Parity(last_weight=1.0).sample(50, (3, 9), seed=0, step=0)
    assert torch.equal(batch.weight.count_nonzero(1), torch.ones(50, dtype=torch.long))


def test_a_batch_is_a_function_of_seed_and_step() -> None:
    task = Parity()
    first, again, other = (task.sample(8, (3, 9), seed=0, step=step) for step in (1, 1, 2))
    assert torch.equal(first.tokens, again.tokens)
    assert not torch.equal(first.tokens, other.tokens)


def test_bad_values_are_named() -> None:
    with pytest.raises(ValueError, match=r"last_weight=1.5 must lie between 0 and 1"):
        Parity(last_weight=1.5)
    with pytest.raises(ValueError, match=r"lengths=\(5, 3\) must be 1 ≤ shortest ≤ longest"):
        Parity().sample(1, (5, 3), seed=0, step=0)
