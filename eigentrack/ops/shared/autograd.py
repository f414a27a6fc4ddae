"""Kernels as a function that autograd differentiates: one wrapper for all ops.

Eager calls go through an autograd Function; torch.compile sees the same two steps as operators of torch, whole and opaque:

    eigentrack::NAME            the outputs, and what the backward pass needs
    eigentrack::NAME_backward   all gradients, in fresh memory, the same bits in every run

(An operator costs a tenth of a millisecond of Python per call, as much as the kernels at small sizes; hence both.)
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

Tensors = tuple[Tensor | None, ...]


class Launches(Protocol):
    """What a module `launch` of an op has. Inputs, Outputs, Saved and Gradients are NamedTuples; gradients are those of the
    first inputs, in their order, and inputs behind them have none. The fields of Inputs are `Tensor`, `Tensor | None`, `bool`,
    `int` or `float`: they are the operator's schema."""

    Inputs: Any
    Outputs: Any
    Saved: Any
    Gradients: Any

    def forward(self, inputs: Any, save: bool) -> tuple[Any, Any]:
        """Run the kernels and return Outputs and Saved; with `save`, a backward pass will follow."""

    def allocate(self, inputs: Any, save: bool) -> tuple[Any, Any]:
        """Return Outputs and Saved of the right sizes, for torch.compile, whose sizes may be symbols."""

    def backward(self, inputs: Any, saved: Any, doutputs: Tensors, wanted: tuple[bool, ...]) -> Any:
        """Return the Gradients for those of the outputs, which may be None; `wanted` says for which inputs they are used."""

    def allocate_gradients(self, inputs: Any, saved: Any, wanted: tuple[bool, ...]) -> Any:
        """Return Gradients of the right sizes, for torch.compile."""


