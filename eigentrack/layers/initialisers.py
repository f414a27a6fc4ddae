"""Where layers start: initial values by the names that a model's configuration uses, and the time steps that layers draw.

An initialiser overwrites some weights of a new layer and draws no random numbers: all others start as they do without it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from eigentrack.layers.mixer import Mixer
from eigentrack.layers.validation import require_number, require_two_numbers


@runtime_checkable
class StartsGates(Protocol):
    def start_gates(self, first: float, last: float) -> None: ...


@runtime_checkable
class StartsEigenvalue(Protocol):
    def start_eigenvalue(self, eigenvalue: float) -> None: ...


def start_gates(mixer: Mixer, value: Any) -> None:
    """Start the gates of the first and of the last head (or channel of a head) at two eigenvalues, the others between them."""
    require_two_numbers(gates=value)
    if not isinstance(mixer, StartsGates):
        raise ValueError(f"initial gates={value!r}: {type(mixer).__name__} has no gates that can start there")
    mixer.start_gates(*value)


def start_eigenvalue(mixer: Mixer, value: Any) -> None:
    """Start the eigenvalue along every key, at an input of 0, where it is asked to."""
    require_number(eigenvalue=value)
    if not isinstance(mixer, StartsEigenvalue):
        raise ValueError(
            f"initial eigenvalue={value!r}: {type(mixer).__name__} has no factors whose eigenvalue can start there"
        )
    mixer.start_eigenvalue(value)


INITIALISERS: dict[str, Callable[[Mixer, Any], None]] = {"gates": start_gates, "eigenvalue": start_eigenvalue}


def bias_of_step(step: Tensor) -> Tensor:
    """Return the bias of which softplus makes this time step."""
    return step + torch.log(-torch.expm1(-step))


def initial_time_step_bias(count: int, low: float = 1e-3, high: float = 0.1) -> Tensor:
    """Draw biases b of Mamba's time step Δ = softplus(logit + b) such that softplus(b) is log-uniform over [low, high]."""
    return bias_of_step(torch.exp(torch.empty(count).uniform_(math.log(low), math.log(high))))
