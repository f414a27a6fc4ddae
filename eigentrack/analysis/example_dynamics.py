"""Three small systems that illustrate metric automata theory: flip-flop by sLSTM and by Mamba, parity by a sign.

slstm_flip_flop   i: c ← ½c + tanh 4h, n ← ½n + 1, h = c/n; 0 and 1 forget everything and write. Robust for ε = 0.05.
mamba_flip_flop   i: x ← ¾x; 0 and 1: x ← ¼x ± ½. Every gate lies in (0, 1), so all states shrink: robust for no ε > 0.
sign_parity       1: x ← -x. Exact in every float type, but not robust, for errors add up.

The letters of flip-flop are 0 and 1, which set the bit, and i, which leaves it as it is.
"""

from __future__ import annotations

import math

import numpy as np

from eigentrack.analysis.dynamics import Dynamics, LetterMap, Transitions
from eigentrack.compiler.boxed_network import slstm_boxes
from eigentrack.compiler.interval import Arithmetic, Interval

FLIP_FLOP: Transitions = ((0, 1, 0), (0, 1, 1))
PARITY: Transitions = ((0, 1), (1, 0))
SETTLED = 64.0  # a logit at which σ is 0 or 1 for all practical purposes
REAL = Arithmetic()  # exact real numbers


def slstm_flip_flop(input_radius: float = 0.05) -> Dynamics:
    """Return flip-flop by an sLSTM, with the state (c, n, h, m) of the layer; each gate's logit may err by `input_radius`."""
    recurrent = np.zeros((1, 4, 1, 1))
    recurrent[0, 0] = 4.0

    def letter(z: float, forget: float) -> LetterMap:
        logits = Interval.at(np.array([z, 0.0, forget, SETTLED]).reshape(1, 1, 4, 1)).inflated(input_radius)

        def image(boxes: Interval) -> Interval:
            rows = len(boxes.low)
            gates = Interval(*(np.broadcast_to(end, (rows, 1, 4, 1)) for end in (logits.low, logits.high)))
            state = tuple(boxes[:, part].reshape(rows, 1, 1) for part in range(4))
            return Interval.joined([part.reshape(rows, 1) for part in slstm_boxes(gates, recurrent, state, REAL)], axis=1)

        return image

    maps = letter(-SETTLED, -SETTLED), letter(SETTLED, -SETTLED), letter(0.0, 0.0)
    return Dynamics(("0", "1", "i"), maps, FLIP_FLOP, Interval.at([[-1.0, 1.0, -1.0, 0.0]]), input_radius=input_radius)


def mamba_flip_flop() -> Dynamics:
    """Return flip-flop by one channel of Mamba with A = -1, whose gate is exp(-Δ): ¾ at Δ = ln 4/3."""

    def letter(gate: float, write: float) -> LetterMap:
        step_logit = math.log(1 / gate - 1)  # softplus of it is -ln gate
        eigenvalue = mamba_gate(Interval.at([[0.0]]), Interval.at([[step_logit]]))
        return lambda boxes: REAL.plus(REAL.times(eigenvalue, boxes), Interval.at([[write]]))

    maps = letter(0.25, -0.5), letter(0.25, 0.5), letter(0.75, 0.0)
    return Dynamics(("0", "1", "i"), maps, FLIP_FLOP, Interval.at([[-0.5]]))


def mamba_gate(log_rate: Interval, step_logit: Interval) -> Interval:
    """Return Mamba's eigenvalue, between 0 and 1: exp(-Δ e^r) with Δ = softplus(logit)."""
    return REAL.exp(-REAL.times(REAL.softplus(step_logit), REAL.exp(log_rate)))


def sign_parity() -> Dynamics:
    maps: tuple[LetterMap, ...] = (lambda boxes: boxes, lambda boxes: -boxes)
    return Dynamics(("0", "1"), maps, PARITY, Interval.at([[1.0]]))


def keeps_sides(gate: float, write: float) -> bool:
    """Return whether x ← gate x + write maps each of (-1, 0) and (0, 1) into itself, or both into one of them.

    In the geometrically constrained view the read-out need only be continuous on each of these two open sets, which touch.
    Then every gate between 0 and 1 keeps a bit for ever in exact arithmetic; nothing is said about errors.
    """
    if write == 0:
        return 0 < gate <= 1
    return abs(gate) <= abs(write) and abs(gate) + abs(write) <= 1
