"""The conversion of a checkpoint, ours or another project's, to either format; the logits before and after are compared."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from torch import Tensor

from eigentrack.files import written_together
from eigentrack.lm.conversion.checkpoint import (
    SPECIAL_TOKENS,
    TOKENIZER_FILES,
    Checkpoint,
    PeerFailed,
    copy_tokenizer,
    end_token,
    peer_logits,
    read_checkpoint,
    read_json,
    reason_not_to_run,
    write_checkpoint,
)
from eigentrack.lm.conversion.flash_linear_attention import DELTA_NET, GATED_DELTA_NET, GATED_DELTA_PRODUCT
from eigentrack.lm.conversion.mamba import MAMBA, MAMBA2
from eigentrack.lm.conversion.olmo_hybrid import OLMO_HYBRID
from eigentrack.lm.conversion.weights import in_our_names, in_their_names
from eigentrack.lm.conversion.widen import widen
from eigentrack.lm.language_model import find_model_folder
from eigentrack.lm.optional_packages import require
from eigentrack.models import SequenceModel, load_model
from eigentrack.models.storage import CONFIG_FILE, INDEX_FILE, WEIGHTS_FILE, WRAPPED_CONFIG
from eigentrack.output_folder import Output, claimed
from eigentrack.spectrum import Eigenvalues
from eigentrack.training.run import MODEL, RUN_FILE

# the kinds of foreign checkpoints that can be converted, by the model_type of their config.json
FAMILIES = {family.name: family for family in (MAMBA, MAMBA2, OLMO_HYBRID, DELTA_NET, GATED_DELTA_NET, GATED_DELTA_PRODUCT)}
OURS = "eigentrack"
# the largest difference of logits, as a share of the largest; the small number that some peers add to |k|² makes far less
ALLOWED = 1e-3
SHORT_KEYS = " (they add 1e-6 to |k|², which counts where keys are short, as in a model that was never trained)"
# of a converted model, in our format or in that of transformers
ENTRIES = (
    *(CONFIG_FILE, "generation_config.json", WEIGHTS_FILE, INDEX_FILE, "model-*.safetensors", "eigentrack_model.py"),
    *TOKENIZER_FILES,
)
CHECKED = (2, 64)  # sequences, tokens; flash-linear-attention computes longer sequences in half precision


@dataclass(frozen=True)
class Comparison:
    """A comparison of two models' logits on random tokens."""

    of: str  # the two models, in words
    worst: float | None = None  # the largest difference of two logits; None if skipped
    largest: float | None = None  # the largest modulus of a logit; None if skipped
    skipped: str | None = None  # why the logits were not compared; None if they were


@dataclass(frozen=True)
class Conversion:
    """The outcome of a conversion."""

    source: str  # the model_type before
    target: str  # the model_type after
    parameters: int
    eigenvalues: Eigenvalues  # the eigenvalues of the converted model
    comparisons: tuple[Comparison, ...]


def convert(
    source: str | Path,
    folder: str | Path,
    eigenvalues: Eigenvalues | None = None,
    to: str = OURS,
    *,
    overwrite: bool = False,
) -> Conversion:
    """Convert a checkpoint; nothing is written if the logits disagree.

    Args:
        source: a folder, or a name on the Hugging Face hub.
        folder: where the converted checkpoint is written.
        eigenvalues: the range to which the model is widened; None: it keeps its own.
        to: the format to write, "eigentrack" or a key of FAMILIES.
        overwrite: whether to delete another model in the folder, and to write beside other files in it.
    """
    require("transformers", "reads and writes checkpoints", "lm")
    if to != OURS and to not in FAMILIES:
        raise ValueError(f"--to {to} is not known; there are {OURS}, {', '.join(FAMILIES)}")
    folder, given, source = Path(folder), Path(source), _on_disk(source)
    if folder.resolve() in (given.resolve(), source.resolve()):
        raise ValueError(f"{folder} is the source: choose another folder for what becomes of it")
    home = folder.parent if folder.name == MODEL else folder
    if (home / RUN_FILE).exists():
        raise ValueError(f"--output {folder} belongs to the run in {home}: name another folder")
    wide = None if eigenvalues is None else eigenvalues.to_json()
    settings = {"source": str(source.resolve()), "eigenvalues": wide, "to": to}
    with claimed(folder, Output("converted model", ENTRIES, settings), overwrite=overwrite, flag="--output"):
        return _convert(source, folder, eigenvalues, to)


