"""Saved models: folders with config.json and model.safetensors. Files are written atomically and checked when read; no pickles.

Folders that transformers has saved can be read, too: their configuration is nested under one key, the names of their weights
have a prefix, and the weights may be split into several files (shards), which an index lists.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from eigentrack.files import read_tensors as read_safetensors
from eigentrack.files import write_json, write_tensors, written_together
from eigentrack.json_text import parse_json
from eigentrack.models.config import ModelConfig
from eigentrack.models.sequence_model import SequenceModel

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)  # the types of weights
CONFIG_FILE, WEIGHTS_FILE = "config.json", "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"  # {"weight_map": {tensor: file}}, if there are several files
CONFIG_CHECKSUM = "config_sha256"  # the entry in the metadata of the weights
WRAPPED_CONFIG, WRAPPED_WEIGHTS = "sequence_model", "model."  # key and prefix in folders of transformers


def save_model(model: SequenceModel, folder: str | Path) -> None:
    """Write the configuration and the weights of `model` to `folder`, which is created if it does not exist."""
    with written_together(Path(folder), last=CONFIG_FILE) as new:
        config = model.config.to_json()
        write_tensors(new / WEIGHTS_FILE, stored_weights(model), {"format": "pt", CONFIG_CHECKSUM: _config_checksum(config)})
        write_json(new / CONFIG_FILE, config)


def load_model(folder: str | Path, device: str | torch.device = "cpu") -> SequenceModel:
    """Return the model that is saved in `folder`, in evaluation mode, on `device`, with the precision of each saved tensor."""
    folder = Path(folder)
    config = load_config(folder)
    weights = {name.removeprefix(WRAPPED_WEIGHTS): tensor for name, tensor in read_tensors(folder).items()}
    model = SequenceModel(config)
    _check_weights(folder, weights, stored_weights(model))
    _check_config(folder)
    model.load_state_dict(weights, strict=not config.tie_embeddings, assign=True)  # keeps the precision of each tensor
    if config.tie_embeddings:
        model.head.weight = model.embedding.weight
    return model.eval().to(device)


def _check_config(folder: Path) -> None:
    """Raise if config.json is not the one with which the weights were saved; weights from elsewhere do not say."""
    weights, path = folder / WEIGHTS_FILE, folder / CONFIG_FILE
    if not weights.exists():
        return
    with safe_open(weights, framework="pt") as file:
        noted = (file.metadata() or {}).get(CONFIG_CHECKSUM)
    if noted is not None and noted != _config_checksum(parse_json(path.read_text())):
        raise ValueError(f"{path} was changed after the weights were saved: copy the model again, or load and save it anew")


def _config_checksum(values: Any) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def load_config(folder: str | Path) -> ModelConfig:
    """Return the configuration of the model that is saved in `folder`."""
    path = Path(folder) / CONFIG_FILE
    try:
        values = parse_json(path.read_text())
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is missing: {folder} is not a saved model") from None
    except ValueError as error:  # raised by parse_json, or by the text's encoding
        raise ValueError(f"{path}: {error}") from None
    try:
        return ModelConfig.from_json(values.get(WRAPPED_CONFIG, values) if isinstance(values, dict) else values)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from None


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """Return all tensors of a folder by name, from its one file or from the shards that its index lists."""
    tensors: dict[str, Tensor] = {}
    for path in _weight_files(folder):
        try:
            tensors |= read_safetensors(path)[0]
        except FileNotFoundError:
            raise FileNotFoundError(
                f"{path} is missing: {folder} is not a saved model (weights are read from safetensors files)"
            ) from None
        except ValueError as error:
            raise ValueError(f"{error}: copy or train it again") from None
    return tensors


def _weight_files(folder: Path) -> list[Path]:
    index = folder / INDEX_FILE
    if (folder / WEIGHTS_FILE).exists() or not index.exists():
        return [folder / WEIGHTS_FILE]
    try:
        values = parse_json(index.read_text())
    except ValueError as error:
        raise ValueError(f"{index}: {error}") from None
    places = values.get("weight_map") if isinstance(values, dict) else None
    if not isinstance(places, dict) or not places or not all(isinstance(name, str) for name in places.values()):
        raise ValueError(f"{index} lacks 'weight_map', which names the file of each tensor: copy or convert it again")
    if outside := sorted(name for name in places.values() if Path(name).name != name):
        raise ValueError(f"{index} names {outside[0]!r}, which is not a file beside it: copy or convert it again")
    return [folder / name for name in sorted(set(places.values()))]


def stored_weights(model: SequenceModel) -> dict[str, Tensor]:
    """Return the tensors that are saved for a model: its state, without a head that shares the embedding's weights."""
    weights = model.state_dict()
    if model.config.tie_embeddings:
        del weights["head.weight"]  # it is the embedding
    return weights


def _check_weights(folder: Path, found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    if missing := sorted(set(expected) - set(found)):
        raise ValueError(
            f"{folder} lacks {missing[0]!r} (and {len(missing) - 1} more): it does not belong to this configuration"
        )
    if extra := sorted(set(found) - set(expected)):
        raise ValueError(f"{folder} holds {extra[0]!r} (and {len(extra) - 1} more), which this configuration has no place for")
    for name, tensor in expected.items():
        if found[name].shape != tensor.shape:
            raise ValueError(
                f"{folder}: {name!r} has shape {list(found[name].shape)}, the configuration needs {list(tensor.shape)}"
            )
        if found[name].is_floating_point() != tensor.is_floating_point():
            kind = "floats" if tensor.is_floating_point() else "whole numbers"
            raise ValueError(f"{folder}: {name!r} has dtype {found[name].dtype}, expected {kind}")
        if tensor.is_floating_point() and found[name].dtype not in FLOATS:
            known = ", ".join(str(dtype).removeprefix("torch.") for dtype in FLOATS)
            raise ValueError(f"{folder}: {name!r} has dtype {found[name].dtype}, and models have {known}: convert it")
        if tensor.is_floating_point() and bool(found[name].isnan().any()):
            raise ValueError(f"{folder}: {name!r} has entries that are no numbers (NaN): its training diverged, train it again")
