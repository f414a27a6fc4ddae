"""The Triton selective scan on a GPU against its chunked torch form and mamba-ssm's CUDA kernel, in one run.

    python benchmarks/gpu_selective_scan.py [--out results/gpu_selective_scan.json] [--contenders ours,unsigned,chunked,mamba]
    python benchmarks/gpu_selective_scan.py --rows long --contenders ours --out results/gpu_selective_scan_long.json
    python benchmarks/gpu_selective_scan.py --tune      other launch settings, one changed at a time

The columns are those of gpu_table.py, with another floor beside that of memory: one exponential for each (token, channel, state
index), twice with gradients, at 16 a clock and multiprocessor. All have the skip D and the gate z; "unsigned" is our kernel at
[0, 1], which is all that mamba-ssm has.

B batch  T time  D channels  N state size
"""

from __future__ import annotations

import argparse
import math
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from gpu_table import Contender, ceilings, fill_table, line, measure, memory_floors, parse_arguments, shapes_of
from torch import Tensor
from torch.nn import functional as F

from eigentrack.ops import selective_scan
from eigentrack.spectrum import EigenRange

SIGNED, UNSIGNED = EigenRange(-1, 1), EigenRange(0, 1)
EXPONENTIALS_PER_CLOCK = 16  # of one multiprocessor, on Hopper


@dataclass(frozen=True)
class Shape:
    group: str
    batch: int
    time: int
    channels: int
    size: int
    dtype: str

    @property
    def name(self) -> str:
        return f"B{self.batch} T{self.time} D{self.channels} N{self.size} {self.dtype}"


SIZES = [
    ("scan", 8, 2048, 2048, 16),
    ("scan", 8, 2048, 4096, 16),
    ("scan", 1, 65536, 2048, 16),
    ("small", 1024, 40, 256, 16),
]
SHAPES = [
    *(Shape(*sizes, dtype) for dtype in ("bfloat16", "float32") for sizes in SIZES),
    *(Shape("long", 1, time, 512, 16, "bfloat16") for time in (2**16, 2**20)),
]


@dataclass(frozen=True)
class Operands:
    x: Tensor
    dt: Tensor
    b: Tensor
    c: Tensor
    z: Tensor
    log_decay: Tensor
    skip: Tensor
    dy: Tensor

    @staticmethod
    def draw(shape: Shape) -> Operands:
        def normal(width: int) -> Tensor:
            return torch.randn(shape.batch, shape.time, width, device="cuda")

        channels, size, dtype = shape.channels, shape.size, getattr(torch, shape.dtype)
        sequences = [normal(channels), F.softplus(normal(channels) - 2), normal(size), normal(size), normal(channels)]
        leaves = [x.to(dtype).requires_grad_() for x in sequences]
        log_decay = -torch.arange(1.0, size + 1, device="cuda").repeat(channels, 1)
        skip = torch.randn(channels, device="cuda")
        return Operands(*leaves, log_decay.requires_grad_(), skip.requires_grad_(), normal(channels).to(dtype))

    def leaves(self) -> list[Tensor]:
        return [self.x, self.dt, self.b, self.c, self.z, self.log_decay, self.skip]


def ours(eigenvalues: EigenRange, backend: str) -> Callable[[Operands], Contender]:
    def make(x: Operands) -> Contender:
        constants = {"log_decay": x.log_decay, "skip": x.skip, "eigenvalues": eigenvalues, "backend": backend}
        run = partial(selective_scan, x.x, x.dt, x.b, x.c, x.z, **constants)
        return Contender(lambda: run()[0], x.leaves(), x.dy, is_slow=backend == "chunked")

    return make


def mamba(x: Operands) -> Contender:
    """Its layout has time last; made once, outside the clock."""
    from mamba_ssm.ops.selective_scan_interface import selective_scan_fn

    def turned(y: Tensor) -> Tensor:
        return y.detach().mT.contiguous().requires_grad_()

    u, dt, b, c, z = (turned(y) for y in (x.x, x.dt, x.b, x.c, x.z))
    leaves = [u, dt, b, c, z, x.log_decay, x.skip]
    return Contender(lambda: selective_scan_fn(u, dt, x.log_decay, b, c, x.skip, z=z), leaves, x.dy.mT.contiguous())


