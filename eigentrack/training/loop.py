"""The training loop: one batch, one loss, one step of AdamW, as often as the configuration says."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from eigentrack.layers.recurrent_gates import RecurrentGates
from eigentrack.models import SequenceModel
from eigentrack.tasks import Batch, Task
from eigentrack.tasks.counter_random import derived_seed
from eigentrack.training.config import TrainingConfig


def train(model: SequenceModel, task: Task, config: TrainingConfig, report: Callable[[int, float], None] | None = None) -> None:
    """Trains in place; `report(step, loss)` is called after every step."""
    optimizer = make_optimizer(model, config)
    for step in range(config.steps):
        loss = train_step(model, optimizer, task, config, step)
        if report is not None:
            report(step, loss)


def train_step(model: SequenceModel, optimizer: torch.optim.Optimizer, task: Task, config: TrainingConfig, step: int) -> float:
    """The batch, the rate and so the whole step follow from its number; returns the loss."""
    device = next(model.parameters()).device
    model.train()
    seed = derived_seed(config.seed, "training")
    batch = task.sample(config.batch, config.lengths, seed=seed, step=step, device=device)
    loss = batch_loss(model, batch, config.label_smoothing)
    value = loss.item()
    if not math.isfinite(value):
        raise ValueError(f"the loss is {value} at step {step + 1}: lower the learning rate ({config.learning_rate:g})")
    for group in optimizer.param_groups:
        group["lr"] = config.rate(step)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip)
    optimizer.step()
    return value


def batch_loss(model: SequenceModel, batch: Batch, label_smoothing: float) -> Tensor:
    """Cross-entropy by position, weighted as the task says."""
    logits, _ = model(batch.tokens)
    by_position = F.cross_entropy(logits.mT, batch.targets, label_smoothing=label_smoothing, reduction="none")
    return (by_position * batch.weight).sum() / batch.weight.sum()


def make_optimizer(model: SequenceModel, config: TrainingConfig) -> torch.optim.AdamW:
    """Weight decay on matrices that multiply activations: a bias, a filter, a gate's rate, a norm have no reason to shrink."""
    matrices = {id(module.weight) for module in model.modules() if isinstance(module, (nn.Linear, nn.Embedding))}
    matrices |= {id(module.recurrent) for module in model.modules() if isinstance(module, RecurrentGates)}
    groups: list[dict[str, Any]] = [{"params": [], "weight_decay": decay} for decay in (config.weight_decay, 0.0)]
    for parameter in model.parameters():
        groups[id(parameter) not in matrices]["params"].append(parameter)
    return torch.optim.AdamW(groups, lr=config.learning_rate, betas=config.betas)
