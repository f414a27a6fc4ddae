"""Telemetry of a training: gradient norms, the relative change of the weights, and histograms of eigenvalues and gates.

Measuring does not change the weights or the state of the optimiser.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from eigentrack.layers import LinearMixer
from eigentrack.training.optimizer import part_norms
from eigentrack.training.step import Outcome, Step

TOKENS = 1024  # the number of tokens of the step's batch whose gates are counted
BINS = 40  # the number of bins of a histogram
RANGES = {"eigenvalue": (-1.0, 1.0), "beta": (0.0, 2.0), "gate": (-1.0, 1.0)}


@torch.no_grad()
def telemetry(step: Step, outcome: Outcome) -> dict[str, Any]:
    """Return gradient norms and |change| / |weights| by part, and histograms by linear mixer; call it right after the step."""
    return {
        "gradient_norm": outcome.gradient_norms,
        "update_ratio": update_ratios(step, outcome.number),
        "histograms": gate_histograms(step, outcome.number),
    }


def update_ratios(step: Step, number: int) -> dict[str, float]:
    """Return |w - w_before| / |w_before| for each part, computed from the state of AdamW after the step.

    With a = m̂ / (√v̂ + ε), the step was  w = (1 - rate·decay) w_before - rate·a.
    """
    rate = step.config.rate(number)
    moved: list[list[Tensor]] = []
    before: list[list[Tensor]] = []
    group_of = {parameter: group for group in step.optimizer.param_groups for parameter in group["params"]}
    for parameters in step.parts.values():
        moved.append([])
        before.append([])
        for parameter in parameters:
            group, state = group_of[parameter], step.optimizer.state[parameter]
            beta_1, beta_2 = group["betas"]
            mean = state["exp_avg"] / (1 - beta_1 ** state["step"])
            square = state["exp_avg_sq"] / (1 - beta_2 ** state["step"])
            adam = mean / (square.sqrt() + group["eps"])
            before[-1].append((parameter + rate * adam) / (1 - rate * group["weight_decay"]))
            moved[-1].append(rate * (adam + group["weight_decay"] * before[-1][-1]))
    return dict(zip(step.parts, (part_norms(moved) / part_norms(before)).tolist(), strict=True))


def gate_histograms(step: Step, number: int) -> dict[str, dict[str, Any]]:
    """Return, by the name of each linear mixer, histograms of its eigenvalues, β and gates on tokens of the step's batch."""
    mixers = {name: module for name, module in step.model.named_modules() if isinstance(module, LinearMixer)}
    found: dict[str, dict[str, Any]] = {}

    # in a hook, as the weights of a sharded model are gathered only while it runs
    def count(name: str, mixer: LinearMixer, given: tuple[Any, ...]) -> None:
        found[name] = {gate: histogram(values, *RANGES[gate]) for gate, values in mixer.gates(*given).items()}

    hooks = [
        mixer.register_forward_pre_hook(lambda mixer, given, name=name: count(name, mixer, given))
        for name, mixer in mixers.items()
    ]
    try:
        step.look(number, TOKENS)
    finally:
        for hook in hooks:
            hook.remove()
    return found


def histogram(values: Tensor, low: float, high: float) -> dict[str, Any]:
    """Return the counts of the real parts in equal bins from `low` to `high`, and their extremes.

    The first and the last bin also count the values outside. `modulus` is the largest absolute value, which differs from the
    extremes for complex eigenvalues.
    """
    real = values.real.float().flatten()
    counts = torch.histc(real.clamp(low, high), BINS, low, high)
    smallest, largest, modulus = torch.stack([real.min(), real.max(), values.abs().max().float()]).tolist()
    return {"counts": counts.long().tolist(), "low": smallest, "high": largest, "modulus": modulus}
