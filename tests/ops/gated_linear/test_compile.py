"""Every kernel of gated linear attention compiles for sm_90 as it is launched; prints registers and spills."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch

pytest.importorskip("triton")
if os.environ.get("TRITON_INTERPRET") == "1":
    pytest.skip("nothing is compiled where Triton interprets", allow_module_level=True)

from eigentrack.ops.gated_linear.backward import gradients_kernel
from eigentrack.ops.gated_linear.channel_kernels import channel_gradients_kernel, pairs_kernel, scores_kernel
from eigentrack.ops.gated_linear.forward import carry_kernel, output_kernel, walk_kernel
from eigentrack.ops.gated_linear.plan import GatedLinearPlan as Plan
from eigentrack.ops.gated_linear.short import short_backward_kernel, short_forward_kernel
from eigentrack.ops.gated_linear.step import step_kernel
from tests.ops.sm90 import Resources, compile_for_sm90

WHOLE_NUMBERS = {"time", "heads", "segments", "span"}
BOUNDS = {"bounds", "chunk_starts", "chunk_sequence"}
FLOAT32 = {
    "a",
    "da",
    "pairs",
    "initial_state",
    "last_state",
    "dlast_state",
    "dinitial_state",
    "start_state",
    "end_state",
    "whole_decay",
    "gates",
    "decays",
}
SWITCHES = {
    "PACKED": False,
    "INITIAL": True,
    "LAST": True,
    "START": True,
    "END": True,
    "DECAY": True,
    "KEEP": True,
    "STATE": True,
    "DSTATE": True,
}


def plan(key: int, value: int, time: int, channel: bool, operand: torch.dtype = torch.bfloat16, pairs: int = 1024) -> Plan:
    return Plan(pairs // 4, time, 4, key, value, channel, False, operand, save=time > 1)


def compiled(kernel: Any, plan: Plan, settings: dict[str, int], reverse: bool = False) -> Resources:
    known = {**plan.constants(), **SWITCHES, "REVERSE": reverse, **settings}
    constants = {name: known[name] for name in kernel.arg_names if name in known}
    constants |= {name: None for name in kernel.arg_names if name in BOUNDS or (name == "scores" and not plan.channel)}
    operand = "*bf16" if plan.half else "*fp32"
    arguments = {name: "i32" if name in WHOLE_NUMBERS else "*fp32" if name in FLOAT32 else operand for name in kernel.arg_names}
    found = compile_for_sm90(kernel, arguments, constants, settings["num_warps"], settings.get("num_stages", 3))
    sizes = f"K = {plan.key_dim}, V = {plan.value_dim}, a gate a {'channel' if plan.channel else 'head'}"
    print(f"\n{kernel.__name__}{' reversed' if reverse else ''}: {plan.operand}, {sizes}, {settings}: {found}")
    return found


HEAD, CHANNEL = plan(128, 128, 2048, False), plan(128, 128, 2048, True)
SHORT_HEAD, SHORT_CHANNEL = plan(16, 32, 40, False), plan(16, 32, 32, True)
SHORT_FULL = plan(32, 32, 32, False, torch.float32)
STEP = plan(128, 128, 1, True)
NARROW_CHANNEL = plan(16, 32, 2048, True)
FULL_HEAD, FULL_CHANNEL = (plan(128, 128, 2048, channel, torch.float32) for channel in (False, True))
CASES = [
    (walk_kernel, HEAD, HEAD.walk_settings(), False),
    (walk_kernel, CHANNEL, CHANNEL.walk_settings(), True),
    (output_kernel, HEAD, HEAD.output_settings(), False),
    (output_kernel, HEAD, HEAD.output_settings(), True),
    (output_kernel, CHANNEL, CHANNEL.output_settings(), False),
    (gradients_kernel, HEAD, HEAD.gradients_settings(), False),
    (scores_kernel, CHANNEL, CHANNEL.scores_settings(), False),
    (short_forward_kernel, SHORT_HEAD, SHORT_HEAD.short_settings(), False),
    (pairs_kernel, CHANNEL, CHANNEL.pairs_settings(), False),
    (channel_gradients_kernel, CHANNEL, CHANNEL.channel_gradients_settings(), False),
    (short_backward_kernel, SHORT_CHANNEL, SHORT_CHANNEL.short_settings(), False),
    (step_kernel, STEP, STEP.step_settings(), False),
]
SLOW_CASES = [
    (walk_kernel, CHANNEL, CHANNEL.walk_settings(), False),
    (output_kernel, CHANNEL, CHANNEL.output_settings(), True),
    (short_forward_kernel, SHORT_CHANNEL, SHORT_CHANNEL.short_settings(), False),
    (short_backward_kernel, SHORT_HEAD, SHORT_HEAD.short_settings(), False),
    (short_backward_kernel, SHORT_FULL, SHORT_FULL.short_settings(), False),
    (walk_kernel, FULL_HEAD, FULL_HEAD.walk_settings(), False),
    (walk_kernel, FULL_CHANNEL, FULL_CHANNEL.walk_settings(), True),
    (output_kernel, FULL_HEAD, FULL_HEAD.output_settings(), False),
    (output_kernel, FULL_CHANNEL, FULL_CHANNEL.output_settings(), True),
    (gradients_kernel, FULL_HEAD, FULL_HEAD.gradients_settings(), False),
    (scores_kernel, FULL_CHANNEL, FULL_CHANNEL.scores_settings(), False),
    (pairs_kernel, FULL_CHANNEL, FULL_CHANNEL.pairs_settings(), False),
    (channel_gradients_kernel, FULL_CHANNEL, FULL_CHANNEL.channel_gradients_settings(), False),
    (channel_gradients_kernel, NARROW_CHANNEL, NARROW_CHANNEL.channel_gradients_settings(), False),
]


def test_the_carry_compiles() -> None:
    constants = {"SIZE": 128 * 128, "V": 128, "CHANNEL": True, "REVERSE": True, "START": True, "END": True}
    settings = CHANNEL.carry_settings()
    arguments = {name: "i32" if name in WHOLE_NUMBERS else "*fp32" for name in carry_kernel.arg_names}
    found = compile_for_sm90(carry_kernel, arguments, constants | {"BLOCK": settings["BLOCK"]}, settings["num_warps"], 1)
    print(f"\ncarry_kernel: {settings}: {found}")
    assert found.spilled_bytes == 0


def check(kernel: Any, found: Resources) -> None:
    if kernel is channel_gradients_kernel:
        assert found.shuffles < 500, "the compiler has spread the tokens of a block over threads"
    assert found.wgmma_from_registers == 0, "the assembler of CUDA before 13.3 may overwrite such operands"
    assert found.shared_bytes <= 227 * 1024
    assert found.registers > 32, "the assembler gave up on the registers"


@pytest.mark.parametrize(("kernel", "plan", "settings", "reverse"), CASES, ids=lambda value: getattr(value, "__name__", ""))
def test_it_compiles_without_operands_at_risk(kernel: Any, plan: Plan, settings: dict[str, int], reverse: bool) -> None:
    check(kernel, compiled(kernel, plan, settings, reverse))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "plan", "settings", "reverse"), SLOW_CASES, ids=lambda value: getattr(value, "__name__", "")
)
def test_the_rest_too(kernel: Any, plan: Plan, settings: dict[str, int], reverse: bool) -> None:
    check(kernel, compiled(kernel, plan, settings, reverse))
