"""The Mamba and Mamba-2 of transformers: eigenvalues in [0, 1], no MLP, and the rows of the projections in our order."""

from __future__ import annotations

import math
from typing import Any

from eigentrack.layers.validation import head_width
from eigentrack.lm.conversion.family import Family, Values, options_of_all_layers, require
from eigentrack.lm.conversion.weights import FILTERS, Names, Piece, WeightNames
from eigentrack.models import ModelConfig
from eigentrack.spectrum import EigenRange

NARROW = EigenRange(0, 1)
BLOCK: Names = {
    "mixer_norm.weight": "norm.weight",
    "mixer.in_proj.weight": "mixer.in_proj.weight",  # rows: x, z; in Mamba-2 z, x, B, C, Δ
    "mixer.convolution.weight": Piece("mixer.conv1d.weight", FILTERS),
    "mixer.convolution.bias": "mixer.conv1d.bias",
    "mixer.log_rate": "mixer.A_log",
    "mixer.skip": "mixer.D",
    "mixer.out_proj.weight": "mixer.out_proj.weight",
}
MAMBA_BLOCK: Names = BLOCK | {
    "mixer.x_proj.weight": "mixer.x_proj.weight",  # rows: Δ, B, C
    "mixer.dt_proj.weight": "mixer.dt_proj.weight",
    "mixer.dt_proj.bias": "mixer.dt_proj.bias",
}
MAMBA2_BLOCK: Names = BLOCK | {"mixer.dt_bias": "mixer.dt_bias", "mixer.norm.weight": "mixer.norm.weight"}


def _names(mixer: str, block: Names) -> WeightNames:
    model: Names = {
        "embedding.weight": "backbone.embeddings.weight",
        "norm.weight": "backbone.norm_f.weight",
        "head.weight": "lm_head.weight",
    }
    return WeightNames(model, "backbone.layers.{}.", {mixer: block})


def _model_to_ours(theirs: Values, mixer: str, options: dict[str, Any]) -> ModelConfig:
    require(theirs["model_type"], theirs, use_bias=False, hidden_act="silu")
    return ModelConfig(
        vocab_size=theirs["vocab_size"],
        d_model=theirs["hidden_size"],
        layers=theirs["num_hidden_layers"],
        mixer=mixer,
        mixer_options={
            "state_size": theirs["state_size"],
            "expand": theirs["expand"],
            "conv": theirs["conv_kernel"],
            "conv_bias": theirs["use_conv_bias"],
            **options,
        },
        eigenvalues=NARROW,
        mlp_width=0,
        norm_eps=theirs["layer_norm_epsilon"],
        tie_embeddings=theirs["tie_word_embeddings"],
    )


def _model_to_theirs(ours: ModelConfig, options: Values) -> dict[str, Any]:
    owner = f"transformers' {ours.mixers[0]}"
    require(owner, options, eigenvalues=NARROW, key_norm=False)
    require(owner, {"mlp_width": ours.mlp_widths[0]}, mlp_width=0)
    if options["conv"] == 0:
        raise ValueError(f"{owner}: conv=0 has no counterpart there, a width of at least 1 has")
    return {
        "vocab_size": ours.vocab_size,
        "hidden_size": ours.d_model,
        "num_hidden_layers": ours.layers,
        "state_size": options["state_size"],
        "expand": options["expand"],
        "conv_kernel": options["conv"],
        "use_conv_bias": options["conv_bias"],
        "layer_norm_epsilon": ours.norm_eps,
        "tie_word_embeddings": ours.tie_embeddings,
    }


def _mamba_to_ours(theirs: Values) -> ModelConfig:
    rank = theirs["time_step_rank"]
    return _model_to_ours(theirs, "mamba", {"dt_rank": None if rank == "auto" else rank})


def _mamba_to_theirs(ours: ModelConfig) -> dict[str, Any]:
    options = options_of_all_layers(ours, "transformers' mamba", "mamba")
    rank = math.ceil(ours.d_model / 16) if options["dt_rank"] is None else options["dt_rank"]
    return {**_model_to_theirs(ours, options), "time_step_rank": rank}


def _mamba2_to_ours(theirs: Values) -> ModelConfig:
    require("mamba2", {"time_step_limit": tuple(theirs["time_step_limit"])}, time_step_limit=(0.0, math.inf))
    if theirs["num_heads"] * theirs["head_dim"] != theirs["expand"] * theirs["hidden_size"]:
        raise ValueError(
            f"mamba2: num_heads*head_dim={theirs['num_heads'] * theirs['head_dim']} differs from "
            f"expand*hidden_size={theirs['expand'] * theirs['hidden_size']}"
        )
    return _model_to_ours(theirs, "mamba2", {"heads": theirs["num_heads"], "groups": theirs["n_groups"]})


def _mamba2_to_theirs(ours: ModelConfig) -> dict[str, Any]:
    owner = "transformers' mamba2"
    options = options_of_all_layers(ours, owner, "mamba2")
    require(owner, options, norm_eps=ours.norm_eps)
    return {
        **_model_to_theirs(ours, options),
        "num_heads": options["heads"],
        "head_dim": head_width(options["expand"] * ours.d_model, options["heads"]),
        "n_groups": options["groups"],
    }


MAMBA = Family("mamba", "MambaForCausalLM", "transformers", _names("mamba", MAMBA_BLOCK), _mamba_to_ours, _mamba_to_theirs)
MAMBA2 = Family(
    "mamba2", "Mamba2ForCausalLM", "transformers", _names("mamba2", MAMBA2_BLOCK), _mamba2_to_ours, _mamba2_to_theirs
)
