"""One file that carries a sweep from machine to machine: the results of finished cells, and all of those that are under way.

Of finished cells it leaves out models and metrics, unless a study of the networks comes after the sweep; of the others every
checkpoint but the last, as the archive has a checksum of its own.
"""

from __future__ import annotations

import shutil
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from eigentrack.experiments.running.cell import RESULT_FILE, Cell
from eigentrack.experiments.running.ledger import Sweep, SweepOutcome, Unlock
from eigentrack.files import write_atomically
from eigentrack.training.checkpoint import checkpoints
from eigentrack.training.run import CHECKPOINTS, RUN_FILE

PIECE = 1 << 20  # bytes


def carried_in(archive: Path, sweep: Sweep, *, whole: bool) -> Sweep:
    """Return a sweep that writes the archive whenever it ends; with `whole`, the models of finished cells are kept."""

    def sweep_and_pack(
        cells: Sequence[Cell], folder: Path, unlock: Unlock = lambda cell, results, failures: ()
    ) -> SweepOutcome:
        try:
            return sweep(cells, folder, unlock)
        finally:
            pack_cells(folder, archive, whole=whole)

    return sweep_and_pack


def pack_cells(folder: Path, archive: Path, *, whole: bool = False) -> int:
    """Replace the archive by one of all cells below the folder, whoever trained them; return how many there are."""
    cells = list(_cells(folder))

    def write(temporary: str) -> None:
        with tarfile.open(temporary, "w:gz", compresslevel=6) as tar:
            for cell in cells:
                finished, older = cell / RESULT_FILE, set(checkpoints(cell / CHECKPOINTS)[:-1])
                kept = (path for path in cell.rglob("[!.]*") if path.is_file() and path not in older)  # no locks
                for path in [finished] if finished.exists() and not whole else sorted(kept):
                    tar.add(path, path.relative_to(folder).as_posix())

    archive.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(archive, write)
    return len(cells)


def unpack_cells(archive: Path, folder: Path) -> int:
    """Replace cells that are not as far as those in the archive, keep the others, and return how many came in."""
    try:
        with tarfile.open(archive, "r:gz") as tar:
            members = [member for member in tar.getmembers() if member.isfile()]
            _read_to_the_end(tar)
            brought = _by_cell(members)
            wanted = {name: own for name, own in brought.items() if _progress(own) > _progress(_files(folder / name))}
            for name, own in wanted.items():
                for member in own.values():  # all of them, before anything is lost
                    tarfile.data_filter(member, str(folder))
                shutil.rmtree(folder / name, ignore_errors=True)
                tar.extractall(folder, list(own.values()), filter="data")
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise ValueError(f"{archive} is no archive of cells, or is damaged ({error})") from None
    return len(wanted)


def _read_to_the_end(tar: tarfile.TarFile) -> None:
    """Read what tarfile leaves unread, as the checksum comes last."""
    assert tar.fileobj is not None
    while tar.fileobj.read(PIECE):
        pass


def _cells(folder: Path) -> Iterator[Path]:
    """Return the folders of cells, which have the configuration of a run, a result, or both."""
    found = {path.parent for name in (RUN_FILE, RESULT_FILE) for path in folder.rglob(name)}
    return iter(sorted(found))


def _by_cell(members: list[tarfile.TarInfo]) -> dict[str, dict[str, tarfile.TarInfo]]:
    """Return the members of the archive, by the folder of their cell and then by their names in it."""
    paths = {PurePosixPath(member.name): member for member in members}
    cells = sorted({path.parent for path in paths if path.name in (RUN_FILE, RESULT_FILE)})
    return {
        cell.as_posix(): {
            path.relative_to(cell).as_posix(): member for path, member in paths.items() if path.is_relative_to(cell)
        }
        for cell in cells
    }


def _files(cell: Path) -> list[str]:
    return [path.relative_to(cell).as_posix() for path in cell.rglob("*") if path.is_file()]


def _progress(files: Iterable[str]) -> tuple[int, str]:
    """Return how far a cell with these files is: not begun, under way to its last checkpoint, or finished."""
    names = set(files)
    if RESULT_FILE in names:
        return 2, ""
    return int(RUN_FILE in names), max((name for name in names if name.startswith(f"{CHECKPOINTS}/")), default="")
