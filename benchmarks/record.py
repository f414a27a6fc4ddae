"""What the benchmarks share: the JSON file that each of them writes, and the timing of whole training steps on a GPU."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from eigentrack.experiments.running.provenance import provenance
from eigentrack.files import write_json


def write_record(out: Path, benchmark: str, **values: Any) -> None:
    """Write the values with the benchmark's name and, unless they bring their own, the provenance of this process."""
    out.parent.mkdir(parents=True, exist_ok=True)
    write_json(out, {"benchmark": benchmark, "provenance": provenance(), **values})


def median_step_ms(run: Callable[[int], Tensor], *, warm_up: int, rounds: int) -> tuple[float, Tensor]:
    """Return the median of the steps' milliseconds by device events, and what the last step returned."""
    for number in range(warm_up):
        run(number)
    events = [torch.cuda.Event(enable_timing=True) for _ in range(rounds + 1)]
    events[0].record()
    for number, event in enumerate(events[1:], start=warm_up):
        outcome = run(number)
        event.record()
    torch.cuda.synchronize()
    return statistics.median(before.elapsed_time(after) for before, after in pairwise(events)), outcome
