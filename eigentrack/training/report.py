"""How well a trained run does at lengths that it never saw."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from eigentrack.models import load_model
from eigentrack.tasks import TrackingTask
from eigentrack.training.evaluation import accuracy_between, horizon, length_curve, scaled_accuracy, shortest_asked
from eigentrack.training.run import MODEL, load_run

MOST = 10**8  # letters, or sequences


def evaluate_run(folder: Path, longest: int, sequences: int, seed: int, device: str) -> list[dict[str, Any]]:
    """One row for each doubling of the length, from the training lengths on, with the mean accuracy of the lengths in it."""
    for name, value in (("longest", longest), ("sequences", sequences)):
        if not 1 <= value <= MOST:
            raise ValueError(f"{name}={value} must be at least 1 and at most {MOST}")
    run = load_run(folder)
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
