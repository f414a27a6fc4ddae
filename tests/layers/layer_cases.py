"""Every mixer in the variants that matter: with and without convolution, learnt start, normalised keys, gates, factors."""

from __future__ import annotations

from typing import Any

import torch

from eigentrack.layers import INITIALISERS, MIXERS, DeltaNet, Dense, Mixer
from eigentrack.spectrum import EigenDisk, EigenPolygon, EigenRange

D_MODEL = 12
WIDE, NARROW, ODD = EigenRange(-1, 1), EigenRange(0, 1), EigenRange(-0.5, 0.9)
DISK, RING = EigenDisk(), EigenDisk(0.5, 0.95)

LINEAR = [
    ("mamba", {"state_size": 3, "eigenvalues": NARROW}),
    ("mamba", {"state_size": 3, "eigenvalues": WIDE, "conv": 0, "learn_initial_state": True, "key_norm": True}),
    ("mamba", {"state_size": 2, "eigenvalues": ODD, "conv_bias": False}),
    ("mamba", {"state_size": 3, "eigenvalues": WIDE, "widened_from": NARROW}),
    ("mamba", {"state_size": 4, "eigenvalues": DISK}),
    ("mamba", {"state_size": 2, "eigenvalues": RING, "conv": 0, "learn_initial_state": True, "key_norm": True}),
    ("mamba2", {"heads": 4, "state_size": 5, "eigenvalues": NARROW}),
    ("mamba2", {"heads": 4, "state_size": 5, "eigenvalues": WIDE, "groups": 2, "learn_initial_state": True}),
    ("mamba2", {"heads": 3, "state_size": 4, "eigenvalues": ODD, "conv": 0, "key_norm": True}),
    ("mamba2", {"heads": 3, "state_size": 4, "eigenvalues": WIDE, "widened_from": ODD}),
    ("mamba2", {"heads": 4, "state_size": 6, "eigenvalues": DISK, "groups": 2}),
    ("mamba2", {"heads": 3, "state_size": 4, "eigenvalues": RING, "conv": 0, "learn_initial_state": True}),
    ("gla", {"heads": 3, "eigenvalues": NARROW}),
    ("gla", {"heads": 3, "eigenvalues": WIDE, "widened_from": NARROW}),
    ("gla", {"heads": 3, "eigenvalues": WIDE, "conv": 4, "learn_initial_state": True, "gate_temperature": 1.0}),
    ("gla", {"heads": 2, "eigenvalues": ODD, "key_norm": True, "initial": {"gates": [0.5, 0.8]}}),
    ("gla", {"heads": 2, "eigenvalues": WIDE, "bare": True}),
    ("gla", {"heads": 3, "eigenvalues": DISK, "key_dim": 4, "conv": 4, "gate_temperature": 1.0}),
    ("gla", {"heads": 2, "eigenvalues": RING, "key_dim": 6, "learn_initial_state": True}),
    (
        "gla",
        {"heads": 3, "eigenvalues": EigenPolygon(5, sharp_after=9), "key_dim": 4, "conv": 4, "learn_initial_state": True},
    ),
    (
        "gla",
        {"heads": 2, "eigenvalues": EigenPolygon(6), "key_dim": 4, "conv": 2, "learn_initial_state": True, "writes": False},
    ),
    ("s4d", {"state_size": 3, "eigenvalues": NARROW}),
    ("s4d", {"state_size": 3, "eigenvalues": WIDE, "conv": 4, "learn_initial_state": True}),
    ("s4d", {"state_size": 4, "eigenvalues": DISK}),
    ("s4d", {"state_size": 2, "eigenvalues": RING, "learn_initial_state": True}),
    ("deltanet", {"heads": 3, "eigenvalues": NARROW}),
    ("deltanet", {"heads": 3, "eigenvalues": WIDE, "conv": 0, "learn_initial_state": True, "initial": {"eigenvalue": 0.5}}),
    ("deltanet", {"heads": 2, "eigenvalues": EigenRange(-1, 1, overshoot=2.0), "householders": 2}),
    ("deltanet", {"heads": 2, "eigenvalues": WIDE, "householders": 3, "gate": WIDE, "output_gate": True}),
    (
        "deltanet",
        {
            "heads": 2,
            "eigenvalues": ODD,
            "gate": NARROW,
            "initial": {"gates": [0.9, 0.95]},
            "key_dim": 5,
            "value_dim": 3,
            "conv": 2,
        },
    ),
    ("deltanet", {"heads": 2, "eigenvalues": WIDE, "householders": 2, "gate": NARROW, "conv": 0, "bare": True}),
    ("deltanet", {"heads": 2, "eigenvalues": WIDE, "widened_from": NARROW, "householders": 2}),
    ("deltanet", {"heads": 3, "eigenvalues": WIDE, "gate": WIDE, "gate_per_channel": True}),
    ("deltanet", {"heads": 2, "eigenvalues": ODD, "householders": 2, "gate": NARROW, "gate_per_channel": True, "conv": 0}),
    ("deltanet", {"heads": 3, "eigenvalues": WIDE, "householders": 2, "gate": DISK, "initial": {"gates": [0.9, 0.99]}}),
    ("deltanet", {"heads": 2, "eigenvalues": ODD, "gate": RING, "gate_per_channel": True, "conv": 0}),
    ("deltanet", {"heads": 2, "eigenvalues": NARROW, "gate": DISK, "bare": True, "learn_initial_state": True}),
    ("rwkv7", {"heads": 3, "rank": 4, "eigenvalues": NARROW}),
    ("rwkv7", {"heads": 2, "rank": 4, "eigenvalues": WIDE, "learn_initial_state": True}),
    ("rwkv7", {"heads": 3, "rank": 5, "eigenvalues": ODD}),
    ("mlstm", {"heads": 3, "eigenvalues": NARROW}),
    ("mlstm", {"heads": 3, "eigenvalues": WIDE, "conv": 0, "key_norm": True, "learn_initial_state": True}),
    ("dense", {"state_size": 4, "eigenvalues": None}),
    ("dense", {"state_size": 3, "heads": 2, "eigenvalues": WIDE, "conv": 4, "learn_initial_state": True}),
    ("dense", {"state_size": 3, "eigenvalues": NARROW, "bare": True}),
    ("pd_ssm", {"state_size": 4, "dictionary": 3, "eigenvalues": WIDE}),
    ("pd_ssm", {"state_size": 3, "heads": 2, "eigenvalues": NARROW, "conv": 4, "learn_initial_state": True}),
    ("pd_ssm", {"state_size": 3, "eigenvalues": DISK, "initial": {"gates": [0.8, 0.95]}}),
    ("pd_ssm", {"state_size": 3, "heads": 2, "eigenvalues": RING, "writes": False, "learn_initial_state": True}),
    ("sd_ssm", {"state_size": 3, "dictionary": 2, "eigenvalues": WIDE}),
    ("sd_ssm", {"state_size": 3, "heads": 2, "eigenvalues": NARROW, "conv": 4, "learn_initial_state": True}),
    ("sd_ssm", {"state_size": 3, "eigenvalues": ODD}),
    ("sd_ssm", {"state_size": 4, "eigenvalues": None}),
]
OTHERS: list[tuple[str, dict[str, Any]]] = [
    ("slstm", {"heads": 3}),
    ("lstm", {"heads": 2}),
    ("ttt", {"heads": 3, "mini_batch": 4}),
    ("ttt", {"heads": 2, "mini_batch": 1, "rate": 0.5}),
    ("attention", {"heads": 3}),
    ("attention", {"heads": 4, "rotary_base": None, "key_norm": True}),
    ("convolution", {"channels": 5, "width": 3}),
]


