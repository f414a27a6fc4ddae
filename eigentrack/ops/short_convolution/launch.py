# mypy: disable-error-code="import-untyped"
"""Launches of the short convolution's kernels: how rows and channels are cut up, and in what order sums are added.

B batch  T time  C channels  W width of the filter  S sequences  n heads whose rows get length one
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from eigentrack.ops.shared.batch_invariance import is_batch_invariant
from eigentrack.ops.short_convolution.kernels import backward_kernel, forward_kernel

FORWARD_TILE = 1024  # numbers per tile: 8 rows of 128 channels, one load of 16 bytes per thread in bfloat16
BACKWARD_TILE = 512  # half as many, since a thread keeps four times as much in registers
CHANNELS = 128  # the most channels per tile, where no head sets the width
SHORTEST, LONGEST = 4, 64  # rows per stretch
INVARIANT_LENGTH = 8  # in the batch-invariant mode
PROGRAMS = 2048  # the number wanted, if there are enough rows: several for each place on the GPU
NUM_WARPS = 4


class Inputs(NamedTuple):
    """The inputs of the kernels; `bounds` and `sequence_of`, the sequence of each row, are int32."""

    x: Tensor  # [B, T, C]
    window: Tensor  # [S, W-1, C]
    weight: Tensor  # [C, W]
    bias: Tensor | None  # [C]
    bounds: Tensor | None  # [S+1]
    sequence_of: Tensor | None  # [T]
    silu: bool
    unit: int  # the width of the rows that get length one; 0 for none
    scale: float

    @property
    def rows(self) -> int:
        return self.x.shape[0] * self.x.shape[1]

    @property
    def terms(self) -> int:
        """The number of rows of the sums: W for the weights, and one for a bias."""
        return self.weight.shape[1] + (self.bias is not None)

    def tile(self, numbers: int) -> dict[str, int]:
        width = self.unit or min(CHANNELS, triton.next_power_of_2(self.x.shape[2]))
        padded = triton.next_power_of_2(width)
        return {"D": width, "BS": max(1, numbers // padded), "BC": padded}

    def constants(self, tile: int) -> dict[str, Any]:
        flags = {"BIAS": self.bias is not None, "PACKED": self.bounds is not None, "SILU": self.silu, "UNIT": self.unit > 0}
        return {"W": self.weight.shape[1], **flags, **self.tile(tile)}

    def cut(self, numbers: int) -> tuple[int, int, int]:
        """Return the length of a stretch, and the number of programs along rows and along channels."""
        tile = self.tile(numbers)
        columns = triton.cdiv(self.x.shape[2], tile["D"])
        length = min(LONGEST, max(SHORTEST, self.rows * columns // (PROGRAMS * tile["BS"])))
        if is_batch_invariant():
            length = INVARIANT_LENGTH
        return length, triton.cdiv(self.rows, length * tile["BS"]), columns

    def read(self) -> tuple[tuple[Tensor | None, ...], tuple[int | float, ...]]:
        """Return the tensors that the filter reads, and its numbers: sizes, strides and the scale.

        A part of a wider tensor is read in place.
        """
        x, window = _lined_up(self.x.flatten(0, 1)), _lined_up(self.window)
        tensors = (x, window, self.weight.contiguous(), self.bias, self.sequence_of, self.bounds)
        strides = (x.stride(0), window.stride(1), window.stride(0))
        return tensors, (self.rows, self.x.shape[1], x.shape[1], *strides, self.scale)


class Outputs(NamedTuple):
    y: Tensor
    rounding: Tensor  # |row|² before over |row|² after rounding, [B, T, n]


class Saved(NamedTuple):
    """An empty tuple: the backward pass computes everything again."""


class Gradients(NamedTuple):
    dx: Tensor
    dwindow: Tensor | None  # None if it is not asked for
    dweight: Tensor
    dbias: Tensor | None


def allocate(inputs: Inputs, save: bool) -> tuple[Outputs, Saved]:
    x, unit = inputs.x, inputs.unit
    rounding = x.new_empty(*x.shape[:2], x.shape[2] // unit if unit else 0, dtype=torch.float32)
    return Outputs(x.new_empty(x.shape), rounding), Saved()


def allocate_gradients(inputs: Inputs, saved: Saved, wanted: tuple[bool, ...]) -> Gradients:
    x, window, (channels, width) = inputs.x, inputs.window, inputs.weight.shape
    dwindow = window.new_empty(window.shape) if wanted[1] else None
    dbias = None if inputs.bias is None else x.new_empty(channels, dtype=torch.float32)
    return Gradients(x.new_empty(x.shape), dwindow, x.new_empty(width, channels, dtype=torch.float32).mT, dbias)


def forward(inputs: Inputs, save: bool) -> tuple[Outputs, Saved]:
    out, saved = allocate(inputs, save)
    tensors, numbers = inputs.read()
    length, programs, columns = inputs.cut(FORWARD_TILE)
    with torch.cuda.device_of(inputs.x):  # Triton launches on the current GPU; autograd sets it for the backward pass
        forward_kernel[(programs * columns,)](
            *tensors, *out, *numbers, length, **inputs.constants(FORWARD_TILE), num_warps=NUM_WARPS
        )
    return out, saved


def backward(inputs: Inputs, saved: Saved, doutputs: tuple[Tensor | None, ...], wanted: tuple[bool, ...]) -> Gradients:
    """Return all gradients; those of weight and bias are float32."""
    x, window, width, of_window = inputs.x, inputs.window, inputs.weight.shape[1], wanted[1]
    dy = torch.zeros_like(x) if doutputs[0] is None else doutputs[0]
    tensors, numbers = inputs.read()
    length, programs, columns = inputs.cut(BACKWARD_TILE)
    dx = x.new_empty(x.shape)
    sums = x.new_empty(programs, inputs.terms, x.shape[2], dtype=torch.float32)
    first_du = x.new_zeros(window.shape if of_window else (0,), dtype=torch.float32)  # zeros: a short sequence has fewer rows
    backward_kernel[(programs * columns,)](
        *(*tensors, dy.contiguous(), dx, first_du, sums, *numbers, length),
        **inputs.constants(BACKWARD_TILE),
        WINDOW=of_window,
        num_warps=NUM_WARPS,
    )
    dwindow = window_gradient(first_du, inputs.weight).to(window.dtype) if of_window else None
    # in a fixed order, for the same bits in every run
    return Gradients(dx, dwindow, sums[:, :width].sum(0).mT, None if inputs.bias is None else sums[:, width].sum(0))


def window_gradient(first_du: Tensor, weight: Tensor) -> Tensor:
    """Return dwindow_j = Σ_{a ≤ j} weight_{j-a} du_a over the first rows a of each sequence, [S, W-1, C]."""
    past = first_du.shape[1]
    dwindow = torch.zeros_like(first_du)
    for a in range(past):
        dwindow[:, a:] += first_du[:, a, None] * weight.float().mT[: past - a]
    return dwindow


def _lined_up(x: Tensor) -> Tensor:
    return x if x.stride(-1) == 1 else x.contiguous()
