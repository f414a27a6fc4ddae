"""flash-linear-attention's DeltaNet, GatedDeltaNet and GatedDeltaProduct, all of which are our DeltaNet.

They convolve q, k and v separately, we together; they order the rows of a token's factors (n, H, D), we (H, n, D). They may let
several value heads share one key head, of which we then store one copy per value head.

H heads  n Householder factors per token  D width of a head
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from torch import Tensor

from eigentrack.layers import DeltaNet, Mixer
from eigentrack.lm.conversion.family import BOTH_RANGES, Family, Values, negative_switch, options_of_all_layers, require
from eigentrack.lm.conversion.weights import FILTERS, Layout, Names, Piece, Stack, WeightNames
from eigentrack.models import ModelConfig
from eigentrack.spectrum import EigenRange

PACKAGE = "flash-linear-attention"
# the entries of their config.json that are read, by type; they are checked here, as transformers checks only its own families
ALWAYS_GIVEN = ("vocab_size", "hidden_size", "num_hidden_layers", "num_heads")
WHOLE = (*ALWAYS_GIVEN, "num_v_heads", "head_dim", "num_householder", "intermediate_size", "conv_size")
REAL = ("hidden_ratio", "expand_k", "expand_v", "norm_eps")
SWITCHES = ("use_short_conv", "use_gate", "use_forget_gate", "use_output_gate", "allow_neg_eigval", "tie_word_embeddings")


def _key_heads_for_all(tensor: Tensor, mixer: Mixer) -> Tensor:
    assert isinstance(mixer, DeltaNet)
    heads = tensor.shape[0] // (mixer.householders * mixer.key_dim)
    by_head = tensor.unflatten(0, (mixer.householders, heads, mixer.key_dim))
    return by_head.repeat_interleave(mixer.heads // heads, dim=1).flatten(0, 2)


def _factors_last(tensor: Tensor, mixer: Mixer) -> Tensor:
    assert isinstance(mixer, DeltaNet)
    return tensor.unflatten(0, (mixer.householders, mixer.heads, -1)).transpose(0, 1).flatten(0, 2)


def _factors_first(tensor: Tensor, mixer: Mixer) -> Tensor:
    assert isinstance(mixer, DeltaNet)
    return tensor.unflatten(0, (mixer.heads, mixer.householders, -1)).transpose(0, 1).flatten(0, 2)


def _query_heads_for_all(tensor: Tensor, mixer: Mixer) -> Tensor:
    assert isinstance(mixer, DeltaNet)
    heads = tensor.shape[0] // mixer.key_dim
    return tensor.unflatten(0, (heads, mixer.key_dim)).repeat_interleave(mixer.heads // heads, dim=0).flatten(0, 1)


def _rows(mixer: Mixer) -> list[int]:
    assert isinstance(mixer, DeltaNet)
    return [projection.out_features for projection in (mixer.q_proj, mixer.k_proj, mixer.v_proj)]


FACTORS = Layout(_factors_last, _factors_first)
QUERIES = Layout(_query_heads_for_all, lambda tensor, mixer: tensor)
KEYS = Layout(_key_heads_for_all, lambda tensor, mixer: tensor).then(FACTORS)
BLOCK: Names = {
    "mixer_norm.weight": "attn_norm.weight",
    "mlp_norm.weight": "mlp_norm.weight",
    **{f"mlp.{name}.weight": f"mlp.{name}.weight" for name in ("gate_proj", "up_proj", "down_proj")},
    "mixer.q_proj.weight": Piece("attn.q_proj.weight", QUERIES),
    "mixer.k_proj.weight": Piece("attn.k_proj.weight", KEYS),
    "mixer.v_proj.weight": Piece("attn.v_proj.weight", FACTORS),
    "mixer.convolution.weight": Stack(
        (
            Piece("attn.q_conv1d.weight", FILTERS.then(QUERIES)),
            Piece("attn.k_conv1d.weight", FILTERS.then(KEYS)),
            Piece("attn.v_conv1d.weight", FILTERS.then(FACTORS)),
        ),
        _rows,
    ),
    "mixer.beta_proj.weight": Piece("attn.b_proj.weight", FACTORS),
    "mixer.gate_proj.weight": "attn.a_proj.weight",
    "mixer.gate_log_rate": "attn.A_log",
    "mixer.gate_bias": "attn.dt_bias",
    "mixer.output_gate_proj.weight": "attn.g_proj.weight",
    "mixer.norm.weight": "attn.o_norm.weight",
    "mixer.out_proj.weight": "attn.o_proj.weight",
}
NAMES = WeightNames(
    {"embedding.weight": "model.embeddings.weight", "norm.weight": "model.norm.weight", "head.weight": "lm_head.weight"},
    "model.layers.{}.",
    {"deltanet": BLOCK},
)


def _checked(theirs: Values, *given: str) -> Values:
    """Return their values without nulls, which count as left out; raise if a value is missing or of the wrong type."""
    owner, values = theirs["model_type"], {name: value for name, value in theirs.items() if value is not None}
    for name in (*ALWAYS_GIVEN, *given):
        if name not in values:
            raise ValueError(f"{owner}: its config.json lacks {name!r}")
    for names, kind, wanted in (
        (WHOLE, int, "a whole number above 0"),
        (REAL, int | float, "a number above 0"),
        (SWITCHES, bool, "true or false"),
    ):
        for name in values.keys() & names:
            value = values[name]
            if not isinstance(value, kind) or (kind is not bool and (isinstance(value, bool) or not 0 < value < math.inf)):
                raise ValueError(f"{owner}: {name}={value!r} in its config.json must be {wanted}")
    return values


def _model_to_ours(theirs: Values, options: dict[str, Any]) -> ModelConfig:
    owner = theirs["model_type"]
    require(owner, theirs, attn=None, hidden_act="swish", attnres_block_size=None, conv_bias=False)
    width = theirs.get("intermediate_size")
    if width is None:  # the rule by which their code chooses the width
        ratio = theirs.get("hidden_ratio") or 4
        width = 256 * -(-int(theirs["hidden_size"] * ratio * 2 / 3) // 256)
    return ModelConfig(
        vocab_size=theirs["vocab_size"],
        d_model=theirs["hidden_size"],
        layers=theirs["num_hidden_layers"],
        mixer="deltanet",
        mixer_options={"conv": theirs.get("conv_size", 4) if theirs.get("use_short_conv", True) else 0, **options},
        eigenvalues=BOTH_RANGES[theirs.get("allow_neg_eigval", False)],
        mlp_width=width,
        norm_eps=theirs.get("norm_eps", 1e-6),
        tie_embeddings=theirs.get("tie_word_embeddings", False),
    )


def _model_to_theirs(owner: str, ours: ModelConfig, **expected: object) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return their values for the model, and the options of our layers, from which the caller makes the other values."""
    options = options_of_all_layers(ours, owner, "deltanet")
    require(owner, options, norm_eps=ours.norm_eps, **expected)
    if not ours.mlp_widths[0]:
        raise ValueError(f"{owner}: mlp_width=0 has no counterpart there, an MLP has")
    width = ours.d_model // options["heads"]
    options |= {name: options[name] or width for name in ("key_dim", "value_dim")}
    values = {
        "vocab_size": ours.vocab_size,
        "hidden_size": ours.d_model,
        "num_hidden_layers": ours.layers,
        "num_heads": options["heads"],
        "intermediate_size": ours.mlp_widths[0],
        "use_short_conv": options["conv"] > 0,
        "conv_size": options["conv"] or 4,
        "allow_neg_eigval": negative_switch(owner, options["eigenvalues"]),
        "norm_eps": ours.norm_eps,
        "tie_word_embeddings": ours.tie_embeddings,
    }
    return values, options


