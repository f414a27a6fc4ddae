"""The progress bar of `lm prepare`: how much is read, tokens so far, tokens a second, time left."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from eigentrack.cli.console import err

if TYPE_CHECKING:
    from eigentrack.lm.prepare import Progress as Prepared


class PreparationBar:
    def __init__(self) -> None:
        columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[said]}")
        self._progress = Progress(*columns, TimeRemainingColumn(), console=err, transient=True)
        self._bar = self._progress.add_task("", total=None, said="")
        self._stage = ""
        self._began, self._tokens_before = 0.0, 0

    def __enter__(self) -> PreparationBar:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._progress.stop()

    def report(self, progress: Prepared) -> None:
        if progress.stage != self._stage:  # what a killed run had encoded was not done just now
            self._stage, self._began, self._tokens_before = progress.stage, time.monotonic(), progress.tokens
            self._progress.reset(self._bar, description=self._stage, total=progress.total_bytes, completed=progress.bytes_read)
        seconds = time.monotonic() - self._began
        said = f"{progress.bytes_read / 1e6:.0f} MB"
        if progress.tokens and seconds:
            said += f"  {progress.tokens / 1e6:.1f}M tokens  {(progress.tokens - self._tokens_before) / seconds:,.0f} tokens/s"
        self._progress.update(self._bar, completed=progress.bytes_read, said=said)
