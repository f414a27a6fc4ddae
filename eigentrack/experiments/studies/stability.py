"""What is read off runs at many rates: the loss at the end, whether the gradient exploded, where the eigenvalues ended.

A run diverges when its loss or its gradient is no longer finite; its gradient explodes when the norm, after the first tenth of
the steps, ever reaches 100 times its median. A run may come back from that, but it is not stable.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from eigentrack.experiments.reporting.markdown_table import markdown_table
from eigentrack.experiments.running.task_cell import FITTED, CellResult
from eigentrack.experiments.running.training_record import QUANTILES

EXPLOSION = 100  # times the median gradient norm


def explodes(run: CellResult) -> bool:
    return run.record.highest_gradient > EXPLOSION * run.record.median_gradient


def last_loss(runs: Sequence[CellResult]) -> float:
    """Median over the runs."""
    return statistics.median(run.record.last_loss for run in runs)


def eigenvalue_shares(runs: Sequence[CellResult]) -> list[float]:
    """Of all that were counted last, over layers and runs: the share in each bin from -1 to 1. Empty: none were counted."""
    rows = [row for run in runs if run.record.eigenvalues is not None for row in run.record.eigenvalues.rows]
    total = sum(map(sum, rows))
    return [sum(counts) / total for counts in zip(*rows, strict=True)] if total else []


def middle_size(results: Sequence[CellResult]) -> str:
    """Of the sizes in the order of the cells: the one whose eigenvalues are shown."""
    sizes = list(dict.fromkeys(result.series for result in results))
    return sizes[len(sizes) // 2]


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


@dataclass(frozen=True)
class UnstableRuns:
    """Layer by layer: how many runs were unstable in each range, and the highest rate at which none was, by size."""

    guess: float  # the loss of guessing

    def __call__(self, results: Sequence[CellResult]) -> list[str]:
        lines, rates = [], sorted({result.rate for result in results})
        for layer in dict.fromkeys(result.panel.split(" ")[0] for result in results):
            said = []
            for panel in dict.fromkeys(run.panel for run in results if run.panel.startswith(f"{layer} ")):
                runs = [run for run in results if run.panel == panel]
                unstable = [run for run in runs if run.diverged_at is not None or explodes(run)]
                sizes = dict.fromkeys(run.series for run in runs)
                calm = ", ".join(f"{series} {_calm_rate(runs, series, rates)}" for series in sizes)
                said.append(
                    f"{panel.removeprefix(layer + ' ')} {len(unstable)} of {len(runs)} runs unstable, calm up to {calm}"
                )
            lines.append(f"{layer}: {'; '.join(said)}.")
        if results and max(run.validation_accuracy for run in results) < FITTED:
            best = max(results, key=lambda run: run.validation_accuracy)
            lowest = min(run.record.last_loss for run in results)
            lines.append(
                f"No run has learned the task: at the training lengths at most {best.validation_accuracy:.3f} of the answers "
                f"are right ({best.panel}, {best.series}, rate {best.rate:g}), and the lowest loss is {lowest:.3f} "
                f"({self.guess:.3f}: guessing), so these are the first steps of a training."
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
