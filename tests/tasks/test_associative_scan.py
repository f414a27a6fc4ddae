"""A scan against the loop that it replaces, with an operation that does not commute."""

from __future__ import annotations

import pytest
import torch

from eigentrack.tasks.associative_scan import Parts, associative_scan


@pytest.mark.parametrize("time", [1, 2, 3, 7, 8, 9, 40])
def test_it_is_the_loop(time: int) -> None:
    """Affine maps x ↦ ax + b modulo 97, composed from left to right."""
    a, b = torch.randint(97, (2, 5, time))

    def after(earlier: Parts, later: Parts) -> Parts:
        return later[0] * earlier[0] % 97, (later[0] * earlier[1] + later[1]) % 97

    scanned = associative_scan(after, a, b)
    x = torch.arange(5)
    for t in range(time):
        x = (a[:, t] * x + b[:, t]) % 97
        assert torch.equal((scanned[0][:, t] * torch.arange(5) + scanned[1][:, t]) % 97, x)
