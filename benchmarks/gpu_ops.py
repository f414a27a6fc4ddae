"""The Triton kernels on a GPU against flash-linear-attention, in one run.

    python benchmarks/gpu_ops.py [--out results/gpu_ops.json] [--rows delta,small,product] [--no-peer]

Every row gives medians by device events, as eager calls and as replays of a CUDA graph, forward alone and with all gradients,
and two floors: bytes that must be moved over the bandwidth of a large copy, and operations of the chunked form over the rate of
a large bfloat16 product, both measured first. A peer that refuses or fails is written down with its message.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from eigentrack.experiments.provenance import provenance
from eigentrack.models.storage import write_json
from eigentrack.recurrence import delta_rule

CHUNK = 64
Run = Callable[[], Any]


@dataclass(frozen=True)
class Shape:
    group: str
    batch: int
    time: int
    heads: int
    dim: int
    factors: int = 1
    gated: bool = False

    @property
    def name(self) -> str:
        sizes = f"B{self.batch} T{self.time} H{self.heads} D{self.dim}"
        return f"{sizes} n{self.factors}{' gated' if self.gated else ''}"


SHAPES = [
    Shape("delta", 8, 2048, 8, 128),
    Shape("delta", 8, 2048, 16, 128),
    Shape("delta", 32, 2048, 8, 128),
    Shape("delta", 1, 65536, 16, 128),
    Shape("delta", 2, 8192, 16, 64),
    Shape("small", 1024, 40, 4, 32),
    Shape("small", 512, 32, 4, 32),
    Shape("small", 1024, 40, 4, 128),
    *(Shape("product", 8, 2048, 8, 128, n, gated) for n in (1, 2, 3, 4) for gated in (False, True) if n > 1 or gated),
]


@dataclass(frozen=True)
class Operands:
    q: Tensor
    k: Tensor
    v: Tensor
    beta: Tensor
    gate: Tensor | None
    dy: Tensor

    @staticmethod
    def draw(shape: Shape) -> Operands:
        def normal(*size: int) -> Tensor:
            return torch.randn(shape.batch, shape.time, shape.heads, *size, device="cuda")

        k = F.normalize(normal(shape.factors, shape.dim), dim=-1)
        half = [normal(shape.dim) * shape.dim**-0.5, k, normal(shape.factors, shape.dim), normal(shape.factors).sigmoid() * 2]
        leaves = [x.bfloat16().requires_grad_() for x in half]
        gate = normal().sigmoid().requires_grad_() if shape.gated else None
        return Operands(*leaves, gate, normal(shape.dim).bfloat16())

    def leaves(self) -> list[Tensor]:
        return [x for x in (self.q, self.k, self.v, self.beta, self.gate) if x is not None]


def ours(x: Operands) -> Run:
    return lambda: delta_rule(x.q, x.k, x.v, x.beta, x.gate, backend="triton")[0]


def flash_linear_attention(x: Operands) -> Run:
    """n = 1 has kernels of its own; a product takes n keys in a row along time, and the gate as a logarithm."""
    from fla.ops.delta_rule import chunk_delta_rule
    from fla.ops.gated_delta_product import chunk_gated_delta_product
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule

    # its layout [B, T n, H, ·] in leaves of its own, made once, outside the clock
    factors = x.k.shape[3]
    k, v, beta = (y.detach().transpose(2, 3).flatten(1, 2).contiguous().requires_grad_() for y in (x.k, x.v, x.beta))
    log_gate = None if x.gate is None else x.gate.detach().log().requires_grad_()
    if factors > 1:
        return lambda: chunk_gated_delta_product(x.q, k, v, log_gate, beta, factors, scale=1.0)[0]
    if log_gate is None:
        return lambda: chunk_delta_rule(x.q, k, v, beta, scale=1.0)[0]
    return lambda: chunk_gated_delta_rule(x.q, k, v, log_gate, beta, scale=1.0)[0]


def measure(make: Callable[[Operands], Run], x: Operands) -> dict[str, float]:
    torch.cuda.synchronize()
    start = time.perf_counter()
    run = make(x)
    leaves = _leaves_of(run(), x)

    def forward() -> Tensor:
        with torch.no_grad():
            return run()

    def both() -> tuple[Tensor, ...]:
        return torch.autograd.grad(run(), leaves, x.dy)

    both()
    torch.cuda.synchronize()
    cold = time.perf_counter() - start
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    both()
    peak = (torch.cuda.max_memory_allocated() - before) / 2**20
    return {
        "cold_s": cold,
        "peak_mib": peak,
        "forward_ms": median_ms(forward),
        "both_ms": median_ms(both),
        "forward_graph_ms": median_ms(captured(forward)),
        "both_graph_ms": median_ms(captured(both)),
    }


def _leaves_of(y: Tensor, x: Operands) -> list[Tensor]:
    """The leaves that y depends on: a peer may have made its own from ours."""
    found: list[Tensor] = []
    seen, stack = set(), [y.grad_fn]
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            found.append(node.variable)
        stack.extend(parent for parent, _ in node.next_functions)
    if len(found) != len(x.leaves()):
        raise ValueError(f"{len(found)} gradients instead of {len(x.leaves())}")
    return found


def captured(run: Run) -> Run:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def median_ms(run: Run, rounds: int = 30) -> float:
    for _ in range(5):
        run()
    events = []
    for _ in range(rounds):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        run()
        end.record()
        events.append((start, end))
    torch.cuda.synchronize()
    return statistics.median(start.elapsed_time(end) for start, end in events)


def ceilings() -> dict[str, float]:
    """Bytes a second of a large copy, read and write counted; operations a second of a large bfloat16 product."""
    source = torch.randn(2**29, device="cuda")
    target = torch.empty_like(source)
    copy_ms = median_ms(lambda: target.copy_(source), rounds=10)
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    product_ms = median_ms(lambda: a @ b, rounds=10)
    return {"bytes_per_s": 2 * source.nbytes / copy_ms * 1e3, "operations_per_s": 2 * 8192**3 / product_ms * 1e3}


def floors(shape: Shape, ceiling: dict[str, float]) -> dict[str, float]:
    rows = shape.batch * shape.time * shape.heads
    factors, d = rows * shape.factors, shape.dim
    inputs = 2 * (rows * d + 2 * factors * d + factors) + 4 * rows * shape.gated
    output = 2 * rows * d
    # a row of a chunk: with the rows of its chunk (C D), with the state (D D)
    forward = 2 * factors * (4 * CHUNK * d + 3 * d * d)
    backward = 2 * factors * (9 * CHUNK * d + 6 * d * d)
    return {
        "forward_memory_ms": 1e3 * (inputs + output) / ceiling["bytes_per_s"],
        "both_memory_ms": 1e3 * (3 * inputs + 2 * output) / ceiling["bytes_per_s"],
        "forward_arithmetic_ms": 1e3 * forward / ceiling["operations_per_s"],
        "both_arithmetic_ms": 1e3 * (forward + backward) / ceiling["operations_per_s"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Triton kernels against flash-linear-attention, on a GPU")
    parser.add_argument("--out", type=Path, default=Path("results/gpu_ops.json"))
    parser.add_argument("--rows", default="delta,small,product", help="groups of shapes, by comma")
    parser.add_argument("--no-peer", action="store_true", help="only our own kernels")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("no GPU: this benchmark needs one")
    ceiling = ceilings()
    contenders = {"ours": ours} | ({} if arguments.no_peer else {"fla": flash_linear_attention})
    print(
        f"copy {ceiling['bytes_per_s'] / 1e12:.2f} TB/s, bfloat16 product {ceiling['operations_per_s'] / 1e12:.0f} TFLOP/s; ms"
    )
    print(f"{'shape':28s} {'':5s} {'fwd':>8s} {'graph':>8s} {'f+b':>8s} {'graph':>8s} {'MiB':>7s} {'cold s':>7s}")
    rows = []
    for shape in [shape for shape in SHAPES if shape.group in arguments.rows.split(",")]:
        x = Operands.draw(shape)
        row: dict[str, Any] = {"shape": shape.name, **asdict(shape), "floors": floors(shape, ceiling)}
        for name, make in contenders.items():
            try:
                row[name] = measure(make, x)
                print(f"{shape.name:28s} {name:5s} {line(row[name])}", flush=True)
            except Exception as error:
                row[name] = {"refused": f"{type(error).__name__}: {error}"[:300]}
                print(f"{shape.name:28s} {name:5s} {row[name]['refused'][:90]}", flush=True)
        bound = row["floors"]
        print(
            f"{'':28s} floor memory {bound['both_memory_ms']:.3f}, arithmetic {bound['both_arithmetic_ms']:.3f} {ratios(row)}"
        )
        rows.append(row)
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        write_json(arguments.out, {"benchmark": "gpu_ops", "provenance": provenance(), "ceilings": ceiling, "rows": rows})
    print(f"written: {arguments.out}")


def line(found: dict[str, float]) -> str:
    times = (found[name] for name in ("forward_ms", "forward_graph_ms", "both_ms", "both_graph_ms"))
    return " ".join(f"{value:8.3f}" for value in times) + f" {found['peak_mib']:7.0f} {found['cold_s']:7.1f}"


def ratios(row: dict[str, Any]) -> str:
    if "both_ms" not in row.get("fla", {}) or "both_ms" not in row["ours"]:
        return ""
    eager, graph = (row["fla"][name] / row["ours"][name] for name in ("both_ms", "both_graph_ms"))
    return f"| f+b: {eager:.2f}x eager, {graph:.2f}x graph"


if __name__ == "__main__":
    main()
