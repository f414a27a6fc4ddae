"""The batch-invariant mode: a sequence gives the same bits alone, in any batch, and packed beside any others.

The bits of a sum depend on the order of its terms. Libraries choose that order by the shapes that they are given, by where a
row lies in memory, and by its place among the rows. In the mode, the order depends on the sequence alone:

- a matrix product takes its rows in blocks of a fixed number, filled up with zeros; sums on a GPU do the same;
- a function whose vector code and whose code for the last few entries differ is composed of functions for which they do not;
- a backend takes a batch as packed sequences (`Op.run`), and the plans of kernels ask `is_batch_invariant`.

The first two replace operations of torch, beneath autograd, so that no layer has to know of the mode.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

ALIGNED = 16  # the sizes of products are multiples of so many entries, so that all rows start at whole cache lines
ROWS = 16  # the rows of a block on a CPU: few, as a single token fills a block, too
GPU_ROWS, GPU_MATRICES, GPU_MATRIX_ROWS = 256, 64, 64  # the sizes of blocks on a GPU: of one product, and of many small ones
GPU_SUMS = 4096  # sums in a block
HALVES = (torch.bfloat16, torch.float16)

_is_on = False  # a plain name, which torch.compile of all supported versions can read


def is_batch_invariant() -> bool:
    """Return whether the batch-invariant mode is on."""
    return _is_on


@contextmanager
def batch_invariant() -> Iterator[None]:
    """Turn the batch-invariant mode on: a sequence gives the same bits alone, in any batch, and packed beside any others.

    The promise is for one device, dtype, backend, number of threads and function (`forward` or `step`). It covers outputs and
    states; the gradients of weights are sums over the batch. Models run as they are written, also if they are compiled. Other
    threads must not compute meanwhile.
    """
    global _is_on
    if _is_on:
        yield
        return
    _is_on = True
    try:
        with sdpa_kernel(SDPBackend.MATH), _Replacements():  # attention by products and sums, which have replacements
            yield
    finally:
        _is_on = False


class _Replacements(TorchDispatchMode):
    """A mode in which operations of torch whose bits depend on the batch are replaced by others."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        replacement = _REPLACEMENTS.get(func) or _REPLACEMENTS.get(func.overloadpacket)
        if replacement is not None and not args[0].is_meta:
            return replacement(func, *args, **given)
        if torch.is_inference_mode_enabled():  # then operations made of others come here whole
            with self:
                found = func.decompose(*args, **given)
            if found is not NotImplemented:
                return found
        return func(*args, **given)


def _product(_: Any, x: Tensor, y: Tensor) -> Tensor:
    """Return x @ y, of matrices or of many matrices, in blocks of rows of x."""
    if not x.numel() or not y.numel():
        return x @ y
    rows, columns = x.shape[-2], y.shape[-1]
    many, on_gpu = x.ndim == 3, _on_gpu(x)
    size = (GPU_MATRIX_ROWS if many else GPU_ROWS) if on_gpu else ROWS
    x = F.pad(x, (0, -x.shape[-1] % ALIGNED, 0, -rows % size))
    gaps = (-columns % ALIGNED, -y.shape[-2] % ALIGNED)
    if many or any(gaps):  # weights that need no more rows or columns stay where they lie
        y = F.pad(y, (0, gaps[0], 0, gaps[1])).contiguous()
    if not many and not on_gpu:  # a CPU takes the blocks one by one
        blocks = x.contiguous().unflatten(0, (-1, size))
        return torch.bmm(blocks, y.expand(len(blocks), -1, -1)).flatten(0, 1)[:rows, :columns]
    multiply = _by_matrices if many and on_gpu else torch.matmul
    products = [multiply(block.contiguous(), y) for block in x.split(size, dim=-2)]
    return torch.cat(products, dim=-2)[..., :rows, :columns]


def _by_matrices(x: Tensor, y: Tensor) -> Tensor:
    """Return the products of many small matrices, a fixed number of them at once."""
    count = len(x)
    x, y = (F.pad(part, (0, 0, 0, 0, 0, -count % GPU_MATRICES)) for part in (x, y))
    pieces = zip(x.split(GPU_MATRICES), y.split(GPU_MATRICES), strict=True)
    return torch.cat([torch.bmm(*piece) for piece in pieces])[:count]


