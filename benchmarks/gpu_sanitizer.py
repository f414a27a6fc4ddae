"""The Triton kernels on small, awkward shapes under compute-sanitizer: accesses out of bounds, races.

    python benchmarks/gpu_sanitizer.py [--tools memcheck,racecheck] [--match gated_linear]

Forward and backward, and single steps, in float32 and bfloat16: short and long sequences, lengths that no block divides, packed
sequences, sequences in segments, with and without gates; from an initial state (but for one case an op), where outputs and the
last state are differentiated; sLSTM, the short convolution and cross-entropy too. PyTorch's cache of memory is off, so that a
tensor's neighbour is not its own memory. Errors are printed by place, with their number. Exit code 0: clean; 1: errors found;
2: no GPU, no case that matches, or the tool is missing or refuses the device.

B batch  T time  K key dim  V value dim
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from eigentrack.ops import delta_rule, gated_linear, selective_scan, slstm
from eigentrack.spectrum import EigenRange

TOOLS = ("memcheck", "racecheck")
MOST_PLACES = 30  # printed
FOUND = 99  # the code that the sanitizer returns if it found errors
DEVICE = "cuda"
HEADS, FACTORS, CHANNELS, SIZE, WIDTH = 2, 2, 70, 16, 20
BOUNDS = (0, 3, 20, 21, 87)
Bounds = tuple[int, ...] | None
Case = tuple[str, Callable[[], tuple[Tensor, ...]]]  # a name, and a run that gives outputs


def normal(dtype: torch.dtype, *size: int) -> Tensor:
    return torch.randn(size, device=DEVICE).to(dtype).requires_grad_()


def uniform(dtype: torch.dtype, *size: int) -> Tensor:
    return torch.rand(size, device=DEVICE).to(dtype).requires_grad_()


def sequences(batch: int, bounds: Bounds) -> int:
    return batch if bounds is None else len(bounds) - 1


def packed(bounds: Bounds) -> Tensor | None:
    return None if bounds is None else torch.tensor(bounds, device=DEVICE)


def delta_case(
    dtype: torch.dtype, batch: int, time: int, key: int, value: int, gated: bool, bounds: Bounds = None, carried: bool = True
) -> Case:
    rows = (batch, time, HEADS)
    k = F.normalize(torch.randn(*rows, FACTORS, key, device=DEVICE), dim=-1).to(dtype).requires_grad_()
    inputs = (normal(dtype, *rows, key), k, normal(dtype, *rows, FACTORS, value), uniform(dtype, *rows, FACTORS))
    gate, cu_seqlens = uniform(dtype, *rows) if gated else None, packed(bounds)
    state = normal(torch.float32, sequences(batch, bounds), HEADS, key, value) if carried else None
    return (
        f"delta_rule {dtype} B{batch} T{time} K{key} V{value} gated={gated} packed={bounds is not None} carried={carried}",
        lambda: delta_rule(*inputs, gate, initial_state=state, cu_seqlens=cu_seqlens, backend="triton"),
    )


def gated_case(
    dtype: torch.dtype, batch: int, time: int, key: int, value: int, channel: bool, bounds: Bounds = None, carried: bool = True
) -> Case:
    rows, cu_seqlens = (batch, time, HEADS), packed(bounds)
    inputs = (normal(dtype, *rows, key), normal(dtype, *rows, key), normal(dtype, *rows, value))
    a = uniform(dtype, *rows, *([key] if channel else []))
    state = normal(torch.float32, sequences(batch, bounds), HEADS, key, value) if carried else None
    sizes = f"B{batch} T{time} K{key} V{value}"
    return (
        f"gated_linear {dtype} {sizes} per channel={channel} packed={bounds is not None} carried={carried}",
        lambda: gated_linear(*inputs, a, initial_state=state, cu_seqlens=cu_seqlens, backend="triton"),
    )


def scan_case(dtype: torch.dtype, batch: int, time: int, bounds: Bounds = None, carried: bool = True) -> Case:
    x, z = (normal(dtype, batch, time, CHANNELS) for _ in range(2))
    b, c = (normal(dtype, batch, time, SIZE) for _ in range(2))
    dt, cu_seqlens = uniform(dtype, batch, time, CHANNELS), packed(bounds)
    constants = {"log_decay": -torch.rand(CHANNELS, SIZE, device=DEVICE), "skip": torch.rand(CHANNELS, device=DEVICE)}
    constants |= {"eigenvalues": EigenRange(-1, 1), "backend": "triton"}
    state = normal(torch.float32, sequences(batch, bounds), CHANNELS, SIZE) if carried else None
    return (
        f"selective_scan {dtype} B{batch} T{time} packed={bounds is not None} carried={carried}",
        lambda: selective_scan(x, dt, b, c, z, initial_state=state, cu_seqlens=cu_seqlens, **constants),
    )


def slstm_case(dtype: torch.dtype, batch: int, time: int, bounds: Bounds = None) -> Case:
    gates, recurrent = normal(dtype, batch, time, HEADS, 4, WIDTH), normal(dtype, HEADS, 4, WIDTH, WIDTH)
    parts = [draw(torch.float32, sequences(batch, bounds), HEADS, WIDTH) for draw in (normal, uniform, normal, normal)]
    c, n, h, m = parts  # n is not negative
    cu_seqlens = packed(bounds)

    def run() -> tuple[Tensor, ...]:
        state = (c, n, h, m.detach())
        y, last = slstm(gates, recurrent=recurrent, initial_state=state, cu_seqlens=cu_seqlens, backend="triton")
        return y, *last

    return f"slstm {dtype} B{batch} T{time} packed={bounds is not None}", run


def convolution_case(dtype: torch.dtype, batch: int, time: int, bounds: Bounds = None) -> Case:
    from eigentrack.ops.short_convolution.autograd import short_convolution

    sizes = ((batch, time, 48), (sequences(batch, bounds), 3, 48), (48, 4), (48,))
    tensors = [normal(dtype, *size) for size in sizes]
    cu_seqlens = packed(bounds)
    numbers = [None, None]
    if cu_seqlens is not None:
        numbers = [cu_seqlens.int(), torch.repeat_interleave(cu_seqlens.diff()).int()]
    return (
        f"short_convolution {dtype} B{batch} T{time} packed={bounds is not None}",
        lambda: short_convolution(*tensors, *numbers, silu=True, unit=24, scale=0.5)[:1],
    )


def cross_entropy_case(dtype: torch.dtype) -> Case:
    from eigentrack.ops.cross_entropy.kernel import losses_of_rows

    targets = torch.tensor([0, 4999, -100, 7, 8], device=DEVICE)
    return (
        f"cross_entropy {dtype}",
        lambda: (losses_of_rows(normal(dtype, 5, 5000).detach(), targets, -100, slope=True),),
    )


def cases() -> Iterator[Case]:
    """The last ones change how sequences are cut: run each before the next is asked for."""
    for dtype in (torch.float32, torch.bfloat16):
        for gated in (False, True):
            for sizes in ((2, 20, 16, 12), (2, 40, 32, 24)):
                yield delta_case(dtype, *sizes, gated)
                yield gated_case(dtype, *sizes, gated)
            yield gated_case(dtype, 1, 87, 72, 40, gated, BOUNDS)
        for gated in (False, True):
            yield delta_case(dtype, 1, 87, 72, 40, gated, BOUNDS)  # several chunks
            yield delta_case(dtype, 1, 40, 128, 128, gated)  # the widest single chunk
        for rows in ((2, 1), (2, 40), (1, 87, BOUNDS)):
            yield scan_case(dtype, *rows)
        for rows in ((2, 40), (1, 87, BOUNDS)):
            yield convolution_case(dtype, *rows)
        yield cross_entropy_case(dtype)
    yield delta_case(torch.bfloat16, 2, 1, 16, 12, True)
    yield gated_case(torch.bfloat16, 2, 1, 16, 12, True)
    yield delta_case(torch.bfloat16, 2, 40, 32, 24, False, carried=False)
    yield gated_case(torch.bfloat16, 2, 40, 32, 24, True, carried=False)
    yield scan_case(torch.bfloat16, 2, 40, carried=False)
    yield slstm_case(torch.float32, 5, 8)
    yield slstm_case(torch.bfloat16, 1, 87, BOUNDS)
    cut_short_sequences()
    yield delta_case(torch.float32, 1, 87, 16, 12, True)
    yield gated_case(torch.float32, 1, 280, 16, 12, False)
    yield gated_case(torch.float32, 1, 280, 16, 12, True)
    yield scan_case(torch.float32, 1, 87)
    yield scan_case(torch.bfloat16, 3, 1)
    save_memory_of_short_scans()
    for dtype in (torch.float32, torch.bfloat16):
        yield scan_case(dtype, 2, 87)
        yield scan_case(dtype, 1, 87, BOUNDS)
    yield scan_case(torch.bfloat16, 2, 70, carried=False)


def cut_short_sequences() -> None:
    """Segments are for thousands of tokens, which would take hours here, and wide steps for hundreds of sequences."""
    from eigentrack.ops.delta_rule import segments as delta_rule_segments
    from eigentrack.ops.gated_linear import plan as gated_linear_plan
    from eigentrack.ops.selective_scan import plan as selective_scan_plan

    delta_rule_segments.CHUNK = delta_rule_segments.SHORTEST_SEGMENT = 8
    gated_linear_plan.SHORTEST_SEGMENT = 2
    selective_scan_plan.SHORTEST_SEGMENT = 16
    selective_scan_plan.WIDE_STEPS_FROM = 0


def save_memory_of_short_scans() -> None:
    """Far checkpoints, windows of partial sums, and programs of several blocks are for long and large ones, or many."""
    from eigentrack.ops.selective_scan import plan as plans

    plans.NEAR, plans.FAR = 1, 32
    plans.SHORTEST_SEGMENT, plans.SHORTEST_WINDOW = 64, 32
    plans.SHARE_OF_SUMS, plans.SMALLEST_SUMS = 0.01, 1
    plans.NEARLY = 0
    plans._kept.cache_clear()


def run_all(match: str) -> int:
    """How many cases there were."""
    count = 0
    for name, run in cases():
        if match not in name:
            continue
        count += 1
        with torch.no_grad():
            run()  # one token alone has kernels of its own
        differentiable = [x for x in run() if x.requires_grad]
        if differentiable:
            torch.autograd.backward([x.float().sum() for x in differentiable])
        torch.cuda.synchronize()
        print(name, flush=True)
    return count


def main() -> int:
    parser = argparse.ArgumentParser(description="the Triton kernels under compute-sanitizer, on a GPU")
    parser.add_argument("--tools", default=",".join(TOOLS), help="by comma")
    parser.add_argument("--match", default="", help="cases whose name has this text; all by default")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        run_all(arguments.match)
        return 0
    if not torch.cuda.is_available():
        print("no GPU: this check needs one")
        return 2
    sanitizer = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    if sanitizer is None:
        print("compute-sanitizer is not on the PATH: it comes with the CUDA toolkit")
        return 2
    # compiles: under the sanitizer only what is compiled already runs at a bearable speed
    if not run_all(arguments.match):
        print(f"--match {arguments.match}: no case has it in its name")
        return 2
    worst = 0
    for tool in arguments.tools.split(","):
        command = [sanitizer, "--tool", tool, "--error-exitcode", str(FOUND), sys.executable, __file__, "--inside"]
        command += ["--match", arguments.match]
        found = subprocess.run(
            command, env=os.environ | {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}, capture_output=True, text=True
        )
        lines = [line.strip("= ") for line in (found.stdout + found.stderr).splitlines() if line.startswith("=")]
        placed = [line for line in lines[:-1] if " in " in line or "Error" in line]
        places = Counter(re.sub(r"0x[0-9a-f]+|\[\d+ hazards\]", "…", line) for line in placed)
        print(f"{tool}: exit code {found.returncode}", *lines[-1:], sep="\n")
        print(*(f"{count:6d}  {place}" for place, count in places.most_common(MOST_PLACES)), sep="\n")
        if found.returncode not in (0, FOUND):  # not the tool's verdict, but a crash or a refusal
            print(found.stdout[-1500:], found.stderr[-1500:], sep="\n")
        worst = max(worst, {0: 0, FOUND: 1}.get(found.returncode, 2))
    return worst


if __name__ == "__main__":
    sys.exit(main())
