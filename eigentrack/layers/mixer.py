"""Mixer: what every sequence-mixing layer is. One projection code for sequences and tokens, one state for both.

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
    """What a mixer carries from call to call: every tensor has one row for each sequence."""

    memory: tuple[Tensor, ...]
    window: Tensor | None = None  # the last inputs of the short convolution, [S, width - 1, channels]

    @property
    def sequences(self) -> int:
        return len(self.memory[0] if self.window is None else self.window)

    def select(self, rows: Tensor) -> MixerState:
        """The states of some of the sequences, in the order of `rows`: for beam search, or to fork a prefix."""
        memory = tuple(part.index_select(0, rows) for part in self.memory)
        return MixerState(memory, None if self.window is None else self.window.index_select(0, rows))

    @staticmethod
    def stack(states: Sequence[MixerState]) -> MixerState:
        """The sequences of all of them; a shorter cache of attention gets empty slots."""
        windows = [state.window for state in states if state.window is not None]
        if windows and len(windows) < len(states):
            raise ValueError(f"{len(windows)} of {len(states)} states have a window: states of one layer belong together")
        memory = tuple(_pad_together(parts) for parts in zip(*(state.memory for state in states), strict=True))
        return MixerState(memory, torch.cat(windows) if windows else None)

    def detach(self) -> MixerState:
        """The same values, cut off from the gradient: for truncated backpropagation."""
        return MixerState(tuple(part.detach() for part in self.memory), None if self.window is None else self.window.detach())


def _pad_together(parts: Sequence[Tensor]) -> Tensor:
    """One below the other, filled up with zeros along the second axis."""
    longest = max(part.shape[1] for part in parts)
    return torch.cat([F.pad(part, (*[0, 0] * (part.ndim - 2), 0, longest - part.shape[1])) for part in parts])


class Mixer(nn.Module, ABC):
    """Sequence in, sequence out; with the state, `forward` on pieces or `step` on tokens equals `forward` on the whole."""

    def __init__(self, d_model: int, backend: str = "auto") -> None:
        super().__init__()
        require_positive(d_model=d_model)
        check_backend(backend)
        self.d_model = d_model
        self.backend = backend

    @property
    def loops_over_time(self) -> bool:
        """Whether `forward` takes one token after another in Python, a loop that torch.compile would unroll."""
        return False

    def forward(
        self, x: Float[Tensor, "B T d"], state: MixerState | None = None, cu_seqlens: Tensor | Packing | None = None
    ) -> tuple[Float[Tensor, "B T d"], MixerState]:
        if x.ndim != 3 or x.shape[-1] != self.d_model:
            raise ValueError(f"{type(self).__name__}: input has shape {list(x.shape)}, expected [batch, time, {self.d_model}]")
        packing = Packing.of(x, cu_seqlens)
        return self._mix(x, self._state_for(x, state, packing), packing, self.backend)

    def step(self, x: Float[Tensor, "B d"], state: MixerState | None = None) -> tuple[Float[Tensor, "B d"], MixerState]:
        """One token for each sequence: on a GPU the op's kernel, one launch, where it has one for the case; else one turn of
        the reference loop."""
        if x.ndim != 2 or x.shape[-1] != self.d_model:
            raise ValueError(f"{type(self).__name__}: a step takes [batch, {self.d_model}], got {list(x.shape)}")
        Packing.of(x[:, None], None)  # an empty batch is named
        backend = STEP if self.backend in ("auto", "triton") else "reference"
        y, state = self._mix(x[:, None], self._state_for(x, state, None), None, backend)
        return y[:, 0], state

    @abstractmethod
    def initial_state(self, sequences: int) -> MixerState:
        """The state before the first token."""

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
    """A filter of `width` taps for each channel; equations in `ops/short_convolution/reference.py`."""

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
        """Return all parts, finished, and the window for what follows; no sequence sees the tokens of another."""
        return short_convolution(parts, window, self.weight, self.bias, cu_seqlens=cu_seqlens, silu=silu, backend=backend)


def optional_convolution(channels: int, width: int, bias: bool = False) -> ShortConvolution | None:
    """Width 0 means no convolution."""
    return ShortConvolution(channels, width, bias) if width != 0 else None


class LinearMixer(Mixer):
    """A mixer whose memory follows H_t = A(x_t) H_{t-1} + B(x_t) with the eigenvalues of A in a chosen set."""

    projections: ClassVar[tuple[type[nn.Module], ...]] = ()  # kinds that it can make complex gates with (rotating_gates.py)
    has_beta: ClassVar[bool] = False  # whether it asks its range for b = 1 - eigenvalue, which may overshoot
    takes_none: ClassVar[bool] = False  # whether A can do without a bound

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
        """Whether a layer of this class can have its eigenvalues in such a set."""
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
        """The short convolution and what follows it, and its new window; without one, what would follow it."""
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
        """The matrices A(x_t) that `forward` would apply to the memory of each head."""

    @abstractmethod
    def gates(
        self, x: Float[Tensor, "B T d"], state: MixerState | None = None, cu_seqlens: Tensor | Packing | None = None
    ) -> dict[str, Tensor]:
        """What A(x_t) is made of, each [B, T, H, ...]: "eigenvalue", and "beta" and "gate" where the layer has them.

        The eigenvalues are those of A(x_t), which may be complex, each once; but for those that equal the gate (1 without
        one), which is all that a product of Householder factors has outside the span of its keys.
        """


@runtime_checkable
class Scheduled(Protocol):
    """A module that changes in the course of training: it is told at which step it is, counted from 0."""

    def at_step(self, number: int) -> None: ...


def scheduled(model: nn.Module) -> list[Scheduled]:
    """The modules of a model that have a schedule."""
    return [module for module in model.modules() if isinstance(module, Scheduled)]


def matrix_eigenvalues(matrices: Float[Tensor, "*batch n n"]) -> Complex[Tensor, "*batch n"]:
    """On the CPU: a GPU would take the matrices one by one."""
    return torch.linalg.eigvals(matrices.cpu()).to(matrices.device)


def gate_precision(logits: Tensor) -> Tensor:
    """Gates are computed in the state's precision: a half-precision gate near ±1 is a different machine."""
    return logits.to(state_dtype(logits))
