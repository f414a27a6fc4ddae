"""Exact heads of one point: along a unit vector u the memory s = uᵀS moves by s ← (1 - β) s + w on every letter.

β near 0 keeps s, near 1 sets it to w, near 2 reflects it at w/2. Measured from the mirror that the reflections share, a reset
is s ← w', a reflection s ← -s. What uᵀA has beside u leaks the rest of the memory into s, and is left out.

A letters  n state size  V columns
"""

from __future__ import annotations

import numpy as np

from eigentrack.analysis.exact_head import Array, ExactHead, column_sizes, factor, rounded
from eigentrack.compiler.plan import Move


def exact_line(name: str, unit: Array, matrices: Array, writes: Array, start: Array, levels: int) -> ExactHead | None:
    """The unit vector [n], A [A, n, n], writes [A, n, V], start [n, V]. None where no exact head is nearest."""
    led = np.einsum("i,aij->aj", unit, matrices)
    betas = 1 - led @ unit
    exact = np.round(betas).astype(int)
    flips, resets = exact == 2, exact == 1
    if not np.isin(exact, (0, 1, 2)).all() or not exact.any():
        return None
    along = np.einsum("i,aiv->av", unit, writes)
    mirror = along[flips].mean(0) / 2 if flips.any() else np.zeros(along.shape[1])
    begin, goals = unit @ start - mirror, along - mirror
    held = np.stack([begin, *goals[resets]])
    size = np.abs(held).max()
    if size == 0:
        return None
    leaks = np.linalg.norm(led - (1 - betas)[:, None] * unit, axis=1)
    strays = np.abs(along - 2 * mirror)[flips].max(initial=0.0), np.abs(along[exact == 0]).max(initial=0.0)
    moved = max(np.abs(betas - exact).max(), leaks.max(), max(strays) / size)
    sizes, moves = column_sizes(held), []
    for beta, goal in zip(exact.tolist(), goals, strict=True):
        value = rounded(goal, sizes, levels) if beta == 1 else (0,) * len(goal)
        moves.append(Move((factor((1,), beta, value),)) if beta else Move())
    return ExactHead(name, (rounded(begin, sizes, levels),), tuple(moves), float(moved))
