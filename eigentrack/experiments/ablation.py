"""Is it the range or the structure that helps? Five transition structures × two ranges, at equal parameters and state size.

    diagonal     A = diag(a)                      GLA
    one GH       A = I - b k kᵀ                   DeltaNet
    k GH         A = Π_j (I - b_j k_j k_jᵀ)       DeltaProduct, k = 4
    gated GH     A = g (I - b k kᵀ), g in [0, 1]  gated DeltaNet
    dense        A any matrix, eigenvalues in the disk over the range

All have the same heads and the same state of 16 × 16 numbers a head, and no convolution. A structure whose projections have
fewer parameters than the largest gets a wider MLP.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from eigentrack.experiments import chomsky
from eigentrack.experiments.cell import Cell, CellResult
from eigentrack.experiments.curve_plot import plot_scaled_accuracy
from eigentrack.experiments.experiment import Experiment, Panel, Series, Settings, grid
from eigentrack.experiments.length_test import LengthTest
from eigentrack.experiments.matched_parameters import matched

LAYERS, HEAD_SIZE = 2, 16
NARROW, WIDE = "[0, 1]", "[-1, 1]"
PANELS = (
    Panel("parity", "parity", {"last_weight": 0.5}),
    Panel("S3", "group", {"name": "S3"}),
    Panel("S5, swaps", "group", {"name": "S5", "inputs": "swaps"}),
    Panel("modular arithmetic, no brackets", "modular-arithmetic"),
)
STRUCTURES: dict[str, tuple[str, dict[str, Any]]] = {
    "diagonal": ("gla", {"conv": 0, "key_dim": HEAD_SIZE, "value_dim": HEAD_SIZE}),
    "one GH": ("deltanet", {"conv": 0, "key_dim": HEAD_SIZE, "value_dim": HEAD_SIZE}),
    "4 GH": ("deltanet", {"conv": 0, "key_dim": HEAD_SIZE, "value_dim": HEAD_SIZE, "householders": 4}),
    "gated GH": ("deltanet", {"conv": 0, "key_dim": HEAD_SIZE, "value_dim": HEAD_SIZE, "gate": [0.0, 1.0]}),
    "dense": ("dense", {"conv": 0, "state_size": HEAD_SIZE}),
}
STEEP: dict[str, Any] = {"gate_temperature": 1.0, "first_gates": [0.99, 0.99]}  # of the diagonal in [-1, 1]

PAPER = replace(chomsky.PAPER, rates=(1e-2, 1e-3, 1e-4), pilot=True, test=LengthTest((40, 256), 8192))
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


def _cells(settings: Settings, seeds: Sequence[int]) -> list[Cell]:
    return grid("ablation", PANELS, matched_series(settings.d_model, settings.heads), settings, seeds)


def matched_series(d_model: int, heads: int) -> list[Series]:
    models = {
        name: {"mixer": mixer, "mixer_options": {**options, "heads": heads}, "layers": LAYERS}
        for name, (mixer, options) in STRUCTURES.items()
    }
    return [
        Series(f"{name} [{low:g}, {high:g}]", _in_range(name, model, low, high))
        for name, model in matched(models, d_model, mlp_width=d_model).items()
        for low, high in (chomsky.NARROW, chomsky.WIDE)
    ]


def _in_range(name: str, model: dict[str, Any], low: float, high: float) -> dict[str, Any]:
    steep = STEEP if name == "diagonal" and low < 0 else {}
    return {**model, "eigenvalues": [low, high], "mixer_options": {**model["mixer_options"], **steep}}


SOLVED = 0.5  # scaled accuracy from which a task counts as learned, median over the seeds


def findings(results: Sequence[CellResult]) -> list[str]:
    """What a task asks for: the wide range, more than a diagonal matrix, both, or what nobody had."""
    lines = []
    for panel in dict.fromkeys(result.panel for result in results):
        scores: dict[str, list[float]] = {}
        for run in results:
            if run.panel == panel:
                scores.setdefault(run.series, []).append(run.scores.scaled_accuracy)
        medians = {series: statistics.median(values) for series, values in scores.items()}
        if set(medians) == {f"{name} {width}" for name in STRUCTURES for width in (NARROW, WIDE)}:
            lines.append(f"{panel}: {_verdict(medians)}.")
    return lines


def _verdict(medians: dict[str, float]) -> str:
    gains = ", ".join(f"{name} {medians[f'{name} {WIDE}'] - medians[f'{name} {NARROW}']:+.2f}" for name in STRUCTURES)
    best = {width: max(STRUCTURES, key=lambda name: medians[f"{name} {width}"]) for width in (NARROW, WIDE)}
    narrow, wide = (medians[f"{best[width]} {width}"] for width in (NARROW, WIDE))
    diagonal = medians[f"diagonal {WIDE}"]
    if max(narrow, wide) < SOLVED:
        needed = "nobody learns it"
    elif narrow >= SOLVED:
        simple = medians[f"diagonal {NARROW}"] >= SOLVED
        needed = "neither is needed" if simple else "it is the structure: the wide range is not needed"
    elif diagonal >= SOLVED:
        needed = "it is the range: wide, even a diagonal matrix learns it"
    else:
        needed = "it takes the range and the structure"
    return (
        f"{needed}; best in {NARROW} {best[NARROW]} {narrow:.2f}, in {WIDE} {best[WIDE]} {wide:.2f}, the diagonal there "
        f"{diagonal:.2f}; what the wide range adds: {gains}"
    )


EXPERIMENT = Experiment(
    name="ablation",
    title="Range or structure? Five transition structures in two ranges, at equal parameters and state size",
    source="none: an open question of the paper's readers; the paper compares diagonal and one GH at unequal sizes",
    settings={"smoke": SMOKE, "short": SHORT, "paper": PAPER},
    cells=_cells,
    setup="two layers, no convolution; the diagonal's gates have a temperature of 16 in [0, 1], and in [-1, 1] of 1, with "
    f"which they reach -1, and start at {STEEP['first_gates'][0]}",
    score=chomsky.SCORE,
    plot=plot_scaled_accuracy,
    findings=findings,
)
