"""Every delta-rule kernel compiles for sm_90 with the settings it is launched with; prints registers and spills."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch

pytest.importorskip("triton")
if os.environ.get("TRITON_INTERPRET") == "1":
    pytest.skip("nothing is compiled where Triton interprets", allow_module_level=True)

from eigentrack.ops.delta_rule import plan as delta_rule_plan
from eigentrack.ops.delta_rule.backward import gates_kernel, gradients_kernel, walk_back_kernel
from eigentrack.ops.delta_rule.forward import prepare_kernel, walk_kernel
from eigentrack.ops.delta_rule.plan import DeltaRulePlan
from eigentrack.ops.delta_rule.short import short_backward_kernel, short_forward_kernel
from eigentrack.ops.delta_rule.step import step_kernel
from tests.ops.sm90 import Resources, compile_for_sm90

WHOLE_NUMBERS = {"time", "heads"}
BOUNDS = {"bounds", "chunk_starts", "chunk_sequence"}
GATES = {"gate", "dgate", "from_start", "to_end", "dpairs", "dstart"}
FLOAT32 = GATES | {"initial_state", "last_state", "dlast_state", "dinitial_state"}


def plan(dim: int, time: int, gated: bool, operand: torch.dtype = torch.bfloat16, pairs: int = 1024) -> DeltaRulePlan:
    return DeltaRulePlan(pairs // 4, time, 4, 1, dim, dim, gated, False, operand, True)


def compiled(kernel: Any, plan: DeltaRulePlan, settings: dict[str, int]) -> Resources:
    flags = {"PACKED": False, "INITIAL": True, "LAST": True, "STATE": True, "DSTATE": True, "SAVE": True, "V": plan.value_dim}
    constants = {**plan.constants, **flags, "BV": plan.value_block, **settings}
    unused = BOUNDS | (set() if plan.gated else GATES)
    constants = {name: constants[name] for name in kernel.arg_names if name in constants}
    constants |= {name: None for name in kernel.arg_names if name in unused}
    operand = "*bf16" if plan.half else "*fp32"
    arguments = {name: "i32" if name in WHOLE_NUMBERS else "*fp32" if name in FLOAT32 else operand for name in kernel.arg_names}
    found = compile_for_sm90(kernel, arguments, constants, settings["num_warps"], settings.get("num_stages", 1))
    print(f"\n{kernel.__name__}: {plan.operand}, K = V = {plan.key_dim}, gated {plan.gated}, {settings}: {found}")
    return found


LONG, LONG_GATED, SINGLE = plan(128, 2048, False), plan(128, 2048, True), plan(128, 40, False)
SHORT, SHORT_GATED, FULL = plan(32, 40, False), plan(32, 40, True), plan(64, 2048, True, torch.float32)
CASES = [
    (prepare_kernel, LONG_GATED, LONG_GATED.prepare_settings),
    (walk_kernel, LONG_GATED, LONG_GATED.walk_settings),
    (walk_kernel, LONG, plan(128, 65536, False, pairs=16).walk_settings),
    (walk_back_kernel, LONG_GATED, LONG_GATED.walk_settings),
    (walk_kernel, SINGLE, SINGLE.walk_settings),
    (walk_back_kernel, SINGLE, SINGLE.walk_settings),
    (gradients_kernel, LONG, LONG.gradients_settings),
    (gates_kernel, LONG_GATED, LONG_GATED.gates_settings),
    (step_kernel, LONG_GATED, LONG_GATED.step_settings),
    (short_forward_kernel, SHORT_GATED, SHORT_GATED.short_settings),
    (short_backward_kernel, SHORT, SHORT.short_settings),
]
SLOW_CASES = [
    (prepare_kernel, LONG, LONG.prepare_settings),
    (gradients_kernel, LONG_GATED, LONG_GATED.gradients_settings),
    (short_backward_kernel, SHORT_GATED, SHORT_GATED.short_settings),
    (prepare_kernel, FULL, FULL.prepare_settings),
    (walk_kernel, FULL, FULL.walk_settings),
    (walk_back_kernel, FULL, FULL.walk_settings),
    (gradients_kernel, FULL, FULL.gradients_settings),
    (gates_kernel, FULL, FULL.gates_settings),
]


def check(found: Resources) -> None:
    assert found.wgmma_from_registers == 0, "the assembler of CUDA before 13.3 may overwrite such operands"
    assert found.shared_bytes <= 227 * 1024
    assert found.registers > 32, "the assembler gave up on the registers"


@pytest.mark.parametrize(("kernel", "plan", "settings"), CASES, ids=lambda value: getattr(value, "__name__", ""))
def test_it_compiles_without_operands_at_risk(kernel: Any, plan: DeltaRulePlan, settings: dict[str, int]) -> None:
    check(compiled(kernel, plan, settings))


@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "plan", "settings"), SLOW_CASES, ids=lambda value: getattr(value, "__name__", ""))
def test_the_rest_too(kernel: Any, plan: DeltaRulePlan, settings: dict[str, int]) -> None:
    check(compiled(kernel, plan, settings))


@pytest.mark.parametrize("gated", [False, True])
def test_sequences_that_are_short_but_too_wide_hardly_spill(gated: bool) -> None:
    """The kernels for short sequences would spill ten kilobytes at this width; those for long ones run."""
    wide = plan(64, 64, gated)
    assert not wide.short
    settings = (wide.prepare_settings, wide.walk_settings, wide.walk_settings, wide.gradients_settings)
    for kernel, chosen in zip((prepare_kernel, walk_kernel, walk_back_kernel, gradients_kernel), settings, strict=True):
        found = compiled(kernel, wide, chosen)
        check(found)
        assert found.spilled_bytes <= 64


def test_a_product_of_registers_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check can fail: four warps and 64 rows put the products of the short kernel at risk."""
    monkeypatch.setattr(delta_rule_plan, "LONGEST_SHORT_CHUNK", 64)
    short = plan(32, 40, True)
    found = compiled(short_forward_kernel, short, {**short.short_settings, "num_warps": 4})
    assert found.wgmma_from_registers > 0


@pytest.mark.parametrize("kernel", [walk_kernel, walk_back_kernel])
def test_a_time_of_one_gets_no_kernel_of_its_own(kernel: Any) -> None:
    """Its loop over chunks would dissolve; that build read wild addresses on the card."""
    assert [parameter.name for parameter in kernel.params if parameter.do_not_specialize] == ["time"]


def test_float32_keys_meet_away_from_the_tensor_cores() -> None:
    """Of the two products of prepare only q·k is left to them: three TF32 terms of tiles of 16 × 8 × 8, 16 rows a warp."""
    found = compiled(prepare_kernel, FULL, FULL.prepare_settings)
    assert found.mma == 3 * (FULL.rows // 8) * (FULL.key_dim // 8)
