"""Atomic writes of files, and locks on folders.

The package writes all text, JSON, tensors and pictures through these functions, so that a crash never leaves a file half
written. Folders that other libraries fill (a tokenizer, a sharded checkpoint) are written under a temporary name
and then renamed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

LOCK_FILE = ".lock"  # never deleted: two processes could hold locks on a deleted file and on its successor


def write_atomically(path: Path, write: Callable[[str], object]) -> None:
    """Let `write` fill a temporary file, then move it to `path`: after a crash, `path` is the old file or the new one."""
    temporary = str(path.with_name(f".{path.name}.{os.getpid()}.tmp"))
    try:
        write(temporary)
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())
        Path(temporary).chmod(0o666 & ~_umask())  # some writers create files that only their owner can read
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    write_atomically(path, lambda temporary: Path(temporary).write_text(text))


def write_json(path: Path, values: Any) -> None:
    write_text(path, json.dumps(values, indent=2) + "\n")


def write_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    """Write one safetensors file; raise an OSError if that fails, as for every other file."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    try:
        write_atomically(path, lambda temporary: save_file(plain, temporary, metadata=metadata))
    except SafetensorError as error:
        raise OSError(f"{path} could not be written ({error})") from None


def clear_unfinished(folder: Path) -> None:
    """Delete the temporary files of processes that were killed while writing; no other process may be writing in the folder."""
    for path in folder.rglob(".*.tmp"):
        path.unlink()


@contextmanager
def only_process_in(folder: Path) -> Iterator[None]:
    """Create the folder and lock it, or raise if another process holds the lock; the system releases it when a process ends."""
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


def _umask() -> int:
    """Return the process's umask, which can only be read by setting it."""
    current = os.umask(0o022)
    os.umask(current)
    return current
