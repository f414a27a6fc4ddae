"""Step and op times of two trees of this package, in turns on one GPU: what a change of the code costs.

    python benchmarks/two_trees.py BEFORE AFTER [--rounds 3] [--out two_trees.json]

BEFORE and AFTER are folders that hold the package `eigentrack`. Each round starts a process for each tree, in turns; a process
times every case by device events, as a CUDA graph (the median) and launch by launch (the least), and the table shows the median
over the rounds and the least of all.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

WARM_UP, REPEATS = 10, 40


def main() -> None:
    parser = argparse.ArgumentParser(description="times of two trees of the package, side by side")
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path, nargs="?")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cases", default="", help="only cases whose names have this in them")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if arguments.after is None:
        print(json.dumps(times_of_this_tree(arguments.cases)))
        return
    trees = {"before": arguments.before.resolve(), "after": arguments.after.resolve()}
    found: dict[str, list[dict[str, float]]] = {name: [] for name in trees}
    for number in range(arguments.rounds):
        for name in sorted(trees, reverse=number % 2 == 1):
            command = [sys.executable, str(Path(__file__).resolve()), str(trees[name]), "--cases", arguments.cases]
            run = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(trees[name])}, capture_output=True, text=True)
            if run.returncode:
                raise SystemExit(f"{trees[name]}: {run.stderr[-3000:]}")
            found[name].append(json.loads(run.stdout.splitlines()[-1]))
        rows = compared(found)
        print(f"round {number + 1} of {arguments.rounds}", flush=True)
        if arguments.out is not None:  # after every round: a run that is cut short keeps what it measured
            arguments.out.write_text(json.dumps({"rounds": number + 1, "rows": rows}, indent=1) + "\n")
    for case, row in rows.items():
        print(
            f"{case:58s} {row['before_ms']:9.4f} ms {row['after_ms']:9.4f} ms {row['ratio']:6.3f} {row['ratio_of_least']:6.3f}"
        )


def compared(found: dict[str, list[dict[str, float]]]) -> dict[str, dict[str, float]]:
    """Compare the medians over the rounds, and the least times, which a busy host disturbs least."""
    rows = {}
    for case in found["before"][0]:
        times = {name: [of_round[case] for of_round in rounds] for name, rounds in found.items()}
        before, after = statistics.median(times["before"]), statistics.median(times["after"])
        least = min(times["after"]) / min(times["before"])
        rows[case] = {"before_ms": before, "after_ms": after, "ratio": after / before, "ratio_of_least": least}
    return rows


def times_of_this_tree(chosen: str) -> dict[str, float]:
    times = {}
    for name, make in cases().items():
        if chosen not in name:
            continue
        run = make()
        times[f"{name}, graph"] = of_graph(run)
        times[f"{name}, eager"] = of_calls(run)
        torch.cuda.empty_cache()
    return times


def of_calls(run: Callable[[], Any]) -> float:
    for _ in range(WARM_UP):
        run()
    return least_of(run)


def of_graph(run: Callable[[], Any]) -> float:
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    for _ in range(WARM_UP):
        graph.replay()
    return median_of(graph.replay)


def median_of(run: Callable[[], Any]) -> float:
    return statistics.median(intervals(run, REPEATS))


def least_of(run: Callable[[], Any]) -> float:
    """Return the least time of many calls: launch by launch the host decides, and other work on it only ever adds."""
    return min(intervals(run, 5 * REPEATS))


def intervals(run: Callable[[], Any], repeats: int) -> list[float]:
    events = [torch.cuda.Event(enable_timing=True) for _ in range(repeats + 1)]
    torch.cuda.synchronize()
    events[0].record()
    for event in events[1:]:
        run()
        event.record()
    torch.cuda.synchronize()
    return [first.elapsed_time(last) for first, last in itertools.pairwise(events)]


def cases() -> dict[str, Callable[[], Callable[[], Any]]]:
    return {
        "delta rule B8 T2048 H8 D128": lambda: delta_rule(8, 2048, 8, 128),
        "delta rule, gated B8 T2048 H8 D128": lambda: delta_rule(8, 2048, 8, 128, gated=True),
        "delta rule B1024 T40 H4 D32": lambda: delta_rule(1024, 40, 4, 32),
        "delta rule B1 T32768 H16 D128": lambda: delta_rule(1, 32768, 16, 128),
        "gated linear B8 T2048 H8 D128": lambda: gated_linear(8, 2048, 8, 128, channel=False),
        "gated linear, channels B8 T2048 H8 D128": lambda: gated_linear(8, 2048, 8, 128, channel=True),
        "selective scan B8 T2048 D2048": lambda: selective_scan(8, 2048, 2048),
        "selective scan B1024 T40 D256": lambda: selective_scan(1024, 40, 256),
        "sLSTM B256 T40 H4 D32": lambda: slstm(256, 40, 4, 32),
        **{
            f"step of {layer} B1024 T40, width 128": lambda layer=layer: training_step(layer, 1024, 40, 128)
            for layer in ("deltanet", "mamba", "gla", "slstm")
        },
        "step of deltanet B4 T2048, width 1024": lambda: training_step("deltanet", 4, 2048, 1024),
    }


def op(name: str) -> Callable[..., Any]:
    for module in ("eigentrack.ops", "eigentrack.recurrence"):
        try:
            return getattr(importlib.import_module(module), name)
        except ModuleNotFoundError:
            continue
    raise SystemExit(f"the tree has no op {name}")


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16).requires_grad_()


def with_gradients(run: Callable[[], Any], leaves: list[Tensor]) -> Callable[[], Any]:
    dy = torch.randn_like(run()[0])
    return lambda: torch.autograd.grad(run()[0], leaves, dy)


def delta_rule(batch: int, time: int, heads: int, dim: int, gated: bool = False) -> Callable[[], Any]:
    k = F.normalize(normal(batch, time, heads, 1, dim).detach(), dim=-1).requires_grad_()
    beta = (2 * torch.rand(batch, time, heads, 1, device="cuda")).requires_grad_()
    leaves = [normal(batch, time, heads, dim), k, normal(batch, time, heads, 1, dim), beta]
    if gated:
        leaves.append(torch.rand(batch, time, heads, device="cuda").requires_grad_())
    rule = op("delta_rule")
    return with_gradients(lambda: rule(*leaves), leaves)


def gated_linear(batch: int, time: int, heads: int, dim: int, channel: bool) -> Callable[[], Any]:
    gate = torch.rand(batch, time, heads, *([dim] if channel else []), device="cuda").requires_grad_()
    leaves = [*(normal(batch, time, heads, dim) for _ in range(3)), gate]
    rule = op("gated_linear")
    return with_gradients(lambda: rule(*leaves), leaves)


def selective_scan(batch: int, time: int, channels: int) -> Callable[[], Any]:
    from eigentrack.spectrum import EigenRange

    dt = F.softplus(normal(batch, time, channels).detach()).requires_grad_()
    leaves = [normal(batch, time, channels), dt, normal(batch, time, 16), normal(batch, time, 16)]
    decay = (-torch.rand(channels, 16, device="cuda")).requires_grad_()
    scan = op("selective_scan")
    return with_gradients(lambda: scan(*leaves, log_decay=decay, eigenvalues=EigenRange(-1, 1)), [*leaves, decay])


def slstm(batch: int, time: int, heads: int, dim: int) -> Callable[[], Any]:
    gates = normal(batch, time, heads, 4, dim)
    recurrent = (0.1 * torch.randn(heads, 4, dim, dim, device="cuda")).requires_grad_()
    rule = op("slstm")
    return with_gradients(lambda: rule(gates, recurrent=recurrent), [gates, recurrent])


def training_step(mixer: str, batch: int, time: int, width: int) -> Callable[[], Any]:
    from eigentrack.models import ModelConfig, SequenceModel

    model = SequenceModel(ModelConfig(vocab_size=512, d_model=width, layers=2, mixer=mixer)).cuda()
    tokens = torch.randint(512, (batch, time), device="cuda")
    weights = list(model.parameters())

    def step() -> Any:
        with torch.autocast("cuda", torch.bfloat16):
            logits, _ = model(tokens)
        return torch.autograd.grad(logits.float().square().mean(), weights, allow_unused=True)

    return step


if __name__ == "__main__":
    main()
