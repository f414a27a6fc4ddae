"""Where does training diverge? Model size × learning rate × range, for DeltaNet and Mamba, without clipping.

A run diverges when its loss or its gradient is no longer finite; its gradient explodes when the norm, after the first tenth of
the steps, ever reaches 100 times its median. A run may come back from that, but it is not stable.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from eigentrack.experiments import chomsky
from eigentrack.experiments.cell import Cell, CellResult
from eigentrack.experiments.experiment import Experiment, Panel, Series, Settings, grid
from eigentrack.experiments.length_test import LengthTest

EXPLOSION = 100  # times the median gradient norm

PAPER = replace(
    chomsky.PAPER,
    d_model=64,
    training=replace(chomsky.PAPER.training, steps=20_000, warmup=2000),
    rates=(1e-4, 1e-3, 1e-2, 1e-1),
    test=LengthTest((40, 256), 2048),
    telemetry_every=1000,
)
SHORT = replace(
    PAPER,
    training=replace(PAPER.training, steps=2000, batch=128, warmup=200, precision="tfloat32"),
    seeds=(0,),
    telemetry_every=200,
)
SMOKE = replace(
    SHORT,
    d_model=8,
    heads=2,
    training=replace(PAPER.training, steps=10, batch=16, warmup=2),
    rates=(1e-3, 1e-1),
    test=LengthTest((40, 64), 32),
    validate_every=10,
    checkpoint_every=5,
    telemetry_every=5,
)


def _cells(settings: Settings, seeds: Sequence[int]) -> list[Cell]:
    """A panel for each layer and range; three sizes, each twice as wide as the one before."""
    layers: dict[str, dict[str, Any]] = {
        "DeltaNet": {"mixer": "deltanet", "mixer_options": {"heads": settings.heads}},
        "Mamba": {"mixer": "mamba"},
    }
    panels = [
        Panel(f"{name} [{low:g}, {high:g}]", "modular-arithmetic", model={**model, "layers": 3, "eigenvalues": [low, high]})
        for name, model in layers.items()
        for low, high in (chomsky.NARROW, chomsky.WIDE)
    ]
    series = [Series(f"d = {factor * settings.d_model}", {"d_model": factor * settings.d_model}) for factor in (1, 2, 4)]
    return grid("stability", panels, series, settings, seeds)


def table(results: Sequence[CellResult]) -> str:
    """For each panel sizes down and rates across: the median loss at the end, or how many seeds diverged, and when at first."""
    rates = sorted({result.rate for result in results})
    lines = [
        f"Loss: mean over the last tenth of the steps. Explode: the gradient's norm reaches {EXPLOSION} times its median.",
        "",
    ]
    for panel in dict.fromkeys(result.panel for result in results):
        lines += [f"### {panel}", "", "| size | " + " | ".join(f"rate {rate:g}" for rate in rates) + " |"]
        lines.append("|---" * (len(rates) + 1) + "|")
        for series in dict.fromkeys(result.series for result in results if result.panel == panel):
            rows = [[r for r in results if (*r.key, r.rate) == (panel, series, rate)] for rate in rates]
            lines.append(f"| {series} | " + " | ".join(map(_entry, rows)) + " |")
        lines.append("")
    return "\n".join(lines)


def _entry(runs: list[CellResult]) -> str:
    if not runs:
        return "–"
    diverged = [run.diverged_at for run in runs if run.diverged_at is not None]
    if diverged:
        return f"**{len(diverged)} of {len(runs)} diverged**, first at step {min(diverged)}"
    peak = max(run.record.highest_gradient for run in runs)
    exploded = sum(_explodes(run) for run in runs)
    gradient = f"**{exploded} of {len(runs)} explode**, " if exploded else ""
    return f"loss {_last_loss(runs):.3f}; {gradient}gradient at most {peak:.3g}"


def _explodes(run: CellResult) -> bool:
    return run.record.highest_gradient > EXPLOSION * run.record.median_gradient


def _last_loss(runs: Sequence[CellResult]) -> float:
    return statistics.median(run.record.last_loss for run in runs)


def plot(results: Sequence[CellResult], path: str) -> None:
    """A heat map for each panel: the colour is the loss at the end; ✕: a seed diverged; !: a seed's gradient exploded."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rates = sorted({result.rate for result in results})
    panels, sizes = (list(dict.fromkeys(getattr(result, name) for result in results)) for name in ("panel", "series"))
    figure, grid_of_axes = pyplot.subplots(
        1, len(panels), figsize=(1 + 3 * len(panels), 3), squeeze=False, sharey=True, layout="constrained"
    )
    for axes, panel in zip(grid_of_axes[0], panels, strict=True):
        runs = [[[r for r in results if (*r.key, r.rate) == (panel, size, rate)] for rate in rates] for size in sizes]
        losses = [[_last_loss(cell) if cell else float("nan") for cell in row] for row in runs]
        image = axes.imshow(losses, vmin=0, vmax=2, cmap="viridis")
        for y, row in enumerate(runs):
            for x, cell in enumerate(row):
                diverged = any(run.diverged_at is not None for run in cell)
                if diverged or any(map(_explodes, cell)):
                    axes.text(x, y, "✕" if diverged else "!", color="red", ha="center", va="center", fontsize=16)
        axes.set(title=panel, xlabel="learning rate")
        axes.set_xticks(range(len(rates)), [f"{rate:g}" for rate in rates])
        axes.set_yticks(range(len(sizes)), sizes)
    figure.colorbar(image, ax=grid_of_axes[0], label="loss at the end")
    figure.savefig(path, format="png", dpi=130)
    pyplot.close(figure)


EXPERIMENT = Experiment(
    name="stability",
    title="Where runs diverge, by model size, learning rate and range",
    source="none; the paper says that both models trained stably in the wide range, without a change of the learning rate",
    settings={"smoke": SMOKE, "short": SHORT, "paper": PAPER},
    cells=_cells,
    score=chomsky.SCORE,
    plot=plot,
    every_rate=True,
    table=table,
)
