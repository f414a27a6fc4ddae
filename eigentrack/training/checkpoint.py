"""Checkpoints: safetensors files, written atomically, with the step and the state of model, optimiser and random numbers.

With a curriculum, its stage is there, too. The learning rate and the batches are functions of step and stage, so that this is
enough to resume a run bit by bit.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch.optim import Optimizer

from eigentrack.files import read_tensors, write_tensors
from eigentrack.models import SequenceModel
from eigentrack.models.storage import stored_weights
from eigentrack.training.letter_schedule import LetterSchedule

log = logging.getLogger(__name__)
KEPT = 2  # the number of checkpoints that are kept: the last one, and one in case it cannot be read


class FileCheckpoints:
    """The checkpoints of a run in one process; `say` is called with a message if one cannot be written or read."""

    def __init__(
        self,
        folder: Path,
        model: SequenceModel,
        optimizer: Optimizer,
        letters: LetterSchedule | None,
        say: Callable[[str], None],
    ) -> None:
        self.folder, self.model, self.optimizer, self.letters, self._say = folder, model, optimizer, letters, say

    def save(self, done: int) -> None:
        """Write the checkpoint after `done` steps, then delete all others except the one before it.

        Checkpoints of later steps are deleted, too: if they could be read, the run would have resumed from them.
        """
        try:
            self._write(done)
            log.debug("checkpoint of step %d: %s", done, self.folder)
        except OSError as error:  # such as a full disk; the previous checkpoint is still there
            self._say(f"the checkpoint of step {done} could not be written ({error}); going on without it")

    def finish(self) -> None:
        """Do nothing: `save` has written everything when it returns."""

    def load(self) -> int:
        """Restore the newest checkpoint that can be read and return its number of steps, or 0 if there is none."""
        for path in reversed(checkpoints(self.folder)):
            try:
                step, tensors = _read(path)
                _check(tensors, self.model, self.optimizer, self.letters)
            except (OSError, KeyError, ValueError, TypeError) as error:
                reason = str(error).split("\n")[0]
                self._say(f"{path.name} cannot be used ({reason}); going back to what was before it")
                continue
            _restore(tensors, self.model, self.optimizer)
            if self.letters is not None:
                self.letters.restore(tensors)
            return step
        return 0

    def _write(self, done: int) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        tensors = {f"model.{name}": tensor for name, tensor in stored_weights(self.model).items()}
        for number, state in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{number}.{name}": value for name, value in state.items()}
        if self.letters is not None:
            tensors |= self.letters.tensors()
        tensors["random"] = torch.get_rng_state()
        newest = self.folder / f"step-{done:09d}.safetensors"
        write_tensors(newest, tensors, {"step": json.dumps(done)})
        before = [path for path in checkpoints(self.folder) if path < newest]
        for path in set(checkpoints(self.folder)) - {newest, *before[1 - KEPT :]}:
            path.unlink()


def checkpoints(folder: Path) -> list[Path]:
    """Return the files of all checkpoints, oldest first."""
    return sorted(folder.glob("step-*.safetensors"))


def _read(path: Path) -> tuple[int, dict[str, Tensor]]:
    tensors, metadata = read_tensors(path)
    return int(json.loads(metadata["step"])), tensors


def _check(tensors: dict[str, Tensor], model: SequenceModel, optimizer: Optimizer, letters: LetterSchedule | None) -> None:
    """Raise unless all tensors to restore are there and have the right shapes, so that restoring cannot fail half way."""
    expected = {f"model.{name}": value.shape for name, value in stored_weights(model).items()}
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for number, parameter in enumerate(parameters):
        expected |= {f"optimizer.{number}.{name}": parameter.shape for name in ("exp_avg", "exp_avg_sq")}
        expected[f"optimizer.{number}.step"] = torch.Size()
    if letters is not None:
        expected |= {name: tensor.shape for name, tensor in letters.tensors().items()}
    expected["random"] = torch.get_rng_state().shape
    found = {name: value.shape for name, value in tensors.items()}
    if wrong := sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name)):
        raise ValueError(f"{wrong[0]} does not fit")


def _restore(tensors: dict[str, Tensor], model: SequenceModel, optimizer: Optimizer) -> None:
    weights = {name.removeprefix("model."): value for name, value in tensors.items() if name.startswith("model.")}
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        if name.startswith("optimizer."):
            _, number, entry = name.split(".", 2)
            state.setdefault(int(number), {})[entry] = value
    model.load_state_dict(weights, strict=not model.config.tie_embeddings)
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
    torch.set_rng_state(tensors["random"])
