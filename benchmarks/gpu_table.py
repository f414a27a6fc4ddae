"""A table of contenders on a GPU: each forward alone and with all gradients, as eager calls and as replays of a CUDA graph.

Times are medians by device events. The floors beside them are what must be moved or computed over the rates of a large copy and
a large bfloat16 product, which are measured first. A contender that refuses or fails is written down with its message.
What the very first call costs is measured by gpu_cold_start.py.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor
from triton.runtime import driver
from triton.testing import do_bench

from eigentrack.experiments.running.provenance import provenance
from eigentrack.models.storage import write_json

TIMES = ("forward_ms", "forward_graph_ms", "both_ms", "both_graph_ms")
Run = Callable[[], Any]


@dataclass(frozen=True)
class Contender:
    """`run` returns y, which is differentiated in `leaves` with the gradient `dy`."""

    run: Callable[[], Tensor]
    leaves: Sequence[Tensor]
    dy: Tensor
    is_slow: bool = False  # thousands of launches a call: a few calls will do, and a graph of them says nothing new


class Shape(Protocol):
    """A frozen dataclass of sizes."""

    @property
    def name(self) -> str: ...


class GroupedShape(Shape, Protocol):
    @property
    def group(self) -> str: ...


AnyGroupedShape = TypeVar("AnyGroupedShape", bound=GroupedShape)


def parse_arguments(parser: argparse.ArgumentParser) -> argparse.Namespace:
    parser.add_argument("--tuning-ms", type=int, default=125, help="that a peer's tuner gives each of its configurations")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("no GPU: this benchmark needs one")
    limit_tuning(arguments.tuning_ms)
    return arguments


def limit_tuning(milliseconds: int) -> None:
    """Of Triton's tuners, which the peers use and our own kernels do not: a fifth of it warms up."""
    warmup = milliseconds // 5
    driver.active.get_benchmarker = lambda: partial(do_bench, warmup=warmup, rep=milliseconds - warmup)


def shapes_of(parser: argparse.ArgumentParser, groups: str, shapes: Sequence[AnyGroupedShape]) -> list[AnyGroupedShape]:
    """Those of the groups that are asked for, by comma."""
    known = list(dict.fromkeys(shape.group for shape in shapes))
    if unknown := set(groups.split(",")) - set(known):
        parser.error(f"no rows {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    return [shape for shape in shapes if shape.group in groups.split(",")]


def fill_table(
    benchmark: str,
    out: Path,
    shapes: Iterable[Shape],
    draw: Callable[[Any], Any],
    contenders: Mapping[str, Callable[[Any], Contender]],
    floors: Callable[[Any, dict[str, float]], dict[str, float]],
    ceiling: dict[str, float],
    subject: str = "ours",
) -> None:
    """Rows of `shapes`, each on the operands that `draw` makes of it; written to `out` as soon as they are measured.

    The ratios that are printed say how many times as long as the `subject` the other contenders take.
    """
    print(", ".join(f"{name} {rate / 1e12:.2f}e12" for name, rate in ceiling.items()))
    print(f"{'ms':36s} {'':9s} {'fwd':>8s} {'graph':>8s} {'f+b':>8s} {'graph':>8s} {'MiB':>7s}")
    rows = []
    out.parent.mkdir(parents=True, exist_ok=True)
    for shape in shapes:
        x = draw(shape)
        row: dict[str, Any] = {"shape": shape.name, **asdict(shape), "floors": floors(shape, ceiling)}  # type: ignore[call-overload]
        for name, make in contenders.items():
            try:
                row[name] = measure(make, x)
                shown = line(row[name])
            except Exception as error:  # a peer may fail in any way; the other rows still count
                row[name] = {"refused": f"{type(error).__name__}: {error}"[:300]}
                shown = row[name]["refused"].splitlines()[0]
            print(f"{shape.name:36s} {name:9s} {shown[:90]}", flush=True)
            torch.cuda.empty_cache()
        bounds = ", ".join(f"{name} {value:.3f}" for name, value in row["floors"].items() if name.startswith("both"))
        print(f"{'':36s} floors: {bounds}{ratios(row, contenders, subject)}", flush=True)
        rows.append(row)
        write_json(out, {"benchmark": benchmark, "provenance": provenance(), "ceilings": ceiling, "rows": rows})
    print(f"written: {out}")


def measure(make: Callable[[Any], Contender], x: Any) -> dict[str, float]:
    contender = make(x)

    def forward() -> Tensor:
        with torch.no_grad():
            return contender.run()

    def both() -> tuple[Tensor, ...]:
        return torch.autograd.grad(contender.run(), contender.leaves, contender.dy)

    both()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    both()
    found = {"peak_mib": (torch.cuda.max_memory_allocated() - before) / 2**20}
    rounds = 2 if contender.is_slow else 30
    found |= {"forward_ms": median_ms(forward, rounds), "both_ms": median_ms(both, rounds)}
    if not contender.is_slow:
        found |= {"forward_graph_ms": median_ms(captured(forward)), "both_graph_ms": median_ms(captured(both))}
    return found


def line(found: dict[str, float]) -> str:
    times = " ".join(f"{found[name]:8.3f}" if name in found else f"{'':8s}" for name in TIMES)
    return f"{times} {found['peak_mib']:7.0f}"


def ratios(row: dict[str, Any], contenders: Iterable[str], subject: str) -> str:
    """Of times, forward and backward."""
    ours, found = row.get(subject, {}), []
    for name in contenders:
        shared = [kind for kind in ("both_ms", "both_graph_ms") if name != subject and kind in ours and kind in row[name]]
        if shared:
            found.append(f"{name} " + ", ".join(f"{row[name][kind] / ours[kind]:.2f}" for kind in shared))
    return f" | f+b eager, graph, {subject} = 1: " + "; ".join(found) if found else ""


def captured(run: Run) -> Run:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def median_ms(run: Run, rounds: int = 30) -> float:
    for _ in range(5):
        run()
    events = []
    for _ in range(rounds):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        run()
        end.record()
        events.append((start, end))
    torch.cuda.synchronize()
    return statistics.median(start.elapsed_time(end) for start, end in events)


def ceilings() -> dict[str, float]:
    """Bytes a second of a large copy, read and write counted; operations a second of a large bfloat16 product."""
    source = torch.randn(2**29, device="cuda")
    target = torch.empty_like(source)
    copy_ms = median_ms(lambda: target.copy_(source), rounds=10)
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    product_ms = median_ms(lambda: a @ b, rounds=10)
    return {"bytes_per_s": 2 * source.nbytes / copy_ms * 1e3, "operations_per_s": 2 * 8192**3 / product_ms * 1e3}


def memory_floors(inputs: int, output: int, ceiling: dict[str, float]) -> dict[str, float]:
    """Of bytes: forward reads the inputs and writes the output; backward reads both again and writes the inputs' gradients."""
    return {
        "forward_memory_ms": 1e3 * (inputs + output) / ceiling["bytes_per_s"],
        "both_memory_ms": 1e3 * (3 * inputs + 2 * output) / ceiling["bytes_per_s"],
    }


def arithmetic_floors(forward: int, backward: int, ceiling: dict[str, float]) -> dict[str, float]:
    """Of operations."""
    return {
        "forward_arithmetic_ms": 1e3 * forward / ceiling["operations_per_s"],
        "both_arithmetic_ms": 1e3 * (forward + backward) / ceiling["operations_per_s"],
    }
