"""Stability of runs at many rates: the loss at the end, whether the gradient exploded, where the eigenvalues ended.

A run diverges when its loss or its gradient is no longer finite; its gradient explodes when the norm, after the first tenth of
the steps, ever reaches 100 times its median. A run may come back from that, but it is not stable.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from eigentrack.experiments.reporting.markdown_table import markdown_table
from eigentrack.experiments.reporting.wording import counted, joined
from eigentrack.experiments.running.task_cell import FITTED, CellResult
from eigentrack.experiments.running.training_record import QUANTILES

EXPLOSION = 100  # times the median gradient norm


def explodes(run: CellResult) -> bool:
    return run.record.highest_gradient > EXPLOSION * run.record.median_gradient


def last_loss(runs: Sequence[CellResult]) -> float:
    """Return the loss at the end, as the median over the runs."""
    return statistics.median(run.record.last_loss for run in runs)


def eigenvalue_shares(runs: Sequence[CellResult]) -> list[float]:
    """Return the share of the last counted eigenvalues in each bin from -1 to 1, or an empty list if none were counted."""
    rows = [row for run in runs if run.record.eigenvalues is not None for row in run.record.eigenvalues.rows]
    total = sum(map(sum, rows))
    return [sum(counts) / total for counts in zip(*rows, strict=True)] if total else []


def middle_size(results: Sequence[CellResult]) -> str:
    """Return the middle one of the sizes, in the order of the cells: its eigenvalues are shown."""
    sizes = list(dict.fromkeys(result.series for result in results))
    return sizes[len(sizes) // 2]


def table(results: Sequence[CellResult]) -> str:
    """Return a table for each panel, by size and rate: the median loss at the end, or how many seeds diverged and when."""
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
    """Return the table of shares of eigenvalues in parts of [-1, 1]; the plot has all of the bins."""
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
    tenth = len(bins) // 20  # as many bins as fill a tenth of [0, 1]: all of them fill [-1, 1]
    return " / ".join(f"{sum(part):.1%}" for part in (bins[:tenth], bins[: len(bins) // 2], bins[-tenth:]))


def is_unstable(run: CellResult) -> bool:
    """Return whether the run diverged, or its gradient exploded."""
    return run.diverged_at is not None or explodes(run)


@dataclass(frozen=True)
class UnstableRuns:
    """Layer by layer: how many runs were unstable in each range, and the highest rate at which none was, by size."""

    guess: float  # the loss of guessing

    def __call__(self, results: Sequence[CellResult]) -> list[str]:
        lines, rates = [], sorted({result.rate for result in results})
        for panel in dict.fromkeys(run.panel for run in results):
            runs = [run for run in results if run.panel == panel]
            calm: dict[str, list[str]] = {}
            for series in dict.fromkeys(run.series for run in runs):
                calm.setdefault(_calm_rate(runs, series, rates), []).append(series)
            said = joined([f"{rate} (for {joined(sizes)})" for rate, sizes in calm.items()])
            lines.append(
                f"{panel}: {sum(map(is_unstable, runs))} of {counted(len(runs), 'run')} are unstable. The highest learning "
                f"rate up to which every run is stable is {said}."
            )
        if results and max(run.validation_accuracy for run in results) < FITTED:
            best = max(results, key=lambda run: run.validation_accuracy)
            lowest = min(run.record.last_loss for run in results)
            lines.append(
                "No run has learned the task, so these are the first steps of a training: at the training lengths at most "
                f"{best.validation_accuracy:.3f} of the answers are right ({best.panel}, {best.series}, rate {best.rate:g}), "
                f"and the lowest loss is {lowest:.3f}, where guessing has {self.guess:.3f}."
            )
        return lines

    def answer(self, results: Sequence[CellResult]) -> str:
        """Count the unstable runs of each layer in both ranges."""
        said = []
        for layer in dict.fromkeys(result.panel.split(" ")[0] for result in results):
            wide, narrow = ([run for run in results if run.panel == f"{layer} {width}"] for width in ("[-1, 1]", "[0, 1]"))
            if wide and narrow:
                said.append(
                    f"{sum(map(is_unstable, wide))} of {len(wide)} runs of {layer} are unstable in [-1, 1] and "
                    f"{sum(map(is_unstable, narrow))} of {len(narrow)} in [0, 1]"
                )
        if not said:
            return ""
        meaning = f"A run is unstable if its loss diverges or the norm of its gradient exceeds {EXPLOSION} times its median."
        return f"{'; '.join(said)}. {meaning}"


def _calm_rate(runs: Sequence[CellResult], series: str, rates: Sequence[float]) -> str:
    """Return the highest rate up to which the series has run at every rate and no run was unstable."""
    calm = "none"
    for rate in rates:
        own = [run for run in runs if (run.series, run.rate) == (series, rate)]
        if not own or any(map(is_unstable, own)):
            break
        calm = f"{rate:g}"
    return calm
