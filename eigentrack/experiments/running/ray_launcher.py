"""The same cells over a Ray cluster (extra `cluster`): the files of a finished cell come back by value, no disk is shared.

A worker keeps a cell in its own temporary folder, the checkpoints of an unfinished one and all of a finished one, until the
files have been written where the sweep was started: if that process dies meanwhile, the next sweep finds them there.
"""

from __future__ import annotations

import getpass
import hashlib
import importlib
import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from eigentrack.experiments.running.cell import RESULT_FILE, Cell, run_cell, stored_result
from eigentrack.experiments.running.ledger import Ledger, in_a_line
from eigentrack.experiments.running.sweep import Work
from eigentrack.files import write_atomically

SECONDS_TO_CLEAR = 10  # the temporary folders of the last cells, before the cluster is left


def run_on_ray(ledger: Ledger, *, jobs: int, device: str, work: Work = run_cell) -> None:
    """Run what waits in the ledger on the cluster of RAY_ADDRESS, or on a new one of this machine alone.

    A cell takes one core; `jobs` of them share each GPU.
    """
    ray = _ray()
    started_here = not ray.is_initialized()
    if started_here:
        ray.init(log_to_driver=False)
    resources = {"num_cpus": 1, "num_gpus": 1 / jobs if device.startswith("cuda") else 0, "max_retries": 0}
    remote = ray.remote(**resources)(_work_remotely)
    running: dict[Any, Cell] = {}
    cleared: list[Any] = []
    try:
        while ledger.waiting or running:
            while (cell := ledger.take()) is not None:
                running[remote.remote(cell, _corner(cell, ledger.folder), device, work)] = cell
            done, _ = ray.wait(list(running))
            for reference in done:
                cell = running.pop(reference)
                try:
                    files, said, node = ray.get(reference)
                except ray.exceptions.RayError as error:
                    cause = getattr(error, "cause", None) or error
                    ledger.died(cell, in_a_line(cause), by_accident=not isinstance(cause, ValueError))
                    continue
                for line in said:
                    ledger.say(f"{cell.name}: {line}")
                ledger.finished(cell, _write(cell, files, ledger.folder / cell.name))
                cleared.append(_on_node(ray, node, _clear).remote(_corner(cell, ledger.folder)))
    finally:
        for reference in running:
            ray.cancel(reference, force=True)
        if cleared:
            ray.wait(cleared, num_returns=len(cleared), timeout=SECONDS_TO_CLEAR)
        if started_here:
            ray.shutdown()


def _corner(cell: Cell, folder: Path) -> str:
    """Return the name of a worker's folder for this cell in this sweep, so that a second try on the same machine goes on."""
    described = f"{folder.resolve()} {json.dumps(cell.to_json(), sort_keys=True)}"
    return hashlib.sha256(described.encode()).hexdigest()[:16]


def _folder(corner: str) -> Path:
    """Return the temporary folder, with a name that no import finds and that other users do not own."""
    return Path(tempfile.gettempdir()) / f"eigentrack-cells-{getpass.getuser()}" / corner


def _work_remotely(cell: Cell, corner: str, device: str, work: Work) -> tuple[dict[str, bytes], list[str], str]:
    """Run the cell; return its files, what was said, and the node on which the files lie."""
    torch.set_num_threads(1)
    said: list[str] = []
    folder = _folder(corner)
    work(cell, folder, device, lambda step: None, said.append)
    files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return files, said, _ray().get_runtime_context().get_node_id()


def _clear(corner: str) -> None:
    """Delete what a finished cell left behind, so that it cannot answer for a later sweep."""
    shutil.rmtree(_folder(corner), ignore_errors=True)


def _on_node(ray: Any, node: str, task: Callable[..., None]) -> Any:
    strategies = importlib.import_module("ray.util.scheduling_strategies")
    return ray.remote(num_cpus=0, scheduling_strategy=strategies.NodeAffinitySchedulingStrategy(node, soft=False))(task)


def _write(cell: Cell, files: dict[str, bytes], folder: Path) -> Any:
    for name in sorted(files, key=lambda name: name == RESULT_FILE):  # the result last: with it the cell is finished
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, lambda temporary, name=name: Path(temporary).write_bytes(files[name]))  # type: ignore[misc]
    result = stored_result(cell, folder)
    assert result is not None
    return result


def _ray() -> Any:
    try:
        return importlib.import_module("ray")
    except ImportError:
        raise ValueError("--launcher ray needs Ray: install it with pip install 'eigentrack[cluster]'") from None