def _convert(source: Path, folder: Path, eigenvalues: Eigenvalues | None, to: str) -> Conversion:
    values = read_json(source)
    kind = OURS if WRAPPED_CONFIG in values else values.get("model_type", OURS)
    comparisons = []
    if kind == OURS:
        model = load_model(source)
    elif isinstance(kind, str) and kind in FAMILIES:
        checkpoint = read_checkpoint(source, FAMILIES[kind])
        model = _ours(checkpoint)
        comparisons.append(_against_peer(model, checkpoint))
    else:
        raise ValueError(f"{source} holds a {kind!r} model, which has no counterpart; these have: {', '.join(FAMILIES)}")
    if eigenvalues is not None:
        wide = widen(model, eigenvalues)
        comparisons.append(_compare(f"{eigenvalues} and before", _logits(wide), _logits(model)))
        model = wide
    special = {name: values.get(name) for name in SPECIAL_TOKENS}
    if special["eos_token_id"] is None:
        special["eos_token_id"] = end_token(source)
    if to != OURS:
        family = FAMILIES[to]
        checkpoint = Checkpoint(family, {**family.to_theirs(model.config), **special}, in_their_names(family.names, model))
        comparisons.append(_against_peer(model, checkpoint))
    with written_together(folder, last=CONFIG_FILE) as new:
        try:
            if to == OURS:
                from eigentrack.lm.hugging_face import EigentrackForCausalLM

                EigentrackForCausalLM.around(model, **special).save_pretrained(new)
            else:
                write_checkpoint(checkpoint, new)
        except SafetensorError as error:  # such as a full disk, where transformers writes
            raise OSError(str(error)) from None
        copy_tokenizer(source, new)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return Conversion(kind, to, parameters, model.config.eigenvalues, tuple(comparisons))


def _ours(checkpoint: Checkpoint) -> SequenceModel:
    family = checkpoint.family
    model = SequenceModel(family.to_ours(checkpoint.config))
    weights = in_our_names(family.names, checkpoint.tensors, model)
    for name, parameter in model.named_parameters():
        if weights[name].shape != parameter.shape:
            raise ValueError(
                f"{name!r} would have shape {list(weights[name].shape)}, its configuration says {list(parameter.shape)}"
            )
    # assigned and not copied, so that each tensor keeps its precision
    model.load_state_dict(weights, strict=not model.config.tie_embeddings, assign=True)
    if model.config.tie_embeddings:
        model.head.weight = model.embedding.weight
    return model


def _against_peer(model: SequenceModel, checkpoint: Checkpoint) -> Comparison:
    name = f"ours and {checkpoint.family.name}"
    if reason := reason_not_to_run(checkpoint.family):
        return Comparison(name, skipped=reason)
    try:
        theirs = peer_logits(checkpoint, _tokens(model))
    except PeerFailed as error:
        return Comparison(name, skipped=str(error))
    return _compare(name, _logits(model), theirs, SHORT_KEYS if "deltanet" in model.config.mixers else "")


def _compare(of: str, ours: Tensor, theirs: Tensor, hint: str = "") -> Comparison:
    worst, largest = float((ours - theirs).abs().max()), float(theirs.abs().max())
    if not worst <= ALLOWED * largest:  # a NaN counts as a difference
        raise ValueError(
            f"the logits of {of} differ by {worst:.1e}, where the largest is {largest:.1e}: nothing is written{hint}"
        )
    return Comparison(of, worst, largest)


@torch.no_grad()
def _logits(model: SequenceModel) -> Tensor:
    return copy.deepcopy(model).float().eval()(_tokens(model))[0]


def _tokens(model: SequenceModel) -> Tensor:
    return torch.randint(model.config.vocab_size, CHECKED, generator=torch.Generator().manual_seed(0))


def _on_disk(source: str | Path) -> Path:
    if Path(source).is_dir():
        return find_model_folder(Path(source))
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, RepositoryNotFoundError

    try:
        return Path(snapshot_download(str(source), ignore_patterns=["*.bin", "*.pth", "*.gguf"]))
    except (HFValidationError, HfHubHTTPError, LocalEntryNotFoundError, RepositoryNotFoundError, OSError):
        raise ValueError(f"{source} is neither a folder nor a model that the Hugging Face hub gives out") from None