def _delta_net_to_ours(theirs: Values) -> ModelConfig:
    theirs = _checked(theirs)
    require("delta_net", theirs, use_beta=True, qk_norm="l2", qk_activation="silu")
    heads, width = theirs["num_heads"], theirs["hidden_size"]
    options = {
        "heads": heads,
        "key_dim": round(width * theirs.get("expand_k", 1.0)) // heads,
        "value_dim": round(width * theirs.get("expand_v", 1.0)) // heads,
        "output_gate": theirs.get("use_gate", False),
    }
    return _model_to_ours(theirs, options)


def _delta_net_to_theirs(ours: ModelConfig) -> dict[str, Any]:
    values, options = _model_to_theirs(f"{PACKAGE}'s delta_net", ours, gate=None, householders=1)
    return values | {
        "expand_k": options["heads"] * options["key_dim"] / ours.d_model,
        "expand_v": options["heads"] * options["value_dim"] / ours.d_model,
        "use_gate": options["output_gate"],
    }


def _gated_options(theirs: Values, gated: bool, output_gate: bool) -> dict[str, Any]:
    return {
        "heads": theirs.get("num_v_heads") or theirs["num_heads"],
        "key_dim": theirs["head_dim"],
        "value_dim": int(theirs["head_dim"] * theirs.get("expand_v", 2.0)),
        "gate": EigenRange(0, 1) if gated else None,
        "output_gate": output_gate,
    }


