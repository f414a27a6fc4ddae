"""What goes on inside a model while it trains: gradient norms, how far a step moves the weights, and where the eigenvalues lie.

Looking changes nothing: weights, optimiser and random state stay as they are, bit by bit.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from eigentrack.layers import LinearMixer
from eigentrack.training.step import Outcome, TrainingStep

TOKENS = 1024  # of the step's batch; their gates are counted
BINS = 40
RANGES = {"eigenvalue": (-1.0, 1.0), "beta": (0.0, 2.0), "gate": (-1.0, 1.0)}


@torch.no_grad()
def telemetry(step: TrainingStep, outcome: Outcome) -> dict[str, Any]:
    """Right after the step: gradient norms and |change| / |weights| by part, histograms by linear mixer."""
    return {
        "gradient_norm": outcome.gradient_norms,
        "update_ratio": update_ratios(step, outcome.number),
        "histograms": gate_histograms(step, outcome.number),
    }


def update_ratios(step: TrainingStep, number: int) -> dict[str, float]:
    """|w - w_before| / |w_before| of each part: what AdamW just did follows from its state.

    With a = m̂ / (√v̂ + ε):  w = (1 - rate·decay) w_before - rate·a.
    """
    rate, ratios = step.config.rate(number), {}
    group_of = {parameter: group for group in step.optimizer.param_groups for parameter in group["params"]}
    for part, parameters in step.parts.items():
        moved, before = [], []
        for parameter in parameters:
            group, state = group_of[parameter], step.optimizer.state[parameter]
            beta_1, beta_2 = group["betas"]
            mean = state["exp_avg"] / (1 - beta_1 ** state["step"])
            square = state["exp_avg_sq"] / (1 - beta_2 ** state["step"])
            adam = mean / (square.sqrt() + group["eps"])
            before.append((parameter + rate * adam) / (1 - rate * group["weight_decay"]))
            moved.append(rate * (adam + group["weight_decay"] * before[-1]))
        ratios[part] = nn.utils.get_total_norm(moved) / nn.utils.get_total_norm(before)
    return dict(zip(ratios, torch.stack(list(ratios.values())).tolist(), strict=True))


def gate_histograms(step: TrainingStep, number: int) -> dict[str, dict[str, Any]]:
    """Of every linear mixer, on the first tokens of the step's batch: eigenvalues of A(x_t), β and gate."""
    tokens = step.sample(number).tokens
    inputs: dict[str, Tensor] = {}
    mixers = {name: module for name, module in step.model.named_modules() if isinstance(module, LinearMixer)}
    hooks = [
        mixer.register_forward_pre_hook(lambda _, given, name=name: inputs.update({name: given[0]}))
        for name, mixer in mixers.items()
    ]
    try:
        step.logits(tokens[: max(1, TOKENS // tokens.shape[1])])
    finally:
        for hook in hooks:
            hook.remove()
    with step.autocast():
        gates = {name: mixer.gates(inputs[name]) for name, mixer in mixers.items()}
    return {name: {gate: histogram(values, *RANGES[gate]) for gate, values in found.items()} for name, found in gates.items()}


def histogram(values: Tensor, low: float, high: float) -> dict[str, Any]:
    """Counts in equal bins from `low` to `high`, the end bins taking what lies outside, and the extremes; of the real parts.

    `modulus` is the largest absolute value, which tells of complex eigenvalues what the real part does not.
    """
    real = values.real.float().flatten()
    counts = torch.histc(real.clamp(low, high), BINS, low, high)
    smallest, largest, modulus = torch.stack([real.min(), real.max(), values.abs().max().float()]).tolist()
    return {"counts": counts.long().tolist(), "low": smallest, "high": largest, "modulus": modulus}
