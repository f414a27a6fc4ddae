"""The picture of `stability`, a column for each layer and range: losses by size and rate, then gradients and eigenvalues."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from eigentrack.experiments.running.task_cell import CellResult
from eigentrack.experiments.studies.stability import EXPLOSION, eigenvalue_shares, explodes, last_loss, middle_size

CAPTION = (
    "For each layer and range, from top to bottom: the loss at the end by learning rate (horizontal) and width (vertical), "
    "with diverged or exploding seeds in red; the norm of the gradient by learning rate; and a histogram of the eigenvalues."
)
SMALLEST_SHARE = 1e-4  # the smallest share that is drawn, as the axis is logarithmic
DARK = 1.0  # a loss below it has white letters


def plot(results: Sequence[CellResult], path: str, *, task: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rates = sorted({result.rate for result in results})
    panels = list(dict.fromkeys(result.panel for result in results))
    heights = [3.4, 2.8, 0.4 + 1.5 * len(rates)]
    figure = pyplot.figure(figsize=(2 + 3 * len(panels), sum(heights)), layout="constrained")
    losses, gradients, eigenvalues = figure.subfigures(3, 1, height_ratios=heights, squeeze=False)[:, 0]

    seeds = ", ".join(map(str, sorted({result.seed for result in results})))
    trained_to = max(result.trained_to for result in results)
    losses.suptitle(
        f"{task}, trained to length {trained_to}, no clipping, seeds {seeds}\n"
        "Loss at the end: median and every seed; red: how many seeds diverged, or had a gradient that exploded",
        fontsize=11,
    )
    maps = losses.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for axes, panel in zip(maps, panels, strict=True):
        image = _draw_losses(axes, [result for result in results if result.panel == panel], rates)
        axes.set(title=panel, xlabel="learning rate")
    maps[0].set_ylabel("model width")
    losses.colorbar(image, ax=maps, label="loss at the end", extend="max")

    gradients.suptitle(
        "Norm of the gradient, from the second tenth of the steps on: lines the median, dots each seed's highest; "
        f"exploded: above {EXPLOSION} times the median",
        fontsize=11,
    )
    norms = gradients.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for axes, panel in zip(norms, panels, strict=True):
        _draw_gradients(axes, [result for result in results if result.panel == panel])
        axes.set(xlabel="learning rate", xscale="log", yscale="log")
        axes.set_title(panel, fontsize=10)
    norms[0].set_ylabel("norm of the gradient")
    norms[0].legend(frameon=False, fontsize="x-small")

    size = middle_size(results)
    eigenvalues.suptitle(f"Eigenvalues of A(x) when last counted, {size}, all layers and seeds", fontsize=11)
    histograms = eigenvalues.subplots(len(rates), len(panels), squeeze=False, sharex=True, sharey=True)
    for row, rate in zip(histograms, rates, strict=True):
        for axes, panel in zip(row, panels, strict=True):
            _draw_eigenvalues(axes, [result for result in results if (*result.key, result.rate) == (panel, size, rate)])
        row[0].set_ylabel(f"rate {rate:g}\nshare of all")
    for axes, panel in zip(histograms[0], panels, strict=True):
        axes.set_title(panel, fontsize=10)
    for axes in histograms[-1]:
        axes.set_xlabel("eigenvalue, real part")
    figure.savefig(path, format="png", dpi=130)
    pyplot.close(figure)


def _draw_losses(axes: Any, results: Sequence[CellResult], rates: Sequence[float]) -> Any:
    sizes = list(dict.fromkeys(result.series for result in results))
    runs = [[[run for run in results if (run.series, run.rate) == (size, rate)] for rate in rates] for size in sizes]
    losses = [[last_loss(cell) if cell else float("nan") for cell in row] for row in runs]
    image = axes.imshow(losses, vmin=0, vmax=2, cmap="viridis", aspect="auto")
    for y, row in enumerate(runs):
        for x, cell in enumerate(row):
            if not cell:
                continue
            each = "\n".join(f"{run.record.last_loss:.2f}" for run in cell) if len(cell) > 1 else ""
            ink = "white" if losses[y][x] < DARK else "black"
            axes.text(x, y - 0.28, f"{losses[y][x]:.2f}", color=ink, ha="center", va="center", fontsize=9, fontweight="bold")
            axes.text(x - 0.06, y + 0.15, each, color=ink, ha="right", va="center", fontsize=6)
            diverged, exploded = sum(run.diverged_at is not None for run in cell), sum(map(explodes, cell))
            said = f"{diverged} ✕" if diverged else f"{exploded} !" if exploded else ""
            axes.text(x + 0.22, y + 0.15, said, color="red", ha="center", va="center", fontsize=11)
    axes.set_xticks(range(len(rates)), [f"{rate:g}" for rate in rates])
    axes.set_yticks(range(len(sizes)), sizes)
    return image


def _draw_gradients(axes: Any, results: Sequence[CellResult]) -> None:
    for number, size in enumerate(dict.fromkeys(result.series for result in results)):
        own = [result for result in results if result.series == size and result.diverged_at is None]
        rates = sorted({run.rate for run in own})
        medians = [statistics.median(run.record.median_gradient for run in own if run.rate == rate) for rate in rates]
        axes.plot(rates, medians, color=f"C{number}", label=size)
        shift = 1 + 0.12 * (number - 1)  # sizes stand side by side
        axes.plot(
            [shift * run.rate for run in own],
            [run.record.highest_gradient for run in own],
            **{"color": f"C{number}", "linestyle": "", "marker": "o", "markersize": 3},
        )


def _draw_eigenvalues(axes: Any, runs: Sequence[CellResult]) -> None:
    shares = eigenvalue_shares(runs)
    axes.set(xlim=(-1.05, 1.05), ylim=(SMALLEST_SHARE, 1.5), yscale="log", xticks=[-1, -0.5, 0, 0.5, 1])
    axes.axvline(0, color="0.7", linewidth=0.8)
    if shares:
        width = 2 / len(shares)
        axes.bar([-1 + width * (n + 0.5) for n in range(len(shares))], shares, width, color="tab:blue")
    diverged = [run.diverged_at for run in runs if run.diverged_at is not None]
    said = f"diverged at step {min(diverged)}" if diverged else "" if shares else "not counted"
    axes.text(0.02, 0.88, said, transform=axes.transAxes, color="tab:red", fontsize=8, va="center")
