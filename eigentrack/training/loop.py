"""The training loop: one batch, one loss, one step of AdamW, as often as the configuration says."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from eigentrack.models import SequenceModel
from eigentrack.tasks import Batch, Parity
from eigentrack.training.config import TrainingConfig


def train(
    model: SequenceModel, task: Parity, config: TrainingConfig, report: Callable[[int, float], None] | None = None
) -> None:
    """Trains in place; `report(step, loss)` is called after every step."""
    device = next(model.parameters()).device
    optimizer = make_optimizer(model, config)
    model.train()
    for step in range(config.steps):
        batch = task.sample(config.batch, config.lengths, seed=config.seed, step=step, device=device)
        loss = batch_loss(model, batch, config.label_smoothing)
        loss_value = train_step(model, optimizer, loss, config, step)
        if report is not None:
            report(step, loss_value)


def train_step(
    model: SequenceModel, optimizer: torch.optim.Optimizer, loss: Tensor, config: TrainingConfig, step: int
) -> float:
    for group in optimizer.param_groups:
        group["lr"] = config.rate(step)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip)
    optimizer.step()
    return loss.item()


def batch_loss(model: SequenceModel, batch: Batch, label_smoothing: float) -> Tensor:
    """Cross-entropy by position, weighted as the task says."""
    logits, _ = model(batch.tokens)
    by_position = F.cross_entropy(logits.mT, batch.targets, label_smoothing=label_smoothing, reduction="none")
    return (by_position * batch.weight).sum() / batch.weight.sum()


def make_optimizer(model: SequenceModel, config: TrainingConfig) -> torch.optim.AdamW:
    """Weight decay on matrices only: a bias, a gate's rate or a norm has no reason to shrink."""
    matrices = [weight for weight in model.parameters() if weight.ndim >= 2]
    others = [weight for weight in model.parameters() if weight.ndim < 2]
    groups = [{"params": matrices, "weight_decay": config.weight_decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=config.learning_rate, betas=config.betas)
