"""Three small systems to see metric automata theory on: flip-flop by sLSTM and by Mamba, parity by the sign of a number.

slstm_flip_flop   ignoring is c ← ½c + tanh 4h, n ← ½n + 1, h = c/n; setting forgets all and writes. Robust: ε = 0.05 holds.
mamba_flip_flop   ignoring is x ← ¾x, setting x ← ¼x ± ½. Every gate lies in (0, 1): all shrinks, and no ε > 0 holds.
sign_parity       x ← -x on 1. Exact in every float type, and not robust: errors add up.

The letters of flip-flop are 0 and 1, which set the bit, and i, which is ignored.
"""

from __future__ import annotations

import math

import numpy as np

from eigentrack.analysis.dynamics import Dynamics, LetterMap, Transitions
from eigentrack.compiler.boxed_network import slstm_boxes
from eigentrack.compiler.interval import Arithmetic, Interval

FLIP_FLOP: Transitions = ((0, 1, 0), (0, 1, 1))
PARITY: Transitions = ((0, 1), (1, 0))
SETTLED = 64.0  # a logit at which σ is 0 or 1 to any purpose
REAL = Arithmetic()  # exact real numbers


def slstm_flip_flop(input_radius: float = 0.05) -> Dynamics:
    """Its state is (c, n, h, m) as the layer stores it. Every gate's logit may be off by the radius."""
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
    """One channel with A = -1: the gate is exp(-Δ), ¾ at Δ = ln 4/3."""

    def letter(gate: float, write: float) -> LetterMap:
        step_logit = math.log(1 / gate - 1)  # softplus of it is -ln gate
        eigenvalue = mamba_gate(Interval.at([[0.0]]), Interval.at([[step_logit]]))
        return lambda boxes: REAL.plus(REAL.times(eigenvalue, boxes), Interval.at([[write]]))

    maps = letter(0.25, -0.5), letter(0.25, 0.5), letter(0.75, 0.0)
    return Dynamics(("0", "1", "i"), maps, FLIP_FLOP, Interval.at([[-0.5]]))


def mamba_gate(log_rate: Interval, step_logit: Interval) -> Interval:
    """Return exp(-Δ e^r) with Δ = softplus(logit): Mamba's eigenvalue, between 0 and 1."""
    return REAL.exp(-REAL.times(REAL.softplus(step_logit), REAL.exp(log_rate)))


def sign_parity() -> Dynamics:
    maps: tuple[LetterMap, ...] = (lambda boxes: boxes, lambda boxes: -boxes)
    return Dynamics(("0", "1"), maps, PARITY, Interval.at([[1.0]]))


def keeps_sides(gate: float, write: float) -> bool:
    """Does x ← gate x + write map (-1, 0) into itself, or all of (-1, 0) and (0, 1) into one of them?

    The geometrically constrained view: the read-out need only be continuous on each of these open sets, which touch. Then every
    gate between 0 and 1 keeps a bit for ever, in exact numbers, and nothing is said about errors.
    """
    if write == 0:
        return 0 < gate <= 1
    return abs(gate) <= abs(write) and abs(gate) + abs(write) <= 1
