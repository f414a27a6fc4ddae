"""The sLSTM kernels compile for sm_90 with the settings they are launched with; prints what they take (pytest -s)."""

from __future__ import annotations

import os
from typing import Any

import pytest

pytest.importorskip("triton")
if os.environ.get("TRITON_INTERPRET") == "1":
    pytest.skip("nothing is compiled where Triton interprets", allow_module_level=True)

from eigentrack.ops.slstm.backward import backward_kernel
from eigentrack.ops.slstm.forward import forward_kernel
from eigentrack.ops.slstm.plan import SLSTMPlan
from tests.ops.sm90 import Resources, compile_for_sm90

MULTIPROCESSOR = 65536  # registers
LARGEST_SHARED = 232448  # bytes that one program may take
FEW_BYTES = 16  # spilled in a thread: two or four of its numbers
KERNELS = pytest.mark.parametrize("kernel", [forward_kernel, backward_kernel], ids=lambda kernel: kernel.__name__)
FEW, MANY = 64, 1024  # sequences: blocks of 4, and of 16


def compiled(kernel: Any, plan: SLSTMPlan, kind: str, **others: Any) -> Resources:
    """`kind` is the type of the tensors that the caller gives and gets; the rest is float32. `others` are constants, too."""
    constants = {**plan.settings(), "SAVE": True, "LAST": True, **({} if plan.packed else {"bounds": None}), **others}
    constants = {name: value for name, value in constants.items() if name in kernel.arg_names}
    arguments = dict.fromkeys(kernel.arg_names, "*fp32")
    arguments |= dict.fromkeys(("gates", "transposed", "recurrent", "y", "dy"), kind) | dict.fromkeys(
        ("sequences", "time", "heads"), "i32"
    )
    arguments["bounds"] = "*i64"
    found = compile_for_sm90(kernel, arguments, constants, plan.settings()["num_warps"], 1)  # type: ignore[arg-type]
    print(f"\n{kernel.__name__}: {kind}, {plan}: {found}")
    return found


@KERNELS
@pytest.mark.parametrize(("sequences", "width", "together"), [(FEW, 32, 6), (MANY, 32, 3), (FEW, 64, 2), (MANY, 64, 2)])
def test_it_compiles_hardly_spills_and_leaves_room_for_others(kernel: Any, sequences: int, width: int, together: int) -> None:
    """So many programs fit into a multiprocessor at once: they fill each other's waiting time."""
    plan = SLSTMPlan(sequences, 40, 4, width, packed=False)
    found = compiled(kernel, plan, "*fp32")
    assert found.spilled_bytes <= FEW_BYTES
    assert found.registers * 32 * plan.settings()["num_warps"] * together <= MULTIPROCESSOR  # type: ignore[operator]
    assert found.shared_bytes * together <= LARGEST_SHARED
    assert found.wgmma == 0  # float32 products are not rounded to tf32


@KERNELS
def test_what_is_left_out_and_sizes_of_one_compile(kernel: Any) -> None:
    """Triton makes a constant of every None, and of every size that is 1."""
    left_out = ("kept_gates", "kept_states") if kernel is forward_kernel else ("dlast_c", "dlast_n", "dlast_h")
    ones = dict.fromkeys(("sequences", "time", "heads"), 1)
    assert (
        compiled(
            kernel, SLSTMPlan(1, 1, 1, 8, False), "*fp32", SAVE=False, LAST=False, **ones, **dict.fromkeys(left_out)
        ).spilled_bytes
        == 0
    )


@pytest.mark.slow
@KERNELS
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("width", [5, 16, 48, 64])
@pytest.mark.parametrize("sequences", [FEW, MANY])
@pytest.mark.parametrize("kind", ["*bf16", "*fp32", "*fp16"])
def test_the_rest_too(kernel: Any, packed: bool, width: int, sequences: int, kind: str) -> None:
    found = compiled(kernel, SLSTMPlan(sequences, 40, 4, width, packed), kind)
    assert found.spilled_bytes <= FEW_BYTES
    assert found.shared_bytes <= LARGEST_SHARED
