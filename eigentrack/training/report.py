"""How well a trained run does at lengths that it never saw."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from eigentrack.models import load_model
from eigentrack.tasks import TrackingTask
from eigentrack.training.evaluation import accuracy_between, horizon, length_curve, scaled_accuracy
from eigentrack.training.run import MODEL, load_run


def evaluate_run(folder: Path, longest: int, sequences: int, seed: int, device: str) -> list[dict[str, Any]]:
    """One row for each doubling of the length, from the training lengths on, with the mean accuracy of the lengths in it."""
    for name, value in (("longest", longest), ("sequences", sequences)):
        if value < 1:
            raise ValueError(f"{name}={value} must be at least 1")
    run = load_run(folder)
    task, model = run.build_task(), load_model(folder / MODEL, device)
    buckets = _buckets(run.training.lengths, longest)
    if not isinstance(task, TrackingTask):
        accuracies = [accuracy_between(model, task, bucket, sequences=sequences, seed=seed) for bucket in buckets]
        return [_row(bucket, accuracy, task.classes) for bucket, accuracy in zip(buckets, accuracies, strict=True)]
    curve = length_curve(model, task, buckets[-1][1], sequences=sequences, seed=seed)
    reach = horizon(curve.accuracy)
    rows = []
    for shortest, last in buckets:
        row = _row((shortest, last), curve.accuracy[shortest - 1 : last].mean().item(), task.classes)
        row["sequence_accuracy"] = curve.sequence_accuracy[last - 1].item()
        row["horizon"] = f"≥ {reach}" if reach == len(curve.accuracy) else str(reach)
        rows.append(row)
    return rows


def _row(bucket: tuple[int, int], accuracy: float, classes: int) -> dict[str, Any]:
    scaled = scaled_accuracy(torch.tensor(accuracy), classes).item()
    return {"lengths": f"{bucket[0]}–{bucket[1]}", "accuracy": accuracy, "scaled_accuracy": scaled}


def _buckets(trained: tuple[int, int], longest: int) -> list[tuple[int, int]]:
    buckets = [trained]
    while buckets[-1][1] < longest:
        start = buckets[-1][1] + 1
        buckets.append((start, min(2 * start, longest)))
    return buckets
