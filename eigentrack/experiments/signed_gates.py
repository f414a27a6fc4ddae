"""Gates below zero in layers whose kernels knew only their logarithms: GLA, Mamba-2 and mLSTM in both ranges.

The rival turns instead of flipping: GLA with gates in the unit disk.

Parity takes one flip; a walk on a cycle of four, and Z4 with all its elements as letters, take two layers of flips.

GLA's gates are range(σ(logit)^(1/τ)). At τ = 16, its temperature in [0, 1], they start near 1, and -0.99 takes a logit of -85;
at τ = 1, -0.99 takes one of -5.3. Its own in [-1, 1] is τ = 1 with gates that start at 0.958; here are also τ = 16, and τ = 1
with gates that start at the middle of the range.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from eigentrack.experiments import chomsky
from eigentrack.experiments.cell import Cell, CellResult
from eigentrack.experiments.experiment import HORIZON, Experiment, Panel, Series, Settings, grid
from eigentrack.experiments.open_questions import (
    DISK,
    NARROW,
    PAPER,
    REACH,
    SHORT,
    SMOKE,
    WIDE,
    group_panel,
    layer,
    learned,
)
from eigentrack.experiments.series_grid_plot import plot_each_series
from eigentrack.experiments.theory import Theory
from eigentrack.layers.gla import TEMPERATURE

PANELS = (
    Panel("parity", "parity", {"last_weight": 0.0}),
    Panel("cycle of 4", "cycle-navigation", {"places": 4}),
    group_panel("Z4", "Z4"),
)
RIVAL, GAIN = "GLA, disk", 0.1  # of the median score
FLAT = f"GLA, temperature {TEMPERATURE:g} [-1, 1]"
LAYERS: dict[str, tuple[str, dict[str, Any]]] = {
    "GLA": ("gla", {}),
    "GLA, from the middle": ("gla", {"gate_temperature": 1.0}),
    "Mamba-2": ("mamba2", {}),
    "mLSTM": ("mlstm", {}),
}


def _series(heads: int) -> tuple[Series, ...]:
    rival = Series(RIVAL, {**layer("gla", DISK, heads=heads), "layers": 2})
    flat = Series(FLAT, {**layer("gla", WIDE, heads=heads, gate_temperature=TEMPERATURE), "layers": 2})
    signed = (
        Series(f"{label} [{low:g}, {high:g}]", {**layer(mixer, [low, high], heads=heads, **options), "layers": 2})
        for label, (mixer, options) in LAYERS.items()
        for low, high in (NARROW, WIDE)
    )
    return (*signed, flat, rival)


def _cells(settings: Settings, seeds: Sequence[int]) -> list[Cell]:
    return grid("signed_gates", PANELS, _series(settings.heads), settings, seeds)


def findings(results: Sequence[CellResult]) -> list[str]:
    """For each task what the sign changes in each layer, and where the rival stands."""
    lines = []
    for panel in dict.fromkeys(result.panel for result in results):
        runs = {
            result.series: [r for r in results if r.key == (panel, result.series)]
            for result in results
            if result.panel == panel
        }
        medians = {series: statistics.median(run.scores.scaled_accuracy for run in runs[series]) for series in runs}
        changes = {}
        for name in LAYERS:
            narrow, wide = (f"{name} [{low:g}, {high:g}]" for low, high in (NARROW, WIDE))
            if narrow in medians and wide in medians:
                changes[name] = (medians[narrow], medians[wide], max(run.scores.scaled_accuracy for run in runs[wide]))
        gains = [name for name, (narrow, wide, _) in changes.items() if wide - narrow > GAIN]
        said = ", ".join(
            f"{name} {narrow:.3f} → {wide:.3f} (best {best:.3f})" for name, (narrow, wide, best) in changes.items()
        )
        rival = f" {RIVAL}: {medians[RIVAL]:.3f}" if RIVAL in medians else ""
        if rival and changes:
            above = medians[RIVAL] > max(wide for _, wide, _ in changes.values())
            rival += ", above all of them." if above else ", not above the best of them."
        if FLAT in medians:
            rival = f" {FLAT}: {medians[FLAT]:.3f}.{rival}"
        reached = [series for series in runs if learned(runs[series])]
        lines.append(
            f"{panel}: the sign helps {', '.join(gains) or 'no layer'}; medians of [0, 1] → [-1, 1]: {said}.{rival} "
            f"Right to {REACH} times the training length with a seed: {', '.join(reached) or 'none'}."
        )
    return lines


EXPERIMENT = Experiment(
    name="signed_gates",
    title="Signed gates in GLA, Mamba-2 and mLSTM, two layers, beside gates that turn",
    source="none: the paper widens Mamba and DeltaNet alone, for the kernels of the others compute gates as logarithms",
    settings={
        "smoke": SMOKE,
        "short": replace(
            SHORT,
            d_model=32,
            training=replace(SHORT.training, steps=1000, batch=32, warmup=50),
            rates=(1e-2, 3e-3),
        ),
        "paper": PAPER,
    },
    cells=_cells,
    setup="two layers, no convolution",
    score=chomsky.SCORE,
    findings=findings,
    plot=partial(plot_each_series, models="two layers"),
    columns=(HORIZON, Theory(PANELS, _series(4)).column),
)
