"""Is it the range or the structure that helps? Five transition structures × two ranges, at equal parameters and state size.

    diagonal     A = diag(a)                      GLA
    one GH       A = I - b k kᵀ                   DeltaNet
    k GH         A = Π_j (I - b_j k_j k_jᵀ)       DeltaProduct, k = 4
    gated GH     A = g (I - b k kᵀ), g in [0, 1]  gated DeltaNet
    dense        A any matrix, eigenvalues in the disk over the range

All have the same heads and the same state of 16 × 16 numbers per head, and no convolution. A structure whose projections have
fewer parameters than the largest gets a wider MLP.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from eigentrack.experiments.design.experiment import HEADS, SCALED_ACCURACY, Experiment, Panel, Series
from eigentrack.experiments.design.models import NARROW, WIDE, equally_large
from eigentrack.experiments.paper import parity_and_arithmetic
from eigentrack.experiments.reporting.columns import HORIZON
from eigentrack.experiments.reporting.comparisons import RangeOrStructure
from eigentrack.experiments.reporting.curve_plot import SCALED_CAPTION, plot_scaled_accuracy
from eigentrack.experiments.running.length_test import LengthTest

HEAD = {"heads": HEADS, "conv": 0, "key_dim": 16, "value_dim": 16}
STRUCTURES: dict[str, tuple[str, dict[str, Any]]] = {
    "diagonal": ("gla", HEAD),
    "one GH": ("deltanet", HEAD),
    "4 GH": ("deltanet", {**HEAD, "householders": 4}),
    "gated GH": ("deltanet", {**HEAD, "gate": NARROW}),
    "dense": ("dense", {"heads": HEADS, "conv": 0, "state_size": 16}),
}
STEEP, START = {"gate_temperature": 1.0}, 0.99  # how the gates of the diagonal layer in [-1, 1] are set


def _series(name: str, eigenvalues: list[float]) -> Series:
    mixer, options = STRUCTURES[name]
    model = {"mixer": mixer, "mixer_options": options, "layers": 2, "eigenvalues": eigenvalues}
    if name == "diagonal" and eigenvalues == WIDE:
        model |= {"mixer_options": {**options, **STEEP}, "initial": {"gates": [START, START]}}
    return Series(f"{name} [{eigenvalues[0]:g}, {eigenvalues[1]:g}]", model)


PAPER = replace(parity_and_arithmetic.PAPER, rates=(1e-2, 1e-3, 1e-4), pilot=True, test=LengthTest((40, 256), 8192))
SHORT = replace(
    PAPER,
    training=replace(PAPER.training, steps=2000, batch=128, warmup=200, clip=1.0, precision="tfloat32"),
    rates=(3e-3, 1e-3),
    test=replace(PAPER.test, sequences=2048),
    validate_every=1000,
    checkpoint_every=2000,
)
SMOKE = replace(
    SHORT,
    d_model=16,
    heads=1,
    training=replace(SHORT.training, steps=5, batch=16, warmup=2),
    rates=(1e-3,),
    seeds=(0,),
    test=LengthTest((40, 64), 32),
    validate_every=5,
    checkpoint_every=5,
)
COMPARISON = RangeOrStructure(
    tuple(STRUCTURES),
    "GH stands for a generalised Householder factor, as DeltaNet has one per token and DeltaProduct several; diagonal is GLA, "
    "gated GH is gated DeltaNet, and dense is a full matrix.",
)

EXPERIMENT = Experiment(
    name="ablation",
    title="Range or structure? Five transition structures in two ranges, at equal parameters and state size",
    question="Does state tracking need the wide range of eigenvalues, or a richer transition matrix?",
    answer=COMPARISON.answer,
    source="none: an open question of the paper's readers; the paper compares diagonal and one GH at unequal sizes",
    settings={"smoke": SMOKE, "short": SHORT, "paper": PAPER},
    family="ablation",
    panels=(
        Panel("parity", "parity", {"last_weight": 0.5}),
        Panel("S3", "group", {"name": "S3"}),
        Panel("S5, swaps", "group", {"name": "S5", "inputs": "swaps"}),
        Panel("modular arithmetic, no brackets", "modular-arithmetic"),
    ),
    series=equally_large([_series(name, width) for name in STRUCTURES for width in (NARROW, WIDE)], mlp_width=1),
    setup="two layers, no convolution; the diagonal's gates have a temperature of 16 in [0, 1], and in [-1, 1] of 1, with "
    f"which they reach -1, and start at {START}",
    score=SCALED_ACCURACY,
    columns=(HORIZON,),
    plot=plot_scaled_accuracy,
    caption=SCALED_CAPTION,
    findings=(COMPARISON,),
)
