"""Initialisers: initial values by the names that a model's configuration uses, and the initial time steps of layers.

An initialiser overwrites some weights of a new layer and draws no random numbers, so that all other weights stay the same.
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
    """A mixer whose initial gates can be set."""

    def start_gates(self, first: float, last: float) -> None: ...


@runtime_checkable
class StartsEigenvalue(Protocol):
    """A mixer whose initial eigenvalue along the keys can be set."""

    def start_eigenvalue(self, eigenvalue: float) -> None: ...


def start_gates(mixer: Mixer, value: Any) -> None:
    """Set the initial gates of the first and the last head (or channel of a head) to two eigenvalues, the others in between."""
    require_two_numbers(gates=value)
    if not isinstance(mixer, StartsGates):
        raise ValueError(f"initial gates={value!r}: {type(mixer).__name__} has no gates that can start there")
    mixer.start_gates(*value)


def start_eigenvalue(mixer: Mixer, value: Any) -> None:
    """Set the initial eigenvalue along every key, at an input of 0."""
    require_number(eigenvalue=value)
    if not isinstance(mixer, StartsEigenvalue):
        raise ValueError(
            f"initial eigenvalue={value!r}: {type(mixer).__name__} has no factors whose eigenvalue can start there"
        )
    mixer.start_eigenvalue(value)


INITIALISERS: dict[str, Callable[[Mixer, Any], None]] = {"gates": start_gates, "eigenvalue": start_eigenvalue}


def bias_of_step(step: Tensor) -> Tensor:
    """Return the bias whose softplus is this time step."""
    return step + torch.log(-torch.expm1(-step))


def initial_time_step_bias(count: int, low: float = 1e-3, high: float = 0.1) -> Tensor:
    """Draw biases b of time steps Δ = softplus(logit + b), as in Mamba, with softplus(b) log-uniform in [low, high]."""
    return bias_of_step(torch.exp(torch.empty(count).uniform_(math.log(low), math.log(high))))
