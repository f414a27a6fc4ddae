"""Packed sequences: N sequences laid end to end in one row of T tokens.

cu_seqlens = [0, end of sequence 0, end of sequence 1, ..., T]: sequence n owns the tokens cu_seqlens[n] : cu_seqlens[n+1].
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor


def check_bounds_type(cu_seqlens: object) -> None:
    if not isinstance(cu_seqlens, Tensor) or cu_seqlens.ndim != 1 or cu_seqlens.is_floating_point():
        shown = f"{cu_seqlens!r}".replace("\n", " ")
        raise ValueError(f"cu_seqlens={shown:.80} must be a vector of whole numbers, such as torch.tensor([0, 3, 7])")


def sequence_lengths(batch: int, time: int, cu_seqlens: Tensor | Sequence[int] | None) -> list[int]:
    """The length of every sequence; each has a state of its own."""
    if time == 0 or batch == 0:
        raise ValueError(f"the input has batch={batch} and time={time}: both must be at least 1")
    if cu_seqlens is None:
        return [time] * batch
    if batch != 1:
        raise ValueError(f"packed sequences need batch=1, got batch={batch}: lay the sequences end to end in one row")
    bounds = cu_seqlens.tolist() if isinstance(cu_seqlens, Tensor) else list(cu_seqlens)
    if len(bounds) < 2 or bounds[0] != 0 or bounds[-1] != time:
        raise ValueError(f"cu_seqlens={_abridged(bounds)} must start at 0 and end at the number of tokens, {time}")
    lengths = [end - start for start, end in pairwise(bounds)]
    if min(lengths) < 1:
        raise ValueError(f"cu_seqlens={_abridged(bounds)} must grow: no sequence may be empty")
    return lengths


def _abridged(bounds: list[int]) -> str:
    return str(bounds) if len(bounds) <= 8 else f"[{bounds[0]}, {bounds[1]}, ..., {bounds[-1]}]"


def sequence_count(x: Tensor, cu_seqlens: Tensor | None) -> int:
    if cu_seqlens is None:
        return x.shape[0]
    check_bounds_type(cu_seqlens)
    if len(cu_seqlens) < 2:
        sequence_lengths(x.shape[0], x.shape[1], cu_seqlens)  # says what is wrong
    return len(cu_seqlens) - 1


def or_zeros(state: Tensor | None, like: Tensor, cu_seqlens: Tensor | None, *shape: int) -> Tensor:
    return like.new_zeros(sequence_count(like, cu_seqlens), *shape) if state is None else state
