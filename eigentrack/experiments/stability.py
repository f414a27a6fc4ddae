"""Where does training diverge? Model size × learning rate × range, for DeltaNet and Mamba on modular arithmetic, unclipped.

A run diverges when its loss or its gradient is no longer finite; its gradient explodes when the norm, after the first tenth of
the steps, ever reaches 100 times its median. A run may come back from that, but it is not stable.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from eigentrack.experiments import chomsky
from eigentrack.experiments.cell import Cell, CellResult
from eigentrack.experiments.experiment import Experiment, Panel, Series, Settings, grid
from eigentrack.experiments.length_test import LengthTest
from eigentrack.experiments.markdown_table import markdown_table
from eigentrack.experiments.stability_measures import EXPLOSION, eigenvalue_shares, explodes, last_loss, middle_size
from eigentrack.experiments.stability_plot import plot
from eigentrack.experiments.training_record import QUANTILES

TASK = chomsky.ARITHMETIC
GUESS = math.log(5)  # the loss of guessing among the five answers
LEARNED = 0.99  # of the answers at the training lengths

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
    telemetry_every=200,
)
SMOKE = replace(
    SHORT,
    d_model=8,
    heads=2,
    training=replace(PAPER.training, steps=10, batch=16, warmup=2),
    rates=(1e-3, 1e-1),
    seeds=(0,),
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
    quantiles = " / ".join(f"{share:.0%}" for share in QUANTILES)
    lines = [
        "Loss: mean over the last tenth of the steps. Gradient: its norm over all parameters, from the second "
        f"tenth of the steps on: the {quantiles} quantiles, medians over the seeds, and the highest of all. "
        f"Explode: the highest is more than {EXPLOSION} times the median.",
        "",
    ]
    for panel in dict.fromkeys(result.panel for result in results):
        rows = []
        for series in dict.fromkeys(result.series for result in results if result.panel == panel):
            by_rate = [[r for r in results if (*r.key, r.rate) == (panel, series, rate)] for rate in rates]
            rows.append([series, *map(_entry, by_rate)])
        lines += [f"### {panel}", "", *markdown_table(["size", *(f"rate {rate:g}" for rate in rates)], rows), ""]
    return "\n".join([*lines, *(_eigenvalue_table(results, rates) if results else [])])


def _entry(runs: list[CellResult]) -> str:
    if not runs:
        return "–"
    diverged = [run.diverged_at for run in runs if run.diverged_at is not None]
    if diverged:
        return f"**{len(diverged)} of {len(runs)} diverged**, first at step {min(diverged)}"
    peak = max(run.record.highest_gradient for run in runs)
    exploded = sum(map(explodes, runs))
    gradient = f"**{exploded} of {len(runs)} explode**, " if exploded else ""
    by_seed = [run.record.gradient_quantiles for run in runs if run.record.gradient_quantiles]
    quantiles = " / ".join(f"{statistics.median(values):.3g}" for values in zip(*by_seed, strict=True))
    return f"loss {last_loss(runs):.3f}; {gradient}gradient {quantiles + ', ' if quantiles else ''}at most {peak:.3g}"


def _eigenvalue_table(results: Sequence[CellResult], rates: Sequence[float]) -> list[str]:
    """Shares in parts of [-1, 1]; the plot has all of the bins."""
    size = middle_size(results)
    lines = [
        f"### Eigenvalues at the end, {size}",
        "",
        "Of A(x) on a batch, real parts, all layers and seeds, as last counted: the share below -0.9, below 0 and above 0.9. "
        "DeltaNet: the one along the key; its others are 1. An eigenvalue of 0, the end of [0, 1], may be rounded to just "
        "below it.",
        "",
    ]
    rows = []
    for panel in dict.fromkeys(result.panel for result in results):
        shares = [eigenvalue_shares([r for r in results if (*r.key, r.rate) == (panel, size, rate)]) for rate in rates]
        rows.append([panel, *map(_shares, shares)])
    return [*lines, *markdown_table(["", *(f"rate {rate:g}" for rate in rates)], rows), ""]


def _shares(bins: list[float]) -> str:
    if not bins:
        return "–"
    tenth = len(bins) // 20  # of [-1, 1], whose length is 2
    return " / ".join(f"{sum(part):.1%}" for part in (bins[:tenth], bins[: len(bins) // 2], bins[-tenth:]))


def findings(results: Sequence[CellResult]) -> list[str]:
    """Layer by layer: how many runs were unstable in each range, and the highest rate at which none was, by size."""
    lines, rates = [], sorted({result.rate for result in results})
    for layer in dict.fromkeys(result.panel.split(" ")[0] for result in results):
        said = []
        for panel in dict.fromkeys(run.panel for run in results if run.panel.startswith(f"{layer} ")):
            runs = [run for run in results if run.panel == panel]
            unstable = [run for run in runs if run.diverged_at is not None or explodes(run)]
            sizes = dict.fromkeys(run.series for run in runs)
            calm = ", ".join(f"{series} {_calm_rate(runs, series, rates)}" for series in sizes)
            said.append(f"{panel.removeprefix(layer + ' ')} {len(unstable)} of {len(runs)} runs unstable, calm up to {calm}")
        lines.append(f"{layer}: {'; '.join(said)}.")
    if results and max(run.validation_accuracy for run in results) < LEARNED:
        best = max(results, key=lambda run: run.validation_accuracy)
        lowest = min(run.record.last_loss for run in results)
        lines.append(
            f"No run has learned the task: at the training lengths at most {best.validation_accuracy:.3f} of the answers are "
            f"right ({best.panel}, {best.series}, rate {best.rate:g}), and the lowest loss is {lowest:.3f} ({GUESS:.3f}: "
            "guessing), so these are the first steps of a training."
        )
    return lines


def _calm_rate(runs: Sequence[CellResult], series: str, rates: Sequence[float]) -> str:
    """The highest rate at and below which the series has run, and no run diverged or exploded."""
    calm = "none"
    for rate in rates:
        own = [run for run in runs if (run.series, run.rate) == (series, rate)]
        if not own or any(run.diverged_at is not None or explodes(run) for run in own):
            break
        calm = f"{rate:g}"
    return calm


EXPERIMENT = Experiment(
    name="stability",
    title="Where runs diverge, by model size, learning rate and range",
    source="none; the paper says that both models trained stably in the wide range, without a change of the learning rate",
    settings={"smoke": SMOKE, "short": SHORT, "paper": PAPER},
    cells=_cells,
    score=chomsky.SCORE,
    setup=f"{TASK}, three layers, no convolution; gradients are not clipped",
    plot=partial(plot, task=TASK),
    findings=findings,
    every_rate=True,
    table=table,
)
