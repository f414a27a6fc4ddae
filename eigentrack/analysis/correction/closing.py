"""Closing: a short training after which every token leads every code very near to another code.

The loss is log ‖F_x(c_m) - c_δ(m,x)‖, over all pairs of a code and a token, in a norm near the maximum; codes and weights are
trained together. Two hinges keep what was learned: codes stay apart, and the network answers at the codes, and at memories some
way off them, as it did before, by a margin. Labels of the task are not used.

The norm of a layer's output divides by the root mean square of what is read. Where a head reads almost nothing, that would
enlarge every error a thousandfold, so the eps of that norm is first raised to a share of the mean square.

P pairs of a code and a token  M codes  D numbers of a memory
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from eigentrack.analysis.correction.codes import CodeAutomaton, memory_vectors, state_of
from eigentrack.models import SequenceModel

MARGIN = 6.0  # the lead of the right logit that the training asks for
SHARE_OF_SQUARE = 1.0  # the eps of the output's norm, as a share of the mean square of what is read
APART = 0.5  # codes are kept apart by at least this share of their mean distance
NORM = 4  # the mean of the NORM-th powers of squared distances stands for their maximum
AT_ONCE = 4096  # the most pairs of a step


@dataclass(frozen=True)
class ClosingConfig:
    """The length and the rates of the closing phase."""

    steps: int = 300
    rate: float = 1e-3  # the learning rate of the weights; codes learn ten times as fast
    noise: float = 0.25  # answers are trained at memories so far off the codes, as a share of half the least distance
    seed: int = 0


def close_codes(
    model: SequenceModel,
    automaton: CodeAutomaton,
    config: ClosingConfig,
    progress: Callable[[int, float], None] | None = None,
) -> tuple[SequenceModel, CodeAutomaton]:
    """Return a model that was trained further, and its codes; the given ones stay as they are.

    Args:
        model: the trained model.
        automaton: its codes.
        config: how long and how fast to train.
        progress: called with the steps done and the ratio r / ε, after every step; None: nobody is told.
    """
    closed = _softened(model, automaton)
    codes = automaton.codes.clone().requires_grad_()  # code 0, where words start, too
    optimizer = torch.optim.AdamW(
        [{"params": list(closed.parameters()), "scale": 1.0}, {"params": [codes], "scale": 10.0}], lr=0.0, weight_decay=0.0
    )
    generator = torch.Generator().manual_seed(config.seed)
    apart = float(torch.pdist(automaton.codes).mean()) * APART if len(codes) > 1 else 0.0
    for step in range(config.steps):
        warm = min(1.0, (step + 1) / 10) * (0.0005 + 0.9995 * 0.5 * (1 + math.cos(math.pi * step / config.steps)))
        for group in optimizer.param_groups:
            group["lr"] = config.rate * warm * group["scale"]
        loss, ratio = _loss(closed, automaton, codes, apart, config.noise, generator)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if progress is not None:
            progress(step + 1, ratio)
    return closed.eval(), replace(automaton, codes=codes.detach())


def _loss(
    model: SequenceModel,
    automaton: CodeAutomaton,
    codes: Float[Tensor, "M D"],
    apart: float,
    noise: float,
    generator: torch.Generator,
) -> tuple[Tensor, float]:
    pairs = torch.arange(len(automaton.sources))
    if len(pairs) > AT_ONCE:
        pairs = torch.randperm(len(pairs), generator=generator)[:AT_ONCE]
    sources, tokens = automaton.sources[pairs], automaton.tokens[pairs]
    targets, answers = automaton.targets[pairs], automaton.answers[pairs]
    logits, after = model.step(tokens, state_of(model, codes[sources]))
    squares = (memory_vectors(after) - codes[targets]).square().sum(1)
    distances = torch.cdist(codes, codes) + torch.diag(codes.new_full((len(codes),), torch.inf))
    least = distances.amin(1)
    shaken = _shaken(model, tokens, codes[sources].detach(), answers, noise * float(least.detach().min()) / 2)
    loss = (
        squares.clamp_min(1e-20).pow(NORM).mean().pow(1 / NORM).log()
        + _hinge(logits, answers)
        + _hinge(shaken, answers)
        + 5 * torch.relu(1 - least / max(apart, 1e-6)).mean()
    )
    return loss, float((least.min() / 2 / squares.max().sqrt()).detach())


def _shaken(
    model: SequenceModel, tokens: Tensor, memories: Float[Tensor, "P D"], answers: Tensor, distance: float
) -> Float[Tensor, "P V"]:
    """Return the logits at memories moved by `distance` in the direction in which the lead of the answer falls fastest."""
    memories = memories.clone().requires_grad_()
    logits, _ = model.step(tokens, state_of(model, memories))
    (slope,) = torch.autograd.grad(_leads(logits, answers).sum(), memories)
    moved = memories - distance * slope / slope.norm(dim=1, keepdim=True).clamp_min(1e-12)
    logits, _ = model.step(tokens, state_of(model, moved.detach()))
    return logits


def _hinge(logits: Float[Tensor, "P V"], answers: Tensor) -> Tensor:
    return torch.relu(MARGIN - _leads(logits, answers)).mean()


def _leads(logits: Float[Tensor, "P V"], answers: Tensor) -> Float[Tensor, " P"]:
    right = logits.gather(1, answers[:, None])[:, 0]
    return right - logits.scatter(1, answers[:, None], -torch.inf).amax(1)


@torch.no_grad()
def _softened(model: SequenceModel, automaton: CodeAutomaton) -> SequenceModel:
    """Return a copy of the model in which the norms of the layers' outputs have a larger eps."""
    squares: dict[int, float] = {}
    hooks = [
        norm.register_forward_pre_hook(lambda module, inputs, at=at: squares.update({at: float(inputs[0].square().mean())}))
        for at, mixer in enumerate(model.mixers)
        if isinstance(norm := getattr(mixer, "norm", None), torch.nn.RMSNorm)
    ]
    model.step(automaton.tokens, state_of(model, automaton.codes[automaton.sources]))
    for hook in hooks:
        hook.remove()
    options = [dict(entry) for entry in model.config.options]
    for at, square in squares.items():
        options[at]["norm_eps"] = max(SHARE_OF_SQUARE * square, options[at].get("norm_eps", model.config.norm_eps))
    softened = SequenceModel(replace(model.config, mixer_options=tuple(options)))
    softened.load_state_dict(model.state_dict())
    return softened