CONTENDERS = {
    "ours": ours(SIGNED, "triton"),
    "unsigned": ours(UNSIGNED, "triton"),
    "chunked": ours(SIGNED, "chunked"),
    "mamba": mamba,
}


def exponentials_per_s() -> float:
    query = ["nvidia-smi", "--query-gpu=clocks.max.sm", "--format=csv,noheader,nounits", "--id=0"]
    megahertz = float(subprocess.run(query, capture_output=True, text=True, check=True).stdout)
    return EXPONENTIALS_PER_CLOCK * torch.cuda.get_device_properties(0).multi_processor_count * megahertz * 1e6


def floors(shape: Shape, ceiling: dict[str, float]) -> dict[str, float]:
    tokens, itemsize = shape.batch * shape.time, getattr(torch, shape.dtype).itemsize
    inputs = itemsize * tokens * (3 * shape.channels + 2 * shape.size) + 4 * shape.channels * (shape.size + 1)
    exponentials = tokens * shape.channels * shape.size / ceiling["exponentials_per_s"]
    return {
        **memory_floors(inputs, itemsize * tokens * shape.channels, ceiling),
        "forward_exponentials_ms": 1e3 * exponentials,
        "both_exponentials_ms": 2e3 * exponentials,
    }


def tune() -> None:
    """Graph replays of our kernel under other settings than those of `ops/selective_scan/plan.py`."""
    from eigentrack.ops.selective_scan import plan as plans

    changes: dict[str, list[tuple[dict[str, Any], str, Any]]] = {
        "as it is": [],
        "forward U=4": [(plans.LAUNCH["forward"], "U", 4)],
        "stretches of 4": [(plans.LAUNCH["backward"], "STRETCH", 4)],
        "checkpoints near, one window": [(vars(plans), "FAR", plans.NEAR), (vars(plans), "SHARE_OF_SUMS", math.inf)],
        "checkpoints near": [(vars(plans), "FAR", plans.NEAR)],
        "one window": [(vars(plans), "SHARE_OF_SUMS", math.inf)],
        "windows twice as long": [(vars(plans), "SHARE_OF_SUMS", 2 * plans.SHARE_OF_SUMS)],
        "strides of 2": [(plans.LAUNCH["backward"], "STRIDE", 2)],
        "strides of 8": [(plans.LAUNCH["backward"], "STRIDE", 8)],
        "ENTRIES=256": [(vars(plans), "ENTRIES", 256)],
        "backward never cut": [(plans.CUT_BELOW, "backward", 0)],
        "both cut below 528": [(plans.CUT_BELOW, "forward", 528)],
    }
    for shape in SHAPES[:4]:
        x = Operands.draw(shape)
        for name, settings in changes.items():
            before = [(table, key, table[key]) for table, key, _ in settings]
            for table, key, value in settings:
                table[key] = value
            plans._kept.cache_clear()  # a plan holds what was compiled for it
            try:
                found = measure(CONTENDERS["ours"], x)
                print(f"{shape.name:28s} {name:24s} {line(found)}", flush=True)
            except Exception as error:
                print(f"{shape.name:28s} {name:24s} {type(error).__name__}: {error}"[:120], flush=True)
            for table, key, value in before:
                table[key] = value
            plans._kept.cache_clear()


def main() -> None:
    parser = argparse.ArgumentParser(description="the Triton selective scan against chunked torch and mamba-ssm, on a GPU")
    parser.add_argument("--out", type=Path, default=Path("results/gpu_selective_scan.json"))
    parser.add_argument("--rows", default="scan,small", help="groups of shapes, by comma")
    parser.add_argument("--contenders", default=",".join(CONTENDERS), help="by comma")
    parser.add_argument("--tune", action="store_true", help="only our kernel, under other launch settings")
    arguments = parse_arguments(parser)
    if arguments.tune:
        tune()
        return
    names = arguments.contenders.split(",")
    if unknown := set(names) - set(CONTENDERS):
        parser.error(f"no contender {', '.join(sorted(unknown))}; there are {', '.join(CONTENDERS)}")
    chosen, contenders = shapes_of(parser, arguments.rows, SHAPES), {name: CONTENDERS[name] for name in names}
    ceiling = ceilings() | {"exponentials_per_s": exponentials_per_s()}
    fill_table("gpu_selective_scan", arguments.out, chosen, Operands.draw, contenders, floors, ceiling)


if __name__ == "__main__":
    main()
