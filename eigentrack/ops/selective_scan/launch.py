"""Launches of the selective-scan kernels, with the tensors that they write.

The rows of x, dt, z [B, T, D] and b, c [B, T, N] may lie apart in memory; log_decay [D, N], skip [D] and initial_state
[S, D, N], in float32, are contiguous.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from eigentrack.ops.selective_scan.backward import backward_kernel, sum_kernel
from eigentrack.ops.selective_scan.forward import forward_kernel
from eigentrack.ops.selective_scan.plan import Segments, SelectiveScanPlan
from eigentrack.ops.selective_scan.segments import join_kernel, summary_back_kernel, summary_kernel
from eigentrack.ops.selective_scan.step import step_kernel
from eigentrack.ops.shared.launch import compile_together, launch, shadow


class Inputs(NamedTuple):
    x: Tensor
    dt: Tensor
    b: Tensor
    c: Tensor
    z: Tensor | None
    log_decay: Tensor
    skip: Tensor | None
    initial_state: Tensor | None
    cu_seqlens: Tensor | None
    low: float  # the range of the eigenvalues
    high: float

    def plan(self, save: bool) -> SelectiveScanPlan:
        return SelectiveScanPlan.of(self.x, self.b, self.cu_seqlens, self.low, self.high, save)

    def plan_of_symbols(self, save: bool) -> SelectiveScanPlan:
        return SelectiveScanPlan.of_symbols(self.x, self.b, self.cu_seqlens, self.low, self.high, save)

    def even(self) -> Inputs:
        """Return the inputs, with copies of those that the kernels cannot read: they step from row to row by one stride."""
        x, dt, b, c = (_even_rows(tensor) for tensor in (self.x, self.dt, self.b, self.c))
        z = None if self.z is None else _even_rows(self.z)
        others = (self.log_decay, self.skip, self.initial_state, self.cu_seqlens)
        even = (None if y is None else y.contiguous() for y in others)
        return Inputs(x, dt, b, c, z, *even, self.low, self.high)  # type: ignore[arg-type, call-arg]

    def shadows(self) -> Inputs:
        *tensors, low, high = self
        return Inputs(*map(shadow, tensors), low, high)  # type: ignore[arg-type, call-arg]


class Outputs(NamedTuple):
    y: Tensor
    last_state: Tensor


class Saved(NamedTuple):
    checkpoints: Tensor | None  # [checkpoints, D, N]; None if no backward pass will follow


class Gradients(NamedTuple):
    dx: Tensor
    ddt: Tensor
    db: Tensor
    dc: Tensor
    dz: Tensor | None
    dlog_decay: Tensor
    dskip: Tensor | None
    dinitial_state: Tensor | None


def allocate(inputs: Inputs, save: bool) -> tuple[Outputs, Saved]:
    return _allocate(inputs.plan_of_symbols(save), inputs)


def allocate_gradients(inputs: Inputs, saved: Saved, wanted: tuple[bool, ...]) -> Gradients:
    given = (inputs.x, inputs.dt, inputs.b, inputs.c, inputs.z, inputs.log_decay, inputs.skip, inputs.initial_state)
    return Gradients(*(None if x is None else x.new_empty(x.shape) for x in given))  # type: ignore[arg-type]


def _allocate(plan: SelectiveScanPlan, inputs: Inputs) -> tuple[Outputs, Saved]:
    x, state = inputs.x, (plan.channels, plan.size)
    outputs = Outputs(x.new_empty(x.shape), x.new_empty(plan.sequences, *state, dtype=torch.float32))
    return outputs, Saved(x.new_empty(plan.checkpoints, *state, dtype=torch.float32) if plan.save else None)


def forward(inputs: Inputs, save: bool) -> tuple[Outputs, Saved]:
    inputs, plan = inputs.even(), inputs.plan(save)
    with torch.cuda.device_of(inputs.x):  # Triton launches on the current GPU; autograd sets it for the backward pass
        if not plan.compiled:
            cuts = (plan.segments(name).count > 1 for name in ("forward", "backward"))
            given = (x is None for x in (inputs.z, inputs.skip, inputs.initial_state))
            backward = (plan.windows.count > 1, plan.checkpoints > 0, plan.slots, plan.blocks_together)
            kind = (plan.step, save, *given, inputs.x.dtype, *cuts, *backward, *plan.checkpointed().items())
            compile_together(("selective scan", *kind), lambda: _both_passes(inputs.shadows(), plan))
        return _forward(inputs, plan)


def _both_passes(inputs: Inputs, plan: SelectiveScanPlan) -> None:
    out, saved = _forward(inputs, plan)
    if plan.save:  # a caller that gives a state will also differentiate the last state
        backward(inputs, saved, (out.y, None if inputs.initial_state is None else out.last_state))


def _forward(inputs: Inputs, plan: SelectiveScanPlan) -> tuple[Outputs, Saved]:
    out, saved = _allocate(plan, inputs)
    given = (inputs.x, inputs.dt, inputs.b, inputs.c, inputs.z, inputs.log_decay, inputs.skip)
    switches = {"GATED": inputs.z is not None, "SKIP": inputs.skip is not None}
    if plan.step:
        settings = plan.step_settings
        launch(
            *(plan.compiled, step_kernel, plan.step_programs(settings)),
            (*given, inputs.initial_state, out.y, out.last_state, *_rows(inputs), plan.sequences),
            lambda: {**plan.constants(), **settings, "INITIAL": inputs.initial_state is not None, **switches},
        )
        return out, saved
    starts, cut = inputs.initial_state, plan.segments("forward")
    units = plan.sequences * cut.count
    programs, split = units * plan.channel_blocks, (plan.time, cut.count, cut.length)
    if cut.count > 1:
        products, ends = (_states(inputs, plan, units) for _ in range(2))
        launch(
            *(plan.compiled, summary_kernel, programs),
            (
                *(inputs.x, inputs.dt, inputs.b, inputs.log_decay, products, ends),
                *(_row(inputs.x), _row(inputs.dt), _row(inputs.b), *split),
            ),
            lambda: {**plan.constants(), "OWN": plan.own_channels, **plan.settings("summary")},
        )
        starts = _join(plan, cut, products, ends, inputs.initial_state, back=False)
    launch(
        *(plan.compiled, forward_kernel, programs),
        (*given, starts, out.y, out.last_state, saved.checkpoints, inputs.cu_seqlens, *_rows(inputs), *split),
        lambda: {
            **plan.checkpointed(),
            **{"OWN": plan.own_channels, "START": starts is not None, "SAVE": plan.save and plan.checkpoints > 0, **switches},
            **plan.settings("forward"),
        },
    )
    return out, saved


def backward(
    inputs: Inputs, saved: Saved, doutputs: tuple[Tensor | None, Tensor | None], wanted: tuple[bool, ...] = ()
) -> Gradients:
    inputs, plan = inputs.even(), inputs.plan(save=True)
    dy, dlast_state = doutputs
    dy = inputs.x.new_zeros(inputs.x.shape) if dy is None else dy
    entering, cut = dlast_state, plan.segments("backward")
    units = plan.sequences * cut.count
    programs, split = units * plan.channel_blocks, (plan.time, cut.count, cut.length)
    if cut.count > 1:
        products, ends = (_states(inputs, plan, units) for _ in range(2))
        launch(
            *(plan.compiled, summary_back_kernel, programs),
            (
                *(inputs.dt, inputs.c, inputs.z, inputs.log_decay, dy, products, ends),
                *(_row(inputs.dt), _row(inputs.c), 0 if inputs.z is None else _row(inputs.z), *split),
            ),
            lambda: {
                **plan.constants(),
                **{"OWN": plan.own_channels, "GATED": inputs.z is not None},
                **plan.settings("summary"),
            },
        )
        entering = _join(plan, cut, products, ends, dlast_state, back=True)
        del products, ends
    dx, ddt, db, dc, dz = (None if given is None else given.new_empty(given.shape) for given in inputs[:5])
    windows = plan.windows
    leaving: Tensor | None = None
    if windows.count > 1:  # windows pass ḣ on in one tensor, which must not be the caller's
        if entering is None:
            entering = _states(inputs, plan, units).zero_()
        entering = leaving = entering.clone() if entering is dlast_state else entering
    elif inputs.initial_state is not None:
        leaving = _states(inputs, plan, units)

    def parts(*shape: int) -> Tensor:
        return dy.new_empty(shape, dtype=torch.float32)

    db_parts, dc_parts = (parts(plan.groups, plan.rows_of_sums, plan.size) for _ in range(2))
    kept = parts(plan.backward_programs * plan.slots, plan.channel_block * plan.state_block) if plan.slots else None
    starts = saved.checkpoints if plan.checkpoints else inputs.initial_state
    decay_parts = _states(inputs, plan, units)
    skip_parts = None if inputs.skip is None else parts(units, plan.channels)
    settings = plan.settings("sum")
    for number in reversed(range(windows.count)):
        window = (number * windows.length, windows.length)
        launch(
            *(plan.compiled, backward_kernel, plan.backward_programs),
            (
                *(inputs.x, inputs.dt, inputs.b, inputs.c, inputs.z, inputs.log_decay, inputs.skip, starts, dy),
                *(entering, leaving, dx, ddt, db_parts, dc_parts, dz, decay_parts, skip_parts, kept),
                *(inputs.cu_seqlens, *_rows(inputs), *split, *window, int(number < windows.count - 1)),
            ),
            lambda: {
                **plan.checkpointed(),
                **{"TOGETHER": plan.blocks_together, "KEPT": plan.slots, "START": starts is not None},
                **{"ENTER": entering is not None, "LEAVE": leaving is not None},
                **{"GATED": inputs.z is not None, "SKIP": inputs.skip is not None},
                **plan.settings("backward"),
            },
        )
        all_units, cuts = (1, (plan.time, 1, plan.time)) if plan.packed else (units, split)
        launch(
            *(plan.compiled, sum_kernel, all_units * -(-windows.length // settings["ROWS"])),
            (db_parts, dc_parts, db, dc, plan.groups, *cuts, *window, plan.rows_of_sums),
            lambda: {"N": plan.size, "BN": plan.state_block, **settings},
        )
    del db_parts, dc_parts, kept  # freed now, since torch's sums over many units need memory
    # in a fixed order, for the same bits in every run
    dlog_decay = decay_parts.sum(0).to(inputs.log_decay.dtype)
    dskip = None if inputs.skip is None or skip_parts is None else skip_parts.sum(0).to(inputs.skip.dtype)
    dinitial_state = None if inputs.initial_state is None or leaving is None else leaving[:: cut.count].contiguous()
    return Gradients(dx, ddt, db, dc, dz, dlog_decay, dskip, dinitial_state)  # type: ignore[arg-type]


def _states(inputs: Inputs, plan: SelectiveScanPlan, units: int) -> Tensor:
    return inputs.x.new_empty(units, plan.channels, plan.size, dtype=torch.float32)


def _join(plan: SelectiveScanPlan, cut: Segments, products: Tensor, ends: Tensor, given: Tensor | None, back: bool) -> Tensor:
    joined, settings = torch.empty_like(products), plan.settings("join")
    size = plan.channels * plan.size
    launch(
        *(plan.compiled, join_kernel, plan.sequences * -(-size // settings["BLOCK"])),
        (products, ends, given, joined, cut.count),
        lambda: {"SIZE": size, "GIVEN": given is not None, "BACK": back, **settings},
        variant=back,
    )
    return joined


def _rows(inputs: Inputs) -> tuple[int, ...]:
    return tuple(0 if x is None else _row(x) for x in (inputs.x, inputs.dt, inputs.b, inputs.c, inputs.z))


def _row(x: Tensor) -> int:
    """Return the stride from one row to the next, which is that of the batch if there is one token per sequence."""
    return x.stride(1) if x.shape[1] > 1 else x.stride(0)


def _even_rows(x: Tensor) -> Tensor:
    batch, time, _ = x.shape
    even = batch == 1 or time == 1 or x.stride(0) == time * x.stride(1)
    return x if even and x.stride(2) == 1 else x.contiguous()
