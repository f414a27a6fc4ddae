"""A model on disk: a folder with config.json and model.safetensors. Writes are atomic, reads fully checked; no pickles.

A folder that transformers saved can be read as well: it holds the same under one name more, and its weights may lie in several
files (shards), which an index names.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from eigentrack.files import write_json, write_tensors
from eigentrack.models.config import ModelConfig
from eigentrack.models.sequence_model import SequenceModel

CONFIG_FILE, WEIGHTS_FILE = "config.json", "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"  # {"weight_map": {tensor: file}}, in place of one file
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
    weights = {name.removeprefix(WRAPPED_WEIGHTS): tensor for name, tensor in read_tensors(folder).items()}
    model = SequenceModel(config)
    _check_weights(folder, weights, stored_weights(model))
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


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """All tensors of a folder, from its one file or from the shards of its index."""
    tensors: dict[str, Tensor] = {}
    for path in _weight_files(folder):
        try:
            tensors |= load_file(path)
        except FileNotFoundError:
            raise FileNotFoundError(
                f"{path} is missing: {folder} is not a saved model (weights are read from safetensors files)"
            ) from None
        except SafetensorError as error:
            raise ValueError(f"{path} is damaged or cut short ({error}): copy or train it again") from None
    return tensors


def _weight_files(folder: Path) -> list[Path]:
    index = folder / INDEX_FILE
    if (folder / WEIGHTS_FILE).exists() or not index.exists():
        return [folder / WEIGHTS_FILE]
    try:
        values = json.loads(index.read_text())
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{index} is not valid JSON ({error})") from None
    places = values.get("weight_map") if isinstance(values, dict) else None
    if not isinstance(places, dict) or not places or not all(isinstance(name, str) for name in places.values()):
        raise ValueError(f"{index} lacks 'weight_map', which names the file of each tensor: copy or convert it again")
    return [folder / name for name in sorted(set(places.values()))]


def stored_weights(model: SequenceModel) -> dict[str, Tensor]:
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
        if tensor.is_floating_point() and bool(found[name].isnan().any()):
            raise ValueError(f"{folder}: {name!r} has entries that are no numbers (NaN): its training diverged, train it again")
