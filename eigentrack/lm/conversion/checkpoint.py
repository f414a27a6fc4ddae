"""Checkpoints of other projects (peers) as configuration and tensors, and the logits that the peer computes from them.

transformers reads and writes its own families, and so takes care of shards, old names and names on the hub. It has no models of
flash-linear-attention, whose package needs a GPU: the files of those checkpoints are read and written directly.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from eigentrack.files import write_json, write_tensors
from eigentrack.lm.conversion.family import Family
from eigentrack.lm.tokenizer import CONFIG_FILE as TOKENIZER_CONFIG_FILE
from eigentrack.lm.tokenizer import TOKENIZER_FILE, load_tokenizer
from eigentrack.models.storage import CONFIG_FILE, WEIGHTS_FILE, read_tensors

TOKENIZER_FILES = ("tokenizer*", "vocab*", "merges.txt", "special_tokens_map.json", "added_tokens.json", "*.model", "*.jinja")
SPECIAL_TOKENS = ("bos_token_id", "eos_token_id", "pad_token_id")


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint of another project."""

    family: Family
    config: Mapping[str, Any]  # the contents of config.json
    tensors: dict[str, Tensor]  # the weights, by the other project's names


def read_json(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG_FILE
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: {folder} is not a model")
    try:
        values = json.loads(path.read_text())
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not valid JSON ({error})") from None
    if not isinstance(values, dict):
        raise ValueError(f"{path} must hold a JSON object")
    return values


def read_checkpoint(folder: Path, family: Family) -> Checkpoint:
    if family.package != "transformers":
        return Checkpoint(family, read_json(folder), read_tensors(folder))
    from transformers import AutoModelForCausalLM

    load: Any = AutoModelForCausalLM.from_pretrained  # its annotation leaves out the loading report
    try:
        peer, report = load(folder, dtype="auto", output_loading_info=True)
    except (
        Exception
    ) as error:  # its own kinds, and those of what it calls: a wrong value in config.json, weights that do not fit
        raise ValueError(f"transformers cannot read {folder}: {' '.join(str(error).split())}") from None
    if missing := sorted(report["missing_keys"]):
        raise ValueError(f"{folder} lacks {missing[0]!r} (and {len(missing) - 1} more)")
    return Checkpoint(family, peer.config.to_dict(), dict(peer.state_dict()))


def write_checkpoint(checkpoint: Checkpoint, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if checkpoint.family.package == "transformers":
        _build_peer(checkpoint).save_pretrained(folder)
        return
    write_tensors(folder / WEIGHTS_FILE, checkpoint.tensors, {"format": "pt"})
    names = {"architectures": [checkpoint.family.architecture], "model_type": checkpoint.family.name}
    write_json(folder / CONFIG_FILE, {**names, **checkpoint.config})


def copy_tokenizer(source: Path, target: Path) -> None:
    for pattern in TOKENIZER_FILES:
        for path in source.glob(pattern):
            shutil.copyfile(path, target / path.name)


def end_token(folder: Path) -> int | None:
    """Return the end token of the fast tokenizer beside the weights; None if there is no such tokenizer or token."""
    is_there = (folder / TOKENIZER_FILE).is_file() and (folder / TOKENIZER_CONFIG_FILE).is_file()
    return load_tokenizer(folder).end if is_there else None


def reason_not_to_run(family: Family) -> str | None:
    """Say why the peer cannot compute logits on this machine; return None if it can."""
    if family.package == "transformers":
        return None
    if not torch.cuda.is_available():
        return f"{family.package} needs a GPU"
    installed = all(importlib.util.find_spec(name) is not None for name in ("fla", "fla.models"))
    return None if installed else f"{family.package} is not installed"


class PeerFailed(RuntimeError):
    """An error: the peer cannot run on this machine, which says nothing about the weights."""


@torch.no_grad()
def peer_logits(checkpoint: Checkpoint, tokens: Tensor) -> Tensor:
    """Return the peer's logits in float32, or raise PeerFailed."""
    device: str = "cpu"
    setting: Callable[[], AbstractContextManager[None]] = _without_kernels
    if checkpoint.family.package != "transformers":
        importlib.import_module("fla.models")  # registers its models with transformers
        device, setting = "cuda", nullcontext
    peer = _build_peer(checkpoint).float().eval().to(device)
    try:
        with setting():
            return peer(tokens.to(device), use_cache=False).logits.float().cpu()
    except Exception as error:  # any kind, from packages and devices that we cannot know
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise PeerFailed(f"{checkpoint.family.package} cannot run it here ({reason})") from error


@contextmanager
def _without_kernels() -> Iterator[None]:
    """Make transformers compute in plain torch, as it does when it exports a model.

    Otherwise it calls mamba-ssm, causal-conv1d and flash-linear-attention if they are installed, and these fail on a CPU.
    """
    from transformers.integrations import hub_kernels

    asked = hub_kernels.is_torchdynamo_exporting
    hub_kernels.is_torchdynamo_exporting = lambda: True
    try:
        yield
    finally:
        hub_kernels.is_torchdynamo_exporting = asked


def _build_peer(checkpoint: Checkpoint) -> Any:
    from transformers import AutoConfig, AutoModelForCausalLM

    values = {name: value for name, value in checkpoint.config.items() if name != "model_type"}
    config = AutoConfig.for_model(checkpoint.family.name, **values)
    peer = AutoModelForCausalLM.from_config(config, dtype=next(iter(checkpoint.tensors.values())).dtype)
    _, unexpected = peer.load_state_dict(checkpoint.tensors, strict=False)
    held = {id(tensor) for tensor in peer.state_dict(keep_vars=True).values()}
    placed = {id(peer.get_parameter(name)) for name in checkpoint.tensors}
    if unexpected or held != placed:  # by identity, as a tied head is the embedding
        raise ValueError(f"{checkpoint.family.name}: the converted weights do not fill the peer's model")
    return peer
