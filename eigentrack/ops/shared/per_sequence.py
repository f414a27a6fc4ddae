"""Runs a loop over time on each packed sequence in turn, each from its own state."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from eigentrack.ops.shared.dispatch import Backend, State
from eigentrack.ops.shared.packing import sequence_lengths


def per_sequence(loop: Callable[..., tuple[Tensor, State]]) -> Backend:
    """Gives `loop(*sequences, initial_state, **constants)` a `cu_seqlens`."""

    @functools.wraps(loop)
    def run(
        *sequences: Tensor | None, initial_state: State, cu_seqlens: Tensor | None, **constants: Any
    ) -> tuple[Tensor, State]:
        first = next(x for x in sequences if x is not None)
        lengths = sequence_lengths(first.shape[0], first.shape[1], cu_seqlens)
        if cu_seqlens is None:
            return loop(*sequences, initial_state=initial_state, **constants)
        pieces = zip(*([None] * len(lengths) if x is None else x.split(lengths, dim=1) for x in sequences), strict=True)
        results = [loop(*piece, initial_state=_row(initial_state, n), **constants) for n, piece in enumerate(pieces)]
        outputs, states = zip(*results, strict=True)
        return torch.cat(outputs, dim=1), _stack_rows(states)

    return run


def _row(state: State, n: int) -> State:
    return tuple(s[n : n + 1] for s in state) if isinstance(state, tuple) else state[n : n + 1]


def _stack_rows(states: tuple[Any, ...]) -> State:
    if isinstance(states[0], tuple):
        return tuple(torch.cat(parts) for parts in zip(*states, strict=True))
    return torch.cat(states)
