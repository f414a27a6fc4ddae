"""Settling: on σσσ… a state of finitely many floats must repeat, h_t = h_(t+period) for all t ≥ transient.

A diagonal layer moves each float by h ← fl(fl(a h) + b), which keeps the order of floats (a ≥ 0) or reverses it, whatever the
rounding. On a constant input its period is therefore 1, or a divisor of 2; on an input of period p, a divisor of p or of 2p.
So the period of L layers divides 2^L, and it is 1 if no gate is negative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

State = tuple[Tensor, ...]


@dataclass(frozen=True)
class Settling:
    """From step `transient` on, the state repeats after `period` steps; both are the smallest."""

    transient: int
    period: int


@dataclass(frozen=True)
class DiagonalLayer:
    """h ← a(x) h + b(x), rounded after each operation; y(h, x) is the output, x the letter or the output of the layer below."""

    gate: Callable[[Tensor], Tensor]
    write: Callable[[Tensor], Tensor]
    read: Callable[[Tensor, Tensor], Tensor]


def diagonal_step(layers: Sequence[DiagonalLayer], letter: Tensor) -> Callable[[State], State]:
    """The step of the stack on one letter: the state is one tensor for each layer."""

    def step(state: State) -> State:
        signal, after = letter, []
        for layer, h in zip(layers, state, strict=True):
            after.append(layer.gate(signal) * h + layer.write(signal))
            signal = layer.read(after[-1], signal)
        return tuple(after)

    return step


def settling(step: Callable[[State], State], state: State, limit: int = 1_000_000) -> Settling:
    """Brent's search for the cycle; zeros of both signs count as equal."""
    if any(torch.isnan(part).any() for part in state):
        raise ValueError("the state holds NaN, which never equals itself")
    power = period = 1
    kept, moving = state, step(state)
    steps = 1
    while not _equal(kept, moving):
        if power == period:
            kept, power, period = moving, 2 * power, 0
        moving, period, steps = step(moving), period + 1, steps + 1
        if steps > limit:
            raise ValueError(f"the state has not repeated within limit={limit} steps: raise the limit")
    behind = ahead = state
    for _ in range(period):
        ahead = step(ahead)
    transient = 0
    while not _equal(behind, ahead):
        behind, ahead, transient = step(behind), step(ahead), transient + 1
    return Settling(transient, period)


def _equal(left: State, right: State) -> bool:
    return all(torch.equal(x, y) for x, y in zip(left, right, strict=True))
