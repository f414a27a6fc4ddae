"""Accuracy by sequence length, for a model or for the folder of a run.

The answer of a causal model after token t of a long sequence is its answer to the sequence of length t.

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

MOST = 10**8  # the largest length and the largest number of sequences


@dataclass(frozen=True)
class LengthCurve:
    """The accuracy of a model at every length from 1 to the longest."""

    accuracy: Float[Tensor, " longest"]  # the share of right answers at each length
    sequence_accuracy: Float[Tensor, " longest"]  # the share of sequences with only right answers up to each length


@torch.no_grad()
@in_evaluation_mode
def length_curve(
    model: SequenceModel, task: TrackingTask, longest: int, *, sequences: int, seed: int, piece: int = 256
) -> LengthCurve:
    """Return the accuracy at every length up to `longest`.

    The sequences are streamed: except for attention's cache, length 10⁶ needs no more memory than length 10³.

    Args:
        model: the model, which is put in evaluation mode for this.
        task: the task that draws the sequences.
        longest: the length of the sequences, without a begin token.
        sequences: the number of sequences.
        seed: the seed of the sequences.
        piece: the number of tokens per call of the model.
    """
    require_positive(sequences=sequences)
    device = next(model.parameters()).device
    state, unbroken = None, torch.ones(sequences, 1, dtype=torch.bool, device=device)
    right_share, unbroken_share = [], []
    for tokens, targets in task.stream(sequences, longest, piece=piece, seed=derived_seed(seed, "test"), device=device):
        logits, state = model(tokens, state)
        right = logits[..., : task.classes].argmax(-1) == targets  # only the classes are answers
        all_right = (unbroken & (right.cumsum(1) == torch.arange(1, right.shape[1] + 1, device=device))).float()
        unbroken = all_right[:, -1:].bool()
        right_share.append(right.float().mean(0).cpu())
        unbroken_share.append(all_right.mean(0).cpu())
    first = int(task.begin_token)  # the answer after the begin token belongs to length 0
    return LengthCurve(torch.cat(right_share)[first:], torch.cat(unbroken_share)[first:])


@dataclass(frozen=True)
class Accuracy:
    """The accuracy of a model at the positions that count in the loss."""

    answers: float  # the share of right answers, by the weights of the loss
    sequences: float  # the share of sequences with only right answers


@torch.no_grad()
@in_evaluation_mode
def accuracy_between(
    model: SequenceModel, task: Task, lengths: tuple[int, int], *, sequences: int, seed: int, purpose: str = "test"
) -> Accuracy:
    """Return the accuracy on random sequences, of which at most 65,536 tokens (or one sequence) are in memory at a time.

    Args:
        model: the model, which is put in evaluation mode for this.
        task: the task that draws the sequences.
        lengths: the shortest and the longest length.
        sequences: the number of sequences.
        seed: the seed of the sequences.
        purpose: a word such as "test" or "validation"; each purpose has sequences of its own.
    """
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
    """Return an `accuracy` among `classes` answers scaled such that guessing gives 0 and 1 stays 1."""
    chance = 1 / classes
    return (accuracy - chance) / (1 - chance)


def shortest_asked(task: Task, trained: tuple[int, int]) -> int:
    """Return the shortest length at which the loss of `task` asks for an answer.

    It is 1, or the shorter of the `trained` lengths if only the last answer of a sequence counts in the loss.
    """
    return trained[0] if isinstance(task, TrackingTask) and task.last_weight == 1 else 1


def horizon(accuracy: Float[Tensor, " longest"], threshold: float = 0.99, *, shortest: int = 1) -> int:
    """Return the longest length up to which the accuracy stays at or above the threshold, 0 if it starts below.

    Args:
        accuracy: the accuracy at the lengths 1, 2, ….
        threshold: the least accuracy that counts.
        shortest: the length from which on the accuracy is looked at.
    """
    first = min(shortest, len(accuracy)) - 1
    below = torch.nonzero(accuracy[first:] < threshold)
    if not len(below):
        return len(accuracy)
    return first + int(below[0]) if below[0] else 0


def evaluate_run(folder: Path, longest: int, sequences: int, seed: int, device: str) -> list[dict[str, Any]]:
    """Return one row per range of lengths: the training lengths, then one for each doubling of the length.

    Args:
        folder: the folder of the run.
        longest: the longest length.
        sequences: the number of sequences to test on.
        seed: the seed of the sequences.
        device: the device to evaluate on.
    """
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
    """Return the row of a range of lengths.

    `sequences` is the sequence accuracy: that of the longest length of the range if the task is streamed, else that of all
    sequences in the range.
    """
    scaled = scaled_accuracy(torch.tensor(answers), classes).item()
    lengths = f"{bucket[0]}–{bucket[1]}"
    return {"lengths": lengths, "accuracy": answers, "scaled_accuracy": scaled, "sequence_accuracy": sequences}


def _buckets(trained: tuple[int, int], longest: int) -> list[tuple[int, int]]:
    """Return the training lengths, then ranges that each double the length up to `longest`; the last one may be longer."""
    buckets = [(min(trained[0], longest), min(trained[1], longest))]
    while buckets[-1][1] < longest:
        start = buckets[-1][1] + 1
        end = 2 * start if longest - 2 * start >= start else longest
        buckets.append((start, end))
    return buckets
