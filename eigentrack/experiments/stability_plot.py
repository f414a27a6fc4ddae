"""The picture of `stability`, a column for each layer and range: above losses by size and rate, below eigenvalues by rate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eigentrack.experiments.cell import CellResult
from eigentrack.experiments.stability_measures import eigenvalue_shares, explodes, last_loss, middle_size

SMALLEST_SHARE = 1e-4  # that is drawn: the axis is logarithmic


def plot(results: Sequence[CellResult], path: str) -> None:
    """Heat map: the loss at the end; ✕: a seed diverged; !: a seed's gradient exploded. Below a histogram for each rate."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rates = sorted({result.rate for result in results})
    panels = list(dict.fromkeys(result.panel for result in results))
    figure = pyplot.figure(figsize=(2 + 3 * len(panels), 3.6 + 1.5 * len(rates)), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=[3.2, 0.4 + 1.5 * len(rates)], squeeze=False)[:, 0]
    above.suptitle("Loss at the end of training   (red ✕: a seed diverged, red !: a seed's gradient exploded)", fontsize=11)
    maps = above.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for axes, panel in zip(maps, panels, strict=True):
        image = _draw_losses(axes, [result for result in results if result.panel == panel], rates)
        axes.set(title=panel, xlabel="learning rate")
    maps[0].set_ylabel("model width")
    above.colorbar(image, ax=maps, label="loss at the end", extend="max")

    size = middle_size(results)
    below.suptitle(f"Eigenvalues of A(x) when last counted, {size}, all layers and seeds", fontsize=11)
    histograms = below.subplots(len(rates), len(panels), squeeze=False, sharex=True, sharey=True)
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
            diverged = any(run.diverged_at is not None for run in cell)
            if diverged or any(map(explodes, cell)):
                axes.text(x, y, "✕" if diverged else "!", color="red", ha="center", va="center", fontsize=16)
    axes.set_xticks(range(len(rates)), [f"{rate:g}" for rate in rates])
    axes.set_yticks(range(len(sizes)), sizes)
    return image


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
