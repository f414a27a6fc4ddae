"""Checkpoints: one safetensors file each, written atomically; model, optimiser, step and random state.

The schedule and the batches are functions of the step, so nothing else is needed to go on bit by bit.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from eigentrack.models import SequenceModel
from eigentrack.models.storage import stored_weights, write_tensors

KEPT = 2  # the last one, and one to fall back on


def save_checkpoint(folder: Path, model: SequenceModel, optimizer: torch.optim.Optimizer, step: int) -> None:
    """`step` steps are done. Once the new one is in place, of those before it one stays, and none of those after it: they
    could not be used, or the run would be there."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {f"model.{name}": tensor for name, tensor in stored_weights(model).items()}
    for number, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{number}.{name}": value for name, value in state.items()}
    tensors["random"] = torch.get_rng_state()
    newest = folder / f"step-{step:09d}.safetensors"
    write_tensors(newest, tensors, {"step": json.dumps(step)})
    before = [path for path in checkpoints(folder) if path < newest]
    for path in set(checkpoints(folder)) - {newest, *before[1 - KEPT :]}:
        path.unlink()


def load_checkpoint(folder: Path, model: SequenceModel, optimizer: torch.optim.Optimizer) -> tuple[int, list[str]]:
    """Restores the newest checkpoint that can be read: its step (0 without any), and a line on each that could not."""
    troubles = []
    for path in reversed(checkpoints(folder)):
        try:
            step, tensors = _read(path)
            _check(tensors, model, optimizer)
        except (SafetensorError, OSError, KeyError, ValueError, TypeError) as error:
            reason = str(error).split("\n")[0]
            troubles.append(f"{path.name} cannot be used ({reason}); going back to what was before it")
            continue
        _restore(tensors, model, optimizer)
        return step, troubles
    return 0, troubles


def checkpoints(folder: Path) -> list[Path]:
    """Oldest first."""
    return sorted(folder.glob("step-*.safetensors"))


def _read(path: Path) -> tuple[int, dict[str, Tensor]]:
    with safe_open(path, framework="pt") as file:
        return int(json.loads(file.metadata()["step"])), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def _check(tensors: dict[str, Tensor], model: SequenceModel, optimizer: torch.optim.Optimizer) -> None:
    """Everything that `_restore` will use is there and fits: it must not stop half way."""
    expected = {f"model.{name}": value.shape for name, value in stored_weights(model).items()}
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for number, parameter in enumerate(parameters):
        expected |= {f"optimizer.{number}.{name}": parameter.shape for name in ("exp_avg", "exp_avg_sq")}
        expected[f"optimizer.{number}.step"] = torch.Size()
    expected["random"] = torch.get_rng_state().shape
    found = {name: value.shape for name, value in tensors.items()}
    if wrong := sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name)):
        raise ValueError(f"{wrong[0]} does not fit")


def _restore(tensors: dict[str, Tensor], model: SequenceModel, optimizer: torch.optim.Optimizer) -> None:
    weights = {name.removeprefix("model."): value for name, value in tensors.items() if name.startswith("model.")}
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        if name.startswith("optimizer."):
            _, number, entry = name.split(".", 2)
            state.setdefault(int(number), {})[entry] = value
    model.load_state_dict(weights, strict=not model.config.tie_embeddings)
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
    torch.set_rng_state(tensors["random"])
