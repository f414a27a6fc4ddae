"""The consoles of commands: results go to `out`; progress, messages and errors to `err`.

On a terminal progress is shown as bars; elsewhere, as in a log file, it is plain lines, one every ten seconds and one at the
end. Messages of the library come through Python's logging; -v shows more of them, and -q only warnings.
"""

from __future__ import annotations

import functools
import inspect
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Column
from rich.text import Text

out, err = Console(), Console(stderr=True)
BAR, WORDS = 40, 72  # widths of the bar at most, and of the words beside it at least
SECONDS_BETWEEN_LINES = 10.0
LIBRARY = logging.getLogger("eigentrack")


class _ToConsole(logging.Handler):
    """A handler that prints the messages of the library, above the bars if there are any."""

    def emit(self, record: logging.LogRecord) -> None:
        err.print(record.getMessage(), markup=False, highlight=False, soft_wrap=True)


@contextmanager
def logged() -> Iterator[None]:
    """Print what the library logs."""
    handler, before = _ToConsole(), LIBRARY.level
    LIBRARY.addHandler(handler)
    LIBRARY.setLevel(logging.INFO)
    try:
        yield
    finally:
        LIBRARY.removeHandler(handler)
        LIBRARY.setLevel(before)


def _is_quiet() -> bool:
    return LIBRARY.level == logging.WARNING


Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Say more, such as where checkpoints are written.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show results, warnings and errors only, no progress.")]


def with_verbosity(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with the options -v and -q."""

    @functools.wraps(command)
    def run(*arguments: Any, verbose: bool, quiet: bool, **options: Any) -> None:
        if verbose and quiet:
            raise ValueError("-v shows more and -q less: give one of them")
        LIBRARY.setLevel(logging.DEBUG if verbose else logging.WARNING if quiet else logging.INFO)
        command(*arguments, **options)

    signature = inspect.signature(command, eval_str=True)
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=annotation)
        for name, annotation in (("verbose", Verbose), ("quiet", Quiet))
    ]
    parameters = [*signature.parameters.values(), *more]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


class Bars:
    """The progress of one or several pieces of work; nothing is shown before the first of them begins."""

    def __init__(self, *columns: ProgressColumn, shown: bool = True) -> None:
        """Prepare the bars.

        Args:
            columns: the columns of rich; by default name, bar, what is said of it, and the time left.
            shown: whether anything is shown at all.
        """
        default = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[said]}"), TimeRemainingColumn()
        self._progress = Progress(*(columns or default), console=err, transient=not columns)
        self._shown, self._numbers = shown and not _is_quiet(), dict[str, TaskID]()
        self._last_line, self._unsaid = time.monotonic(), False

    def __enter__(self) -> Bars:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._progress.live.is_started:
            self._progress.stop()
        if self._unsaid:
            self._print_line(everything=True)

    def show(self, name: str, done: int, total: int | None, said: str = "", *, afresh: bool = False) -> None:
        """Show how far a piece of work is.

        Args:
            name: the name of the piece, which may be empty if there is only one.
            done: how much of it is done.
            total: how much there is to do; None if that is not known.
            said: what else is to be said of it.
            afresh: whether what is done was not done just now, but before, so that the speed is counted from here.
        """
        if not self._shown:
            return
        if name not in self._numbers:
            self._numbers[name] = self._progress.add_task(name, total=total, completed=done, said=said)
        if afresh:
            self._progress.reset(self._numbers[name], total=total, completed=done)
        self._progress.update(self._numbers[name], completed=done, total=total, said=said)
        if err.is_terminal:
            self._progress.start()
            return
        self._unsaid = True
        if time.monotonic() >= self._last_line + SECONDS_BETWEEN_LINES:
            self._print_line()

    def speed(self, name: str) -> float:
        """Return how much of a piece of work is done per second; 0 if that is not known yet."""
        number = self._numbers.get(name)
        return 0.0 if number is None else self._progress.tasks[number].speed or 0.0

    def _print_line(self, everything: bool = False) -> None:
        """Print what is at work in one plain line, or all of it."""
        at_work = [task for task in self._progress.tasks if everything or not task.finished]
        if at_work:
            err.print("; ".join(map(_words, at_work)), markup=False, highlight=False, soft_wrap=True)
        self._last_line, self._unsaid = time.monotonic(), False


def _words(task: Task) -> str:
    """Return the progress of a piece of work in words, such as "perplexity: 3/16"."""
    share = "" if task.total is None else f"{task.completed / task.total:.0%}" if task.total else "100%"
    parts = [part for part in (share, task.fields["said"]) if part]
    return f"{task.description}: {'  '.join(parts)}" if task.description else "  ".join(parts)


@contextmanager
def working(on: str) -> Iterator[None]:
    """Show that a piece of work of unknown length goes on: a spinner on a terminal, elsewhere a line once it takes long."""
    if _is_quiet():
        yield
    elif err.is_terminal:
        with err.status(on):
            yield
    else:
        timer = threading.Timer(SECONDS_BETWEEN_LINES, lambda: err.print(on, markup=False, highlight=False))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


class _Words(ProgressColumn):
    """Words that are cut on a narrow terminal: columns that may wrap give way to the others."""

    def render(self, task: Task) -> Text:
        return Text(task.fields["said"], no_wrap=True, overflow="ellipsis")


class TrainingBar:
    """The progress of a training: time left, steps, loss, last validation, and what `describe(metrics, steps per second)` says.

    What matters most stands first: on a narrow terminal the end of the line is cut, never the time left.
    """

    def __init__(self, steps: int, describe: Callable[[dict[str, Any], float], str], *, shown: bool = True) -> None:
        bar = BarColumn(max(8, min(BAR, err.width - WORDS)), table_column=Column(no_wrap=True))
        left = TimeRemainingColumn(table_column=Column(no_wrap=True))
        self._bars = Bars(bar, left, _Words(Column()), shown=shown)
        self._steps, self._describe = steps, describe
        self._started = False
        self._validation = ""

    def __enter__(self) -> TrainingBar:
        self._bars.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._bars.__exit__(kind, error, trace)

    def report(self, step: int, metrics: dict[str, Any]) -> None:
        if not self._started:  # a resumed run did not just now take the steps before
            self._bars.show("", step - 1, self._steps, afresh=True)
            self._started = True
        for name, value in metrics.items():
            if name.startswith("validation_"):
                self._validation = f"  validation {value:.3f}"
        rest = self._describe(metrics, self._bars.speed(""))
        said = f"{step:.0f}/{self._steps}  loss {metrics['loss']:.3f}{self._validation}  {rest}"
        self._bars.show("", step, self._steps, said)
