"""Mamba's time step Δ = softplus(logit + bias): how the bias starts out."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def bias_of_step(step: Tensor) -> Tensor:
    """The inverse of softplus."""
    return step + torch.log(-torch.expm1(-step))


def initial_time_step_bias(count: int, low: float = 1e-3, high: float = 0.1) -> Tensor:
    """softplus(bias) spreads log-uniformly over [low, high]."""
    return bias_of_step(torch.exp(torch.empty(count).uniform_(math.log(low), math.log(high))))
