"""One file that carries a sweep from machine to machine: the results of finished cells, and all of those that are under way.

What it leaves out of finished cells, their models and metrics, no report asks for, but for `mat`, which studies the networks.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from eigentrack.experiments.cell import RESULT_FILE
from eigentrack.models.storage import write_atomically
from eigentrack.training.run import RUN_FILE


def pack_cells(folder: Path, archive: Path) -> int:
    """Of all cells below the folder, whoever trained them. How many are in the archive, which is replaced as a whole."""
    cells = list(_cells(folder))

    def write(temporary: str) -> None:
        with tarfile.open(temporary, "w:gz", compresslevel=6) as tar:
            for cell in cells:
                finished = cell / RESULT_FILE
                files = [finished] if finished.exists() else sorted(path for path in cell.rglob("*") if path.is_file())
                for path in files:
                    tar.add(path, path.relative_to(folder).as_posix())

    archive.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(archive, write)
    return len(cells)


def unpack_cells(archive: Path, folder: Path) -> int:
    """Cells that the folder has already stay as they are, but that a result replaces what is under way. How many came in."""
    try:
        with tarfile.open(archive, "r:gz") as tar:
            members = [member for member in tar.getmembers() if member.isfile()]
            brought = _by_cell(members)
            wanted = [name for name, has_result in brought.items() if _is_wanted(folder / name, has_result)]
            for member in members:
                if str(PurePosixPath(member.name)).startswith(tuple(f"{name}/" for name in wanted)):
                    tar.extract(member, folder, filter="data")
    except (tarfile.TarError, EOFError, OSError) as error:
        raise ValueError(f"{archive} is no archive of cells, or is cut short ({error})") from None
    return len(wanted)


def _cells(folder: Path) -> Iterator[Path]:
    """A cell has the configuration of its run, its result, or both."""
    found = {path.parent for name in (RUN_FILE, RESULT_FILE) for path in folder.rglob(name)}
    return iter(sorted(found))


def _by_cell(members: list[tarfile.TarInfo]) -> dict[str, bool]:
    """The folders of the cells, and whether each is finished."""
    cells: dict[str, bool] = {}
    for member in members:
        path = PurePosixPath(member.name)
        if path.name in (RUN_FILE, RESULT_FILE):
            name = path.parent.as_posix()
            cells[name] = cells.get(name, False) or path.name == RESULT_FILE
    return cells


def _is_wanted(cell: Path, has_result: bool) -> bool:
    return not cell.exists() or (has_result and not (cell / RESULT_FILE).exists())
