"""Checks of the arguments of layers, with errors that name the argument and its value."""

from __future__ import annotations

import math
from typing import TypeGuard

from eigentrack.ops.shared.dispatch import BACKENDS


def require_positive(**values: object) -> None:
    """Raise unless all values are whole numbers of at least 1."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{name}={value!r} must be a whole number of at least 1")


def require_positive_number(**values: object) -> None:
    """Raise unless all values are positive, finite numbers."""
    for name, value in values.items():
        if not _is_number(value) or not 0 < value < math.inf:
            raise ValueError(f"{name}={value!r} must be a positive number")


def require_number(**values: object) -> None:
    for name, value in values.items():
        if not _is_number(value):
            raise ValueError(f"{name}={value!r} must be a number")


def require_two_numbers(**values: object) -> None:
    for name, value in values.items():
        if not isinstance(value, (list, tuple)) or len(value) != 2 or not all(map(_is_number, value)):
            raise ValueError(f"{name}={value!r} must be two numbers, such as [0.9, 0.99]")


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def head_width(d_model: int, heads: int) -> int:
    """Return the number of channels per head; raise if it is not a whole number."""
    require_positive(d_model=d_model, heads=heads)
    if d_model % heads:
        raise ValueError(f"d_model={d_model} must be a multiple of heads={heads}")
    return d_model // heads


def check_backend(backend: str) -> None:
    if backend not in BACKENDS:
        raise ValueError(f"backend={backend!r} is not known; there are {', '.join(BACKENDS)}")
