"""The selective-scan kernels compile for sm_90 with the settings they are launched with; prints what they take."""

from __future__ import annotations

import os
from typing import Any

import pytest

pytest.importorskip("triton")
if os.environ.get("TRITON_INTERPRET") == "1":
    pytest.skip("nothing is compiled where Triton interprets", allow_module_level=True)

from eigentrack.ops.selective_scan.backward import backward_kernel, sum_kernel
from eigentrack.ops.selective_scan.forward import forward_kernel
from eigentrack.ops.selective_scan.plan import SelectiveScanPlan
from eigentrack.ops.selective_scan.segments import join_kernel, summary_back_kernel, summary_kernel
from eigentrack.ops.selective_scan.step import step_kernel
from eigentrack.spectrum import EigenRange
from tests.ops.sm90 import Resources, compile_for_sm90

ACTIVATIONS = {"x", "b", "c", "z", "y", "dy", "dx", "db", "dc", "dz"}  # in bfloat16 where those are; all others are float32
FLAGS = ("START", "GATED", "SKIP", "SAVE", "INITIAL", "ENTER", "LEAVE", "GIVEN", "BACK")
SIGNED, INNER = EigenRange(-1, 1), EigenRange(-0.5, 0.9)
ENDS = (-1.0, 1.0)  # of the range


def plan(size: int, eigenvalues: EigenRange = SIGNED) -> SelectiveScanPlan:
    return SelectiveScanPlan(8, 8, 2048, 2048, size, False, 2, eigenvalues.low, eigenvalues.high, True)


MANY_SHORT = SelectiveScanPlan(1024, 1024, 40, 256, 16, False, 2, *ENDS, True)  # all blocks of channels in one program


def compiled(kernel: Any, name: str, plan: SelectiveScanPlan, activation: str, dt: str = "*fp32") -> Resources:
    settings = plan.settings(name)
    rows = {f"{x}_row" for x in ("x", "dt", "b", "c", "z")} & set(kernel.arg_names)
    flags = {"SIZE": plan.channels * plan.size, **dict.fromkeys(FLAGS, True)}
    constants = {**plan.checkpointed(), "OWN": plan.own_channels, **flags, **settings, "bounds": None}
    constants |= {"TOGETHER": plan.blocks_together, "KEPT": plan.slots}
    constants = {key: value for key, value in constants.items() if key in kernel.arg_names}
    whole_numbers = rows | {"time", "segments", "segment_length", "window_start", "window_length", "goes_on", "rows", "parts"}
    arguments = {key: "i32" if key in whole_numbers else "*fp32" for key in kernel.arg_names}
    arguments |= {key: activation for key in kernel.arg_names if key in ACTIVATIONS}
    arguments |= {key: dt for key in kernel.arg_names if key in ("dt", "ddt")}
    found = compile_for_sm90(kernel, arguments, constants, settings["num_warps"], settings["num_stages"], even=rows)
    print(f"\n{kernel.__name__}: {activation}, dt {dt}, N = {plan.size}, {plan.eigenvalues}, {settings}: {found}")
    return found


@pytest.mark.parametrize(
    ("kernel", "name", "spills"),
    [
        (forward_kernel, "forward", 0),
        (backward_kernel, "backward", 0),
        (summary_kernel, "summary", 0),
        (summary_back_kernel, "summary", 0),
        (join_kernel, "join", 0),
        (sum_kernel, "sum", 0),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
@pytest.mark.parametrize("dt", ["*fp32", "*bf16"])
def test_it_compiles_and_hardly_spills(kernel: Any, name: str, spills: int, dt: str) -> None:
    found = compiled(kernel, name, plan(16), "*bf16", dt)
    assert found.spilled_bytes <= spills
    assert found.shared_bytes <= 1024
    assert found.wgmma == 0


@pytest.mark.parametrize("dt", ["*fp32", "*bf16"])
def test_rows_that_threads_load_for_themselves_pass_by_shared_memory(dt: str) -> None:
    assert compiled(summary_kernel, "summary", plan(16), "*bf16", dt).shared_bytes == 0


@pytest.mark.parametrize("dt", ["*fp32", "*bf16"])
def test_programs_of_many_blocks_do_not_spill(dt: str) -> None:
    assert MANY_SHORT.blocks_together == 8
    assert compiled(backward_kernel, "backward", MANY_SHORT, "*bf16", dt).spilled_bytes == 0


@pytest.mark.parametrize(("sequences", "registers"), [(1, 40), (128, 96)])
def test_a_step_leaves_room_for_others(sequences: int, registers: int) -> None:
    """Loads wait for memory: 20 warps of the wide programs, 48 of the narrow ones, must fit into a multiprocessor at once."""
    step = SelectiveScanPlan(sequences, sequences, 1, 4096, 16, False, 2, *ENDS, False)
    constants = {**step.constants(), **step.step_settings, **dict.fromkeys(FLAGS, True)}
    constants = {key: value for key, value in constants.items() if key in step_kernel.arg_names}
    whole_numbers = {"S", *(f"{x}_row" for x in ("x", "dt", "b", "c", "z"))}
    arguments = {key: "i32" if key in whole_numbers else "*fp32" for key in step_kernel.arg_names}
    arguments |= {key: "*bf16" for key in step_kernel.arg_names if key in ACTIVATIONS}
    found = compile_for_sm90(step_kernel, arguments, constants, step.step_settings["num_warps"], 3)
    print(f"\nstep_kernel: S = {sequences}, {step.step_settings}: {found}")
    assert found.registers <= registers
    assert found.spilled_bytes == 0


@pytest.mark.slow
@pytest.mark.parametrize(("size", "eigenvalues"), [(4, SIGNED), (16, INNER), (64, SIGNED)], ids=str)
@pytest.mark.parametrize("activation", ["*bf16", "*fp32"])
def test_the_rest_too(size: int, eigenvalues: EigenRange, activation: str) -> None:
    for kernel, name in ((forward_kernel, "forward"), (backward_kernel, "backward")):
        assert compiled(kernel, name, plan(size, eigenvalues), activation).shared_bytes <= 1024
