"""The consoles of commands: results go to `out`, progress and errors to `err`; and the progress bar of a training run."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TimeRemainingColumn
from rich.table import Column
from rich.text import Text

out, err = Console(), Console(stderr=True)
BAR, WORDS = 40, 72  # widths of the bar at most, and of the words beside it at least


class _Words(ProgressColumn):
    """Words that are cut on a narrow terminal: columns that may wrap give way to the others."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.completed:.0f}/{task.total:.0f}  {task.fields['said']}", no_wrap=True, overflow="ellipsis")


class TrainingBar:
    """A progress bar with the time left, steps, loss, the last validation, and what `describe(metrics, steps per second)` says.

    What matters most stands first: on a narrow terminal the end of the line is cut, never the time left.
    """

    def __init__(self, steps: int, describe: Callable[[dict[str, Any], float], str], *, shown: bool = True) -> None:
        bar = BarColumn(max(8, min(BAR, err.width - WORDS)), table_column=Column(no_wrap=True))
        left = TimeRemainingColumn(table_column=Column(no_wrap=True))
        self._progress = Progress(bar, left, _Words(Column()), console=err, disable=not shown)
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
        rest = self._describe(metrics, self._progress.tasks[0].speed or 0.0)
        self._progress.update(self._bar, completed=step, said=f"loss {metrics['loss']:.3f}{self._validation}  {rest}")

    def say(self, text: str) -> None:
        self._progress.console.print(text, markup=False, highlight=False)
