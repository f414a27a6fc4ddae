"""The OLMo-hybrid of transformers: gated DeltaNet layers with norms before them, attention layers with norms after them.

Its attention normalises queries and keys over all heads and, in the released checkpoints, has no rotary positions. If query
heads share a key and value head, we store one copy of it per query head.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from eigentrack.layers import Attention, Mixer
from eigentrack.lm.conversion.family import (
    BOTH_RANGES,
    OURS_ALONE,
    Family,
    Values,
    layer_options,
    negative_switch,
    require,
    require_drawn_weights,
)
from eigentrack.lm.conversion.weights import FILTERS, Layout, Names, Piece, Stack, WeightNames
from eigentrack.models import ModelConfig
from eigentrack.spectrum import EigenRange

OWNER = "transformers' olmo_hybrid"
LINEAR, FULL = "linear_attention", "full_attention"
PLACE = {LINEAR: "before", FULL: "after"}
GATED_DELTA_NET_EPS = 1e-5  # a constant in their code


def _every_head(tensor: Tensor, mixer: Mixer) -> Tensor:
    """Return the rows with each key or value head repeated once for every query head that shares it."""
    assert isinstance(mixer, Attention)
    shared = mixer.d_model // tensor.shape[0]
    return tensor.unflatten(0, (-1, mixer.width)).repeat_interleave(shared, dim=0).flatten(0, 1)


SHARED_HEADS = Layout(_every_head, lambda tensor, mixer: tensor)
MLP: Names = {f"mlp.{name}.weight": f"mlp.{name}.weight" for name in ("gate_proj", "up_proj", "down_proj")}
LINEAR_BLOCK: Names = MLP | {
    "mixer_norm.weight": "input_layernorm.weight",
    "mlp_norm.weight": "post_attention_layernorm.weight",
    "mixer.q_proj.weight": "linear_attn.q_proj.weight",
    "mixer.k_proj.weight": "linear_attn.k_proj.weight",
    "mixer.v_proj.weight": "linear_attn.v_proj.weight",
    "mixer.convolution.weight": Piece("linear_attn.conv1d.weight", FILTERS),  # rows: q, k, v
    "mixer.beta_proj.weight": "linear_attn.b_proj.weight",
    "mixer.gate_proj.weight": "linear_attn.a_proj.weight",
    "mixer.gate_log_rate": "linear_attn.A_log",
    "mixer.gate_bias": "linear_attn.dt_bias",
    "mixer.output_gate_proj.weight": "linear_attn.g_proj.weight",
    "mixer.norm.weight": "linear_attn.o_norm.weight",
    "mixer.out_proj.weight": "linear_attn.o_proj.weight",
}
FULL_BLOCK: Names = MLP | {
    "mixer_norm.weight": "post_attention_layernorm.weight",
    "mlp_norm.weight": "post_feedforward_layernorm.weight",
    "mixer.qkv_proj.weight": Stack(
        (
            Piece("self_attn.q_proj.weight"),
            Piece("self_attn.k_proj.weight", SHARED_HEADS),
            Piece("self_attn.v_proj.weight", SHARED_HEADS),
        ),
        lambda mixer: [mixer.d_model] * 3,
    ),
    "mixer.query_norm.weight": "self_attn.q_norm.weight",
    "mixer.key_norm.weight": Piece("self_attn.k_norm.weight", SHARED_HEADS),
    "mixer.out_proj.weight": "self_attn.o_proj.weight",
}
NAMES = WeightNames(
    {
        "embedding.weight": "model.embed_tokens.weight",
        "norm.weight": "model.norm.weight",
        "head.weight": "lm_head.weight",
    },
    "model.layers.{}.",
    {"deltanet": LINEAR_BLOCK, "attention": FULL_BLOCK},
)


def _to_ours(theirs: Values) -> ModelConfig:
    require("olmo_hybrid", theirs, hidden_act="silu", attention_bias=False)
    require("olmo_hybrid", theirs, linear_num_value_heads=theirs["linear_num_key_heads"])
    rotary = theirs["rope_parameters"] or {}
    if rotary.get("rope_theta") is not None:
        require("olmo_hybrid", rotary, rope_type="default")
    options = {
        LINEAR: {
            "heads": theirs["linear_num_key_heads"],
            "key_dim": theirs["linear_key_head_dim"],
            "value_dim": theirs["linear_value_head_dim"],
            "gate": EigenRange(0, 1),
            "output_gate": True,
            "conv": theirs["linear_conv_kernel_dim"],
            "norm_eps": GATED_DELTA_NET_EPS,
        },
        FULL: {"heads": theirs["num_attention_heads"], "rotary_base": rotary.get("rope_theta"), "key_norm": True},
    }
    kinds = theirs["layer_types"]
    return ModelConfig(
        vocab_size=theirs["vocab_size"],
        d_model=theirs["hidden_size"],
        layers=theirs["num_hidden_layers"],
        mixer=tuple("deltanet" if kind == LINEAR else "attention" for kind in kinds),
        mixer_options=tuple(options[kind] for kind in kinds),
        eigenvalues=BOTH_RANGES[theirs["linear_allow_neg_eigval"]],
        mlp_width=theirs["intermediate_size"],
        norm_place=tuple(PLACE[kind] for kind in kinds),
        norm_eps=theirs["rms_norm_eps"],
        tie_embeddings=theirs["tie_word_embeddings"],
    )


def _to_theirs(ours: ModelConfig) -> dict[str, Any]:
    if set(ours.mixers) != {"deltanet", "attention"} or len(set(ours.mlp_widths)) > 1 or not ours.mlp_widths[0]:
        raise ValueError(f"{OWNER} has both deltanet and attention layers, and one MLP width, unlike this model")
    require(OWNER, vars(ours), norm="rms")
    require_drawn_weights(OWNER, ours)
    kinds = [LINEAR if mixer == "deltanet" else FULL for mixer in ours.mixers]
    options = {kind: layer_options(ours, kinds.index(kind)) for kind in (LINEAR, FULL)}
    for layer, kind in enumerate(kinds):
        if layer_options(ours, layer) != options[kind]:
            raise ValueError(f"{OWNER}: layer {layer} differs from another of its kind, which has no counterpart there")
        require(f"{OWNER}, layer {layer}", {"norm_place": ours.norm_places[layer]}, norm_place=PLACE[kind])
    linear, full = options[LINEAR], options[FULL]
    fixed = {"gate": EigenRange(0, 1), "output_gate": True, "householders": 1, **OURS_ALONE}
    require(f"{OWNER}, deltanet", linear, **fixed, norm_eps=GATED_DELTA_NET_EPS)
    require(f"{OWNER}, attention", full, key_norm=True, norm_eps=ours.norm_eps)
    width = ours.d_model // linear["heads"]
    return {
        "vocab_size": ours.vocab_size,
        "hidden_size": ours.d_model,
        "intermediate_size": ours.mlp_widths[0],
        "num_hidden_layers": ours.layers,
        "layer_types": kinds,
        "num_attention_heads": full["heads"],
        "rope_parameters": {"rope_type": "default", "rope_theta": full["rotary_base"]},  # None: no rotary positions
        "linear_num_key_heads": linear["heads"],
        "linear_num_value_heads": linear["heads"],
        "linear_key_head_dim": linear["key_dim"] or width,
        "linear_value_head_dim": linear["value_dim"] or width,
        "linear_conv_kernel_dim": linear["conv"],
        "linear_allow_neg_eigval": negative_switch(OWNER, linear["eigenvalues"]),
        "rms_norm_eps": ours.norm_eps,
        "tie_word_embeddings": ours.tie_embeddings,
    }


OLMO_HYBRID = Family("olmo_hybrid", "OlmoHybridForCausalLM", "transformers", NAMES, _to_ours, _to_theirs)
