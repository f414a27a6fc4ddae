"""Random batches, plain and packed, of a few sequences: each sequence must get the bits that it gets alone."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

BATCHES = 50
SEQUENCES = 4  # of which batches are made, with repetition
SIZES = (2, 3, 17)  # of batches; 17 tokens are more than a block of rows
LENGTHS = (1, 3, 5, 66)  # a token, a few, and more than a chunk
LONG_EVERY = 25  # of so many batches one has long sequences, and two or three of them

# the outputs [B, T, ...] and the state of a batch, from the numbers of its sequences, their lengths, and the bounds if packed
Run = Callable[[Sequence[int], Sequence[int], Tensor | None], tuple[Tensor, Any]]


def assert_forward_is_invariant(run: Run, lengths: Sequence[int] = LENGTHS, states: bool = True) -> None:
    """Hold every sequence of random batches, half of them packed, against what it gives alone."""
    chance = random.Random(0)
    alone: dict[tuple[int, int], Any] = {}
    for batch in range(BATCHES):
        is_long, packed = batch % LONG_EVERY == 0, batch % 4 < 2
        count = chance.choice(SIZES[:2] if is_long else SIZES)
        chosen = chance.choices(range(SEQUENCES), k=count)
        usable = lengths if is_long else lengths[:-1]
        spans = chance.choices(usable, k=count) if packed else [lengths[-1] if is_long else chance.choice(usable)] * count
        bounds = torch.tensor([0, *spans]).cumsum(0) if packed else None
        y, state = run(chosen, spans, bounds)
        pieces = y[0].split(spans) if packed else y.unbind(0)
        for row, (number, length, piece) in enumerate(zip(chosen, spans, pieces, strict=True)):
            if (number, length) not in alone:
                alone_y, alone_state = run([number], [length], None)
                alone[number, length] = alone_y[0], rows_of(alone_state, 0)
            expected = alone[number, length]
            ours = (piece, rows_of(state, row)) if states else piece
            assert_same_bits(ours, expected if states else expected[0], f"batch {batch}, sequence {row} of {count}")


def laid_out(pool: Tensor, chosen: Sequence[int], spans: Sequence[int], bounds: Tensor | None) -> Tensor:
    """Return the first tokens of the chosen rows of `pool` as a batch, or packed in one row."""
    pieces = [pool[number, :length] for number, length in zip(chosen, spans, strict=True)]
    return torch.stack(pieces) if bounds is None else torch.cat(pieces)[None]


def assert_step_is_invariant(
    step: Callable[[Tensor, Any], tuple[Tensor, Any]], pool: Tensor, stack: Callable[[list[Any]], Any]
) -> None:
    """Hold every sequence of random batches, which are 0 to 2 tokens into it, against what it gives alone."""
    chance, alone = random.Random(1), []
    for sequence in pool:
        state, outputs = None, []
        for token in sequence[:3]:
            y, state = step(token[None].clone(), state)
            outputs.append((y[0], state))
        alone.append(outputs)
    for batch in range(BATCHES):
        count, time = chance.choice(SIZES), batch % 3
        chosen = chance.choices(range(len(pool)), k=count)
        state = stack([alone[number][time - 1][1] for number in chosen]) if time else None
        y, state = step(pool[chosen, time], state)
        for row, number in enumerate(chosen):
            expected, after = alone[number][time]
            where = f"step in batch {batch}, sequence {row} of {count}"
            assert_same_bits((y[row], rows_of(state, row)), (expected, rows_of(after, 0)), where)


def rows_of(state: Any, row: int) -> list[Tensor]:
    """Return the parts of one sequence's state."""
    return [part[row] for part in pytree.tree_leaves(state)]


def assert_same_bits(found: Any, expected: Any, where: str) -> None:
    ours, theirs = pytree.tree_leaves(found), pytree.tree_leaves(expected)
    assert len(ours) == len(theirs) > 0
    for x, y in zip(ours, theirs, strict=True):
        assert x.dtype == y.dtype
        assert torch.equal(x, y) or torch.equal(x.nan_to_num(), y.nan_to_num()), (
            f"{where}: {int((x != y).sum())} numbers differ"
        )
