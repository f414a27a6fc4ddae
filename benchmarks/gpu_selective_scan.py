"""The Triton selective scan on a GPU against its chunked torch form and mamba-ssm's CUDA kernel, in one run.

    python benchmarks/gpu_selective_scan.py [--out results/gpu_selective_scan.json] [--contenders ours,unsigned,chunked,mamba]
    python benchmarks/gpu_selective_scan.py --tune      other launch settings, one changed at a time

Every row gives medians by device events, as eager calls and as replays of a CUDA graph, forward alone and with all gradients,
and two floors: bytes that must be moved over the bandwidth of a large copy, and one exponential for each (token, channel,
state index), twice with gradients, at 16 a clock and multiprocessor. All have the skip D and the gate z; "unsigned" is our
kernel at [0, 1], which is all that mamba-ssm has. A contender that refuses or fails is written down with its message.

B batch  T time  D channels  N state size
"""

from __future__ import annotations

import argparse
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from gpu_ops import captured, ceilings, median_ms
from torch import Tensor
from torch.nn import functional as F

from eigentrack.experiments.provenance import provenance
from eigentrack.models.storage import write_json
from eigentrack.recurrence import selective_scan
from eigentrack.spectrum import EigenRange

SIGNED, UNSIGNED = EigenRange(-1, 1), EigenRange(0, 1)
EXPONENTIALS_PER_CLOCK = 16  # of one multiprocessor, on Hopper
Run = Callable[[], Tensor]


@dataclass(frozen=True)
class Shape:
    batch: int
    time: int
    channels: int
    size: int
    dtype: torch.dtype

    @property
    def name(self) -> str:
        kind = "bf16" if self.dtype == torch.bfloat16 else "fp32"
        return f"B{self.batch} T{self.time} D{self.channels} N{self.size} {kind}"


SIZES = [(8, 2048, 2048, 16), (8, 2048, 4096, 16), (1, 65536, 2048, 16), (1024, 40, 256, 16)]
SHAPES = [Shape(*sizes, dtype) for dtype in (torch.bfloat16, torch.float32) for sizes in SIZES]


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

        channels, size = shape.channels, shape.size
        sequences = [normal(channels), F.softplus(normal(channels) - 2), normal(size), normal(size), normal(channels)]
        leaves = [x.to(shape.dtype).requires_grad_() for x in sequences]
        log_decay = -torch.arange(1.0, size + 1, device="cuda").repeat(channels, 1)
        skip = torch.randn(channels, device="cuda")
        return Operands(*leaves, log_decay.requires_grad_(), skip.requires_grad_(), normal(channels).to(shape.dtype))

    def leaves(self) -> list[Tensor]:
        return [self.x, self.dt, self.b, self.c, self.z, self.log_decay, self.skip]


def ours(eigenvalues: EigenRange, backend: str) -> Callable[[Operands], tuple[Run, list[Tensor], Tensor]]:
    def make(x: Operands) -> tuple[Run, list[Tensor], Tensor]:
        constants = {"log_decay": x.log_decay, "skip": x.skip, "eigenvalues": eigenvalues, "backend": backend}
        return lambda: selective_scan(x.x, x.dt, x.b, x.c, x.z, **constants)[0], x.leaves(), x.dy

    return make


def mamba(x: Operands) -> tuple[Run, list[Tensor], Tensor]:
    """Its layout has time last; made once, outside the clock."""
    from mamba_ssm.ops.selective_scan_interface import selective_scan_fn

    def turned(y: Tensor) -> Tensor:
        return y.detach().mT.contiguous().requires_grad_()

    u, dt, b, c, z = (turned(y) for y in (x.x, x.dt, x.b, x.c, x.z))
    leaves = [u, dt, b, c, z, x.log_decay, x.skip]
    return lambda: selective_scan_fn(u, dt, x.log_decay, b, c, x.skip, z=z), leaves, x.dy.mT.contiguous()


CONTENDERS = {
    "ours": ours(SIGNED, "triton"),
    "unsigned": ours(UNSIGNED, "triton"),
    "chunked": ours(SIGNED, "chunked"),
    "mamba": mamba,
}


def measure(make: Callable[[Operands], tuple[Run, list[Tensor], Tensor]], x: Operands, slow: bool) -> dict[str, float]:
    torch.cuda.synchronize()
    start = time.perf_counter()
    run, leaves, dy = make(x)

    def forward() -> Tensor:
        with torch.no_grad():
            return run()

    def both() -> tuple[Tensor, ...]:
        return torch.autograd.grad(run(), leaves, dy)

    both()
    torch.cuda.synchronize()
    cold = time.perf_counter() - start
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    both()
    found = {"cold_s": cold, "peak_mib": (torch.cuda.max_memory_allocated() - before) / 2**20}
    rounds = 2 if slow else 30
    found |= {"forward_ms": median_ms(forward, rounds), "both_ms": median_ms(both, rounds)}
    if not slow:  # thousands of launches a call: a graph of them says nothing new
        found |= {"forward_graph_ms": median_ms(captured(forward)), "both_graph_ms": median_ms(captured(both))}
    return found


def exponentials_per_s() -> float:
    query = ["nvidia-smi", "--query-gpu=clocks.max.sm", "--format=csv,noheader,nounits", "--id=0"]
    megahertz = float(subprocess.run(query, capture_output=True, text=True, check=True).stdout)
    return EXPONENTIALS_PER_CLOCK * torch.cuda.get_device_properties(0).multi_processor_count * megahertz * 1e6


