"""Accuracy by length, of a model and of a run's folder.

A causal model's answer after token t is its answer on the sequence of length t.

B sequences  T time
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from eigentrack.layers.validation import require_positive
from eigentrack.models import SequenceModel, load_model
from eigentrack.models.sequence_model import in_evaluation_mode
from eigentrack.tasks import Task, TrackingTask
from eigentrack.tasks.counter_random import derived_seed
from eigentrack.training.config import load_run_file
from eigentrack.training.driver import MODEL, RUN_FILE

MOST = 10**8  # letters, or sequences


@dataclass(frozen=True)
class LengthCurve:
    """At every length 1..longest: the share of right answers, and of sequences with every answer right so far."""

    accuracy: Float[Tensor, " longest"]
    sequence_accuracy: Float[Tensor, " longest"]


@torch.no_grad()
@in_evaluation_mode
def length_curve(
    model: SequenceModel, task: TrackingTask, longest: int, *, sequences: int, seed: int, piece: int = 256
) -> LengthCurve:
    """Streamed with the model's state: length 10⁶ needs no more memory than length 10³, but for attention's cache."""
    require_positive(sequences=sequences)
    device = next(model.parameters()).device
    state, unbroken = None, torch.ones(sequences, 1, dtype=torch.bool, device=device)
    right_share, unbroken_share = [], []
    for tokens, targets in task.stream(sequences, longest, piece=piece, seed=derived_seed(seed, "test"), device=device):
        logits, state = model(tokens, state)
        right = logits[..., : task.classes].argmax(-1) == targets  # padding is no answer
        all_right = (unbroken & (right.cumsum(1) == torch.arange(1, right.shape[1] + 1, device=device))).float()
        unbroken = all_right[:, -1:].bool()
        right_share.append(right.float().mean(0).cpu())
        unbroken_share.append(all_right.mean(0).cpu())
    first = int(task.begin_token)  # the answer after the begin token belongs to length 0
    return LengthCurve(torch.cat(right_share)[first:], torch.cat(unbroken_share)[first:])


@dataclass(frozen=True)
class Accuracy:
    """The share of right answers at the positions that the loss asks for, and of sequences with all of them right."""

    answers: float
    sequences: float


@torch.no_grad()
@in_evaluation_mode
def accuracy_between(
    model: SequenceModel, task: Task, lengths: tuple[int, int], *, sequences: int, seed: int, purpose: str = "test"
) -> Accuracy:
    """On sequences of these lengths, at most 65,536 tokens at a time."""
    require_positive(sequences=sequences)
    device = next(model.parameters()).device
    batch = max(1, min(sequences, 2**16 // lengths[1]))
    right = unbroken = 0.0
    for step in range(-(-sequences // batch)):
        count = min(batch, sequences - step * batch)
        sample = task.sample(count, lengths, seed=derived_seed(seed, purpose), step=step, device=device)
        logits, _ = model(sample.tokens)
        is_right = logits[..., : task.classes].argmax(-1) == sample.targets
        right += float((is_right * sample.weight).sum())
        unbroken += float((is_right | (sample.weight == 0)).all(1).sum())
    return Accuracy(right / sequences, unbroken / sequences)


def scaled_accuracy(accuracy: Tensor, classes: int) -> Tensor:
    """0 for guessing, 1 for always right."""
    chance = 1 / classes
    return (accuracy - chance) / (1 - chance)


def shortest_asked(task: Task, trained: tuple[int, int]) -> int:
    """The shortest length with an answer that the loss asks for: 1, unless it asks for the last one of a sequence alone."""
    return trained[0] if isinstance(task, TrackingTask) and task.last_weight == 1 else 1


def horizon(accuracy: Float[Tensor, " longest"], threshold: float = 0.99, *, shortest: int = 1) -> int:
    """From `shortest` on, the longest length up to which accuracy stays at or above the threshold; 0 if it never does."""
    first = min(shortest, len(accuracy)) - 1
    below = torch.nonzero(accuracy[first:] < threshold)
    if not len(below):
        return len(accuracy)
    return first + int(below[0]) if below[0] else 0


def evaluate_run(folder: Path, longest: int, sequences: int, seed: int, device: str) -> list[dict[str, Any]]:
    """One row for each doubling of the length, from the training lengths on, with the mean accuracy of the lengths in it."""
    for name, value in (("longest", longest), ("sequences", sequences)):
        if not 1 <= value <= MOST:
            raise ValueError(f"{name}={value} must be at least 1 and at most {MOST}")
    run = load_run_file(folder / RUN_FILE)
    task, model = run.build_task().as_tested(), load_model(folder / MODEL, device)
    buckets = _buckets(run.training.lengths, longest) if task.varies_in_length else [run.training.lengths]
    if not isinstance(task, TrackingTask):
        found = [accuracy_between(model, task, bucket, sequences=sequences, seed=seed) for bucket in buckets]
        pairs = zip(buckets, found, strict=True)
        return [_row(bucket, accuracy.answers, accuracy.sequences, task.classes) for bucket, accuracy in pairs]
    curve = length_curve(model, task, buckets[-1][1], sequences=sequences, seed=seed)
    reach = horizon(curve.accuracy, shortest=shortest_asked(task, run.training.lengths))
    rows = []
    for shortest, last in buckets:
        answers = curve.accuracy[shortest - 1 : last].mean().item()
        row = _row((shortest, last), answers, curve.sequence_accuracy[last - 1].item(), task.classes)
        rows.append({**row, "horizon": f"≥ {reach}" if reach == len(curve.accuracy) else str(reach)})
    return rows


def _row(bucket: tuple[int, int], answers: float, sequences: float, classes: int) -> dict[str, Any]:
    """Sequence accuracy is that of the longest sequences of the bucket where the task is streamed, else of all in it."""
    scaled = scaled_accuracy(torch.tensor(answers), classes).item()
    lengths = f"{bucket[0]}–{bucket[1]}"
    return {"lengths": lengths, "accuracy": answers, "scaled_accuracy": scaled, "sequence_accuracy": sequences}


def _buckets(trained: tuple[int, int], longest: int) -> list[tuple[int, int]]:
    """The training lengths, then doublings of them; a last stretch shorter than a doubling joins the one before."""
    buckets = [(min(trained[0], longest), min(trained[1], longest))]
    while buckets[-1][1] < longest:
        start = buckets[-1][1] + 1
        end = 2 * start if longest - 2 * start >= start else longest
        buckets.append((start, end))
    return buckets
