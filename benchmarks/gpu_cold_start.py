"""The very first call of each op on a GPU: seconds of a forward and a backward pass with every kernel still to be compiled.

    python benchmarks/gpu_cold_start.py [--match step] [--out results/gpu_cold_start.json]

Rows of other ops stay in the file. Each op has a process of its own with an empty cache of Triton's, one after another. The
clock starts when torch and the op are imported, the inputs lie on the GPU and one small product has run there; it covers the
import of Triton and of the kernels, compilation, and the two passes. Of a decoding step it covers the step.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gpu_decode
import gpu_gated_linear
import gpu_ops
import gpu_selective_scan
import torch
from gpu_table import Contender, Run, parse_arguments
from record import write_record

from eigentrack.experiments.running.provenance import provenance


def both(contender: Contender) -> Run:
    return lambda: torch.autograd.grad(contender.run(), contender.leaves, contender.dy)


def delta_rule(*sizes: int, gated: bool = False) -> Run:
    return both(gpu_ops.ours(gpu_ops.Operands.draw(gpu_ops.Shape("", *sizes, gated=gated))))


def delta_rule_in_float32(*sizes: int) -> Run:
    x = gpu_ops.Operands.draw(gpu_ops.Shape("", *sizes))
    leaves = [y.detach().float().requires_grad_() for y in (x.q, x.k, x.v, x.beta)]
    return both(gpu_ops.ours(gpu_ops.Operands(*leaves, None, x.dy.float())))


def gated_linear(*sizes: int, channel: bool) -> Run:
    return both(gpu_gated_linear.signed(gpu_gated_linear.Operands.draw(gpu_gated_linear.Shape("", *sizes, channel))))


def selective_scan(*sizes: int, dtype: str = "bfloat16") -> Run:
    operands = gpu_selective_scan.Operands.draw(gpu_selective_scan.Shape("", *sizes, dtype))
    return both(gpu_selective_scan.CONTENDERS["ours"](operands))


def step(make: Callable[[int], gpu_decode.Step], *state: int) -> Run:
    run, start = make(state[0]), torch.randn(state, device="cuda")
    return lambda: run(start)


OPS: dict[str, Callable[[], Run]] = {
    "delta rule B8 T2048 H8 D128": lambda: delta_rule(8, 2048, 8, 128),
    "delta rule B2 T8192 H16 D64": lambda: delta_rule(2, 8192, 16, 64),
    "delta rule B1024 T40 H4 D32": lambda: delta_rule(1024, 40, 4, 32),
    "delta rule B1 T65536 H1 D128, in segments": lambda: delta_rule(1, 65536, 1, 128),
    "delta rule B8 T2048 H8 D64 fp32": lambda: delta_rule_in_float32(8, 2048, 8, 64),
    "delta rule gated B8 T2048 H8 D128": lambda: delta_rule(8, 2048, 8, 128, gated=True),
    "delta product n=4 gated B8 T2048 H8 D128": lambda: delta_rule(8, 2048, 8, 128, 4, gated=True),
    "selective scan B8 T2048 D2048 bf16": lambda: selective_scan(8, 2048, 2048, 16),
    "selective scan B1 T65536 D2048 fp32": lambda: selective_scan(1, 65536, 2048, 16, dtype="float32"),
    "gated linear per head B8 T2048 H32 K128 V64": lambda: gated_linear(8, 2048, 32, 128, 64, channel=False),
    "gated linear per channel B8 T2048 H4 K128 V256": lambda: gated_linear(8, 2048, 4, 128, 256, channel=True),
    "delta rule step B128": lambda: step(gpu_decode.our_delta_rule, 128, gpu_decode.HEADS, gpu_decode.DIM, gpu_decode.DIM),
    "gated linear step B128": lambda: step(gpu_decode.our_gated_linear, 128, gpu_decode.HEADS, gpu_decode.DIM, gpu_decode.DIM),
    "selective scan step B128": lambda: step(gpu_decode.our_scan, 128, gpu_decode.CHANNELS, gpu_decode.SIZE),
}


def seconds_inside(op: str) -> float:
    """In a process that has called nothing yet."""
    run = OPS[op]()
    small = torch.ones(64, 64, device="cuda")
    (small @ small).sum().item()
    start = time.perf_counter()
    run()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def measure(op: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as cache:
        command = [sys.executable, __file__, "--inside", op]
        found = subprocess.run(command, env=os.environ | {"TRITON_CACHE_DIR": cache}, capture_output=True, text=True)
    if found.returncode:
        return {"op": op, "refused": (found.stderr.strip().splitlines() or ["no message"])[-1][:300]}
    return {"op": op, "seconds": float(found.stdout.splitlines()[-1])}


def main() -> None:
    parser = argparse.ArgumentParser(description="the first call of each op, compilation included, on a GPU")
    parser.add_argument("--out", type=Path, default=Path("results/gpu_cold_start.json"))
    parser.add_argument("--match", default="", help="only the ops with this in their names")
    parser.add_argument("--inside", choices=OPS, help=argparse.SUPPRESS)
    arguments = parse_arguments(parser)
    if arguments.inside:
        print(seconds_inside(arguments.inside))
        return
    rows = {row["op"]: row for row in json.loads(arguments.out.read_text())["rows"]} if arguments.out.exists() else {}
    for op in (op for op in OPS if arguments.match in op):
        rows[op] = measure(op) | {"commit": provenance()["commit"]}
        print(f"{op:48s} {rows[op].get('refused') or format(rows[op]['seconds'], '6.1f') + ' s'}", flush=True)
        whole = {**provenance(), "commit": "each row has its own"}
        write_record(arguments.out, "gpu_cold_start", provenance=whole, rows=list(rows.values()))
    print(f"written: {arguments.out}")


if __name__ == "__main__":
    main()
