"""Launches of the kernels of gated linear attention, with the tensors that they write.

Inputs are contiguous: q, k [B, T, H, K], v [B, T, H, V], a [B, T, H] or [B, T, H, K], initial_state [S, H, K, V] in float32.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from eigentrack.ops.gated_linear.backward import gradients_kernel
from eigentrack.ops.gated_linear.channel_kernels import channel_gradients_kernel, pairs_kernel, scores_kernel
from eigentrack.ops.gated_linear.forward import carry_kernel, output_kernel, walk_kernel
from eigentrack.ops.gated_linear.plan import BLOCK, BLOCKS_OF_A_CHUNK, GatedLinearPlan
from eigentrack.ops.gated_linear.short import short_backward_kernel, short_forward_kernel
from eigentrack.ops.gated_linear.step import step_kernel
from eigentrack.ops.shared.launch import compile_together, launch, shadow
from eigentrack.ops.shared.packing import ChunkTable


class Inputs(NamedTuple):
    q: Tensor
    k: Tensor
    v: Tensor
    a: Tensor
    initial_state: Tensor | None
    cu_seqlens: Tensor | None

    def plan(self, save: bool) -> GatedLinearPlan:
        return GatedLinearPlan.of(self.q, self.k, self.v, self.a, self.cu_seqlens, save)

    def plan_of_symbols(self, save: bool) -> GatedLinearPlan:
        return GatedLinearPlan.of_symbols(self.q, self.k, self.v, self.a, self.cu_seqlens, save)

    def shadows(self) -> Inputs:
        return Inputs(*map(shadow, self))  # type: ignore[arg-type]


class Saved(NamedTuple):
    """The tensors that kernels pass on to each other and to the backward pass; None for those that a call does not need.

    All but the states are used only with one gate per channel.
    """

    scores: Tensor | None  # [slots, H, C, C]
    queries: Tensor | None  # [B, T, H, K], Γ_i0 ⊙ q_i
    keys: Tensor | None  # [B, T, H, K], Γ_Cj ⊙ k_j
    decays: Tensor | None  # [slots, H, K], Γ_C0
    states: Tensor | None  # [slots, H, K, V] at the start of each chunk

    @staticmethod
    def allocate(plan: GatedLinearPlan, inputs: Inputs) -> Saved:
        q, heads = inputs.q, plan.heads
        scores = queries = keys = decays = states = None
        whole = plan.short or plan.step  # a single launch, which saves nothing
        if plan.channel and not whole:
            scores = q.new_empty(plan.slots, heads, plan.tokens, plan.tokens, dtype=plan.operand)
            queries, keys = (q.new_empty(q.shape, dtype=plan.operand) for _ in range(2))
            decays = q.new_empty(plan.slots, heads, plan.key_dim, dtype=torch.float32)
        if not whole and (inputs.initial_state is not None or not plan.single):
            states = q.new_empty(plan.slots, heads, plan.key_dim, plan.value_dim, dtype=plan.operand)
        return Saved(scores, queries, keys, decays, states)


class Outputs(NamedTuple):
    y: Tensor
    last_state: Tensor


class Gradients(NamedTuple):
    dq: Tensor
    dk: Tensor
    dv: Tensor
    da: Tensor
    dinitial_state: Tensor | None

    @staticmethod
    def allocate(inputs: Inputs) -> Gradients:
        dq, dk, dv, da = (torch.empty_like(x) for x in (inputs.q, inputs.k, inputs.v, inputs.a))
        state = None if inputs.initial_state is None else torch.empty_like(inputs.initial_state)
        return Gradients(dq, dk, dv, da, state)


def allocate(inputs: Inputs, save: bool) -> tuple[Outputs, Saved]:
    return _allocate(inputs.plan_of_symbols(save), inputs)


def allocate_gradients(inputs: Inputs, saved: Saved, wanted: tuple[bool, ...]) -> Gradients:
    return Gradients.allocate(inputs)


def _allocate(plan: GatedLinearPlan, inputs: Inputs) -> tuple[Outputs, Saved]:
    q, state = inputs.q, (plan.heads, plan.key_dim, plan.value_dim)
    y = q.new_empty(*q.shape[:3], plan.value_dim)
    last_state = q.new_empty(plan.sequences, *state, dtype=torch.float32)
    return Outputs(y, last_state), Saved.allocate(plan, inputs)


def forward(inputs: Inputs, save: bool) -> tuple[Outputs, Saved]:
    plan = inputs.plan(save)
    with torch.cuda.device_of(inputs.q):  # Triton launches on the current GPU; autograd sets it for the backward pass
        if not plan.compiled:
            shape = (plan.step, plan.short, plan.single, plan.packed, plan.segments > 1, inputs.initial_state is None)
            kind = ("gated linear", save, *shape, *plan.constants().items())
            compile_together(kind, lambda: _passes(inputs.shadows(), plan))
        return _forward(inputs, plan)


def _passes(inputs: Inputs, plan: GatedLinearPlan) -> None:
    out, saved = _forward(inputs, plan)
    if plan.save:  # a caller that gives a state will also differentiate the last state
        backward(inputs, saved, (out.y, None if inputs.initial_state is None else out.last_state))


def _forward(inputs: Inputs, plan: GatedLinearPlan) -> tuple[Outputs, Saved]:
    out, saved = _allocate(plan, inputs)
    q, k, v, a, initial_state = inputs.q, inputs.k, inputs.v, inputs.a, inputs.initial_state
    has_initial = initial_state is not None
    if plan.step:
        settings = plan.step_settings()
        launch(
            *(plan.compiled, step_kernel, plan.sequences * plan.heads * -(-plan.value_dim // settings["BV"])),
            (q, k, v, a, initial_state, out.y, out.last_state),
            lambda: {**_constants(plan, step_kernel), "INITIAL": has_initial, **settings},
        )
        return out, saved
    if plan.short:
        launch(
            *(plan.compiled, short_forward_kernel, plan.sequences * plan.heads),
            (q, k, v, a, initial_state, out.y, out.last_state, plan.time, plan.heads),
            lambda: {**_constants(plan, short_forward_kernel), "INITIAL": has_initial, **plan.short_settings()},
        )
        return out, saved
    table = ChunkTable.of(inputs.cu_seqlens, plan.tokens, plan.slots)
    if plan.channel:
        launch(
            *(plan.compiled, scores_kernel, plan.slots * plan.heads * BLOCKS_OF_A_CHUNK),
            (
                *(q, k, a, saved.scores, saved.queries, saved.keys, saved.decays),
                *(table.bounds, table.chunk_starts, table.chunk_sequence, plan.time, plan.heads),
            ),
            lambda: {**_constants(plan, scores_kernel), "PACKED": plan.packed, **plan.scores_settings()},
        )
    queries, keys, gates = _for_chunks(inputs, saved)
    _walk(plan, table, keys, v, gates, initial_state, out.last_state, saved.states, reverse=False)
    _output(plan, table, queries, k, v, a, saved.scores, saved.states, out.y, reverse=False)
    return out, saved


def _for_chunks(inputs: Inputs, saved: Saved) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries, keys and gates as `walk_kernel` and `output_kernel` read them."""
    if saved.queries is None or saved.keys is None or saved.decays is None:
        return inputs.q, inputs.k, inputs.a
    return saved.queries, saved.keys, saved.decays


