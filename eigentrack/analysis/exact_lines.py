"""Exact heads of one point: along a unit vector u the memory s = uᵀS moves by s ← (1 - β) s + w on every letter.

β near 0 keeps s, near 1 sets it to w, near 2 reflects it at w/2. Measured from the mirror that the reflections share, a reset
is s ← w', a reflection s ← -s.

A letters  n state size  V columns
"""

from __future__ import annotations

import numpy as np

from eigentrack.analysis.exact_head import NEAR, Array, ExactHead, column_sizes, factor, rounded
from eigentrack.compiler.plan import Move


def exact_line(name: str, unit: Array, betas: Array, writes: Array, start: Array, levels: int) -> ExactHead | None:
    """`betas` [A] along the unit vector [n], writes [A, n, V], start [n, V]. None where this is not near any exact head."""
    exact = np.round(betas).astype(int)
    flips, resets = exact == 2, exact == 1
    if not np.isin(exact, (0, 1, 2)).all() or not exact.any():
        return None
    along = np.einsum("i,aiv->av", unit, writes)
    mirror = along[flips].mean(0) / 2 if flips.any() else np.zeros(along.shape[1])
    begin, goals = unit @ start - mirror, along - mirror
    held = np.stack([begin, *goals[resets]])
    size = np.abs(held).max()
    strays = np.abs(along - 2 * mirror)[flips].max(initial=0.0), np.abs(along[exact == 0]).max(initial=0.0)
    if size == 0 or (moved := max(np.abs(betas - exact).max(), max(strays) / size)) > NEAR:
        return None
    sizes, moves = column_sizes(held), []
    for beta, goal in zip(exact.tolist(), goals, strict=True):
        value = rounded(goal, sizes, levels) if beta == 1 else (0,) * len(goal)
        moves.append(Move((factor((1,), beta, value),)) if beta else Move())
    return ExactHead(name, (rounded(begin, sizes, levels),), tuple(moves), float(moved))
