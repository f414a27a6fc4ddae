"""Associative scan: x_1, x_1∘x_2, …, x_1∘…∘x_T in ⌈log₂ T⌉ rounds, each of which doubles how far back every result reaches.

The scan takes a few large operations instead of T small ones: on a GPU, a loop over time to draw a batch would take longer
than the training step on that batch.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Parts = tuple[Tensor, ...]


def associative_scan(combine: Callable[[Parts, Parts], Parts], *parts: Tensor) -> Parts:
    """Return all prefixes x_1 ∘ … ∘ x_t along axis 1.

    Args:
        combine: the associative operation; `combine(earlier, later)` is earlier ∘ later.
        parts: the tensors that make up the elements; x_t consists of the entries of all parts at position t of axis 1.
    """
    reach = 1
    while reach < parts[0].shape[1]:
        earlier, later = tuple(x[:, :-reach] for x in parts), tuple(x[:, reach:] for x in parts)
        joined = combine(earlier, later)
        parts = tuple(torch.cat([x[:, :reach], further], 1) for x, further in zip(parts, joined, strict=True))
        reach *= 2
    return parts