def _product_plus(func: Any, given: Tensor, x: Tensor, y: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    product = _product(func, x, y) if alpha == 1 else alpha * _product(func, x, y)
    return product if beta == 0 else given * beta + product


def _matrix_vector(func: Any, x: Tensor, vector: Tensor) -> Tensor:
    return _product(func, x, vector[:, None])[:, 0]


def _solved(func: Any, a: Tensor, b: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """Return the solution of triangular systems a x = b, enlarged by rows of the identity."""
    if not left or a.shape[-1] != b.shape[-2] or not b.numel():
        return func(a, b, upper=upper, left=left, unitriangular=unitriangular)
    rows, columns = b.shape[-2:]
    more = -rows % ALIGNED
    diagonal = torch.arange(rows + more, device=a.device) >= rows
    a = F.pad(a, (0, more, 0, more)) + torch.diag(diagonal).to(a.dtype)
    b = F.pad(b, (0, -columns % ALIGNED, 0, more))
    solve = _by_systems if _on_gpu(a) else _solve
    shape = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (part.expand(*shape, *part.shape[-2:]).reshape(-1, *part.shape[-2:]) for part in (a, b))
    return solve(a, b, upper, unitriangular).view(*shape, *b.shape[-2:])[..., :rows, :columns]


def _solve(a: Tensor, b: Tensor, upper: bool, unitriangular: bool) -> Tensor:
    return torch.linalg.solve_triangular(a, b.contiguous(), upper=upper, unitriangular=unitriangular)


def _by_systems(a: Tensor, b: Tensor, upper: bool, unitriangular: bool) -> Tensor:
    """Return the solutions of a fixed number of systems at once."""
    count = len(a)
    a, b = (F.pad(part, (0, 0, 0, 0, 0, -count % GPU_MATRICES)) for part in (a, b))
    a[count:].diagonal(dim1=-2, dim2=-1).fill_(1.0)
    pieces = zip(a.split(GPU_MATRICES), b.split(GPU_MATRICES), strict=True)
    return torch.cat([_solve(*piece, upper, unitriangular) for piece in pieces])[:count]


def _softplus(x: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    return torch.where(x * beta > threshold, x, (x * beta).exp().log1p() / beta)


def _sigmoid(x: Tensor) -> Tensor:
    return 1 / (1 + (-x).exp())


def _silu(x: Tensor) -> Tensor:
    return x / (1 + (-x).exp())


def _rsqrt(x: Tensor) -> Tensor:
    return 1 / x.sqrt()


def _hypotenuse(x: Tensor, y: Tensor) -> Tensor:
    short, long = torch.minimum(x.abs(), y.abs()), torch.maximum(x.abs(), y.abs())
    return long * (1 + (short / long.where(long > 0, 1)).square()).sqrt()


def _angle(y: Tensor, x: Tensor) -> Tensor:
    """Return the angle of the point (x, y), from one between 0 and π/4."""
    short, long = torch.minimum(x.abs(), y.abs()), torch.maximum(x.abs(), y.abs())
    angle = (short / long.where(long > 0, 1)).atan()
    angle = torch.where(y.abs() > x.abs(), math.pi / 2 - angle, angle)
    return torch.where(x < 0, math.pi - angle, angle).copysign(y)


def _softmax(_: Any, x: Tensor, dim: int, half_to_float: bool = False) -> Tensor:
    wide = x.float() if x.dtype in HALVES else x
    shares = (wide - wide.amax(dim, keepdim=True)).exp()
    total = _reduced(shares, [dim], True, lambda rows: rows.sum(-1)) if _on_gpu(x) else shares.sum(dim, keepdim=True)
    return (shares / total).to(wide.dtype if half_to_float else x.dtype)


def _sum(func: Any, x: Tensor, dims: Any, keepdim: bool = False, **given: Any) -> Tensor:
    """Return a sum or a mean over some dimensions."""
    return _reduced(x, dims, keepdim, lambda rows: func(rows, [-1], **given))


def _norm(func: Any, x: Tensor, order: float = 2, dims: Any = None, keepdim: bool = False, **given: Any) -> Tensor:
    return _reduced(x, dims, keepdim, lambda rows: func(rows, order, [-1], **given))


def _reduced(x: Tensor, dims: Any, keepdim: bool, reduce: Callable[[Tensor], Tensor]) -> Tensor:
    dims = range(x.ndim) if not dims else [dim % x.ndim for dim in dims]
    kept = [dim for dim in range(x.ndim) if dim not in dims]
    found = _by_rows(x.permute(*kept, *dims).flatten(len(kept)), reduce)
    for dim in sorted(dims) if keepdim else ():
        found = found.unsqueeze(dim)
    return found


def _running_sum(func: Any, x: Tensor, dim: int, **given: Any) -> Tensor:
    return _by_rows(x.movedim(dim, -1), lambda rows: func(rows, -1, **given)).movedim(-1, dim)


def _by_rows(x: Tensor, compute: Callable[[Tensor], Tensor]) -> Tensor:
    """Apply a function of rows [.., n] to a fixed number of rows at once."""
    if not x.numel():
        return compute(x)
    rows = x.reshape(-1, x.shape[-1])
    padded = F.pad(rows, (0, 0, 0, -len(rows) % GPU_SUMS))
    found = torch.cat([compute(block) for block in padded.split(GPU_SUMS)])[: len(rows)]
    return found.view(*x.shape[:-1], *found.shape[1:])


def _only(on_gpu: bool, replacement: Callable[..., Any]) -> Callable[..., Any]:
    """Return a replacement that is made on one kind of device alone; the other has no need of it."""

    @wraps(replacement)
    def chosen(func: Any, x: Tensor, *args: Any, **given: Any) -> Any:
        return replacement(func, x, *args, **given) if _on_gpu(x) == on_gpu else func(x, *args, **given)

    return chosen


def _in_floats(compute: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return a replacement on a CPU that computes half precision in float32."""

    def replaced(func: Any, x: Tensor, *args: Any, **given: Any) -> Tensor:
        wide = x.float() if x.dtype in HALVES else x
        return compute(wide, *args, **given).to(x.dtype)

    return _only(False, replaced)


def _on_gpu(x: Tensor) -> bool:
    return x.is_cuda


_aten = torch.ops.aten
_REPLACEMENTS: dict[Any, Callable[..., Any]] = {
    _aten.mm: _product,
    _aten.bmm: _product,
    _aten.addmm: _product_plus,
    _aten.baddbmm: _product_plus,
    _aten.mv: _matrix_vector,
    _aten.linalg_solve_triangular: _solved,
    _aten.softplus: _in_floats(_softplus),
    _aten.sigmoid: _in_floats(_sigmoid),
    _aten.silu: _in_floats(_silu),
    _aten.rsqrt: _in_floats(_rsqrt),
    _aten.hypot: _only(False, lambda _, x, y: _hypotenuse(x, y)),
    _aten.atan2: _only(False, lambda _, y, x: _angle(y, x)),
    _aten._softmax: _softmax,
    _aten.sum.dim_IntList: _only(True, _sum),
    _aten.mean.dim: _only(True, _sum),
    _aten.linalg_vector_norm: _only(True, _norm),
    _aten.cumsum: _only(True, _running_sum),
}