def backward(
    inputs: Inputs, saved: Saved, doutputs: tuple[Tensor | None, Tensor | None], wanted: tuple[bool, ...] = ()
) -> Gradients:
    plan = inputs.plan(save=True)
    out = Gradients.allocate(inputs)
    q, k, v, a, initial_state = inputs.q, inputs.k, inputs.v, inputs.a, inputs.initial_state
    dy, dlast_state = doutputs
    dy = q.new_zeros(v.shape) if dy is None else dy
    if plan.short:
        launch(
            *(plan.compiled, short_backward_kernel, plan.sequences * plan.heads),
            (
                *(q, k, v, a, initial_state, dy, dlast_state),
                *(out.dq, out.dk, out.dv, out.da, out.dinitial_state, plan.time, plan.heads),
            ),
            lambda: {
                **_constants(plan, short_backward_kernel),
                **{"INITIAL": initial_state is not None, "LAST": dlast_state is not None},
                **plan.short_settings(),
            },
        )
        return out
    table = ChunkTable.of(inputs.cu_seqlens, plan.tokens, plan.slots)
    dstates = None
    if dlast_state is not None or not plan.single:
        dstates = q.new_empty(plan.slots, plan.heads, plan.key_dim, plan.value_dim, dtype=plan.operand)
    queries, keys, gates = _for_chunks(inputs, saved)
    if dstates is not None or initial_state is not None:
        _walk(plan, table, queries, dy, gates, dlast_state, out.dinitial_state, dstates, reverse=True)
    _output(plan, table, keys, q, dy, a, saved.scores, dstates, out.dv, reverse=True)
    chunks = (table.bounds, table.chunk_starts, table.chunk_sequence, plan.time, plan.heads)
    given = {"PACKED": plan.packed, "STATE": saved.states is not None, "DSTATE": dstates is not None}
    if not plan.channel:
        launch(
            *(plan.compiled, gradients_kernel, plan.slots * plan.heads),
            (q, k, v, a, saved.states, dy, dstates, out.dq, out.dk, out.da, *chunks),
            lambda: {**_constants(plan, gradients_kernel), **given, **plan.gradients_settings()},
        )
        return out
    pairs = q.new_empty(plan.slots, plan.heads, BLOCKS_OF_A_CHUNK, BLOCK, BLOCK, dtype=torch.float32)
    launch(
        *(plan.compiled, pairs_kernel, plan.slots * plan.heads * BLOCKS_OF_A_CHUNK),
        (v, dy, pairs, *chunks),
        lambda: {**_constants(plan, pairs_kernel), "PACKED": plan.packed, **plan.pairs_settings()},
    )
    settings = plan.channel_gradients_settings()
    blocks = BLOCKS_OF_A_CHUNK * -(-plan.key_dim // settings["BK"])
    launch(
        *(plan.compiled, channel_gradients_kernel, plan.slots * plan.heads * blocks),
        (q, k, v, a, pairs, saved.states, dy, dstates, out.dq, out.dk, out.da, *chunks),
        lambda: {**_constants(plan, channel_gradients_kernel), **given, **settings},
    )
    return out


def _walk(
    plan: GatedLinearPlan,
    table: ChunkTable,
    key: Tensor,
    value: Tensor,
    gates: Tensor,
    start_state: Tensor | None,
    end_state: Tensor | None,
    states: Tensor | None,
    reverse: bool,
) -> None:
    settings, pairs, segments = plan.walk_settings(), plan.sequences * plan.heads, plan.segments
    blocks = -(-plan.key_dim // settings["BK"]) * -(-plan.value_dim // settings["BV"])

    def walk(start: Tensor | None, end: Tensor | None, decay: Tensor | None, saved: Tensor | None) -> None:
        launch(
            *(plan.compiled, walk_kernel, pairs * segments * blocks),
            (
                *(key, value, gates, start, end, decay, saved, table.bounds, table.chunk_starts, plan.time, plan.heads),
                *(segments, plan.span),
            ),
            lambda: {
                **_constants(plan, walk_kernel),
                **{"PACKED": plan.packed, "REVERSE": reverse, "START": start is not None, "END": end is not None},
                **{"DECAY": decay is not None, "KEEP": saved is not None},
                **settings,
            },
            variant=reverse,
        )

    if segments == 1:
        walk(start_state, end_state, None, states)
        return
    size = plan.key_dim * plan.value_dim
    ends = gates.new_empty(pairs * segments * size, dtype=torch.float32)
    decay = gates.new_empty(pairs * segments * (plan.key_dim if plan.channel else 1), dtype=torch.float32)
    walk(None, ends, decay, None)
    carry = plan.carry_settings()
    launch(
        *(plan.compiled, carry_kernel, pairs * -(-size // carry["BLOCK"])),
        (ends, decay, start_state, end_state, segments),
        lambda: {
            **{"SIZE": size, "V": plan.value_dim, "CHANNEL": plan.channel, "REVERSE": reverse},
            **{"START": start_state is not None, "END": end_state is not None},
            **carry,
        },
        variant=reverse,
    )
    walk(ends, None, None, states)


def _output(
    plan: GatedLinearPlan,
    table: ChunkTable,
    reader: Tensor,
    writer: Tensor,
    value: Tensor,
    a: Tensor,
    scores: Tensor | None,
    states: Tensor | None,
    output: Tensor,
    reverse: bool,
) -> None:
    settings = plan.output_settings()
    launch(
        *(plan.compiled, output_kernel, plan.slots * plan.heads * -(-plan.value_dim // settings["BV"])),
        (
            *(reader, writer, value, a, scores, states, output),
            *(table.bounds, table.chunk_starts, table.chunk_sequence, plan.time, plan.heads),
        ),
        lambda: {
            **_constants(plan, output_kernel),
            **{"PACKED": plan.packed, "REVERSE": reverse, "STATE": states is not None},
            **settings,
        },
        variant=reverse,
    )


def _constants(plan: GatedLinearPlan, kernel: Any) -> dict[str, object]:
    return {name: value for name, value in plan.constants().items() if name in kernel.arg_names}
