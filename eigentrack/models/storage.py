"""A model on disk: a folder with config.json and model.safetensors. Writes are atomic, reads fully checked; no pickles.

A folder that transformers saved can be read as well: it holds the same under one name more.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from eigentrack.models.config import ModelConfig
from eigentrack.models.sequence_model import SequenceModel

CONFIG_FILE, WEIGHTS_FILE = "config.json", "model.safetensors"
WRAPPED_CONFIG, WRAPPED_WEIGHTS = "sequence_model", "model."  # where transformers' folders have the configuration and weights


def save_model(model: SequenceModel, folder: str | Path) -> None:
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    # weights first: a folder with a configuration is complete
    write_tensors(folder / WEIGHTS_FILE, stored_weights(model), {"format": "pt"})
    write_json(folder / CONFIG_FILE, model.config.to_json())


def load_model(folder: str | Path, device: str | torch.device = "cpu") -> SequenceModel:
    folder = Path(folder)
    config = load_config(folder)
    try:
        weights = {name.removeprefix(WRAPPED_WEIGHTS): tensor for name, tensor in load_file(folder / WEIGHTS_FILE).items()}
    except FileNotFoundError:
        raise FileNotFoundError(f"{folder / WEIGHTS_FILE} is missing: {folder} is not a saved model") from None
    except SafetensorError as error:
        raise ValueError(f"{folder / WEIGHTS_FILE} is damaged or cut short ({error}): copy or train it again") from None
    model = SequenceModel(config)
    _check_weights(folder / WEIGHTS_FILE, weights, stored_weights(model))
    model.load_state_dict(weights, strict=not config.tie_embeddings, assign=True)  # with the precision of each tensor
    if config.tie_embeddings:
        model.head.weight = model.embedding.weight
    return model.to(device)


def load_config(folder: str | Path) -> ModelConfig:
    path = Path(folder) / CONFIG_FILE
    try:
        values = json.loads(path.read_text())
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is missing: {folder} is not a saved model") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not valid JSON ({error})") from None
    try:
        return ModelConfig.from_json(values.get(WRAPPED_CONFIG, values) if isinstance(values, dict) else values)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from None


def write_atomically(path: Path, write: Callable[[str], object]) -> None:
    """`write` fills a file beside `path`, which then takes its place: a crash leaves the old file or the new one."""
    temporary = str(path.with_name(f".{path.name}.{os.getpid()}.tmp"))
    try:
        write(temporary)
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())
        Path(temporary).chmod(0o666 & ~_umask())  # some writers make their files private
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_json(path: Path, values: Any) -> None:
    text = json.dumps(values, indent=2) + "\n"
    write_atomically(path, lambda temporary: Path(temporary).write_text(text))


def _umask() -> int:
    """It can only be read by setting it."""
    current = os.umask(0o022)
    os.umask(current)
    return current


def write_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    """One safetensors file, atomically; a full disk is an OSError, as for every other file."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    try:
        write_atomically(path, lambda temporary: save_file(plain, temporary, metadata=metadata))
    except SafetensorError as error:
        raise OSError(f"{path} could not be written ({error})") from None


def stored_weights(model: SequenceModel) -> dict[str, Tensor]:
    weights = model.state_dict()
    if model.config.tie_embeddings:
        del weights["head.weight"]  # it is the embedding
    return weights


def _check_weights(path: Path, found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    if missing := sorted(set(expected) - set(found)):
        raise ValueError(f"{path} lacks {missing[0]!r} (and {len(missing) - 1} more): it does not belong to this configuration")
    if extra := sorted(set(found) - set(expected)):
        raise ValueError(f"{path} holds {extra[0]!r} (and {len(extra) - 1} more), which this configuration has no place for")
    for name, tensor in expected.items():
        if found[name].shape != tensor.shape:
            raise ValueError(
                f"{path}: {name!r} has shape {list(found[name].shape)}, the configuration needs {list(tensor.shape)}"
            )
        if not found[name].is_floating_point():
            raise ValueError(f"{path}: {name!r} has dtype {found[name].dtype}, expected floats")
