"""A backend in plain torch as one operator of torch, for graphs that cannot hold its loops over chunks or tokens.

torch.compile and torch.export unroll loops. Where the length of a sequence is a symbol, or where the bounds of packed sequences
are known only when the graph runs, there is nothing to unroll, and the graph gets two operators instead:

    eigentrack::recurrence            runs a backend of an op: y, and the parts of the last state
    eigentrack::recurrence_backward   runs it once more and differentiates it

B batch  T time  S sequences
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from eigentrack.ops.shared.autograd import refuse_second_derivatives
from eigentrack.ops.shared.packing import Packing, State
from eigentrack.spectrum import EigenRange

# What is None or no tensor is written into texts: an operator with gradients takes lists of tensors only if none is missing.
CALL = "str op, str backend, Tensor[] tensors, Tensor? bounds, str sequences, str state, str constants"

_BACKENDS: dict[str, Mapping[str, Callable[..., Any]]] = {}  # by the name of the op

# Tensors may lie in memory as they do: to keep strides, inductor would take those of the first length for all lengths.


def know(op: str, backends: Mapping[str, Callable[..., Any]]) -> None:
    """Make the backends of an op known to the operators."""
    _BACKENDS[op] = backends


def run_as_operator(
    op: str, backend: str, *sequences: Tensor | None, initial_state: State, packing: Packing | None, **constants: Any
) -> tuple[Tensor, State]:
    """Run a backend of an op as an operator; the other arguments, and what it returns, are those of the backend."""
    state = initial_state if isinstance(initial_state, tuple) else (initial_state,)
    given = (*sequences, *state, *constants.values())
    y, *last = torch.ops.eigentrack.recurrence(
        op,
        backend,
        [x for x in given if isinstance(x, Tensor)],
        None if packing is None else packing.bounds,
        *(" ".join(map(_written, part)) for part in (sequences, state)),
        " ".join(f"{name}={_written(value)}" for name, value in constants.items()),
    )
    return y, tuple(last) if isinstance(initial_state, tuple) else last[0]


def _written(value: Tensor | EigenRange | float | None) -> str:
    """Write an argument as JSON without spaces; "tensor" stands for the next tensor of a call."""
    if isinstance(value, Tensor):
        return '"tensor"'
    if isinstance(value, EigenRange):
        return f"[{float(value.low)!r},{float(value.high)!r},{float(value.overshoot)!r}]"
    if value is None:
        return "null"
    number = float(value)  # not a symbol, as which torch.compile may hold it
    return f"{int(number)}" if isinstance(value, int) else f"{number!r}"


def _read(text: str, tensors: Iterator[Tensor]) -> Any:
    value = json.loads(text)
    if isinstance(value, list):
        return EigenRange(*value)
    return next(tensors) if value == "tensor" else value


def _run(
    op: str, backend: str, tensors: Sequence[Tensor], bounds: Tensor | None, sequences: str, state: str, constants: str
) -> list[Tensor]:
    """Run the backend, and return y and the parts of the last state."""
    remaining = iter(tensors)
    given = [_read(text, remaining) for text in sequences.split()]
    start = tuple(_read(text, remaining) for text in state.split())
    named = [text.split("=", 1) for text in constants.split()]
    y, last = _BACKENDS[op][backend](
        *given,
        initial_state=start if len(start) > 1 else start[0],
        packing=None if bounds is None else Packing(bounds, given[0].shape[1], None),
        **{name: _read(text, remaining) for name, text in named},
    )
    return [y, *(last if isinstance(last, tuple) else (last,))]


@torch.library.custom_op(
    "eigentrack::recurrence", mutates_args=(), schema=f"({CALL}) -> Tensor[]", tags=(torch.Tag.flexible_layout,)
)
def _recurrence(*call):  # type: ignore[no-untyped-def]
    return [x.contiguous() for x in _run(*call)]


@_recurrence.register_fake
def _(op, backend, tensors, bounds, sequences, state, constants):  # type: ignore[no-untyped-def]
    """Take the shape of an output from one token: every backend returns [B, T, ...], and a state like the one that it gets."""
    first, parts = sequences.split().count('"tensor"'), len(state.split())
    start = tensors[first : first + parts]
    one_token = [x[:, :1] for x in tensors[:first]]
    one_row = start if bounds is None else [part[:1] for part in start]
    call = ([*one_token, *one_row, *tensors[first + parts :]], None, sequences, state, constants)
    y = _run(op, "reference", *call)[0]
    return [y.new_empty(*tensors[0].shape[:2], *y.shape[2:]), *(part.new_empty(part.shape) for part in start)]


_LIBRARY = torch.library.Library("eigentrack", "FRAGMENT")
_LIBRARY.define(
    f"recurrence_backward(Tensor?[] doutputs, bool[] wanted, {CALL}) -> Tensor[]", tags=(torch.Tag.flexible_layout,)
)


# not a custom_op: below one, nothing is recorded that could be differentiated
@torch.library.impl(_LIBRARY, "recurrence_backward", "CompositeExplicitAutograd")
def _recurrence_backward(doutputs, wanted, op, backend, tensors, *call):  # type: ignore[no-untyped-def]
    """Return the gradients of the tensors that are `wanted`."""
    with torch.enable_grad():
        given = [x.detach().requires_grad_(is_wanted) for x, is_wanted in zip(tensors, wanted, strict=True)]
        leaves = [x for x in given if x.requires_grad]
        reached = [
            (output, slope)
            for output, slope in zip(_run(op, backend, given, *call), doutputs, strict=True)
            if slope is not None and output.requires_grad
        ]
        if not reached:
            return [torch.zeros_like(x) for x in leaves]
        outputs, slopes = zip(*reached, strict=True)
        found = torch.autograd.grad(outputs, leaves, slopes, allow_unused=True)
    return [torch.zeros_like(x) if g is None else g.contiguous() for g, x in zip(found, leaves, strict=True)]


@torch.library.register_fake("eigentrack::recurrence_backward", lib=_LIBRARY)
def _(doutputs, wanted, op, backend, tensors, *call):  # type: ignore[no-untyped-def]
    return [x.new_empty(x.shape) for x, is_wanted in zip(tensors, wanted, strict=True) if is_wanted]


def _remember(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    op, backend, tensors, bounds, *texts = inputs
    ctx.op, ctx.backend, ctx.texts = op, backend, texts
    ctx.wanted = [x.requires_grad for x in tensors]
    ctx.save_for_backward(bounds, *tensors)


def _differentiate(ctx: Any, doutputs: Sequence[Tensor | None]) -> tuple[Any, ...]:
    refuse_second_derivatives(ctx.op, f"{ctx.backend}, compiled")
    bounds, *tensors = ctx.saved_tensors
    call = (ctx.op, ctx.backend, tensors, bounds, *ctx.texts)
    found = iter(torch.ops.eigentrack.recurrence_backward(doutputs, ctx.wanted, *call))
    gradients = [next(found) if is_wanted else None for is_wanted in ctx.wanted]
    return None, None, gradients, None, None, None, None


_recurrence.register_autograd(_differentiate, setup_context=_remember)
