"""The Triton kernels of the linear ops on small, awkward shapes under compute-sanitizer: accesses out of bounds, races.

    python benchmarks/gpu_sanitizer.py [--tools memcheck,racecheck]

Forward and backward, and single steps, in float32 and bfloat16: short and long sequences, lengths that no block divides, packed
sequences, sequences in segments, with and without gates; the short convolution and cross-entropy too. PyTorch's cache of memory
is off, so that a tensor's neighbour is not its own memory. Exit code 0: clean; 1: errors found; 2: no GPU, or the tool is
missing or refuses the device.

B batch  T time  K key dim  V value dim
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from eigentrack.recurrence import delta_rule, gated_linear, selective_scan
from eigentrack.spectrum import EigenRange

TOOLS = ("memcheck", "racecheck")
FOUND = 99  # the code that the sanitizer returns if it found errors
DEVICE = "cuda"
HEADS, FACTORS, CHANNELS, SIZE = 2, 2, 70, 16
BOUNDS = (0, 3, 20, 21, 87)
Bounds = tuple[int, ...] | None
Case = tuple[str, Callable[[], Tensor]]


def normal(dtype: torch.dtype, *size: int) -> Tensor:
    return torch.randn(size, device=DEVICE).to(dtype).requires_grad_()


def uniform(dtype: torch.dtype, *size: int) -> Tensor:
    return torch.rand(size, device=DEVICE).to(dtype).requires_grad_()


def packed(bounds: Bounds) -> Tensor | None:
    return None if bounds is None else torch.tensor(bounds, device=DEVICE)


def delta_case(dtype: torch.dtype, batch: int, time: int, key: int, value: int, gated: bool, bounds: Bounds = None) -> Case:
    rows = (batch, time, HEADS)
    k = F.normalize(torch.randn(*rows, FACTORS, key, device=DEVICE), dim=-1).to(dtype).requires_grad_()
    inputs = (normal(dtype, *rows, key), k, normal(dtype, *rows, FACTORS, value), uniform(dtype, *rows, FACTORS))
    gate, cu_seqlens = uniform(dtype, *rows) if gated else None, packed(bounds)
    return (
        f"delta_rule {dtype} B{batch} T{time} K{key} V{value} gated={gated} packed={bounds is not None}",
        lambda: delta_rule(*inputs, gate, cu_seqlens=cu_seqlens, backend="triton")[0],
    )


def gated_case(dtype: torch.dtype, batch: int, time: int, key: int, value: int, channel: bool, bounds: Bounds = None) -> Case:
    rows, cu_seqlens = (batch, time, HEADS), packed(bounds)
    inputs = (normal(dtype, *rows, key), normal(dtype, *rows, key), normal(dtype, *rows, value))
    a = uniform(dtype, *rows, *([key] if channel else []))
    return (
        f"gated_linear {dtype} B{batch} T{time} K{key} V{value} per channel={channel} packed={bounds is not None}",
        lambda: gated_linear(*inputs, a, cu_seqlens=cu_seqlens, backend="triton")[0],
    )


def scan_case(dtype: torch.dtype, batch: int, time: int, bounds: Bounds = None) -> Case:
    x, z = (normal(dtype, batch, time, CHANNELS) for _ in range(2))
    b, c = (normal(dtype, batch, time, SIZE) for _ in range(2))
    dt, cu_seqlens = uniform(dtype, batch, time, CHANNELS), packed(bounds)
    constants = {"log_decay": -torch.rand(CHANNELS, SIZE, device=DEVICE), "skip": torch.rand(CHANNELS, device=DEVICE)}
    constants |= {"eigenvalues": EigenRange(-1, 1), "backend": "triton"}
    return (
        f"selective_scan {dtype} B{batch} T{time} packed={bounds is not None}",
        lambda: selective_scan(x, dt, b, c, z, cu_seqlens=cu_seqlens, **constants)[0],
    )


def convolution_case(dtype: torch.dtype, batch: int, time: int, bounds: Bounds = None) -> Case:
    from eigentrack.recurrence.triton.short_convolution import short_convolution

    sequences = batch if bounds is None else len(bounds) - 1
    tensors = [normal(dtype, *size) for size in ((batch, time, 48), (sequences, 3, 48), (48, 4), (48,))]
    cu_seqlens = packed(bounds)
    numbers = [None, None]
    if cu_seqlens is not None:
        numbers = [cu_seqlens.int(), torch.repeat_interleave(cu_seqlens.diff()).int()]
    return (
        f"short_convolution {dtype} B{batch} T{time} packed={bounds is not None}",
        lambda: short_convolution(*tensors, *numbers, silu=True, unit=24, scale=0.5)[0],
    )


def cross_entropy_case(dtype: torch.dtype) -> Case:
    from eigentrack.kernels.cross_entropy import losses_of_rows

    targets = torch.tensor([0, 4999, -100, 7, 8], device=DEVICE)
    return (
        f"cross_entropy {dtype}",
        lambda: losses_of_rows(normal(dtype, 5, 5000).detach(), targets, -100, slope=True),
    )


def cases() -> Iterator[Case]:
    """The last ones change how sequences are cut: run each before the next is asked for."""
    for dtype in (torch.float32, torch.bfloat16):
        for gated in (False, True):
            for sizes in ((2, 1, 16, 12), (2, 20, 16, 12), (2, 40, 32, 24), (1, 87, 72, 40, BOUNDS)):
                yield delta_case(dtype, *sizes[:4], gated, *sizes[4:])
                yield gated_case(dtype, *sizes[:4], gated, *sizes[4:])
        for rows in ((2, 1), (2, 40), (1, 87, BOUNDS)):
            yield scan_case(dtype, *rows)
            yield convolution_case(dtype, *rows)
        yield cross_entropy_case(dtype)
    cut_short_sequences()
    for gated in (False, True):
        yield delta_case(torch.float32, 1, 87, 16, 12, gated)
        yield gated_case(torch.float32, 1, 280, 16, 12, gated)
    yield scan_case(torch.float32, 1, 87)


def cut_short_sequences() -> None:
    """Segments are for thousands of tokens, which would take hours here."""
    from eigentrack.kernels import gated_linear_plan, selective_scan_plan
    from eigentrack.recurrence.triton import delta_rule_segments

    delta_rule_segments.CHUNK = delta_rule_segments.SHORTEST_SEGMENT = 8
    gated_linear_plan.SHORTEST_SEGMENT = 2
    selective_scan_plan.SHORTEST_SEGMENT = 16


def run_all() -> None:
    for name, run in cases():
        with torch.no_grad():
            run()  # one token alone has kernels of its own
        y = run()
        if y.requires_grad:
            y.float().sum().backward()
        torch.cuda.synchronize()
        print(name, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="the Triton kernels under compute-sanitizer, on a GPU")
    parser.add_argument("--tools", default=",".join(TOOLS), help="by comma")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        run_all()
        return 0
    if not torch.cuda.is_available():
        print("no GPU: this check needs one")
        return 2
    sanitizer = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    if sanitizer is None:
        print("compute-sanitizer is not on the PATH: it comes with the CUDA toolkit")
        return 2
    run_all()  # compiles: under the sanitizer only what is compiled already runs at a bearable speed
    worst = 0
    for tool in arguments.tools.split(","):
        command = [sanitizer, "--tool", tool, "--error-exitcode", str(FOUND), sys.executable, __file__, "--inside"]
        found = subprocess.run(
            command, env=os.environ | {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}, capture_output=True, text=True
        )
        lines = [line for line in (found.stdout + found.stderr).splitlines() if line.startswith("=")]
        print(f"{tool}: exit code {found.returncode}", *lines[-12:], sep="\n")
        worst = max(worst, {0: 0, FOUND: 1}.get(found.returncode, 2))
    return worst


if __name__ == "__main__":
    sys.exit(main())
