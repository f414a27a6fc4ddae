"""Checkpoints of a training that many processes share: a folder of safetensors, one or more files per process.

Each process writes its own part, in the background, into a folder with a temporary name, which is renamed when all parts are
written. So a checkpoint is either complete or absent. Any number of processes can read it. Nothing in it is a pickle.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
import warnings
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed import checkpoint
from torch.distributed.checkpoint import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.checkpoint.api import CheckpointException

from eigentrack.files import write_json
from eigentrack.json_text import parse_json
from eigentrack.lm.step import LanguageStep

log = logging.getLogger(__name__)
KEPT = 2  # the last checkpoint, and one to fall back on
UNFINISHED, CHECKSUMS = ".unfinished", "sha256.json"
MOMENTS = ("exp_avg", "exp_avg_sq")


class ShardedCheckpoints:
    """The checkpoints of one run; `say` is called with a line about each that cannot be written or read."""

    def __init__(self, folder: Path, step: LanguageStep, say: Callable[[str], None]) -> None:
        self.folder, self.step, self._say = folder, step, say
        self._pending: tuple[int, Future[Any]] | None = None
        if step.world.leads:
            for path in folder.glob(f"*{UNFINISHED}"):  # left by a run that was killed
                shutil.rmtree(path)
        step.world.wait()
        # torch warns at every checkpoint of a single process
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")

    def save(self, done: int) -> None:
        """Save a checkpoint after `done` steps; return when the tensors are copied, while the files are still being written."""
        self.finish()
        saving = checkpoint.async_save(
            _tensors(self.step),
            storage_writer=_Writer(self._path(done)),
            process_group=self.step.world.checkpoint_group,
            no_dist=self.step.world.ranks == 1,
        )
        assert isinstance(saving, Future)
        self._pending = done, saving

    def _path(self, done: int) -> Path:
        return self.folder / f"step-{done:09d}"

    def finish(self) -> None:
        """Wait for the checkpoint that is being written; report a failure by `say` instead of raising it."""
        if self._pending is None:
            return
        (done, saving), self._pending = self._pending, None
        try:
            saving.result()
            log.debug("checkpoint of step %d: %s", done, self.folder)
        except (CheckpointException, OSError) as error:
            if self.step.world.leads:  # half of it would take the space that the next one needs
                shutil.rmtree(_unfinished(self._path(done)), ignore_errors=True)
            self._say(f"the checkpoint of step {done} could not be written ({_reason(error)}); going on without it")

    def load(self) -> int:
        """Restore the newest checkpoint that can be read; return the number of steps done, 0 if there is no checkpoint."""
        found = complete_checkpoints(self.folder)
        for path in reversed(found):
            if self.step.world.any(self.step.world.leads and _is_damaged(path)):
                self._say(f"{path.name} cannot be used (it is damaged); going back to what was before it")
                continue
            tensors = _tensors(self.step)
            try:
                checkpoint.load(
                    tensors,
                    storage_reader=HuggingFaceStorageReader(str(path)),
                    process_group=self.step.world.checkpoint_group,
                    no_dist=self.step.world.ranks == 1,
                )
            except (CheckpointException, OSError) as error:
                self._say(f"{path.name} cannot be used ({_reason(error)}); going back to what was before it")
                continue
            done = int(path.name.removeprefix("step-"))
            _restore(self.step, tensors, done)
            return done
        if found:
            raise ValueError(f"no checkpoint in {self.folder} can be read: start again in another folder")
        return 0


def complete_checkpoints(folder: Path) -> list[Path]:
    """Return the folders of all complete checkpoints, oldest first."""
    return sorted(path for path in folder.glob("step-*") if path.suffix != UNFINISHED)


class _Writer(HuggingFaceStorageWriter):
    """A writer with a temporary folder, which it renames to `target` when every process is done."""

    def __init__(self, target: Path) -> None:
        super().__init__(str(_unfinished(target)), save_distributed=True)
        self._target = target

    def finish(self, metadata: Any, results: Any) -> None:
        """Rename the folder and remove old checkpoints; one process calls this after all have written."""
        super().finish(metadata, results)
        unfinished = _unfinished(self._target)
        write_json(unfinished / CHECKSUMS, _checksums(unfinished))
        shutil.rmtree(self._target, ignore_errors=True)
        _unfinished(self._target).rename(self._target)
        for old in complete_checkpoints(self._target.parent)[:-KEPT]:
            shutil.rmtree(old)


def _checksums(folder: Path) -> dict[str, str]:
    found = {}
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            found[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def _is_damaged(folder: Path) -> bool:
    """Return whether the files of a checkpoint differ from its list of checksums, which older checkpoints do not have."""
    path = folder / CHECKSUMS
    try:
        return path.exists() and parse_json(path.read_text()) != _checksums(folder)
    except (ValueError, OSError):
        return True


def _unfinished(target: Path) -> Path:
    return target.with_name(target.name + UNFINISHED)


def _tensors(step: LanguageStep) -> dict[str, Tensor]:
    """Return the weights and AdamW's moments by name; moments that do not exist yet are zeros."""
    tensors: dict[str, Tensor] = {}
    for name, weight in step.parameters.items():
        tensors[f"weights.{name}"] = weight.detach()
        state = step.optimizer.state[weight]
        for moment in MOMENTS:
            tensors[f"{moment}.{name}"] = state[moment] if moment in state else torch.zeros_like(weight)
    return tensors


@torch.no_grad()
def _restore(step: LanguageStep, tensors: dict[str, Tensor], done: int) -> None:
    """Set the optimiser's state and the step; the weights themselves were already read in place."""
    for name, weight in step.parameters.items():
        count = torch.tensor(float(done), device=weight.device if weight.is_cuda else "cpu")
        step.optimizer.state[weight] = {"step": count, **{moment: tensors[f"{moment}.{name}"] for moment in MOMENTS}}
    step.at_step(done - 1)  # schedules, too: a finished run takes no further step that would set them
    step.refresh()


def _reason(error: BaseException) -> str:
    failures = list(error.failures.values()) if isinstance(error, CheckpointException) else []
    return str(failures[0][0] if failures else error).split("\n")[0]
