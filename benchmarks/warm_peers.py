"""Compiles the peers' kernels on all cores, before a benchmark on a GPU times them.

    python benchmarks/warm_peers.py [--jobs 8] gpu_ops.py [its options]

flash-linear-attention's and mamba-ssm's tuners compile dozens of configurations of every kernel one after another, minutes for
a table. Here several processes run the benchmark's peers once, each with a share of the configurations; nothing is timed, and
no choice is kept. Triton's cache then has the kernels, and the benchmark itself tunes from it, alone on the GPU.
"""

from __future__ import annotations

import argparse
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gpu_table
import torch
from triton.compiler.errors import CompileTimeAssertionFailure
from triton.runtime.autotuner import Autotuner
from triton.runtime.errors import OutOfResources, PTXASError

FOLDER = Path(__file__).parent
NEVER = [float("inf")] * 3
OURS = ("ours", "signed", "unsigned", "chunked")  # contenders that nobody tunes


def compile_share(share: int, shares: int) -> None:
    """From now on a tuner compiles every `shares`-th configuration, from `share` on, and takes the first of them."""

    def compile_only(self: Any, *args: Any, config: Any, **meta: Any) -> list[float]:
        place = next((i for i, other in enumerate(self.configs) if other is config), 0)  # pruning may make new ones
        if place % shares != share % len(self.configs):
            return NEVER
        try:
            self.fn.run(*args, **{**meta, **config.all_kwargs(), "warmup": True})
        except (OutOfResources, CompileTimeAssertionFailure, PTXASError):  # as the tuner itself: such are not chosen
            return NEVER
        return [float(place)] * 3

    def keep_nothing(self: Any, key: Any, configs: Any, bench: Callable[[], None]) -> bool:
        bench()
        return False

    Autotuner._bench, Autotuner.check_disk_cache = compile_only, keep_nothing


def run_once(make: Callable[[Any], gpu_table.Contender], x: Any) -> dict[str, float]:
    """A peer that refuses or fails is named: the table, which goes nowhere, would keep it to itself."""
    try:
        contender = make(x)
        torch.autograd.grad(contender.run(), contender.leaves, contender.dy)
        torch.cuda.synchronize()
    except Exception as error:
        print(f"{make.__name__}: {type(error).__name__}: {str(error)[:200]}", file=sys.stderr)
    return {"peak_mib": 0.0}


def run_peers(script: str, options: list[str]) -> None:
    kept = gpu_table.fill_table

    def fill_table(*args: Any, **more: Any) -> None:
        name, out, shapes, draw, contenders, *rest = args
        peers = {who: make for who, make in contenders.items() if who not in OURS}
        kept(name, out, shapes, draw, peers, *rest, **more)

    gpu_table.fill_table, gpu_table.measure, gpu_table.write_record = fill_table, run_once, lambda *_, **__: None
    gpu_table.ceilings = lambda: {"bytes_per_s": 1.0, "operations_per_s": 1.0}
    sys.argv = [script, *options]
    runpy.run_path(str(FOLDER / script), run_name="__main__")


def main() -> None:
    parser = argparse.ArgumentParser(description="compile the peers' kernels on all cores")
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--share", type=int, help=argparse.SUPPRESS)
    parser.add_argument("script", help="of those beside this one: gpu_ops.py or gpu_gated_linear.py")
    parser.add_argument("options", nargs=argparse.REMAINDER, help="of that script")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("no GPU: kernels are compiled for the one they run on")
    if arguments.share is not None:
        compile_share(arguments.share, arguments.jobs)
        run_peers(arguments.script, arguments.options)
        return
    command = [sys.executable, __file__, "--jobs", str(arguments.jobs)]
    started = [
        subprocess.Popen([*command, "--share", str(share), arguments.script, *arguments.options], stdout=subprocess.DEVNULL)
        for share in range(arguments.jobs)
    ]
    codes = {process.wait() for process in started}
    raise SystemExit(codes != {0})


if __name__ == "__main__":
    main()
