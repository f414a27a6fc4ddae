"""Delta rule, gated linear and selective scan on small, awkward shapes under NVIDIA's compute-sanitizer: accesses out of
bounds, races.

    python benchmarks/gpu_sanitizer.py [--tools memcheck,racecheck]

Forward and backward, float32 and bfloat16, lengths that no block divides, packed sequences, with and without a gate. PyTorch's
cache of memory is off, so that a tensor's neighbour is not its own memory. Exit code 0: clean; 1: errors found; 2: no GPU, or
the tool is missing or refuses the device.
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
BOUNDS = (0, 3, 20, 21, 87)
# one token, one short piece, several chunks and sequences; the second type compiles all anew, so only the richest of them
ROWS = {torch.float32: ((2, 1, None), (2, 40, None), (1, 87, BOUNDS)), torch.bfloat16: ((1, 87, BOUNDS),)}


def cases() -> Iterator[tuple[str, Callable[[], Tensor]]]:
    for dtype, rows in ROWS.items():

        def normal(*size: int, kind: torch.dtype = dtype) -> Tensor:
            return torch.randn(*size, device="cuda").to(kind).requires_grad_()

        for batch, time, bounds in rows:
            sequences = None if bounds is None else torch.tensor(bounds, device="cuda")
            row = (batch, time)
            gates = torch.rand(*row, 2, device="cuda").to(dtype).requires_grad_()
            q, v = normal(*row, 2, 32), normal(*row, 2, 24)
            for gate in (None, gates):
                k = F.normalize(torch.randn(*row, 2, 2, 32, device="cuda"), dim=-1).to(dtype).requires_grad_()
                values, beta = normal(*row, 2, 2, 24), (2 * torch.rand(*row, 2, 2, device="cuda")).to(dtype).requires_grad_()
                yield (
                    f"delta_rule {dtype} {row} packed={bounds is not None} gated={gate is not None}",
                    lambda q=q, k=k, v=values, b=beta, g=gate, s=sequences: delta_rule(
                        q, k, v, b, g, cu_seqlens=s, backend="triton"
                    )[0],
                )
            for a in (gates, torch.rand(*row, 2, 32, device="cuda").to(dtype).requires_grad_()):
                yield (
                    f"gated_linear {dtype} {row} packed={bounds is not None} gate of {a.ndim} axes",
                    lambda q=q, k=normal(*row, 2, 32), v=v, a=a, s=sequences: gated_linear(
                        q, k, v, a, cu_seqlens=s, backend="triton"
                    )[0],
                )
            x, z, b, c = normal(*row, 70), normal(*row, 70), normal(*row, 16), normal(*row, 16)
            dt = F.softplus(torch.randn(*row, 70, device="cuda")).to(dtype).requires_grad_()
            constants = {"log_decay": -torch.rand(70, 16, device="cuda"), "skip": torch.rand(70, device="cuda")}
            yield (
                f"selective_scan {dtype} {row} packed={bounds is not None}",
                lambda x=x, dt=dt, b=b, c=c, z=z, s=sequences, more=constants: selective_scan(
                    x, dt, b, c, z, **more, eigenvalues=EigenRange(-1, 1), cu_seqlens=s, backend="triton"
                )[0],
            )


def run_all() -> None:
    for name, run in cases():
        run().float().sum().backward()
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
