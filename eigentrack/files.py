"""Atomic writes of files, and locks on folders.

The package writes all text, JSON, tensors and pictures through these functions, so that neither a crash nor a full disk leaves
a file half written. Folders whose files belong together are filled under a temporary name, and their files then moved.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

LOCK_FILE = ".lock"
CHECKSUM = "sha256"  # the entry in the metadata of a safetensors file
UNFINISHED = re.compile(r"\..+\.\d+\.tmp")  # the temporary name of a file that a process writes


class NotWritten(OSError):
    """The error of a file or a folder that could not be written, such as on a full disk; it says what is there now."""

    def __init__(self, path: Path, error: Exception, was_there: bool) -> None:
        if isinstance(error, shutil.Error):  # the reasons of copytree: a list of (source, target, reason)
            self.reason = str(error.args[0][0][2])
        else:
            self.reason = error.reason if isinstance(error, NotWritten) else getattr(error, "strerror", None) or str(error)
        left = "what was there before is kept" if was_there else "nothing is left of it"
        super().__init__(f"{path} could not be written ({self.reason}); {left}")


def write_atomically(path: Path, write: Callable[[str], object]) -> None:
    """Let `write` fill a temporary file, then move it to `path`: after a crash, `path` is the old file or the new one."""
    temporary = str(_unfinished(path))
    try:
        write(temporary)
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())
        Path(temporary).chmod(0o666 & ~_umask())  # some writers create files that only their owner can read
        os.replace(temporary, path)
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise NotWritten(path, error, path.exists()) from None
        raise


@contextmanager
def written_together(folder: Path, last: str, stale: Sequence[str] = ()) -> Iterator[Path]:
    """Yield a new folder to fill; at the end of the block, what is in it takes its place in `folder`.

    If the block fails, by a full disk for example, `folder` stays as it was. A crash while the entries are moved leaves it
    without `last`, so that nobody takes a mixture of old and new for complete.

    Args:
        folder: the folder to write, which is created if it does not exist.
        last: the name of the entry that makes the folder complete.
        stale: names of entries of an earlier output that do not belong to the new one and are deleted.
    """
    was_there = (folder / last).exists()
    new = _unfinished(folder / "new")
    try:
        new.mkdir(parents=True)
        yield new
        for name in (last, *stale):
            remove(folder / name)
        for path in sorted(new.iterdir(), key=lambda path: (path.name == last, path.name)):
            if path.is_dir():
                remove(folder / path.name)
            os.replace(path, folder / path.name)
    except OSError as error:
        raise NotWritten(folder, error, was_there) from None
    finally:
        shutil.rmtree(new, ignore_errors=True)


def remove(path: Path) -> None:
    """Delete a file, a link or a folder with all that is in it; do nothing if there is none."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    write_atomically(path, lambda temporary: Path(temporary).write_text(text))


def write_json(path: Path, values: Any) -> None:
    write_text(path, json.dumps(values, indent=2) + "\n")


def write_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    """Write one safetensors file with a checksum; raise an OSError if that fails, as for every other file."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    noted = {**metadata, CHECKSUM: _checksum(plain, metadata)}

    def write(temporary: str) -> None:
        save_file(plain, temporary, metadata=noted)
        _sort_metadata(temporary)

    try:
        write_atomically(path, write)
    except SafetensorError as error:
        raise NotWritten(path, error, path.exists()) from None


def _sort_metadata(path: str) -> None:
    """Put the metadata of a safetensors file in order, so that equal tensors give equal bytes: the library shuffles it."""
    with open(path, "r+b") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
        header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
        text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
        if len(text) <= size:  # it is padded with spaces
            file.seek(8)
            file.write(text.ljust(size))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the tensors and the metadata of a safetensors file; raise a ValueError if it is damaged.

    Files of other programs have no checksum, and are read without that check.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            metadata = dict(file.metadata() or {})
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(f"{path} is damaged or cut short ({error})") from None
    noted = metadata.pop(CHECKSUM, None)
    if noted is not None and noted != _checksum(tensors, metadata):
        raise ValueError(f"{path} is damaged (its checksum differs)")
    return tensors, metadata


def _checksum(tensors: dict[str, Tensor], metadata: dict[str, str]) -> str:
    import torch

    found = hashlib.sha256(json.dumps(metadata, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        found.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        found.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


def clear_unfinished(folder: Path) -> None:
    """Delete what processes that were killed while writing have left; no other process may be writing in the folder."""
    for path in list(folder.rglob(".*.tmp")):
        if UNFINISHED.fullmatch(path.name):
            remove(path)


@contextmanager
def only_process_in(folder: Path) -> Iterator[None]:
    """Create the folder and lock it, or raise if another process holds the lock; the system releases it when a process ends.

    A folder that was created here and is empty when an error ends the block is deleted again.
    """
    created = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder) as lock:
        try:
            yield
        except BaseException:
            if created and all(path == lock for path in folder.iterdir()):
                lock.unlink()
                with suppress(OSError):  # another process has written there
                    for path in created:
                        path.rmdir()
            raise


@contextmanager
def _locked(folder: Path) -> Iterator[Path]:
    path = folder / LOCK_FILE
    while True:
        with path.open("a") as file:
            if os.name == "posix":
                import fcntl

                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise ValueError(f"another process is at work in {folder}: wait for it, or name another folder") from None
                except OSError:  # a file system without locks
                    pass
            if not _is_at(path, file.fileno()):
                continue  # whoever held it has deleted it: a lock on a deleted file holds nobody back
            yield path
            return


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _unfinished(path: Path) -> Path:
    """Return the temporary name, beside `path`, under which this process writes it."""
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")


def _umask() -> int:
    """Return the process's umask, which can only be read by setting it."""
    current = os.umask(0o022)
    os.umask(current)
    return current
