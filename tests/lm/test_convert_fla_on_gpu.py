"""flash-linear-attention's own models → ours → theirs, both run on the same tokens. Their package needs a GPU."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest
import torch

from eigentrack.lm.conversion import convert

pytestmark = [
    pytest.mark.skipif(
        not torch.cuda.is_available() or importlib.util.find_spec("fla") is None,
        reason="needs a GPU and flash-linear-attention; restated layers are compared in test_convert_fla.py",
    ),
    pytest.mark.filterwarnings("ignore:.torch.jit.script_method. is deprecated:DeprecationWarning"),  # torch's own, in Inductor
    pytest.mark.filterwarnings("ignore:Flash Attention is not installed:ImportWarning"),  # theirs, and none is needed here
]

SIZES = {"vocab_size": 97, "hidden_size": 128, "num_hidden_layers": 2, "intermediate_size": 192, "initializer_range": 0.1}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "DeltaNet": ("delta_net", {"num_heads": 2}),
    "DeltaNet [-1, 1], gated output": ("delta_net", {"num_heads": 2, "use_gate": True, "allow_neg_eigval": True}),
    "GatedDeltaNet": ("gated_deltanet", {"num_heads": 2, "head_dim": 32}),
    "GatedDeltaNet [-1, 1], shared keys": (
        "gated_deltanet",
        {"num_heads": 2, "num_v_heads": 4, "head_dim": 32, "allow_neg_eigval": True},
    ),
    "GatedDeltaProduct": (
        "gated_deltaproduct",
        {"num_heads": 2, "head_dim": 32, "num_householder": 2, "use_forget_gate": True, "allow_neg_eigval": True},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_their_models_and_ours_have_the_same_logits(name, tmp_path):
    import fla.models  # noqa: F401, registers its models with transformers
    from transformers import AutoConfig, AutoModelForCausalLM

    kind, options = CASES[name]
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **SIZES, **options)).float().save_pretrained(
        tmp_path / "theirs"
    )
    there = convert(tmp_path / "theirs", tmp_path / "ours").comparisons[0]
    back = convert(tmp_path / "ours", tmp_path / "back", to=kind).comparisons[0]
    for comparison in (there, back):
        assert comparison.skipped is None
        assert comparison.largest > 0.1
        assert comparison.worst <= 1e-3 * comparison.largest
