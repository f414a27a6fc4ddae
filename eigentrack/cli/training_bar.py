"""The progress bar of a training run: what it says of a step, steps a second, time left."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

from rich.progress import BarColumn, Progress, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from eigentrack.cli.console import err


class _StepsPerSecond(TextColumn):
    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:.1f} steps/s" if task.speed else "")


class TrainingBar:
    """`describe(metrics)` is what it says of a step; the last validation stays in sight."""

    def __init__(self, steps: int, describe: Callable[[dict[str, Any]], str], *, shown: bool = True) -> None:
        columns = BarColumn(), TextColumn("{task.completed}/{task.total}  {task.fields[said]}"), _StepsPerSecond("")
        self._progress = Progress(*columns, TimeRemainingColumn(), console=err, disable=not shown)
        self._bar = self._progress.add_task("", total=steps, said="")
        self._describe = describe
        self._started = False
        self._validation = ""

    def __enter__(self) -> TrainingBar:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._progress.stop()

    def report(self, step: int, metrics: dict[str, Any]) -> None:
        if not self._started:  # a resumed run did not just now take the steps before
            self._progress.reset(self._bar, completed=step - 1)
            self._started = True
        for name, value in metrics.items():
            if name.startswith("validation_"):
                self._validation = f"  validation {value:.3f}"
        self._progress.update(self._bar, completed=step, said=self._describe(metrics) + self._validation)

    def say(self, text: str) -> None:
        self._progress.console.print(text, markup=False, highlight=False)
