"""Kernels as a function that autograd differentiates: one wrapper for all ops.

Eager calls go through an autograd Function; torch.compile sees the same two steps as two opaque operators of torch:

    eigentrack::NAME            the outputs, and what the backward pass needs
    eigentrack::NAME_backward   all gradients, in new tensors, with the same bits in every run

The gradients have no gradients: what differentiates them is refused when it asks for them, by `refuse_second_derivatives`.

Both ways exist because an operator costs a tenth of a millisecond of Python per call, as much as the kernels at small sizes.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

Tensors = tuple[Tensor | None, ...]


def refuse_second_derivatives(op: str, backend: str) -> None:
    """Raise if the backward pass that calls this is to be differentiated itself; `backend` computes only first derivatives.

    A backward pass runs with gradients enabled if and only if create_graph=True. torch's `once_differentiable` does not do: it
    raises only if the error's own node is reached, which `torch.autograd.grad` leaves out, as it leads to none of its inputs.
    """
    if torch.is_grad_enabled():
        raise NotImplementedError(
            f'{op}: the backend {backend!r} has no second derivatives (create_graph=True); use backend="reference"'
        )


class Launches(Protocol):
    """The interface of an op's module `launch`.

    Inputs, Outputs, Saved and Gradients are NamedTuples. Gradients holds the gradients of the first inputs, in their order; the
    inputs after these have no gradient. The fields of Inputs are annotated as `Tensor`, `Tensor | None`, `bool`, `int` or
    `float`: the operator's schema is built from these annotations.
    """

    Inputs: Any
    Outputs: Any
    Saved: Any
    Gradients: Any

    def forward(self, inputs: Any, save: bool) -> tuple[Any, Any]:
        """Run the kernels and return Outputs and Saved; `save` is true if a backward pass will follow."""

    def allocate(self, inputs: Any, save: bool) -> tuple[Any, Any]:
        """Return empty Outputs and Saved of the right sizes, for torch.compile, whose sizes may be symbols."""

    def backward(self, inputs: Any, saved: Any, doutputs: Tensors, wanted: tuple[bool, ...]) -> Any:
        """Return the Gradients, given those of the outputs, which may be None; `wanted` says which inputs need theirs."""

    def allocate_gradients(self, inputs: Any, saved: Any, wanted: tuple[bool, ...]) -> Any:
        """Return empty Gradients of the right sizes, for torch.compile."""


class DifferentiableKernels:
    """The kernels of an op as one differentiable function: `kernels(*inputs)` runs them and returns the outputs.

    Each gradient has the dtype of its input.

    Args:
        name: the op's name, under which its operators are registered.
        launches: the op's module `launch`, as `Launches` describes it.
        forgotten: names of inputs that the backward pass does not read, so that they need not be kept in memory for it.
        constant: names of outputs that have no gradient.
    """

    def __init__(self, name: str, launches: Any, *, forgotten: tuple[str, ...] = (), constant: tuple[str, ...] = ()) -> None:
        self.name, self.launches = name, launches
        fields = launches.Inputs._fields
        kinds = _kinds(launches.Inputs)
        self._tensors = tuple(n for n, kind in enumerate(kinds) if kind.startswith("Tensor"))
        self._options = tuple(n for n in range(len(fields)) if n not in self._tensors)
        self._kept = tuple(n for n in self._tensors if fields[n] not in forgotten)
        self._forgotten = tuple(n for n in self._tensors if n not in self._kept)
        self._outputs, self._saved = len(launches.Outputs._fields), len(launches.Saved._fields)
        self._constant = tuple(launches.Outputs._fields.index(name) for name in constant)
        self._operator, self._backward_operator = self._register(kinds)

    def __call__(self, *inputs: Any) -> tuple[Tensor, ...]:
        tensors = (inputs[n] for n in self._tensors)
        save = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in tensors)
        if torch.compiler.is_compiling():
            return self._operator(*inputs, save)[: self._outputs]
        if save:
            return _Eager.apply(self, *inputs)
        return self.launches.forward(self.launches.Inputs(*inputs), False)[0]

    def remember(self, ctx: Any, inputs: tuple[Any, ...], outputs: tuple[Tensor, ...], saved: Tensors) -> None:
        """Store in `ctx` what the backward pass needs; `recall` reads it again."""
        ctx.set_materialize_grads(False)
        if self._constant:
            ctx.mark_non_differentiable(*(outputs[n] for n in self._constant))
        ctx.options = [inputs[n] for n in self._options]
        ctx.dtypes = {n: inputs[n].dtype for n in self._forgotten}  # a kept input still knows its dtype
        ctx.save_for_backward(*(inputs[n] for n in self._kept), *saved)

    def recall(self, ctx: Any) -> tuple[list[Any], Tensors]:
        """Return the inputs, with None for forgotten ones, and the tensors that the forward pass saved."""
        kept = ctx.saved_tensors  # read only once: under checkpointing they can be unpacked a single time
        inputs: list[Any] = [None] * (len(self._tensors) + len(self._options))
        for place, tensor in zip(self._kept, kept, strict=False):
            inputs[place] = tensor
        for place, option in zip(self._options, ctx.options, strict=True):
            inputs[place] = option
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
            refuse_second_derivatives(self.name, "triton")
            inputs, kept = self.recall(ctx)
            wanted = list(ctx.needs_input_grad[: len(inputs)])
            found = backward_operator(*map(_contiguous, doutputs[: self._outputs]), *kept, *inputs, wanted)
            return *self.finished(ctx, inputs, tuple(x if x.numel() else None for x in found)), None

        operator.register_autograd(differentiate, setup_context=setup)
        return operator, backward_operator

    def _backward_arguments(self, given: tuple[Any, ...]) -> tuple[Any, Any, Tensors, tuple[bool, ...]]:
        doutputs, rest, wanted = given[: self._outputs], given[self._outputs : -1], tuple(given[-1])
        saved = self.launches.Saved(*(x if x.numel() else None for x in rest[: self._saved]))
        return self.launches.Inputs(*rest[self._saved :]), saved, doutputs, wanted

    def finished(self, ctx: Any, inputs: list[Any], found: Tensors) -> Tensors:
        """Return the gradients in the dtypes of their inputs, with None for inputs that have none."""
        gradients: list[Tensor | None] = [None] * len(inputs)
        for n, gradient in enumerate(found):
            if gradient is not None:
                dtype = ctx.dtypes[n] if inputs[n] is None else inputs[n].dtype
                gradients[n] = gradient if gradient.dtype == dtype else gradient.to(dtype)
        return tuple(gradients)


class _Eager(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, kernels: DifferentiableKernels, *inputs: Any) -> tuple[Tensor, ...]:
        outputs, saved = kernels.launches.forward(kernels.launches.Inputs(*inputs), True)
        ctx.kernels = kernels
        kernels.remember(ctx, inputs, outputs, saved)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *doutputs: Tensor | None) -> Tensors:
        kernels, launches = ctx.kernels, ctx.kernels.launches
        refuse_second_derivatives(kernels.name, "triton")
        inputs, saved = kernels.recall(ctx)
        doutputs = tuple(map(_contiguous, doutputs))
        found = launches.backward(launches.Inputs(*inputs), launches.Saved(*saved), doutputs, ctx.needs_input_grad[1:])
        return None, *kernels.finished(ctx, inputs, found)


def _kinds(inputs: Any) -> list[str]:
    """Return the types of the fields as torch's schemas write them.

    NamedTuple keeps postponed annotations as forward references.
    """
    words = {"Tensor | None": "Tensor?"}
    texts: list[Any] = [getattr(kind, "__forward_arg__", kind) for kind in inputs.__annotations__.values()]
    return [words.get(text, text) for text in texts]


def _tensor_list(count: int) -> str:
    return ", ".join(["Tensor"] * count)


def _no_gaps(like: Tensor, tensors: Tensors) -> tuple[Tensor, ...]:
    """Replace None by an empty tensor, since custom ops cannot return None."""
    return tuple(like.new_empty(0) if x is None else x for x in tensors)


def _any_tensor(given: tuple[Any, ...]) -> Tensor:
    return next(x for x in given if isinstance(x, Tensor))


def _contiguous(x: Tensor | None) -> Tensor | None:
    return None if x is None else x.contiguous()
