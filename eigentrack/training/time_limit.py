"""TimeLimit: the moment at which a training stops with a checkpoint, so that another call goes on from there."""

from __future__ import annotations

import time


class OutOfTime(Exception):
    """The training has stopped early, and its checkpoint is written."""


class TimeLimit:
    """Asked after every step; the first step at or after `until` (seconds since the epoch; None: never) is the last."""

    def __init__(self, until: float | None) -> None:
        self._until = until
        self._last: int | None = None

    def ends_at(self, done: int) -> bool:
        if self._last is None and self._until is not None and time.time() >= self._until:
            self._last = done
        return self._last == done

    def ended_at(self, done: int) -> bool:
        """Decides nothing: on a GPU steps are read some time after they were taken."""
        return self._last == done
