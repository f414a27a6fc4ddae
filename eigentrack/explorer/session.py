"""Session: what one open page owns: a folder, a compiled network, a training, and the processes at work for it.

It ends with the page, and all of that with it; no session sees another's.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eigentrack.explorer.worker import Worker

if TYPE_CHECKING:
    from eigentrack.compiler import Compiled
    from eigentrack.explorer.twin_training import TwinTraining

NETWORK = "network"


@dataclass
class Session:
    """`network` is the last one compiled, and lies in the folder of that name."""

    home: tempfile.TemporaryDirectory[str] = field(default_factory=lambda: tempfile.TemporaryDirectory(prefix="eigentrack-"))
    network: Compiled | None = None
    training: TwinTraining | None = None
    workers: list[Worker] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        return Path(self.home.name)

    async def work(
        self, task: Callable[..., Any], *arguments: Any, seconds: float, hear: Callable[[Any], None] | None = None
    ) -> Any:
        """The result of a function in a process that ends with the session."""
        worker = Worker(task, *arguments, seconds=seconds)
        self.workers.append(worker)
        try:
            return await worker.answer(hear)
        finally:
            worker.kill()
            self.workers.remove(worker)

    def close(self) -> None:
        for worker in self.workers:
            worker.kill()
        if self.training is not None:
            self.training.close()
        self.home.cleanup()


class Sessions:
    """All open pages, by the name that the web server gives them."""

    def __init__(self) -> None:
        self._open: dict[str, Session] = {}

    def of(self, name: str) -> Session:
        if name not in self._open:
            self._open[name] = Session()
        return self._open[name]

    def close(self, name: str) -> None:
        if (session := self._open.pop(name, None)) is not None:
            session.close()

    def close_all(self) -> None:
        for name in list(self._open):
            self.close(name)
