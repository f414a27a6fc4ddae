"""The kernels of the short convolution compile for sm_90 as they are launched; prints registers and spills."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch

pytest.importorskip("triton")
if os.environ.get("TRITON_INTERPRET") == "1":
    pytest.skip("nothing is compiled where Triton interprets", allow_module_level=True)

from eigentrack.ops.short_convolution.kernels import backward_kernel, forward_kernel
from eigentrack.ops.short_convolution.launch import BACKWARD_TILE, FORWARD_TILE, NUM_WARPS, Inputs
from tests.ops.sm90 import Resources, compile_for_sm90

CHANNELS, WIDTH = 1024, 4


def inputs(unit: int, packed: bool, bias: bool) -> Inputs:
    """Shapes alone count."""
    x, window, weight = torch.empty(1, 1, CHANNELS), torch.empty(1, WIDTH - 1, CHANNELS), torch.empty(CHANNELS, WIDTH)
    places = torch.empty(2) if packed else None
    return Inputs(x, window, weight, weight[:, 0] if bias else None, places, places, silu=True, unit=unit, scale=1.0)


def compiled(kernel: Any, of: Inputs, tile: int, x: str) -> Resources:
    absent = [name for name, value in (("sequence_of", of.bounds), ("bounds", of.bounds), ("bias", of.bias)) if value is None]
    # rows of a multiple of 16 channels
    constants = {**of.constants(tile), **dict.fromkeys(absent), "WINDOW": False, "channels": CHANNELS, "x_row": CHANNELS}
    constants = {name: value for name, value in constants.items() if name in kernel.arg_names}
    whole_numbers = ("rows", "time", "window_row", "window_sequence", "length")
    arguments = dict.fromkeys(kernel.arg_names, x) | dict.fromkeys(whole_numbers, "i32") | {"scale": "fp32"}
    arguments |= dict.fromkeys(("sequence_of", "bounds"), "*i32") | dict.fromkeys(("rounding", "sums", "first_du"), "*fp32")
    found = compile_for_sm90(kernel, arguments, constants, NUM_WARPS, 3)
    print(f"\n{kernel.__name__}: {x}, {of.tile(tile)}, unit {of.unit}, packed {of.bounds is not None}: {found}")
    return found


KERNELS = [(forward_kernel, FORWARD_TILE), (backward_kernel, BACKWARD_TILE)]


@pytest.mark.parametrize("unit", [32, 128])
@pytest.mark.parametrize(("kernel", "tile"), KERNELS)
def test_it_compiles_without_spills(kernel: Any, tile: int, unit: int) -> None:
    found = compiled(kernel, inputs(unit, packed=True, bias=False), tile, "*bf16")
    assert found.spilled_bytes == 0
    assert found.registers <= 128  # at least 16 of the 64 warps that a multiprocessor has room for


@pytest.mark.slow
@pytest.mark.parametrize("unit", [0, 5, 24, 64, 256])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("x", ["*bf16", "*fp32"])
@pytest.mark.parametrize(("kernel", "tile"), KERNELS)
def test_the_rest_too(kernel: Any, tile: int, x: str, packed: bool, unit: int) -> None:
    assert compiled(kernel, inputs(unit, packed, bias=packed), tile, x).spilled_bytes <= 64
