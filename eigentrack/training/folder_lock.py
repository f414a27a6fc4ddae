"""One process at a time in a folder: a lock that the system lets go of when its process ends, however it ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK_FILE = ".lock"  # stays: removed, it could be locked twice


@contextmanager
def only_process_in(folder: Path) -> Iterator[None]:
    """Makes the folder, and refuses to share it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK_FILE).open("w") as file:
        if os.name == "posix":
            import fcntl

            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ValueError(f"another process is at work in {folder}: wait for it, or name another folder") from None
            except OSError:  # a file system without locks
                pass
        yield
