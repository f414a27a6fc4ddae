"""Does sampling limit training? For every task: tokens a second of the sampler, and its share of a training step.

python benchmarks/tasks.py [--out results/tasks.json] [--batch 256] [--time 40] [--device cpu]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from eigentrack.experiments.running.provenance import provenance
from eigentrack.models import ModelConfig, SequenceModel
from eigentrack.models.storage import write_json
from eigentrack.tasks import Task
from eigentrack.tasks.registry import make_task
from eigentrack.training import TrainingConfig
from eigentrack.training.step import TrainingStep

CASES: list[tuple[str, dict[str, Any]]] = [
    ("parity", {}),
    ("cycle-navigation", {}),
    ("modular-arithmetic", {}),
    ("modular-arithmetic-brackets", {}),
    ("group", {"name": "S5"}),
    ("group", {"name": "S5", "inputs": "swaps", "tokens_per_letter": 4}),
    ("language", {"name": "dyck2-3"}),
    ("flip-flop", {}),
    ("counter-language", {"name": "shuffle4"}),
    ("recall", {}),
]


def main() -> None:
    parser = argparse.ArgumentParser(description="tokens a second of every sampler, beside the training step")
    parser.add_argument("--out", type=Path, default=Path("results/tasks.json"))
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--time", type=int, default=40)
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    rows = [measure(name, options, arguments.batch, arguments.time, arguments.device) for name, options in CASES]
    for row in rows:
        print(row["line"])
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    write_json(arguments.out, {"benchmark": "tasks", "provenance": provenance(), "rows": rows})
    print(f"written: {arguments.out}")


def measure(name: str, options: dict[str, Any], batch: int, length: int, device: str) -> dict[str, Any]:
    """Against DeltaNet as in the paper's synthetic setting: width 128, 2 layers, 4 heads, convolution."""
    task = make_task(name, options)
    model = SequenceModel(ModelConfig(vocab_size=task.model_vocab_size)).to(device)
    config = TrainingConfig(steps=100, batch=batch, lengths=(length, length))
    step = TrainingStep(model, task, config)
    sampling, training = median_seconds(step.sample, device), median_seconds(step, device)
    speed, share = tokens(task, config, device) / sampling, sampling / training
    title = " ".join([name, *(f"{key}={value}" for key, value in options.items())])
    line = f"{title}: {speed / 1e6:.1f} M tokens/s, {share:.1%} of a training step of {training * 1e3:.0f} ms"
    return {"task": name, "options": options, "tokens_per_second": speed, "share_of_step": share, "line": line}


def tokens(task: Task, config: TrainingConfig, device: str) -> int:
    return task.sample(config.batch, config.lengths, seed=0, step=0, device=device).tokens.numel()


def median_seconds(run: Callable[[int], object], device: str, rounds: int = 7) -> float:
    times = []
    for step in range(rounds + 2):  # two to warm up
        start = time.perf_counter()
        run(step)
        if device != "cpu":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times[2:])


if __name__ == "__main__":
    main()
