"""Mixer, the base class of all sequence-mixing layers, LinearMixer, that of linear RNNs, and their state.

Sequences and single tokens go through the same code and the same state.

B batch  T time  S sequences (B, or len(cu_seqlens) - 1 when packed)  d model width
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import torch
from jaxtyping import Complex, Float
from torch import Tensor, nn
from torch.export import register_dataclass
from torch.nn import functional as F

from eigentrack.layers.rotating_gates import PROJECTIONS, can_serve
from eigentrack.layers.validation import check_backend, require_positive
from eigentrack.ops.shared.dispatch import STEP, state_dtype
from eigentrack.ops.shared.packing import Packing, sequence_count
from eigentrack.ops.short_convolution.op import short_convolution
from eigentrack.ops.short_convolution.reference import Convolved, Part, finish, joined
from eigentrack.spectrum import EigenRange, Eigenvalues


@dataclass(frozen=True)
class MixerState:
    """The state that a mixer carries from call to call; every tensor has one row per sequence.

    `memory` is specific to the mixer, `window` holds the last inputs of the short convolution; None if there is none.
    """

    memory: tuple[Tensor, ...]
    window: Tensor | None = None  # [S, width - 1, channels]

    @property
    def sequences(self) -> int:
        """The number of sequences."""
        return (self.memory[0] if self.window is None else self.window).shape[0]  # len() would fix it in a graph

    def select(self, rows: Tensor) -> MixerState:
        """Return the states of the sequences `rows`, in this order; for beam search, or to fork a prefix."""
        memory = tuple(part.index_select(0, rows) for part in self.memory)
        return MixerState(memory, None if self.window is None else self.window.index_select(0, rows))

    @staticmethod
    def stack(states: Sequence[MixerState]) -> MixerState:
        """Return one state with the sequences of all `states`; shorter caches of attention are padded with empty slots."""
        windows = [state.window for state in states if state.window is not None]
        if windows and len(windows) < len(states):
            raise ValueError(f"{len(windows)} of {len(states)} states have a window: states of one layer belong together")
        memory = tuple(_pad_together(parts) for parts in zip(*(state.memory for state in states), strict=True))
        return MixerState(memory, torch.cat(windows) if windows else None)

    def detach(self) -> MixerState:
        """Return the same state without its gradient history, for truncated backpropagation."""
        return MixerState(tuple(part.detach() for part in self.memory), None if self.window is None else self.window.detach())


# so that torch.compile, torch.export and torch.utils find the tensors of a state
register_dataclass(MixerState, serialized_type_name="eigentrack.MixerState")


def _pad_together(parts: Sequence[Tensor]) -> Tensor:
    """Return the tensors stacked along the first axis, padded with zeros to the same length along the second."""
    longest = max(part.shape[1] for part in parts)
    return torch.cat([F.pad(part, (*[0, 0] * (part.ndim - 2), 0, longest - part.shape[1])) for part in parts])


class Mixer(nn.Module, ABC):
    """A layer that maps sequences to sequences.

    If the state is passed on, `forward` on the pieces of a sequence, or `step` on its tokens, gives the same as `forward` on
    the whole.

    Args:
        d_model: the width of the input and the output.
        backend: "auto" for the fastest backend that can run, or one by name: "reference", "chunked" or "triton".
    """

    def __init__(self, d_model: int, backend: str = "auto") -> None:
        super().__init__()
        require_positive(d_model=d_model)
        check_backend(backend)
        self.d_model = d_model
        self.backend = backend

    @property
    def loops_over_time(self) -> bool:
        """Whether `forward` loops over time in Python, which torch.compile would unroll."""
        return False

    def forward(
        self, x: Float[Tensor, "B T d"], state: MixerState | None = None, cu_seqlens: Tensor | Packing | None = None
    ) -> tuple[Float[Tensor, "B T d"], MixerState]:
        """Return the output and the state after the last token.

        Args:
            x: the input.
            state: the state before the first token, one row per sequence; None for the initial state.
            cu_seqlens: bounds of packed sequences in a batch of one row, [0, end of sequence 0, ..., T], or a `Packing` of
                them; None for a plain batch.
        """
        if x.ndim != 3 or x.shape[-1] != self.d_model:
            raise ValueError(f"{type(self).__name__}: input has shape {list(x.shape)}, expected [batch, time, {self.d_model}]")
        packing = Packing.of(x, cu_seqlens)
        return self._mix(x, self._state_for(x, state, packing), packing, self.backend)

    def step(self, x: Float[Tensor, "B d"], state: MixerState | None = None) -> tuple[Float[Tensor, "B d"], MixerState]:
        """Return the output for one token per sequence, and the new state.

        With the backends auto and triton, the op's kernel runs if it can, in one launch; otherwise the reference takes one
        step.
        """
        if x.ndim != 2 or x.shape[-1] != self.d_model:
            raise ValueError(f"{type(self).__name__}: a step takes [batch, {self.d_model}], got {list(x.shape)}")
        Packing.of(x[:, None], None)  # raises if the batch is empty
        backend = STEP if self.backend in ("auto", "triton") else "reference"
        y, state = self._mix(x[:, None], self._state_for(x, state, None), None, backend)
        return y[:, 0], state

    @abstractmethod
    def initial_state(self, sequences: int) -> MixerState:
        """Return the state before the first token."""

    @abstractmethod
    def _mix(
        self, x: Float[Tensor, "B T d"], state: MixerState, packing: Packing | None, backend: str
    ) -> tuple[Float[Tensor, "B T d"], MixerState]: ...

    def _state_for(self, x: Tensor, state: MixerState | None, cu_seqlens: Tensor | Packing | None) -> MixerState:
        sequences = sequence_count(x, None if cu_seqlens is None else Packing.of(x, cu_seqlens))
        if state is None:
            return self.initial_state(sequences)
        if state.sequences != sequences:
            raise ValueError(f"{type(self).__name__}: the state holds {state.sequences} sequences, the input {sequences}")
        self._check_memory(state)
        return state

    def _check_memory(self, state: MixerState) -> None:
        """Raise if the state belongs to another layer."""

    def _zeros(self, *shape: int) -> Tensor:
        weight = next(self.parameters())
        return torch.zeros(shape, dtype=state_dtype(weight), device=weight.device)


class ShortConvolution(nn.Module):
    """A causal convolution over time with one filter of `width` taps per channel (see `ops/short_convolution/reference.py`)."""

    def __init__(self, channels: int, width: int, bias: bool) -> None:
        super().__init__()
        require_positive(channels=channels, width=width)
        self.width = width
        bound = width**-0.5
        self.weight = nn.Parameter(torch.empty(channels, width).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(channels).uniform_(-bound, bound)) if bias else None

    def initial_window(self, sequences: int) -> Float[Tensor, "S past C"]:
        return self.weight.new_zeros(sequences, self.width - 1, self.weight.shape[0])

    def forward(
        self,
        parts: Sequence[Part],
        window: Float[Tensor, "S past C"],
        cu_seqlens: Tensor | Packing | None,
        *,
        silu: bool = False,
        backend: str = "auto",
    ) -> Convolved:
        """Return the convolved parts, each sequence on its own, and the window for the tokens that follow."""
        return short_convolution(parts, window, self.weight, self.bias, cu_seqlens=cu_seqlens, silu=silu, backend=backend)


def optional_convolution(channels: int, width: int, bias: bool = False) -> ShortConvolution | None:
    """Return a short convolution, or None if the width is 0."""
    return ShortConvolution(channels, width, bias) if width != 0 else None


class LinearMixer(Mixer):
    """A mixer whose memory follows H_t = A(x_t) H_{t-1} + B(x_t) with the eigenvalues of A in a chosen set.

    Args:
        d_model: the width of the input and the output.
        backend: "auto" for the fastest backend that can run, or one by name: "reference", "chunked" or "triton".
        memory_shape: the shape of the memory of one sequence.
        eigenvalues: the set of the eigenvalues of A; None, where the class allows it: no bound.
        learn_initial_state: whether the memory before the first token is learned; otherwise it is zero (in Dense the identity).
        convolution: the short convolution of the inputs; None: no convolution.
    """

    projections: ClassVar[
        tuple[type[nn.Module], ...]
    ] = ()  # the kinds of projections that it can make complex gates with (rotating_gates.py)
    has_beta: ClassVar[bool] = False  # whether it uses b = 1 - eigenvalue of its range, which may overshoot
    takes_none: ClassVar[bool] = False  # whether `eigenvalues` may be None

    def __init__(
        self,
        d_model: int,
        backend: str,
        memory_shape: tuple[int, ...],
        eigenvalues: Eigenvalues | None,
        learn_initial_state: bool,
        convolution: ShortConvolution | None,
    ) -> None:
        super().__init__(d_model, backend)
        if eigenvalues is not None or not self.takes_none:
            self._check_eigenvalues(eigenvalues)
        self.eigenvalues = eigenvalues
        self.memory_shape = memory_shape
        self.convolution = convolution
        self.initial_memory = nn.Parameter(torch.zeros(memory_shape)) if learn_initial_state else None

    @classmethod
    def serves(cls, kind: type[Eigenvalues]) -> bool:
        """Return whether a layer of this class can have its eigenvalues in a set of this kind."""
        return can_serve(cls.projections, kind)

    def _check_eigenvalues(self, eigenvalues: object) -> None:
        name = type(self).__name__
        if not isinstance(eigenvalues, Eigenvalues):
            raise ValueError(
                f"eigenvalues={eigenvalues!r} must be an EigenRange, as EigenRange(-1, 1), an EigenDisk or an EigenPolygon"
            )
        if not self.serves(type(eigenvalues)):
            if not self.projections:
                why = f"its gates and factors are real, so eigenvalues={eigenvalues} must be a range, as EigenRange(-1, 1)"
                raise ValueError(f"{name}: {why}")
            known = " or ".join(kind.__name__ for kind in PROJECTIONS if self.serves(kind))
            raise ValueError(f"{name}: eigenvalues={eigenvalues} must be an {known}")
        if isinstance(eigenvalues, EigenRange) and eigenvalues.overshoot and not self.has_beta:
            raise ValueError(f"{name}: its eigenvalues come from no b that could overshoot: eigenvalues={eigenvalues}")

    def _check_memory(self, state: MixerState) -> None:
        found, own = tuple(state.memory[0].shape[1:]), tuple(self.memory_shape)
        if found != own:
            raise ValueError(f"{type(self).__name__}: the state's memory is {found} for a sequence, this layer's {own}")

    def initial_state(self, sequences: int) -> MixerState:
        memory = self._zeros(sequences, *self.memory_shape)
        window = None if self.convolution is None else self.convolution.initial_window(sequences)
        return MixerState((memory if self.initial_memory is None else memory + self.initial_memory,), window)

    def _convolve(
        self, parts: Sequence[Part], window: Tensor | None, cu_seqlens: Tensor | Packing | None, *, silu: bool = False
    ) -> Convolved:
        """Apply the short convolution, if there is one, and what follows it (`finish`); return the parts and the new window."""
        if self.convolution is None:
            finished, roundings = finish(joined(parts), parts, silu)
            return Convolved(finished, window, roundings)
        if window is None:
            raise ValueError(f"{type(self).__name__}: the state has no window for the convolution; initial_state() makes one")
        return self.convolution(parts, window, cu_seqlens, silu=silu, backend=self.backend)

    @abstractmethod
    def transitions(
        self, x: Float[Tensor, "B T d"], state: MixerState | None = None, cu_seqlens: Tensor | Packing | None = None
    ) -> Float[Tensor, "B T H n n"]:
        """Return the matrices A(x_t) that `forward` would apply to the memory of each head."""

    @abstractmethod
    def gates(
        self, x: Float[Tensor, "B T d"], state: MixerState | None = None, cu_seqlens: Tensor | Packing | None = None
    ) -> dict[str, Tensor]:
        """Return the eigenvalues of A(x_t) and what they come from, each [B, T, H, ...].

        The entries are "eigenvalue", and "beta" and "gate" if the layer has them. The eigenvalues may be complex, and each is
        listed once. Eigenvalues that a product of Householder factors has outside of the span of its keys, which equal the gate
        (1 without a gate), may be left out.
        """


@runtime_checkable
class Scheduled(Protocol):
    """A module that changes in the course of training."""

    def at_step(self, number: int) -> None: ...


def scheduled(model: nn.Module) -> list[Scheduled]:
    """Return the modules of `model` that are Scheduled."""
    return [module for module in model.modules() if isinstance(module, Scheduled)]


def matrix_eigenvalues(matrices: Float[Tensor, "*batch n n"]) -> Complex[Tensor, "*batch n"]:
    """Return the eigenvalues of matrices, computed on the CPU, as a GPU would process the matrices one by one."""
    return torch.linalg.eigvals(matrices.cpu()).to(matrices.device)


def gate_precision(logits: Tensor) -> Tensor:
    """Return logits in the precision of the state, in which gates are computed: near ±1, half precision is too coarse."""
    return logits.to(state_dtype(logits))
