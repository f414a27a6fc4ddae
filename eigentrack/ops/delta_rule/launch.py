"""Launches of the delta-rule kernels, with the tensors that they write.

Inputs are contiguous: q [B, T, H, K], k [B, T, H, n, K], v [B, T, H, n, V], beta [B, T, H, n], gate [B, T, H],
initial_state [S, H, K, V] in float32.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from eigentrack.ops.delta_rule.backward import gates_kernel, gradients_kernel, walk_back_kernel
from eigentrack.ops.delta_rule.forward import prepare_kernel, walk_kernel
from eigentrack.ops.delta_rule.plan import DeltaRulePlan
from eigentrack.ops.delta_rule.short import short_backward_kernel, short_forward_kernel
from eigentrack.ops.delta_rule.step import step_kernel
from eigentrack.ops.shared.launch import compile_together, launch, shadow
from eigentrack.ops.shared.packing import ChunkTable


class Inputs(NamedTuple):
    q: Tensor
    k: Tensor
    v: Tensor
    beta: Tensor
    gate: Tensor | None
    initial_state: Tensor | None
    cu_seqlens: Tensor | None

    def plan(self, save: bool) -> DeltaRulePlan:
        return DeltaRulePlan.of(self.q, self.k, self.v, self.gate, self.cu_seqlens, save)

    def plan_of_symbols(self, save: bool) -> DeltaRulePlan:
        return DeltaRulePlan.of_symbols(self.q, self.k, self.v, self.gate, self.cu_seqlens, save)


class Saved(NamedTuple):
    """The tensors that the backward pass reads again.

    None stands for a tensor that it computes again (short sequences), that the call does not have, or that nobody will read.
    """

    inverse: Tensor | None  # [slots, H, C, C]
    scores: Tensor | None  # [slots, H, C, C]
    decays: Tensor | None  # [2, slots, H, C] Γ_i0 from the chunk's start, Γ_Cj to its end
    errors: Tensor | None  # [B, T, H, n, V] x, the value minus what was stored for its key
    states: Tensor | None  # [slots, H, K, V] at the start of each chunk; for short sequences only between chunks

    @staticmethod
    def allocate(plan: DeltaRulePlan, inputs: Inputs) -> Saved:
        def empty(used: bool, dtype: torch.dtype, *shape: int) -> Tensor | None:
            return inputs.q.new_empty(shape, dtype=dtype) if used else None

        heads, rows, state = plan.heads, plan.rows, (plan.key_dim, plan.value_dim)
        if plan.short or plan.step:
            between = plan.save and plan.short and not plan.single
            return Saved(None, None, None, None, empty(between, plan.operand, plan.sequences, heads, plan.chunks - 1, *state))
        starts = plan.save and (inputs.initial_state is not None or not plan.single)
        return Saved(
            inverse=empty(True, plan.operand, plan.slots, heads, rows, rows),
            scores=empty(True, plan.operand, plan.slots, heads, rows, rows),
            decays=empty(plan.gated, torch.float32, 2, plan.slots, heads, rows),
            errors=empty(plan.save, plan.operand, *inputs.v.shape),
            states=empty(starts, plan.operand, plan.slots, heads, *state),
        )


class Outputs(NamedTuple):
    y: Tensor
    last_state: Tensor


class Gradients(NamedTuple):
    dq: Tensor
    dk: Tensor
    dv: Tensor
    dbeta: Tensor
    dgate: Tensor | None
    dinitial_state: Tensor | None

    @staticmethod
    def allocate(plan: DeltaRulePlan, inputs: Inputs) -> Gradients:
        dv = torch.empty_like(inputs.v, dtype=plan.operand)  # the other gradients are computed from it: not rounded further
        optional = (None if x is None else torch.empty_like(x) for x in (inputs.gate, inputs.initial_state))
        return Gradients(torch.empty_like(inputs.q), torch.empty_like(inputs.k), dv, torch.empty_like(inputs.beta), *optional)


def allocate(inputs: Inputs, save: bool) -> tuple[Outputs, Saved]:
    return _allocate(inputs.plan_of_symbols(save), inputs)


def allocate_gradients(inputs: Inputs, saved: Saved, wanted: tuple[bool, ...]) -> Gradients:
    return Gradients.allocate(inputs.plan_of_symbols(save=True), inputs)


def _allocate(plan: DeltaRulePlan, inputs: Inputs) -> tuple[Outputs, Saved]:
    batch, time, heads, _ = inputs.q.shape
    y = inputs.q.new_empty(batch, time, heads, plan.value_dim)
    last_state = inputs.q.new_empty(plan.sequences, heads, plan.key_dim, plan.value_dim, dtype=torch.float32)
    return Outputs(y, last_state), Saved.allocate(plan, inputs)


def forward(inputs: Inputs, save: bool) -> tuple[Outputs, Saved]:
    plan = inputs.plan(save)
    with torch.cuda.device_of(inputs.q):  # Triton launches on the current GPU; autograd sets it for the backward pass
        if not plan.compiled:
            shape = (plan.step, plan.short, plan.single, plan.packed, inputs.initial_state is None, plan.value_dim)
            kind = (plan.save, *shape, plan.walk_settings["BV"], *plan.constants.items())
            compile_together(("delta rule", *kind), lambda: _both_passes(Inputs(*map(shadow, inputs)), plan))  # type: ignore[arg-type]
        return _forward(inputs, plan)


def _both_passes(inputs: Inputs, plan: DeltaRulePlan) -> None:
    out, saved = _forward(inputs, plan)
    if plan.save:  # a caller that gives a state will also differentiate the last state
        backward(inputs, saved, (out.y, None if inputs.initial_state is None else out.last_state))


def _forward(inputs: Inputs, plan: DeltaRulePlan) -> tuple[Outputs, Saved]:
    out, saved = _allocate(plan, inputs)
    q, k, v, beta, gate, initial_state, _ = inputs
    pairs, has_initial = plan.sequences * plan.heads, initial_state is not None
    if plan.step:
        launch(
            *(plan.compiled, step_kernel, pairs * -(-plan.value_dim // plan.step_settings["BV"])),
            (q, k, v, beta, gate, initial_state, out.y, out.last_state),
            lambda: {
                **{"N": plan.factors, "K": plan.key_dim, "V": plan.value_dim, "BK": plan.key_block},
                **{"GATED": plan.gated, "INITIAL": has_initial},
                **plan.step_settings,
            },
        )
        return out, saved
    if plan.short:
        launch(
            *(plan.compiled, short_forward_kernel, pairs),
            (q, k, v, beta, gate, initial_state, out.y, out.last_state, saved.states, plan.time, plan.heads),
            lambda: {
                **plan.constants,
                **{"V": plan.value_dim, "BV": plan.value_block, "INITIAL": has_initial, "SAVE": saved.states is not None},
                **plan.short_settings,
            },
        )
        return out, saved
    table = ChunkTable.of(inputs.cu_seqlens, plan.tokens, plan.slots)
    from_start, to_end = _decays(saved)
    launch(
        *(plan.compiled, prepare_kernel, plan.slots * plan.heads),
        (
            *(q, k, beta, gate, saved.inverse, saved.scores, from_start, to_end),
            *(table.bounds, table.chunk_starts, table.chunk_sequence, plan.time, plan.heads),
        ),
        lambda: {**plan.constants, "PACKED": plan.packed, **plan.prepare_settings},
    )
    launch(
        *(plan.compiled, walk_kernel, pairs * -(-plan.value_dim // plan.walk_settings["BV"])),
        (
            *(q, k, v, beta, saved.inverse, saved.scores, from_start, to_end, initial_state),
            *(out.y, out.last_state, saved.errors, saved.states, table.bounds, table.chunk_starts, plan.time, plan.heads),
        ),
        lambda: {
            **plan.constants,
            **{"V": plan.value_dim, "PACKED": plan.packed, "INITIAL": has_initial, "SAVE": plan.save},
            **{"STATE": has_initial or not plan.single},
            **plan.walk_settings,
        },
    )
    return out, saved


def backward(
    inputs: Inputs, saved: Saved, doutputs: tuple[Tensor | None, Tensor | None], wanted: tuple[bool, ...] = ()
) -> Gradients:
    """Return all gradients; `dv` has the dtype of the kernels' operands."""
    plan = inputs.plan(save=True)
    out = Gradients.allocate(plan, inputs)
    q, k, v, beta, gate, initial_state, _ = inputs
    dy, dlast_state = doutputs
    dy = q.new_zeros(*q.shape[:3], plan.value_dim) if dy is None else dy
    pairs = plan.sequences * plan.heads
    has_initial, has_last = initial_state is not None, dlast_state is not None
    if plan.short:
        launch(
            *(plan.compiled, short_backward_kernel, pairs),
            (q, k, v, beta, gate, initial_state, dy, dlast_state, *out, saved.states, plan.time, plan.heads),
            lambda: {
                **plan.constants,
                **{"V": plan.value_dim, "BV": plan.value_block, "INITIAL": has_initial, "LAST": has_last},
                **plan.short_settings,
            },
        )
        return out
    table = ChunkTable.of(inputs.cu_seqlens, plan.tokens, plan.slots)
    from_start, to_end = _decays(saved)
    states = (plan.slots, plan.heads, plan.key_dim, plan.value_dim)
    dstates = q.new_empty(states, dtype=plan.operand) if has_last or not plan.single else None
    launch(
        *(plan.compiled, walk_back_kernel, pairs * -(-plan.value_dim // plan.walk_settings["BV"])),
        (
            *(q, k, beta, saved.inverse, saved.scores, from_start, to_end, dy, dlast_state),
            *(out.dv, dstates, out.dinitial_state, table.bounds, table.chunk_starts, plan.time, plan.heads),
        ),
        lambda: {
            **plan.constants,
            **{"V": plan.value_dim, "PACKED": plan.packed, "INITIAL": has_initial, "LAST": has_last},
            **{"DSTATE": dstates is not None},
            **plan.walk_settings,
        },
    )
    dpairs, dstart = None, None
    if plan.gated:
        dpairs = q.new_empty(plan.slots, plan.heads, plan.rows, plan.rows, dtype=torch.float32)
        dstart = q.new_empty(plan.slots, plan.heads, plan.rows, dtype=torch.float32)
    launch(
        *(plan.compiled, gradients_kernel, plan.slots * plan.heads),
        (
            *(q, k, beta, gate, saved.errors, saved.states, dy, out.dv, dstates, out.dq, out.dk, out.dbeta, dpairs, dstart),
            *(table.bounds, table.chunk_starts, table.chunk_sequence, plan.time, plan.heads),
        ),
        lambda: {
            **plan.constants,
            **{"V": plan.value_dim, "PACKED": plan.packed},
            **{"STATE": saved.states is not None, "DSTATE": dstates is not None},
            **plan.gradients_settings,
        },
    )
    if plan.gated:
        launch(
            *(plan.compiled, gates_kernel, plan.slots * plan.heads * (plan.rows // plan.gates_settings["BT"])),
            (
                *(gate, dpairs, dstart, out.dgate),
                *(table.bounds, table.chunk_starts, table.chunk_sequence, plan.time, plan.heads),
            ),
            lambda: {
                **{"N": plan.factors, "C": plan.rows, "PACKED": plan.packed, "PRECISION": plan.constants["PRECISION"]},
                **plan.gates_settings,
            },
        )
    return out


def _decays(saved: Saved) -> tuple[Tensor | None, Tensor | None]:
    return (None, None) if saved.decays is None else (saved.decays[0], saved.decays[1])
