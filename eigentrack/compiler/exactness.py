"""A check that no value is rounded anywhere in a computation, so that the order of evaluation cannot matter.

Every op that a model runs is a move of data, a sum of products, out = Σ ± x·y, or a gate function. If all x are multiples of
2^p, all y of 2^q, and Σ |x||y| < 2^(p+q+m), m the bits of the mantissa, then every partial sum, in any order, with or without
fused multiply-adds, is a multiple of 2^(p+q) below 2^(p+q+m), and therefore a float. Gate functions are allowed only at the few
points where every implementation returns the same value: saturated, or at 0. Any other op is reported by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

MANTISSA_BITS = {torch.float64: 53, torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}
TF32_BITS = 11  # mantissa bits of the operands of a float32 product, if the user allows TF32
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
    """A context that checks every op run inside it; `faults` maps the names of ops that may have rounded to reasons.

    The weights must not change, since their facts are cached.
    """

    def __init__(self, weights: Iterable[Tensor] = ()) -> None:
        super().__init__()
        self.faults: dict[str, str] = {}
        self._weights = {weight.untyped_storage().data_ptr() for weight in weights}
        self._known: dict[tuple[Any, ...], Facts] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if name in _MOVES or name in self.faults or not _makes_floats(out):
            return out
        with torch.utils._python_dispatch._disable_current_modes():
            if name in _RULES and isinstance(out, Tensor):
                fault = _RULES[name](self._facts, out, *args, **(kwargs or {}))
            else:
                fault = "is not covered by the proof"
        if fault:
            self.faults[name] = fault
        return out

    def _facts(self, value: Any, like: Tensor) -> Facts:
        x = value if isinstance(value, Tensor) else torch.tensor(value, dtype=like.dtype)
        if x.untyped_storage().data_ptr() not in self._weights:
            return Facts.of(x)
        key = x.untyped_storage().data_ptr(), x.storage_offset(), tuple(x.shape), tuple(x.stride())
        if key not in self._known:
            self._known[key] = Facts.of(x)
        return self._known[key]


@dataclass(frozen=True)
class Facts:
    """The facts about a tensor from which exactness is decided."""

    size: Tensor  # the absolute value of each entry
    quanta: Tensor  # the largest power of two that divides each entry

    @staticmethod
    def of(x: Tensor) -> Facts:
        return Facts(x.detach().double().abs(), quanta(x))


Look = Callable[[Any, Tensor], Facts]


def _makes_floats(out: Any) -> bool:
    if isinstance(out, (tuple, list)):
        return any(map(_makes_floats, out))
    return isinstance(out, Tensor) and out.is_floating_point()


def quanta(x: Tensor) -> Tensor:
    """Return the largest power of two that divides each entry, in float64; infinity for 0, nan if the entry is not finite."""
    size = x.detach().double().abs()
    bits = size.view(torch.int64)
    # clearing the last set bit of the mantissa makes a float smaller by that bit's value; a power of two has no such bit
    rest = torch.where(bits & (2**52 - 1) == 0, 0, bits & (bits - 1)).view(torch.float64)
    return torch.where(size == 0, math.inf, size - rest + 0 * size)  # 0 * inf is nan


def _fits(bound: Tensor, unit: Tensor, dtype: torch.dtype) -> str | None:
    """Return None if, for each entry, every multiple of the unit up to the bound is a float, otherwise the fault.

    A multiple may need too many bits, be too large, or be too small.
    """
    limits = torch.finfo(dtype)
    exact = (bound < unit * 2.0 ** MANTISSA_BITS[dtype]) & (bound <= limits.max) & (unit >= limits.tiny)
    rounded = ~((bound == 0) | exact)  # nan counts as a fault
    if not rounded.any():
        return None
    reach, step = (float(side.expand_as(rounded)[rounded][0]) for side in (bound, unit))
    return f"may round: sums reach {reach:g} in units of {step:g}, too many for {str(dtype).removeprefix('torch.')}"


def _matrix_product(look: Look, out: Tensor, x: Tensor, y: Tensor, bias: Tensor | None = None) -> str | None:
    """Return the fault of x @ y + bias, or None; each column has its own unit, on which weights of 0 have no influence."""
    a, b = look(x, out), look(y, out)
    for operand in (a, b):
        if ((operand.size > 0) & (operand.size >= operand.quanta * 2.0**TF32_BITS)).any():
            return f"has an operand of more than {TF32_BITS} bits, which a GPU may round to TF32"
    unit = (a.quanta.amin(-2)[..., None] * b.quanta).amin(-2)
    bound = (a.size @ b.size).amax(-2)
    if bias is not None:
        c = look(bias, out)
        unit, bound = torch.minimum(unit, c.quanta), bound + c.size
    return _fits(bound, unit, out.dtype)


def _matrix_product_plus(look: Look, out: Tensor, bias: Tensor, x: Tensor, y: Tensor, **_: Any) -> str | None:
    return _matrix_product(look, out, x, y, bias)


def _product(look: Look, out: Tensor, x: Any, y: Any) -> str | None:
    a, b = look(x, out), look(y, out)
    return _fits(a.size * b.size, a.quanta * b.quanta, out.dtype)


def _sum(look: Look, out: Tensor, x: Any, y: Any, alpha: float = 1.0) -> str | None:
    a, b = look(x, out), look(y * alpha, out)
    return _fits(a.size + b.size, torch.minimum(a.quanta, b.quanta), out.dtype)


def _reduced(look: Look, out: Tensor, x: Tensor, dim: Any = None, keepdim: bool = False, **_: Any) -> str | None:
    a = look(x, out)
    return _fits(a.size.sum() if dim is None else a.size.sum(dim, keepdim), a.quanta.min(), out.dtype)


def _interpolated(look: Look, out: Tensor, start: Any, end: Any, weight: Any) -> str | None:
    """Return the fault of start + w (end - start), or None; the bound also covers end - (1 - w)(end - start)."""
    a, b, w, span = look(start, out), look(end, out), look(weight, out), look(end - start, out)
    unit = torch.minimum(torch.minimum(a.quanta, b.quanta), span.quanta * w.quanta.clamp_max(1.0))
    return _fits(a.size + b.size + 2 * span.size * (1 + w.size), unit, out.dtype)


def _cast(look: Look, out: Tensor, x: Tensor, **_: Any) -> str | None:
    same = torch.equal(out.double(), x.double()) if x.is_floating_point() else torch.equal(out.to(x.dtype), x)
    return None if same else f"rounds from {x.dtype} to {out.dtype}"


def _settled(*points: float) -> Callable[..., str | None]:
    """Return a rule for a gate function that is exact at ±saturation and at the given points."""

    def rule(look: Look, out: Tensor, x: Tensor, *_: Any, **__: Any) -> str | None:
        known = x.abs() >= SATURATED
        for point in points:
            known |= x == point
        wrong = x[~known]
        return f"is taken at {float(wrong[0]):g}, where implementations may differ" if len(wrong) else None

    return rule


def _exponential(look: Look, out: Tensor, x: Tensor) -> str | None:
    wrong = x[(x != 0) & (x > -SATURATED)]
    return f"is taken at {float(wrong[0]):g}, where implementations may differ" if len(wrong) else None


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