def floors(shape: Shape, x: Operands, ceiling: dict[str, float]) -> dict[str, float]:
    inputs, output = sum(y.nbytes for y in x.leaves()), x.dy.nbytes
    exponentials = shape.batch * shape.time * shape.channels * shape.size
    rate = ceiling["exponentials_per_s"]
    return {
        "forward_memory_ms": 1e3 * (inputs + output) / ceiling["bytes_per_s"],
        "both_memory_ms": 1e3 * (3 * inputs + 2 * output) / ceiling["bytes_per_s"],
        "forward_exponentials_ms": 1e3 * exponentials / rate,
        "both_exponentials_ms": 2e3 * exponentials / rate,
    }


def tune() -> None:
    """Graph replays of our kernel under other settings than those of `kernels/selective_scan_plan.py`."""
    from eigentrack.kernels import selective_scan_plan as plans

    changes: dict[str, list[tuple[dict[str, Any], str, Any]]] = {
        "as it is": [],
        "forward U=4": [(plans.LAUNCH["forward"], "U", 4)],
        "backward U=2": [(plans.LAUNCH["backward"], "U", 2)],
        "CHUNK=8": [(vars(plans), "CHUNK", 8)],
        "backward U=2, CHUNK=8": [(plans.LAUNCH["backward"], "U", 2), (vars(plans), "CHUNK", 8)],
        "CHUNK=32": [(vars(plans), "CHUNK", 32)],
        "ENTRIES=256": [(vars(plans), "ENTRIES", 256)],
        "backward never cut": [(plans.CUT_BELOW, "backward", 0)],
        "both cut below 528": [(plans.CUT_BELOW, "forward", 528)],
    }
    for shape in (SHAPES[0], SHAPES[2], SHAPES[3]):
        x = Operands.draw(shape)
        for name, settings in changes.items():
            before = [(table, key, table[key]) for table, key, _ in settings]
            for table, key, value in settings:
                table[key] = value
            try:
                found = measure(CONTENDERS["ours"], x, slow=False)
                print(f"{shape.name:28s} {name:24s} {line(found)}", flush=True)
            except Exception as error:
                print(f"{shape.name:28s} {name:24s} {type(error).__name__}: {error}"[:120], flush=True)
            for table, key, value in before:
                table[key] = value


def main() -> None:
    parser = argparse.ArgumentParser(description="the Triton selective scan against chunked torch and mamba-ssm, on a GPU")
    parser.add_argument("--out", type=Path, default=Path("results/gpu_selective_scan.json"))
    parser.add_argument("--contenders", default=",".join(CONTENDERS), help="by comma")
    parser.add_argument("--tune", action="store_true", help="only our kernel, under other launch settings")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("no GPU: this benchmark needs one")
    if arguments.tune:
        tune()
        return
    names = arguments.contenders.split(",")
    if unknown := set(names) - set(CONTENDERS):
        parser.error(f"no contender {', '.join(sorted(unknown))}; there are {', '.join(CONTENDERS)}")
    ceiling = ceilings() | {"exponentials_per_s": exponentials_per_s()}
    print(f"copy {ceiling['bytes_per_s'] / 1e12:.2f} TB/s, {ceiling['exponentials_per_s'] / 1e12:.2f}e12 exponentials/s; ms")
    print(f"{'shape':28s} {'':9s} {'fwd':>8s} {'graph':>8s} {'f+b':>8s} {'graph':>8s} {'MiB':>7s} {'cold s':>7s}")
    rows = []
    for shape in SHAPES:
        x = Operands.draw(shape)
        row: dict[str, Any] = {"shape": shape.name, **asdict(shape), "dtype": str(shape.dtype)}
        row["floors"] = floors(shape, x, ceiling)
        for name in names:
            try:
                row[name] = measure(CONTENDERS[name], x, slow=name == "chunked")
                print(f"{shape.name:28s} {name:9s} {line(row[name])}", flush=True)
            except Exception as error:
                row[name] = {"refused": f"{type(error).__name__}: {error}"[:300]}
                print(f"{shape.name:28s} {name:9s} {row[name]['refused'][:90]}", flush=True)
        bound = row["floors"]
        memory, exponentials = bound["both_memory_ms"], bound["both_exponentials_ms"]
        print(f"{'':28s} floor: memory {memory:.3f}, exponentials {exponentials:.3f}{ratios(row)}", flush=True)
        rows.append(row)
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        written = {"benchmark": "gpu_selective_scan", "provenance": provenance(), "ceilings": ceiling, "rows": rows}
        write_json(arguments.out, written)
    print(f"written: {arguments.out}")


def line(found: dict[str, float]) -> str:
    names = ("forward_ms", "forward_graph_ms", "both_ms", "both_graph_ms")
    times = " ".join(f"{found[name]:8.3f}" if name in found else f"{'':8s}" for name in names)
    return f"{times} {found['peak_mib']:7.0f} {found['cold_s']:7.1f}"


def ratios(row: dict[str, Any]) -> str:
    """How many times as long the others take, forward and backward, eager."""
    others = [name for name in CONTENDERS if name != "ours" and "both_ms" in row.get(name, {})]
    if "both_ms" not in row.get("ours", {}) or not others:
        return ""
    return " | f+b, ours = 1: " + ", ".join(f"{name} {row[name]['both_ms'] / row['ours']['both_ms']:.2f}" for name in others)


if __name__ == "__main__":
    main()
