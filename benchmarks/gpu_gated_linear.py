"""Gated linear attention on a GPU: the Triton kernels beside the peers, in one run.

    python benchmarks/gpu_gated_linear.py [--out results/gpu_gated_linear.json] [--rows head,channel] [--no-peer]
    python benchmarks/gpu_gated_linear.py --rows long --no-peer --out results/gpu_gated_linear_long.json

The columns are those of gpu_table.py; the arithmetic floor counts the operations of the chunked form. Gates are drawn in
(0, 1), which all contenders take; "signed" is ours with every other gate negative, and what ratios are about. mamba-ssm's SSD
runs with keys and queries for each head, as the others do, and as "mamba 1" with one group that all heads share, which is
Mamba-2's own choice.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from gpu_table import Contender, arithmetic_floors, ceilings, fill_table, memory_floors, parse_arguments, shapes_of
from torch import Tensor

from eigentrack.ops import gated_linear

CHUNK, CHANNEL_CHUNK = 64, 32  # of our kernels, with one gate per head, and with one per channel


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
    Shape("head", 8, 2048, 32, 128, 64),
    Shape("head", 8, 2048, 4, 128, 256),
    Shape("channel", 8, 2048, 32, 128, 64, True),
    Shape("channel", 8, 2048, 4, 128, 256, True),
    Shape("head", 8, 2048, 8, 128, 128),
    Shape("head", 32, 2048, 8, 128, 128),
    Shape("head", 1, 65536, 16, 128, 128),
    Shape("channel", 8, 2048, 8, 128, 128, True),
    Shape("channel", 1, 65536, 16, 128, 128, True),
    Shape("head-small", 1024, 40, 4, 16, 32),
    Shape("channel-small", 1024, 40, 4, 16, 32, True),
    *(Shape("long", 1, time, heads, 128, 128) for heads in (1, 16) for time in (2**16, 2**20)),
    *(Shape("long", 1, time, 1, 128, 128, True) for time in (2**16, 2**20)),
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


def ours(x: Operands) -> Contender:
    return Contender(lambda: gated_linear(x.q, x.k, x.v, x.a, backend="triton")[0], [x.q, x.k, x.v, x.a], x.dy)


def signed(x: Operands) -> Contender:
    a = x.a.detach().clone()
    a[:, ::2] *= -1
    return ours(Operands(x.q, x.k, x.v, a.requires_grad_(), x.dy))


def flash_linear_attention(x: Operands) -> Contender:
    """Takes the gate as a logarithm, made outside the clock."""
    log_gate = x.a.detach().log().requires_grad_()
    leaves = [x.q, x.k, x.v, log_gate]
    if x.a.ndim == 4:
        from fla.ops.gla import chunk_gla

        return Contender(lambda: chunk_gla(x.q, x.k, x.v, g=log_gate, scale=1.0)[0], leaves, x.dy)
    from fla.ops.simple_gla import chunk_simple_gla

    return Contender(lambda: chunk_simple_gla(x.q, x.k, x.v, g=log_gate, scale=1.0)[0], leaves, x.dy)


def mamba_one_group(x: Operands) -> Contender:
    q, k = (y.detach()[:, :, :1].contiguous().requires_grad_() for y in (x.q, x.k))
    return mamba_ssm(replace(x, q=q, k=k))


def mamba_ssm(x: Operands) -> Contender:
    """SSD: its gate is exp(dt A) and its values are dt x. Here A = -1 and dt = -log a, which scales the values: time only."""
    from mamba_ssm.ops.triton.ssd_combined import mamba_chunk_scan_combined

    if x.a.ndim == 4:
        raise ValueError("one gate per head only")
    rate = torch.full((x.a.shape[2],), -1.0, device="cuda")
    dt = (-x.a.detach().log()).bfloat16().requires_grad_()
    leaves = [x.q, x.k, x.v, dt]
    return Contender(lambda: mamba_chunk_scan_combined(x.v, dt, rate, x.k, x.q, chunk_size=256), leaves, x.dy)


def floors(shape: Shape, ceiling: dict[str, float]) -> dict[str, float]:
    rows = shape.batch * shape.time * shape.heads
    inputs = rows * (2 * (2 * shape.key + shape.value) + 4 * (shape.key if shape.channel else 1))
    output = 2 * rows * shape.value
    chunk = CHANNEL_CHUNK if shape.channel else CHUNK
    # a token: with the tokens of its chunk, and with the state
    forward = 2 * rows * (chunk * (shape.key + shape.value) + 2 * shape.key * shape.value)
    backward = 2 * rows * (chunk * (3 * shape.key + 2 * shape.value) + 4 * shape.key * shape.value)
    return memory_floors(inputs, output, ceiling) | arithmetic_floors(forward, backward, ceiling)


def main() -> None:
    parser = argparse.ArgumentParser(description="gated linear attention in Triton against the peers, on a GPU")
    parser.add_argument("--out", type=Path, default=Path("results/gpu_gated_linear.json"))
    parser.add_argument("--rows", default="head,channel,head-small,channel-small", help="groups of shapes, by comma")
    parser.add_argument("--no-peer", action="store_true", help="only our own kernels")
    arguments = parse_arguments(parser)
    contenders = {"ours": ours, "signed": signed}
    if not arguments.no_peer:
        contenders |= {"fla": flash_linear_attention, "mamba": mamba_ssm, "mamba 1": mamba_one_group}
    chosen = shapes_of(parser, arguments.rows, SHAPES)
    fill_table("gpu_gated_linear", arguments.out, chosen, Operands.draw, contenders, floors, ceilings(), subject="signed")


if __name__ == "__main__":
    main()
