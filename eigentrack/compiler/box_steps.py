"""One step of a recurrence on boxes: every state in the box, by every input in the box of inputs, lands in the result.

slstm      (c, n, h, m) as `ops/slstm/reference.py` stores them
lstm       (c, h) of `ops/lstm/reference.py`
diagonal   h' = a h + b, with a = exp(Δ A) and b = Δ B x in Mamba

N boxes  H heads  D head dim
"""

from __future__ import annotations

import numpy as np

from eigentrack.compiler.interval import Arithmetic, Array, Interval

Cell = tuple[Interval, ...]


def slstm_boxes(gates: Interval, recurrent: Array, state: Cell, floats: Arithmetic) -> Cell:
    """gates [N, H, 4, D] from the input, recurrent [H, 4, D, D], state c, n, h, m [N, H, D]."""
    c, n, h, m = state
    z, i, f, o = _gates(gates, recurrent, h, floats)
    kept = floats.plus(floats.log_sigmoid(f), m)
    m = floats.maximum(kept, i)
    # m is the larger of both, so no exponent exceeds 0 and no weight 1, whatever the intervals say
    keep, write = (_at_most(1.0, floats.exp(_at_most(0.0, floats.plus(part, -m)))) for part in (kept, i))
    c = floats.plus(floats.times(keep, c), floats.times(write, floats.tanh(z)))
    n = floats.plus(floats.times(keep, n), write)
    return c, n, floats.divided(floats.times(floats.sigmoid(o), c), n), m


def lstm_boxes(gates: Interval, recurrent: Array, state: Cell, floats: Arithmetic) -> Cell:
    """gates [N, H, 4, D] from the input, recurrent [H, 4, D, D], state c, h [N, H, D]."""
    c, h = state
    z, i, f, o = _gates(gates, recurrent, h, floats)
    c = floats.plus(floats.times(floats.sigmoid(f), c), floats.times(floats.sigmoid(i), floats.tanh(z)))
    return c, floats.times(floats.sigmoid(o), floats.tanh(c))


def diagonal_boxes(gate: Interval, write: Interval, state: Interval, floats: Arithmetic) -> Interval:
    return floats.plus(floats.times(gate, state), write)


def mamba_gate(log_rate: Interval, step_logit: Interval, floats: Arithmetic) -> Interval:
    """exp(-Δ e^r) with Δ = softplus(logit): Mamba's eigenvalue, between 0 and 1."""
    return floats.exp(-floats.times(floats.softplus(step_logit), floats.exp(log_rate)))


def _gates(gates: Interval, recurrent: Array, h: Interval, floats: Arithmetic) -> tuple[Interval, ...]:
    """z, i, f, o, each [N, H, D]."""
    whole = floats.plus(gates, floats.affine_by_head(h, recurrent))
    return tuple(whole[:, :, gate] for gate in range(4))


def _at_most(most: float, x: Interval) -> Interval:
    return Interval(np.minimum(x.low, most), np.minimum(x.high, most))
