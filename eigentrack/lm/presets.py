"""Presets: the language models of Grazzi, Siems et al. 2025, in both eigenvalue ranges, and a tiny one for a CPU.

Appendix E.4.1: 200,000 steps of 80 sequences of 2048 tokens (32B tokens), AdamW with weight decay 0.1, a linear warm-up of
5000 steps, then a cosine; learning rate 3.1e-3 for DeltaNet, 5e-4 for Mamba. The paper does not state the final rate, the betas
and the clipping: 0, (0.9, 0.95) and 1 are our choice. Nor does it say whether the state is reset between the documents of a
row: here it is not, so that a step can be one CUDA graph. The appendix has no 1.3B model: its preset trains as the 340M one.
The vocabulary is the corpus's. The parameter counts in the names include one vocabulary matrix: 32,000 tokens for DeltaNet,
50,280 for Mamba, whose head is tied to its embedding.
"""

from __future__ import annotations

from typing import Any

Preset = dict[str, dict[str, Any] | int]

_PAPER = {
    "steps": 200_000,
    "batch": 80,
    "length": 2048,
    "warmup": 5000,
    "final_rate": 0.0,
    "weight_decay": 0.1,
    "clip": 1.0,
    "precision": "bfloat16",
    "reset_documents": False,
}


def _deltanet(d_model: int, heads: int, mlp_width: int) -> Preset:
    model = {"d_model": d_model, "layers": 24, "mixer": "deltanet", "mixer_options": {"heads": heads}, "mlp_width": mlp_width}
    return {"model": model, "training": {**_PAPER, "learning_rate": 3.1e-3}}


_MAMBA = {
    "model": {"d_model": 1024, "layers": 48, "mixer": "mamba", "mlp_width": 0, "tie_embeddings": True},
    "training": {**_PAPER, "learning_rate": 5e-4},
}
_TINY = {
    "model": {"d_model": 128, "layers": 2, "mixer": "deltanet", "mixer_options": {"heads": 2}},
    "training": {"steps": 500, "batch": 8, "length": 256, "warmup": 50, "learning_rate": 3e-3, "weight_decay": 0.1},
    "validate_every": 100,
    "checkpoint_every": 100,
    "telemetry_every": 100,
}
_WIDE = {
    "deltanet-340m": _deltanet(1024, heads=8, mlp_width=2816),
    "deltanet-1.3b": _deltanet(2048, heads=16, mlp_width=5632),
    "mamba-370m": _MAMBA,
    "tiny": _TINY,
}


def _in_range(preset: Any, low: float, high: float) -> Any:
    return {**preset, "model": {**preset["model"], "eigenvalues": [low, high]}}


# NAME has eigenvalues in [-1, 1], its twin NAME-01 in [0, 1]
PRESETS: dict[str, Any] = {
    **{name: _in_range(preset, -1, 1) for name, preset in _WIDE.items()},
    **{f"{name}-01": _in_range(preset, 0, 1) for name, preset in _WIDE.items()},
}
