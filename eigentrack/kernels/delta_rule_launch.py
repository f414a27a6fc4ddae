"""Launches of the delta-rule kernels: outputs are allocated, programs are counted, settings are looked up.

Inputs are contiguous: q [B, T, H, K], k [B, T, H, n, K], v [B, T, H, n, V], beta [B, T, H, n], gate [B, T, H],
initial_state [S, H, K, V] in float32.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from eigentrack.kernels.chunk_table import ChunkTable
from eigentrack.kernels.delta_rule_backward import gates_kernel, gradients_kernel, walk_back_kernel
from eigentrack.kernels.delta_rule_forward import prepare_kernel, walk_kernel
from eigentrack.kernels.delta_rule_plan import Plan
from eigentrack.kernels.delta_rule_short import short_backward_kernel, short_forward_kernel
from eigentrack.kernels.delta_rule_step import step_kernel


@dataclass(frozen=True)
class Inputs:
    q: Tensor
    k: Tensor
    v: Tensor
    beta: Tensor
    gate: Tensor | None
    initial_state: Tensor | None
    cu_seqlens: Tensor | None

    def plan(self, save: bool) -> Plan:
        return Plan.of(self.q, self.k, self.v, self.gate, self.cu_seqlens, save)


@dataclass(frozen=True)
class Saved:
    """What the backward pass reads again; None where it computes anew (short sequences), or where nobody asks."""

    inverse: Tensor | None  # [slots, H, C, C]
    scores: Tensor | None  # [slots, H, C, C]
    decays: Tensor | None  # [2, slots, H, C] from the chunk's start, to its end
    errors: Tensor | None  # [B, T, H, n, V] x = v - what was stored
    states: Tensor | None  # [slots, H, K, V] at the start of each chunk

    @staticmethod
    def allocate(plan: Plan, inputs: Inputs) -> Saved:
        if plan.short or plan.step:
            return Saved(None, None, None, None, None)

        def empty(used: bool, dtype: torch.dtype, *shape: int) -> Tensor | None:
            return inputs.q.new_empty(shape, dtype=dtype) if used else None

        heads, rows = plan.heads, plan.rows
        starts = plan.save and (inputs.initial_state is not None or not plan.single)
        return Saved(
            inverse=empty(True, plan.operand, plan.slots, heads, rows, rows),
            scores=empty(True, plan.operand, plan.slots, heads, rows, rows),
            decays=empty(plan.gated, torch.float32, 2, plan.slots, heads, rows),
            errors=empty(plan.save, plan.operand, *inputs.v.shape),
            states=empty(starts, plan.operand, plan.slots, heads, plan.key_dim, plan.value_dim),
        )


@dataclass(frozen=True)
class Outputs:
    y: Tensor
    last_state: Tensor
    saved: Saved

    @staticmethod
    def allocate(plan: Plan, inputs: Inputs) -> Outputs:
        batch, time, heads, _ = inputs.q.shape
        return Outputs(
            y=inputs.q.new_empty(batch, time, heads, plan.value_dim),
            last_state=inputs.q.new_empty(plan.sequences, heads, plan.key_dim, plan.value_dim, dtype=torch.float32),
            saved=Saved.allocate(plan, inputs),
        )


@dataclass(frozen=True)
class Gradients:
    dq: Tensor
    dk: Tensor
    dv: Tensor
    dbeta: Tensor
    dgate: Tensor | None
    dinitial_state: Tensor | None

    @staticmethod
    def allocate(plan: Plan, inputs: Inputs) -> Gradients:
        dv = torch.empty_like(inputs.v, dtype=plan.operand)  # read again for the other gradients: not rounded further
        optional = (None if x is None else torch.empty_like(x) for x in (inputs.gate, inputs.initial_state))
        return Gradients(torch.empty_like(inputs.q), torch.empty_like(inputs.k), dv, torch.empty_like(inputs.beta), *optional)


def forward(inputs: Inputs, save: bool) -> Outputs:
    with torch.cuda.device_of(inputs.q):  # Triton launches on the current GPU; autograd sets it for the backward pass
        return _forward(inputs, inputs.plan(save))


def _forward(inputs: Inputs, plan: Plan) -> Outputs:
    out = Outputs.allocate(plan, inputs)
    pairs, shared = plan.sequences * plan.heads, plan.constants()
    has_initial = inputs.initial_state is not None
    if plan.step:
        settings = plan.step_settings()
        step_kernel[(pairs * -(-plan.value_dim // settings["BV"]),)](
            *(inputs.q, inputs.k, inputs.v, inputs.beta, inputs.gate, inputs.initial_state, out.y, out.last_state),
            N=plan.factors,
            K=plan.key_dim,
            V=plan.value_dim,
            BK=plan.key_block,
            GATED=plan.gated,
            INITIAL=has_initial,
            **settings,
        )
        return out
    if plan.short:
        short_forward_kernel[(pairs,)](
            *(inputs.q, inputs.k, inputs.v, inputs.beta, inputs.gate, inputs.initial_state, out.y, out.last_state),
            *(plan.time, plan.heads),
            **shared,
            V=plan.value_dim,
            BV=plan.value_block,
            INITIAL=has_initial,
            **plan.short_settings(),
        )
        return out
    table, kept = ChunkTable.of(inputs.cu_seqlens, plan.tokens, plan.slots), out.saved
    from_start, to_end = _decays(kept)
    prepare_kernel[(plan.slots * plan.heads,)](
        *(inputs.q, inputs.k, inputs.beta, inputs.gate, kept.inverse, kept.scores, from_start, to_end),
        *(table.bounds, table.chunk_starts, table.chunk_sequence, plan.time, plan.heads),
        **shared,
        PACKED=plan.packed,
        **plan.prepare_settings(),
    )
    settings = plan.walk_settings()
    walk_kernel[(pairs * -(-plan.value_dim // settings["BV"]),)](
        *(inputs.q, inputs.k, inputs.v, inputs.beta, kept.inverse, kept.scores, from_start, to_end),
        *(inputs.initial_state, out.y, out.last_state, kept.errors, kept.states),
        *(table.bounds, table.chunk_starts, plan.time, plan.heads),
        **shared,
        V=plan.value_dim,
        PACKED=plan.packed,
        INITIAL=has_initial,
        STATE=has_initial or not plan.single,
        SAVE=plan.save,
        **settings,
    )
    return out


def backward(inputs: Inputs, saved: Saved, dy: Tensor, dlast_state: Tensor | None) -> Gradients:
    plan = inputs.plan(save=True)
    out = Gradients.allocate(plan, inputs)
    pairs, shared = plan.sequences * plan.heads, plan.constants()
    has_initial, has_last = inputs.initial_state is not None, dlast_state is not None
    if plan.short:
        short_backward_kernel[(pairs,)](
            *(inputs.q, inputs.k, inputs.v, inputs.beta, inputs.gate, inputs.initial_state, dy, dlast_state),
            *(out.dq, out.dk, out.dv, out.dbeta, out.dgate, out.dinitial_state, plan.time, plan.heads),
            **shared,
            V=plan.value_dim,
            BV=plan.value_block,
            INITIAL=has_initial,
            LAST=has_last,
            **plan.short_settings(),
        )
        return out
    table = ChunkTable.of(inputs.cu_seqlens, plan.tokens, plan.slots)
    from_start, to_end = _decays(saved)
    states = (plan.slots, plan.heads, plan.key_dim, plan.value_dim)
    dstates = inputs.q.new_empty(states, dtype=plan.operand) if has_last or not plan.single else None
    settings = plan.walk_settings()
    walk_back_kernel[(pairs * -(-plan.value_dim // settings["BV"]),)](
        *(inputs.q, inputs.k, inputs.beta, saved.inverse, saved.scores, from_start, to_end, dy, dlast_state),
        *(out.dv, dstates, out.dinitial_state, table.bounds, table.chunk_starts, plan.time, plan.heads),
        **shared,
        V=plan.value_dim,
        PACKED=plan.packed,
        INITIAL=has_initial,
        LAST=has_last,
        DSTATE=has_last or not plan.single,
        **settings,
    )
    dpairs, dstart = None, None
    if plan.gated:
        dpairs = inputs.q.new_empty(plan.slots, plan.heads, plan.rows, plan.rows, dtype=torch.float32)
        dstart = inputs.q.new_empty(plan.slots, plan.heads, plan.rows, dtype=torch.float32)
    gradients_kernel[(plan.slots * plan.heads,)](
        *(inputs.q, inputs.k, inputs.beta, inputs.gate, saved.errors, saved.states, dy, out.dv, dstates),
        *(out.dq, out.dk, out.dbeta, dpairs, dstart),
        *(table.bounds, table.chunk_starts, table.chunk_sequence, plan.time, plan.heads),
        **shared,
        V=plan.value_dim,
        PACKED=plan.packed,
        STATE=has_initial or not plan.single,
        DSTATE=has_last or not plan.single,
        **plan.gradients_settings(),
    )
    if plan.gated:
        settings = plan.gates_settings()
        gates_kernel[(plan.slots * plan.heads * (plan.rows // settings["BT"]),)](
            *(inputs.gate, dpairs, dstart, out.dgate),
            *(table.bounds, table.chunk_starts, table.chunk_sequence, plan.time, plan.heads),
            N=plan.factors,
            C=plan.rows,
            PACKED=plan.packed,
            PRECISION=shared["PRECISION"],
            **settings,
        )
    return out


def _decays(saved: Saved) -> tuple[Tensor | None, Tensor | None]:
    return (None, None) if saved.decays is None else (saved.decays[0], saved.decays[1])
