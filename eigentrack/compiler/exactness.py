"""Exactness: is any value rounded anywhere in a computation? If none is, the order of evaluation cannot matter.

Every op that a model runs is one of: a move of data; a sum of products, out = Σ ± x·y; or a gate function. If all x are
multiples of 2^p, all y of 2^q, and Σ |x||y| < 2^(p+q+m), m the bits of the mantissa, then every partial sum, in any order and
with or without fused multiply-adds, is a multiple of 2^(p+q) below 2^(p+q+m): a float. Gate functions are allowed at the few
points where every implementation returns the same: saturated, or at 0. Whatever else happens is reported by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

MANTISSA_BITS = {torch.float64: 53, torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}
SATURATED = 1000.0  # beyond this exp(-x) is 0 in every float type

# ops that only move, compare or choose values, or make constants
_MOVES = frozenset(
    {
        "_unsafe_view",
        "view",
        "t",
        "transpose",
        "permute",
        "unsqueeze",
        "squeeze",
        "expand",
        "select",
        "slice",
        "split",
        "split_with_sizes",
        "unbind",
        "cat",
        "stack",
        "clone",
        "alias",
        "detach",
        "embedding",
        "index",
        "index_select",
        "zeros",
        "zeros_like",
        "new_zeros",
        "new_full",
        "ones",
        "ones_like",
        "full",
        "lift_fresh",
        "eye",
        "arange",
        "neg",
    }
)


class ExactnessCheck(TorchDispatchMode):
    """Watches the ops run inside it; `faults` says which could have rounded, each kind once."""

    def __init__(self) -> None:
        super().__init__()
        self.faults: dict[str, str] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if name in _MOVES or name in self.faults or not _makes_floats(out):
            return out
        with torch.utils._python_dispatch._disable_current_modes():
            fault = _RULES[name](out, *args, **(kwargs or {})) if name in _RULES else "is not covered by the proof"
        if fault:
            self.faults[name] = fault
        return out


def _makes_floats(out: Any) -> bool:
    return isinstance(out, Tensor) and out.is_floating_point()


def quanta(x: Tensor) -> Tensor:
    """For each entry the largest power of two that divides it, in float64; infinity for 0, nan for what is not finite."""
    entries = x.detach().double()
    mantissa, exponent = torch.frexp(entries)
    whole = (mantissa.abs() * 2.0**53).nan_to_num().long()
    found = torch.ldexp((whole & -whole).double(), exponent - 53)
    return torch.where(entries == 0, math.inf, torch.where(entries.isfinite(), found, math.nan))


def _fits(bound: Tensor, unit: Tensor, dtype: torch.dtype) -> str | None:
    """Is every multiple of the unit up to the bound a float, entry by entry?"""
    rounded = ~((bound == 0) | (bound < unit * 2.0 ** MANTISSA_BITS[dtype]))  # nan is a fault, too
    if not rounded.any():
        return None
    reach, step = (float(side.expand_as(rounded)[rounded][0]) for side in (bound, unit))
    return f"may round: sums reach {reach:g} in units of {step:g}, too many for {str(dtype).removeprefix('torch.')}"


def _matrix_product(out: Tensor, x: Tensor, y: Tensor, bias: Tensor | None = None) -> str | None:
    """Column by column: a weight of 0 takes no part in its column."""
    unit = (quanta(x).amin(-2)[..., None] * quanta(y)).amin(-2)
    bound = (x.double().abs() @ y.double().abs()).amax(-2)
    if bias is not None:
        unit, bound = torch.minimum(unit, quanta(bias)), bound + bias.double().abs()
    return _fits(bound, unit, out.dtype)


def _matrix_product_plus(out: Tensor, bias: Tensor, x: Tensor, y: Tensor, **_: Any) -> str | None:
    return _matrix_product(out, x, y, bias)


def _product(out: Tensor, x: Any, y: Any) -> str | None:
    a, b = _tensor(x, out), _tensor(y, out)
    return _fits((a.double() * b.double()).abs(), quanta(a) * quanta(b), out.dtype)


def _sum(out: Tensor, x: Any, y: Any, alpha: float = 1.0) -> str | None:
    a, b = _tensor(x, out), _tensor(y, out) * alpha
    return _fits(a.double().abs() + b.double().abs(), torch.minimum(quanta(a), quanta(b)), out.dtype)


def _reduced(out: Tensor, x: Tensor, dim: Any = None, keepdim: bool = False, **_: Any) -> str | None:
    total = x.double().abs().sum() if dim is None else x.double().abs().sum(dim, keepdim)
    return _fits(total, quanta(x).min(), out.dtype)


def _interpolated(out: Tensor, start: Any, end: Any, weight: Any) -> str | None:
    """start + w (end - start), or end - (1 - w)(end - start): both are sums of products of these."""
    a, b, w = (_tensor(value, out) for value in (start, end, weight))
    unit = torch.minimum(torch.minimum(quanta(a), quanta(b)), quanta(b - a) * quanta(w).clamp_max(1.0))
    return _fits((a.abs() + b.abs() + 2 * (b - a).abs() * (1 + w.abs())).double(), unit, out.dtype)


def _cast(out: Tensor, x: Tensor, **_: Any) -> str | None:
    same = torch.equal(out.double(), x.double()) if out.is_floating_point() and x.is_floating_point() else True
    return None if same else f"rounds from {x.dtype} to {out.dtype}"


def _settled(*points: float) -> Callable[..., str | None]:
    """A rule for a gate function that is exact at ±saturation and at the given points."""

    def rule(out: Tensor, x: Tensor, *_: Any, **__: Any) -> str | None:
        known = x.abs() >= SATURATED
        for point in points:
            known |= x == point
        wrong = x[~known]
        return f"is taken at {float(wrong[0]):g}, where implementations may differ" if len(wrong) else None

    return rule


def _exponential(out: Tensor, x: Tensor) -> str | None:
    wrong = x[(x != 0) & (x > -SATURATED)]
    return f"is taken at {float(wrong[0]):g}, where implementations may differ" if len(wrong) else None


def _tensor(value: Any, like: Tensor) -> Tensor:
    return value if isinstance(value, Tensor) else torch.tensor(value, dtype=like.dtype)


_RULES: dict[str, Callable[..., str | None]] = {
    "mm": _matrix_product,
    "bmm": _matrix_product,
    "mul": _product,
    "add": _sum,
    "sub": _sum,
    "rsub": _sum,
    "sum": _reduced,
    "addmm": _matrix_product_plus,
    "lerp": _interpolated,
    "_to_copy": _cast,
    "sigmoid": _settled(0.0),
    "silu": _settled(0.0),
    "softplus": _settled(),
    "exp": _exponential,
}
