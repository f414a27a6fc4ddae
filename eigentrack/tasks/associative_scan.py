"""Associative scan: x_1, x_1∘x_2, …, x_1∘…∘x_T in ⌈log₂ T⌉ rounds, each of which doubles how far back every result reaches.

A few large operations instead of T small ones: on a GPU a loop over time would cost more than the training step it feeds.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Parts = tuple[Tensor, ...]


def associative_scan(combine: Callable[[Parts, Parts], Parts], *parts: Tensor) -> Parts:
    """Over axis 1 of all parts together: x_t is what they hold at t, and `combine(earlier, later)` is earlier ∘ later."""
    reach = 1
    while reach < parts[0].shape[1]:
        earlier, later = tuple(x[:, :-reach] for x in parts), tuple(x[:, reach:] for x in parts)
        joined = combine(earlier, later)
        parts = tuple(torch.cat([x[:, :reach], further], 1) for x, further in zip(parts, joined, strict=True))
        reach *= 2
    return parts
