"""Modular arithmetic without brackets, beyond the paper's best: DeltaNet with more factors a token, a gate, no weight decay.

An expression is a sum of products modulo 5. A product is a number of the cyclic group of order 4, or 0 until the next sum; the
sum is a number of the cyclic group of order 5. Each is a rotation, which takes two reflections: with one factor a token a layer
must spread them over two tokens, with two factors it need not. A gate forgets the product when the next one starts.

Up to 40 tokens an angle that is off by half a degree costs next to nothing, so whatever pulls at the weights without end moves
it. Weight decay does. Smoothed labels pull the other way: their loss is least where all logits of a sequence are exact.

Blocks, width and task are those of Table 3; of 1e-3 and 3e-3 the rate is the one that did better in a search (LOG.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from eigentrack.experiments import chomsky
from eigentrack.experiments.answer_offsets import SEQUENCES, OffsetResult, study
from eigentrack.experiments.cell import Cell, CellResult
from eigentrack.experiments.curve_plot import plot_scaled_accuracy
from eigentrack.experiments.experiment import HORIZON, Column, Experiment, Series, Settings, grid

PANELS = tuple(panel for panel in chomsky.PANELS if panel.label == chomsky.ARITHMETIC)
TWO_GATED: dict[str, Any] = {"householders": 2, "gate": chomsky.NARROW}
LAYERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {  # options of the layer, and what it changes in training
    "1 factor": ({}, {}),
    "1 factor, gated": ({"gate": chomsky.NARROW}, {}),
    "2 factors, gated": (TWO_GATED, {}),
    "2 factors, gated, no decay": (TWO_GATED, {"weight_decay": 0.0}),
    "2 factors, gated, no decay, smoothed": (TWO_GATED, {"weight_decay": 0.0, "label_smoothing": 0.1}),
}

PAPER = replace(chomsky.PAPER, rates=(1e-3,))
SHORT = replace(
    PAPER,
    training=replace(PAPER.training, steps=30_000, batch=256, warmup=3000, precision="tfloat32"),
    validate_every=2500,
    checkpoint_every=2500,
)
SMOKE = replace(chomsky.SMOKE, rates=(1e-3,), pilot=False, seeds=(0,))


def _cells(settings: Settings, seeds: Sequence[int]) -> list[Cell]:
    options = {"heads": settings.heads, "conv": 4}
    series = [
        Series(name, {"mixer": "deltanet", "mixer_options": {**options, **more}, "eigenvalues": chomsky.WIDE}, training)
        for name, (more, training) in LAYERS.items()
    ]
    return grid("arithmetic", PANELS, series, settings, seeds)


def _fell_at(runs: Sequence[CellResult]) -> str:
    return ", ".join("never" if run.record.halved_at is None else f"{run.record.halved_at:,}" for run in runs)


def _off_by(runs: Sequence[OffsetResult]) -> str:
    return "; ".join(", ".join(map(str, run.offsets[1:])) or "–" for run in runs)


EXPERIMENT = Experiment(
    name="arithmetic",
    title="Modular arithmetic without brackets: more factors, a gate, no weight decay",
    source="Table 3, ICLR version, column 2, which stops at one factor",
    settings={"smoke": SMOKE, "short": SHORT, "paper": PAPER},
    cells=_cells,
    score=chomsky.SCORE,
    plot=plot_scaled_accuracy,
    columns=(
        HORIZON,
        Column("loss fell at", "the step at which the training loss was half of its first, every seed", _fell_at),
        Column(
            "off by 1, 2, 3, 4",
            f"answers that are wrong by so much modulo 5, of {SEQUENCES} at three quarters of the longest length, every seed: "
            "where the angle of a rotation drifts, one number leads",
            _off_by,
        ),
    ),
    paper={"paper, ICLR: best [median]": {(chomsky.ARITHMETIC, "1 factor"): ".971 [.826]"}},
    differences=chomsky.DIFFERENCES[:1],
    study=study,
)
