"""metrics.jsonl: one line of JSON for each step, written as the run goes, cut back to the checkpoint when it resumes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from eigentrack.models.storage import write_atomically

Metrics = dict[str, Any]


class MetricsLog:
    """`history` holds the metrics of the steps that were done before."""

    def __init__(self, path: Path, done: int, say: Callable[[str], None]) -> None:
        self.history = _metrics_up_to(path, done)
        self._file, self._say = path.open("a"), say

    def append(self, metrics: Metrics) -> None:
        try:
            self._file.write(json.dumps(metrics) + "\n")
            self._file.flush()
        except OSError as error:
            self._say(f"the metrics of step {metrics['step']} could not be written ({error}); going on without them")

    def close(self) -> None:
        self._file.close()


def _metrics_up_to(path: Path, step: int) -> list[Metrics]:
    """What was written after the checkpoint is cut off, and written again."""
    lines = path.read_text(errors="replace").splitlines() if path.exists() else []
    # by step, not by place: a full disk may have lost a line, or a part of one
    history = [metrics for line in lines if (metrics := _parsed(line)) is not None and metrics["step"] <= step]
    text = "".join(json.dumps(metrics) + "\n" for metrics in history)
    write_atomically(path, lambda temporary: Path(temporary).write_text(text))
    return history


def _parsed(line: str) -> Metrics | None:
    """None for what is no line of metrics."""
    try:
        values = json.loads(line)
    except ValueError:
        return None
    return values if isinstance(values, dict) and isinstance(values.get("step"), int) else None
