"""The chunked forms on this CPU: against the sequential reference, against transformers, and against their own growth with T.

    python benchmarks/cpu.py [--out results/cpu.json] [--quick]

All contenders of a row run in turn within one process, several rounds each, and the row gives the ratio of the medians: a
single time means little. One row has a single round, because its peer takes a minute.
"""

from __future__ import annotations

import argparse
import inspect
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from eigentrack.experiments.running.provenance import provenance
from eigentrack.models.storage import write_json
from eigentrack.ops import delta_rule, gated_linear, selective_scan
from eigentrack.spectrum import EigenRange

Run = Callable[[], object]


def main() -> None:
    parser = argparse.ArgumentParser(description="chunked forms on this CPU: ratios from one run")
    parser.add_argument("--out", type=Path, default=Path("results/cpu.json"))
    parser.add_argument("--quick", action="store_true", help="small shapes, one round: only to see that it runs")
    arguments = parser.parse_args()
    rounds, shrink = (1, 16) if arguments.quick else (7, 1)
    rows = [
        delta_rule_row(rounds, 2048 // shrink),
        gated_delta_rule_row(rounds, 2048 // shrink),
        selective_scan_row("forward", rounds, 1024 // shrink),
        selective_scan_row("forward+backward", 1, 1024 // shrink),
        selective_scan_memory_row(1024 // shrink),
        *growth_rows(min(rounds, 3), [1024 // shrink, 4096 // shrink, 16384 // shrink, 65536 // shrink]),
    ]
    for row in rows:
        print(row["line"])
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    write_json(arguments.out, {"benchmark": "cpu", "provenance": provenance(), "rows": rows})
    print(f"written: {arguments.out}")


def alternate(rounds: int, **contenders: Run) -> dict[str, float]:
    """The median milliseconds of each, in turn: one run to warm up, since the other left the heap cold, then one timed."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            run()
            start = time.perf_counter()
            run()
            times[name].append((time.perf_counter() - start) * 1e3)
    return {name: statistics.median(values) for name, values in times.items()}


def ratio_row(title: str, rounds: int, times: dict[str, float], ours: str) -> dict[str, Any]:
    ratios = {name: value / times[ours] for name, value in times.items() if name != ours}
    said = ", ".join(f"{ratio:.1f}x {name}" for name, ratio in ratios.items())
    measured = ", ".join(f"{name} {value:.0f} ms" for name, value in times.items())
    line = f"{title}: {ours} is {said}  ({measured}; medians of {rounds})"
    return {"title": title, "rounds": rounds, "milliseconds": times, "ratios": ratios, "line": line}


def fresh(*shape: int) -> Tensor:
    return torch.randn(*shape, requires_grad=True)


def delta_inputs(time_steps: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    batch, heads, key, value = 4, 4, 64, 64
    k = torch.nn.functional.normalize(torch.randn(batch, time_steps, heads, 1, key), dim=-1).requires_grad_()
    beta = (2 * torch.rand(batch, time_steps, heads, 1)).requires_grad_()
    return fresh(batch, time_steps, heads, key), k, fresh(batch, time_steps, heads, 1, value), beta


def transformers_function(module: str, name: str) -> Callable[..., Any]:
    """transformers' own PyTorch fall-back, also where packages with kernels are installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        modeling = __import__(f"transformers.models.{module}.modeling_{module}", fromlist=[name])
    return inspect.unwrap(getattr(modeling, name))


def delta_rule_row(rounds: int, time_steps: int) -> dict[str, Any]:
    inputs = delta_inputs(time_steps)

    def ours(backend: str) -> Run:
        def run() -> None:
            y, state = delta_rule(*inputs, backend=backend)
            torch.autograd.grad(y.sum() + state.sum(), inputs)

        return run

    times = alternate(rounds, chunked=ours("chunked"), reference=ours("reference"))
    return ratio_row(f"delta rule, forward+backward, B4 T{time_steps} H4 K64 V64", rounds, times, "chunked")


def gated_delta_rule_row(rounds: int, time_steps: int) -> dict[str, Any]:
    """Against transformers' chunk form, which always has a gate: ours without one, and with one that is 1."""
    q, k, v, beta = inputs = delta_inputs(time_steps)
    peer = transformers_function("qwen3_next", "torch_chunk_gated_delta_rule")
    gate = torch.ones(q.shape[:3], requires_grad=True)
    log_gate = torch.zeros(q.shape[:3], requires_grad=True)

    def ours(*gates: Tensor) -> Run:
        def run() -> None:
            y, state = delta_rule(*inputs, *gates)
            torch.autograd.grad(y.sum() + state.sum(), [*inputs, *gates])

        return run

    def theirs() -> None:
        y, state = peer(q, k[..., 0, :], v[..., 0, :], log_gate, beta[..., 0], output_final_state=True)
        torch.autograd.grad(y.sum() + state.sum(), [*inputs, log_gate])

    times = alternate(rounds, chunked=ours(), **{"chunked with gate": ours(gate), "transformers' chunk form": theirs})
    return ratio_row(f"delta rule, forward+backward, B4 T{time_steps} H4 K64 V64", rounds, times, "chunked")


def scan_inputs(time_steps: int) -> tuple[tuple[Tensor, ...], Tensor]:
    batch, channels, size = 4, 512, 16
    dt = torch.rand(batch, time_steps, channels, requires_grad=True)
    log_decay = (-torch.rand(channels, size)).requires_grad_()
    x, b, c = fresh(batch, time_steps, channels), fresh(batch, time_steps, size), fresh(batch, time_steps, size)
    return (x, dt, b, c), log_decay


def scan_contenders(passes: str, time_steps: int) -> dict[str, Run]:
    inputs, log_decay = scan_inputs(time_steps)
    x, dt, b, c = inputs
    peer = transformers_function("mamba", "mamba_selective_scan")

    def finish(y: Tensor, state: Tensor) -> None:
        if passes != "forward":
            torch.autograd.grad(y.sum() + state.sum(), [*inputs, log_decay])

    def ours() -> None:
        with torch.set_grad_enabled(passes != "forward"):
            finish(*selective_scan(*inputs, log_decay=log_decay, eigenvalues=EigenRange(0, 1)))

    def theirs() -> None:
        with torch.set_grad_enabled(passes != "forward"):
            finish(*peer(x.mT, dt.mT, log_decay, b.mT, c.mT, return_last_state=True))

    return {"chunked": ours, "transformers' slow path": theirs}


def selective_scan_row(passes: str, rounds: int, time_steps: int) -> dict[str, Any]:
    times = alternate(rounds, **scan_contenders(passes, time_steps))
    return ratio_row(f"selective scan, {passes}, B4 T{time_steps} D512 N16", rounds, times, "chunked")


def peak_mebibytes(run: Run) -> float:
    """The highest sum of live allocations during a run, from the profiler's allocation events."""
    run()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        run()
    changes = [event for event in recorded.profiler.kineto_results.events() if event.name() == "[memory]"]
    live = peak = 0
    for event in sorted(changes, key=lambda event: event.start_ns()):
        live += event.nbytes()
        peak = max(peak, live)
    return peak / 2**20


def selective_scan_memory_row(time_steps: int) -> dict[str, Any]:
    peaks = {name: peak_mebibytes(run) for name, run in scan_contenders("forward+backward", time_steps).items()}
    said = ", ".join(f"{name} {value:.0f} MiB" for name, value in peaks.items())
    title = f"selective scan, peak memory of forward+backward, B4 T{time_steps} D512 N16"
    return {"title": title, "mebibytes": peaks, "line": f"{title}: {said}"}


def growth_rows(rounds: int, lengths: list[int]) -> list[dict[str, Any]]:
    """Microseconds a token of forward+backward as T grows: constant if the cost is linear."""

    def delta(time_steps: int) -> Run:
        k = torch.nn.functional.normalize(torch.randn(1, time_steps, 4, 1, 32), dim=-1).requires_grad_()
        q, v, beta = fresh(1, time_steps, 4, 32), fresh(1, time_steps, 4, 1, 32), torch.rand(1, time_steps, 4, 1)

        def run() -> None:
            torch.autograd.grad(delta_rule(q, k, v, beta)[0].sum(), [q, k, v])

        return run

    def linear(time_steps: int, *channels: int) -> Run:
        q, k, v = (fresh(1, time_steps, 4, 32) for _ in range(3))
        a = torch.rand(1, time_steps, 4, *channels).requires_grad_()

        def run() -> None:
            torch.autograd.grad(gated_linear(q, k, v, a)[0].sum(), [q, k, v, a])

        return run

    def scan(time_steps: int) -> Run:
        x, dt = fresh(1, time_steps, 64), torch.rand(1, time_steps, 64, requires_grad=True)
        b, c = fresh(1, time_steps, 16), fresh(1, time_steps, 16)
        log_decay = -torch.rand(64, 16)

        def run() -> None:
            y, _ = selective_scan(x, dt, b, c, log_decay=log_decay, eigenvalues=EigenRange(-1, 1))
            torch.autograd.grad(y.sum(), [x, dt, b, c])

        return run

    makers: dict[str, Callable[[int], Run]] = {
        "delta rule": delta,
        "gated linear, per head": linear,
        "gated linear, per channel": lambda time_steps: linear(time_steps, 32),
        "selective scan": scan,
    }
    rows = []
    for name, make in makers.items():
        times = alternate(rounds, **{str(length): make(length) for length in lengths})
        per_token = {length: value * 1e3 / int(length) for length, value in times.items()}
        said = ", ".join(f"T{length} {value:.1f}" for length, value in per_token.items())
        title = f"{name}, microseconds a token of forward+backward"
        rows.append({"title": title, "rounds": rounds, "microseconds_a_token": per_token, "line": f"{title}: {said}"})
    return rows


if __name__ == "__main__":
    main()
