"""The Triton kernels on a GPU against flash-linear-attention, in one run.

    python benchmarks/gpu_ops.py [--out results/gpu_ops.json] [--rows delta,small,product,long] [--no-peer]

The columns are those of gpu_table.py; the arithmetic floor counts the operations of the chunked form.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from gpu_table import Contender, arithmetic_floors, ceilings, fill_table, memory_floors, parse_arguments, shapes_of
from torch import Tensor
from torch.nn import functional as F

from eigentrack.ops import delta_rule

CHUNK = 64


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
    *(Shape("long", 1, time, heads, 128) for heads in (1, 4, 16) for time in (2**16, 2**20)),
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


def contender(run: Callable[[], Tensor], x: Operands, *leaves: Tensor | None) -> Contender:
    return Contender(run, [leaf for leaf in leaves if leaf is not None], x.dy)


def ours(x: Operands) -> Contender:
    operands = (x.q, x.k, x.v, x.beta, x.gate)
    return contender(lambda: delta_rule(*operands, backend="triton")[0], x, *operands)


def flash_linear_attention(x: Operands) -> Contender:
    """n = 1 has kernels of its own; a product takes n keys in a row along time, and the gate as a logarithm."""
    from fla.ops.delta_rule import chunk_delta_rule
    from fla.ops.gated_delta_product import chunk_gated_delta_product
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule

    # its layout [B, T n, H, ·] in leaves of its own, made once, outside the clock
    factors = x.k.shape[3]
    k, v, beta = (y.detach().transpose(2, 3).flatten(1, 2).contiguous().requires_grad_() for y in (x.k, x.v, x.beta))
    log_gate = None if x.gate is None else x.gate.detach().log().requires_grad_()

    def run() -> Tensor:
        if factors > 1:
            return chunk_gated_delta_product(x.q, k, v, log_gate, beta, factors, scale=1.0)[0]
        if log_gate is None:
            return chunk_delta_rule(x.q, k, v, beta, scale=1.0)[0]
        return chunk_gated_delta_rule(x.q, k, v, log_gate, beta, scale=1.0)[0]

    return contender(run, x, x.q, k, v, beta, log_gate)


def floors(shape: Shape, ceiling: dict[str, float]) -> dict[str, float]:
    rows = shape.batch * shape.time * shape.heads
    factors, d = rows * shape.factors, shape.dim
    inputs = 2 * (rows * d + 2 * factors * d + factors) + 4 * rows * shape.gated
    output = 2 * rows * d
    # a row of a chunk: with the rows of its chunk (C D), with the state (D D)
    forward = 2 * factors * (4 * CHUNK * d + 3 * d * d)
    backward = 2 * factors * (9 * CHUNK * d + 6 * d * d)
    return memory_floors(inputs, output, ceiling) | arithmetic_floors(forward, backward, ceiling)


def main() -> None:
    parser = argparse.ArgumentParser(description="Triton kernels against flash-linear-attention, on a GPU")
    parser.add_argument("--out", type=Path, default=Path("results/gpu_ops.json"))
    parser.add_argument("--rows", default="delta,small,product", help="groups of shapes, by comma")
    parser.add_argument("--no-peer", action="store_true", help="only our own kernels")
    arguments = parse_arguments(parser)
    contenders = {"ours": ours} | ({} if arguments.no_peer else {"fla": flash_linear_attention})
    chosen = shapes_of(parser, arguments.rows, SHAPES)
    fill_table("gpu_ops", arguments.out, chosen, Operands.draw, contenders, floors, ceilings())


if __name__ == "__main__":
    main()
