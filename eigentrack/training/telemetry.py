"""What goes on inside a model while it trains: gradient norms, how far a step moves the weights, and where the eigenvalues lie.

Looking changes nothing: weights and optimiser stay as they are, bit by bit. Layers that draw noise draw some while they are
looked at; the next step begins with a seed of its own.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from eigentrack.layers import LinearMixer
from eigentrack.training.optimizer import part_norms
from eigentrack.training.step import Outcome, Step

TOKENS = 1024  # of the step's batch; their gates are counted
BINS = 40
RANGES = {"eigenvalue": (-1.0, 1.0), "beta": (0.0, 2.0), "gate": (-1.0, 1.0)}


@torch.no_grad()
def telemetry(step: Step, outcome: Outcome) -> dict[str, Any]:
    """Right after the step: gradient norms and |change| / |weights| by part, histograms by linear mixer."""
    return {
        "gradient_norm": outcome.gradient_norms,
        "update_ratio": update_ratios(step, outcome.number),
        "histograms": gate_histograms(step, outcome.number),
    }


def update_ratios(step: Step, number: int) -> dict[str, float]:
    """|w - w_before| / |w_before| of each part: what AdamW just did follows from its state.

    With a = m̂ / (√v̂ + ε):  w = (1 - rate·decay) w_before - rate·a.
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
    """Of every linear mixer, on the first tokens of the step's batch: eigenvalues of A(x_t), β and gate."""
    mixers = {name: module for name, module in step.model.named_modules() if isinstance(module, LinearMixer)}
    found: dict[str, dict[str, Any]] = {}

    # while the model runs: the weights of a sharded one are whole only then
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
    """Counts in equal bins from `low` to `high`, the end bins taking what lies outside, and the extremes; of the real parts.

    `modulus` is the largest absolute value, which tells of complex eigenvalues what the real part does not.
    """
    real = values.real.float().flatten()
    counts = torch.histc(real.clamp(low, high), BINS, low, high)
    smallest, largest, modulus = torch.stack([real.min(), real.max(), values.abs().max().float()]).tolist()
    return {"counts": counts.long().tolist(), "low": smallest, "high": largest, "modulus": modulus}