def started(name: str, d_model: int, *, initial: dict[str, Any] | None = None, **options: Any) -> Mixer:
    """A new layer with the initial values that a model's configuration may name."""
    mixer = MIXERS[name](d_model, **options)
    for initialiser, value in (initial or {}).items():
        INITIALISERS[initialiser](mixer, value)
    return mixer


def build(name: str, options: dict[str, Any], dtype: torch.dtype = torch.float64) -> Mixer:
    """All parameters moved off their starting values, so that each of them matters; `initial` among the options says which."""
    torch.manual_seed(3)
    mixer = started(name, D_MODEL, **options).to(dtype)
    with torch.no_grad():
        for weight in mixer.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
        if isinstance(mixer, Dense) and mixer.eigenvalues is None:
            mixer.matrix_proj.weight.mul_(0.05)  # unbounded matrices: their products should stay near 1 for a test's 70 tokens
            mixer.matrix_proj.bias.mul_(0.85)
        if isinstance(mixer, DeltaNet) and mixer.bare:
            mixer.k_proj.weight.mul_(0.01)  # keys of norm below 1, as nothing normalises them
    return mixer


def case_name(value: object) -> str:
    if isinstance(value, dict):
        return " ".join(f"{key}={entry}" for key, entry in value.items())
    return str(value)