def _gated_delta_net_to_ours(theirs: Values) -> ModelConfig:
    theirs = _checked(theirs, "head_dim")
    if theirs.get("output_gate_activation", "swish") not in ("swish", "silu"):
        require("gated_deltanet", theirs, output_gate_activation="swish")
    return _model_to_ours(theirs, _gated_options(theirs, True, theirs.get("use_gate", True)))


def _head_sizes(options: Values) -> dict[str, Any]:
    return {"head_dim": options["key_dim"], "expand_v": options["value_dim"] / options["key_dim"]}


def _gated_delta_net_to_theirs(ours: ModelConfig) -> dict[str, Any]:
    values, options = _model_to_theirs(f"{PACKAGE}'s gated_deltanet", ours, gate=EigenRange(0, 1), householders=1)
    return values | _head_sizes(options) | {"use_gate": options["output_gate"]}


def _gated_delta_product_to_ours(theirs: Values) -> ModelConfig:
    theirs = _checked(theirs, "head_dim")
    options = _gated_options(theirs, theirs.get("use_forget_gate", False), theirs.get("use_output_gate", True))
    return _model_to_ours(theirs, options | {"householders": theirs.get("num_householder", 1)})


def _gated_delta_product_to_theirs(ours: ModelConfig) -> dict[str, Any]:
    owner = f"{PACKAGE}'s gated_deltaproduct"
    values, options = _model_to_theirs(owner, ours)
    if options["gate"] is not None:
        require(owner, options, gate=EigenRange(0, 1))
    return (
        values
        | _head_sizes(options)
        | {
            "num_householder": options["householders"],
            "use_forget_gate": options["gate"] is not None,
            "use_output_gate": options["output_gate"],
        }
    )


def _family(
    name: str, architecture: str, to_ours: Callable[[Values], ModelConfig], to_theirs: Callable[[ModelConfig], dict[str, Any]]
) -> Family:
    return Family(name, architecture, PACKAGE, NAMES, to_ours, to_theirs)


DELTA_NET = _family("delta_net", "DeltaNetForCausalLM", _delta_net_to_ours, _delta_net_to_theirs)
GATED_DELTA_NET = _family("gated_deltanet", "GatedDeltaNetForCausalLM", _gated_delta_net_to_ours, _gated_delta_net_to_theirs)
GATED_DELTA_PRODUCT = _family(
    "gated_deltaproduct", "GatedDeltaProductForCausalLM", _gated_delta_product_to_ours, _gated_delta_product_to_theirs
)