class DifferentiableKernels:
    """`kernels(*inputs)` runs the launches and returns the outputs, with gradients in the dtypes of their inputs.

    `forgotten` names inputs that the backward pass does not read: they need not be kept in memory for it.
    `constant` names outputs that have no gradient.
    """

    def __init__(self, name: str, launches: Any, *, forgotten: tuple[str, ...] = (), constant: tuple[str, ...] = ()) -> None:
        self.name, self.launches = name, launches
        fields = launches.Inputs._fields
        kinds = _kinds(launches.Inputs)
        self._tensors = tuple(n for n, kind in enumerate(kinds) if kind.startswith("Tensor"))
        self._kept = tuple(n for n in self._tensors if fields[n] not in forgotten)
        self._outputs, self._saved = len(launches.Outputs._fields), len(launches.Saved._fields)
        self._constant = tuple(launches.Outputs._fields.index(name) for name in constant)
        self._operator, self._backward_operator = self._register(kinds)

    def __call__(self, *inputs: Any) -> tuple[Tensor, ...]:
        save = torch.is_grad_enabled() and any(inputs[n] is not None and inputs[n].requires_grad for n in self._tensors)
        if torch.compiler.is_compiling():
            return self._operator(*inputs, save)[: self._outputs]
        if save:
            return _Eager.apply(self, *inputs)
        return self.launches.forward(self.launches.Inputs(*inputs), False)[0]

    def remember(self, ctx: Any, inputs: tuple[Any, ...], outputs: tuple[Tensor, ...], saved: Tensors) -> None:
        ctx.set_materialize_grads(False)
        if self._constant:
            ctx.mark_non_differentiable(*(outputs[n] for n in self._constant))
        ctx.dtypes = tuple(x.dtype if isinstance(x, Tensor) else None for x in inputs)
        ctx.options = tuple(None if n in self._tensors else x for n, x in enumerate(inputs))
        ctx.save_for_backward(*(inputs[n] for n in self._kept), *saved)

    def recall(self, ctx: Any) -> tuple[list[Any], Tensors]:
        """Return the inputs, None in place of forgotten ones, and what forward has saved."""
        inputs, kept = list(ctx.options), ctx.saved_tensors  # once: checkpointing hands them over a single time
        for place, tensor in zip(self._kept, kept[: len(self._kept)], strict=True):
            inputs[place] = tensor
        return inputs, kept[len(self._kept) :]

    def _register(self, kinds: list[str]) -> tuple[Any, Any]:
        launches, fields = self.launches, self.launches.Inputs._fields
        given = ", ".join(f"{kind} {field}" for kind, field in zip(kinds, fields, strict=True))
        optional = ", ".join(
            f"{kind if n in self._kept or not kind.startswith('Tensor') else 'Tensor?'} {field}"
            for n, (kind, field) in enumerate(zip(kinds, fields, strict=True))
        )
        doutputs = ", ".join(f"Tensor? d{field}" for field in launches.Outputs._fields)
        saved = "".join(f", Tensor saved_{field}" for field in launches.Saved._fields)

        @torch.library.custom_op(
            f"eigentrack::{self.name}",
            mutates_args=(),
            schema=f"({given}, bool save) -> ({_tensor_list(self._outputs + self._saved)})",
        )
        def operator(*inputs):  # type: ignore[no-untyped-def]
            outputs, kept = launches.forward(launches.Inputs(*inputs[:-1]), inputs[-1])
            return *outputs, *_no_gaps(outputs[0], kept)

        @operator.register_fake
        def _(*inputs):  # type: ignore[no-untyped-def]
            outputs, kept = launches.allocate(launches.Inputs(*inputs[:-1]), inputs[-1])
            return *outputs, *_no_gaps(outputs[0], kept)

        @torch.library.custom_op(
            f"eigentrack::{self.name}_backward",
            mutates_args=(),
            schema=f"({doutputs}{saved}, {optional}, bool[] wanted) -> ({_tensor_list(len(launches.Gradients._fields))})",
        )
        def backward_operator(*given):  # type: ignore[no-untyped-def]
            return _no_gaps(_any_tensor(given), launches.backward(*self._backward_arguments(given)))

        @backward_operator.register_fake
        def _(*given):  # type: ignore[no-untyped-def]
            inputs, kept, _, wanted = self._backward_arguments(given)
            return _no_gaps(_any_tensor(given), launches.allocate_gradients(inputs, kept, wanted))

        def setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
            self.remember(ctx, inputs[:-1], output[: self._outputs], output[self._outputs :])
            ctx.mark_non_differentiable(*(output[n] for n in self._constant), *output[self._outputs :])

        def differentiate(ctx: Any, *doutputs: Tensor | None) -> Tensors:
            inputs, kept = self.recall(ctx)
            wanted = list(ctx.needs_input_grad[: len(inputs)])
            found = backward_operator(*map(_contiguous, doutputs[: self._outputs]), *kept, *inputs, wanted)
            return *self._finished(ctx, tuple(x if x.numel() else None for x in found)), None

        operator.register_autograd(differentiate, setup_context=setup)
        return operator, backward_operator

    def _backward_arguments(self, given: tuple[Any, ...]) -> tuple[Any, Any, Tensors, tuple[bool, ...]]:
        doutputs, rest, wanted = given[: self._outputs], given[self._outputs : -1], tuple(given[-1])
        saved = self.launches.Saved(*(x if x.numel() else None for x in rest[: self._saved]))
        return self.launches.Inputs(*rest[self._saved :]), saved, doutputs, wanted

    def _finished(self, ctx: Any, found: Tensors) -> Tensors:
        """The gradients in the dtypes of their inputs, None for inputs that have none."""
        gradients = (None if x is None else x.to(dtype) for x, dtype in zip(found, ctx.dtypes, strict=False))
        return *gradients, *[None] * (len(ctx.dtypes) - len(found))


class _Eager(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, kernels: DifferentiableKernels, *inputs: Any) -> tuple[Tensor, ...]:
        outputs, saved = kernels.launches.forward(kernels.launches.Inputs(*inputs), True)
        ctx.kernels = kernels
        kernels.remember(ctx, inputs, outputs, saved)
        return tuple(outputs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *doutputs: Tensor | None) -> Tensors:
        kernels, launches = ctx.kernels, ctx.kernels.launches
        inputs, saved = kernels.recall(ctx)
        doutputs = tuple(map(_contiguous, doutputs))
        found = launches.backward(launches.Inputs(*inputs), launches.Saved(*saved), doutputs, ctx.needs_input_grad[1:])
        return None, *kernels._finished(ctx, found)


def _kinds(inputs: type[NamedTuple]) -> list[str]:
    """The fields' types in the words of torch's schemas; NamedTuple keeps postponed annotations as forward references."""
    words = {"Tensor | None": "Tensor?"}
    texts: list[Any] = [getattr(kind, "__forward_arg__", kind) for kind in inputs.__annotations__.values()]
    return [words.get(text, text) for text in texts]


def _tensor_list(count: int) -> str:
    return ", ".join(["Tensor"] * count)


def _no_gaps(like: Tensor, tensors: Tensors) -> tuple[Tensor, ...]:
    """Custom ops cannot return None; an empty tensor encodes it."""
    return tuple(like.new_empty(0) if x is None else x for x in tensors)


def _any_tensor(given: tuple[Any, ...]) -> Tensor:
    return next(x for x in given if isinstance(x, Tensor))


def _contiguous(x: Tensor | None) -> Tensor | None:
    return None if x is None else x.contiguous()
