"""Gated linear attention on a GPU: the Triton kernels against the chunked form and the peers, in one run.

    python benchmarks/gpu_gated_linear.py [--out results/gpu_gated_linear.json] [--rows head,channel,small] [--no-peer]

Every row gives medians by device events, as eager calls and as replays of a CUDA graph, forward alone and with all gradients,
and two floors: bytes that must be moved over the bandwidth of a large copy, and operations of the chunked form over the rate of
a large bfloat16 product, both measured first. Gates are drawn in (0, 1), which all contenders take; "signed" is ours with every
other gate negative. A contender that refuses or fails is written down with its message.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from gpu_ops import captured, ceilings, line, median_ms
from torch import Tensor

from eigentrack.experiments.provenance import provenance
from eigentrack.models.storage import write_json
from eigentrack.recurrence import gated_linear

CHUNK = 64


@dataclass(frozen=True)
class Shape:
    group: str
    batch: int
    time: int
    heads: int
    key: int
    value: int
    channel: bool = False

    @property
    def name(self) -> str:
        return f"B{self.batch} T{self.time} H{self.heads} K{self.key} V{self.value} {'channel' if self.channel else 'head'}"


SHAPES = [
    Shape("head", 8, 2048, 8, 128, 128),
    Shape("head", 32, 2048, 8, 128, 128),
    Shape("head", 1, 65536, 16, 128, 128),
    Shape("head", 8, 2048, 32, 128, 64),
    Shape("channel", 8, 2048, 8, 128, 128, True),
    Shape("channel", 8, 2048, 4, 128, 256, True),
    Shape("channel", 1, 65536, 16, 128, 128, True),
    Shape("small", 1024, 40, 4, 16, 32),
    Shape("small", 1024, 40, 4, 16, 32, True),
]


@dataclass(frozen=True)
class Operands:
    q: Tensor
    k: Tensor
    v: Tensor
    a: Tensor
    dy: Tensor

    @staticmethod
    def draw(shape: Shape) -> Operands:
        def normal(*size: int) -> Tensor:
            return torch.randn(shape.batch, shape.time, shape.heads, *size, device="cuda")

        scale = shape.key**-0.5
        half = [normal(shape.key) * scale, normal(shape.key) * scale, normal(shape.value)]
        q, k, v = (x.bfloat16().requires_grad_() for x in half)
        gate = normal(*([shape.key] if shape.channel else [])).sigmoid() ** (1 / 16)
        return Operands(q, k, v, gate.requires_grad_(), normal(shape.value).bfloat16())


@dataclass(frozen=True)
class Contender:
    """`run` returns y, which is differentiated in `leaves`."""

    run: Callable[[], Tensor]
    leaves: list[Tensor]


def ours(x: Operands) -> Contender:
    return Contender(lambda: gated_linear(x.q, x.k, x.v, x.a, backend="triton")[0], [x.q, x.k, x.v, x.a])


def signed(x: Operands) -> Contender:
    a = x.a.detach().clone()
    a[:, ::2] *= -1
    return ours(Operands(x.q, x.k, x.v, a.requires_grad_(), x.dy))


def chunked(x: Operands) -> Contender:
    return Contender(lambda: gated_linear(x.q, x.k, x.v, x.a, backend="chunked")[0], [x.q, x.k, x.v, x.a])


def flash_linear_attention(x: Operands) -> Contender:
    """Takes the gate as a logarithm, made outside the clock."""
    log_gate = x.a.detach().log().requires_grad_()
    leaves = [x.q, x.k, x.v, log_gate]
    if x.a.ndim == 4:
        from fla.ops.gla import chunk_gla

        return Contender(lambda: chunk_gla(x.q, x.k, x.v, g=log_gate, scale=1.0)[0], leaves)
    from fla.ops.simple_gla import chunk_simple_gla

    return Contender(lambda: chunk_simple_gla(x.q, x.k, x.v, g=log_gate, scale=1.0)[0], leaves)


def mamba_ssm(x: Operands) -> Contender:
    """SSD: its gate is exp(dt A) and its values are dt x. Here A = -1 and dt = -log a, which scales the values: time only."""
    from mamba_ssm.ops.triton.ssd_combined import mamba_chunk_scan_combined

    if x.a.ndim == 4:
        raise ValueError("one gate a head only")
    rate = torch.full((x.a.shape[2],), -1.0, device="cuda")
    dt = (-x.a.detach().log()).bfloat16().requires_grad_()
    return Contender(lambda: mamba_chunk_scan_combined(x.v, dt, rate, x.k, x.q, chunk_size=256), [x.q, x.k, x.v, dt])


def measure(make: Callable[[Operands], Contender], x: Operands) -> dict[str, float]:
    torch.cuda.synchronize()
    start = time.perf_counter()
    contender = make(x)

    def forward() -> Tensor:
        with torch.no_grad():
            return contender.run()

    def both() -> tuple[Tensor, ...]:
        return torch.autograd.grad(contender.run(), contender.leaves, x.dy)

    both()
    torch.cuda.synchronize()
    cold = time.perf_counter() - start
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    both()
    peak = (torch.cuda.max_memory_allocated() - before) / 2**20
    found = {"cold_s": cold, "peak_mib": peak, "forward_ms": median_ms(forward), "both_ms": median_ms(both)}
    return found | {"forward_graph_ms": median_ms(captured(forward)), "both_graph_ms": median_ms(captured(both))}


def floors(shape: Shape, ceiling: dict[str, float]) -> dict[str, float]:
    rows = shape.batch * shape.time * shape.heads
    inputs = rows * (2 * (2 * shape.key + shape.value) + 4 * (shape.key if shape.channel else 1))
    output = 2 * rows * shape.value
    # a token: with the tokens of its chunk, and with the state
    forward = 2 * rows * (CHUNK * (shape.key + shape.value) + 2 * shape.key * shape.value)
    backward = 2 * rows * (CHUNK * (3 * shape.key + 2 * shape.value) + 4 * shape.key * shape.value)
    return {
        "forward_memory_ms": 1e3 * (inputs + output) / ceiling["bytes_per_s"],
        "both_memory_ms": 1e3 * (3 * inputs + 2 * output) / ceiling["bytes_per_s"],
        "forward_arithmetic_ms": 1e3 * forward / ceiling["operations_per_s"],
        "both_arithmetic_ms": 1e3 * (forward + backward) / ceiling["operations_per_s"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description="gated linear attention in Triton against the chunked form and the peers, on a GPU"
    )
    parser.add_argument("--out", type=Path, default=Path("results/gpu_gated_linear.json"))
    parser.add_argument("--rows", default="head,channel,small", help="groups of shapes, by comma")
    parser.add_argument("--no-peer", action="store_true", help="only our own kernels")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("no GPU: this benchmark needs one")
    ceiling = ceilings()
    contenders = {"ours": ours, "signed": signed}
    if not arguments.no_peer:
        contenders |= {"chunked": chunked, "fla": flash_linear_attention, "mamba": mamba_ssm}
    print(
        f"copy {ceiling['bytes_per_s'] / 1e12:.2f} TB/s, bfloat16 product {ceiling['operations_per_s'] / 1e12:.0f} TFLOP/s; ms"
    )
    print(f"{'shape':32s} {'':8s} {'fwd':>8s} {'graph':>8s} {'f+b':>8s} {'graph':>8s} {'MiB':>7s} {'cold s':>7s}")
    rows = []
    for shape in [shape for shape in SHAPES if shape.group in arguments.rows.split(",")]:
        x = Operands.draw(shape)
        row: dict[str, Any] = {"shape": shape.name, **asdict(shape), "floors": floors(shape, ceiling)}
        for name, make in contenders.items():
            try:
                row[name] = measure(make, x)
                print(f"{shape.name:32s} {name:8s} {line(row[name])}", flush=True)
            except Exception as error:
                row[name] = {"refused": f"{type(error).__name__}: {error}"[:300]}
                print(f"{shape.name:32s} {name:8s} {row[name]['refused'][:90]}", flush=True)
            torch.cuda.empty_cache()
        bound = row["floors"]
        print(
            f"{'':32s} floor memory {bound['both_memory_ms']:.3f}, arithmetic {bound['both_arithmetic_ms']:.3f} {ratios(row)}"
        )
        rows.append(row)
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        write_json(
            arguments.out, {"benchmark": "gpu_gated_linear", "provenance": provenance(), "ceilings": ceiling, "rows": rows}
        )
    print(f"written: {arguments.out}")


def ratios(row: dict[str, Any]) -> str:
    if "both_ms" not in row["ours"]:
        return ""
    found = []
    for peer in ("chunked", "fla", "mamba"):
        if "both_ms" in row.get(peer, {}):
            eager, graph = (row[peer][name] / row["ours"][name] for name in ("both_ms", "both_graph_ms"))
            found.append(f"{peer} {eager:.2f}x eager, {graph:.2f}x graph")
    return "| f+b: " + "; ".join(found) if found else ""


if __name__ == "__main__":
    main()
