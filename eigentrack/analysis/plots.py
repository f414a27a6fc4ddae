"""The plots of an inspection, each as the bytes of a PNG."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from eigentrack.analysis.horizon import PatternHorizon, worst_first
from eigentrack.analysis.spectra import LayerSpectrum
from eigentrack.analysis.state_geometry import Geometry
from eigentrack.training.telemetry import RANGES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_PANELS, MOST_CURVES = 12, 10


def plot_unit_disk(spectra: Sequence[LayerSpectrum]) -> bytes:
    """Plot the eigenvalues on the unit disk: one panel per layer, one colour per token."""
    figure, panels = _panels(len(spectra[:MOST_PANELS]), 3.4, 3.4)
    for axes, layer in zip(panels, spectra, strict=False):
        _draw_circle(axes)
        for token in layer.tokens[:MOST_CURVES]:
            axes.scatter(
                [value.real for value in token.eigenvalues],
                [value.imag for value in token.eigenvalues],
                s=10,
                alpha=0.5,
                label=token.token,
            )
        axes.set(title=f"layer {layer.layer}: {layer.mixer} {layer.eigenvalue_range}", aspect="equal")
        axes.set(xlim=(-1.15, 1.15), ylim=(-1.15, 1.15), xlabel="real", ylabel="imaginary")
        axes.legend(fontsize="x-small", title="token", title_fontsize="x-small", loc="upper left", bbox_to_anchor=(1, 1))
    return _png(figure)


def plot_gates(spectra: Sequence[LayerSpectrum]) -> bytes:
    """Plot the histograms of eigenvalues, betas and gates, one panel each."""
    entries = [(layer, name, found) for layer in spectra for name, found in layer.histograms.items()][:MOST_PANELS]
    figure, panels = _panels(len(entries), 3.4, 2.2)
    for axes, (layer, name, found) in zip(panels, entries, strict=False):
        low, high = RANGES[name]
        width = (high - low) / len(found["counts"])
        axes.bar([low + (place + 0.5) * width for place in range(len(found["counts"]))], found["counts"], width)
        axes.set(title=f"layer {layer.layer}: {name}", yscale="log", xlim=(low - width, high + width))
    return _png(figure)


def plot_horizons(horizons: Sequence[PatternHorizon], trained_to: int | None) -> bytes:
    """Plot accuracy against length, for the worst patterns and for random words."""
    figure, (axes,) = _panels(1, 7, 3.6)
    for horizon in dict.fromkeys([horizons[0], *worst_first(horizons)[: MOST_CURVES - 1]]):
        lengths, accuracies = zip(*horizon.curve, strict=True)
        axes.plot(lengths, accuracies, linewidth=1.4, alpha=0.8, label=horizon.pattern)
    if trained_to is not None:
        axes.axvline(trained_to, color="tab:red", linestyle="--", linewidth=1, label=f"longest in training: {trained_to}")
    axes.set(xscale="log", ylim=(-0.03, 1.05), xlabel="letters", ylabel="accuracy")
    axes.legend(fontsize="x-small", loc="upper left", bbox_to_anchor=(1, 1))
    return _png(figure)


def plot_geometry(geometry: Sequence[Geometry]) -> bytes:
    """Plot gap and radius of the labelled states, and the margin of the answers, against length."""
    figure, (left, right) = _panels(2, 4, 3)
    lengths = [look.length for look in geometry]
    left.plot(lengths, [look.gap for look in geometry], marker="o", label="smallest gap")
    left.plot(lengths, [look.radius for look in geometry], marker="o", label="largest radius")
    left.set(xscale="log", xlabel="letters", ylabel="distance of joint states", ylim=(0, None))
    left.legend(fontsize="small")
    right.plot(lengths, [look.margin for look in geometry], marker="o", color="tab:green")
    right.axhline(0, color="0.5", linewidth=1)
    right.set(xscale="log", xlabel="letters", ylabel="smallest margin of the right logit")
    return _png(figure)


def _panels(count: int, width: float, height: float) -> tuple[Figure, list[Any]]:
    from matplotlib.figure import Figure

    columns = min(3, count)
    rows = -(-count // columns)
    figure = Figure(figsize=(columns * (width + 0.9), rows * height), layout="constrained")
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for unused in panels[count:]:
        unused.remove()
    return figure, panels[:count]


def _draw_circle(axes: Any) -> None:
    from matplotlib.patches import Circle

    axes.add_patch(Circle((0, 0), 1, fill=False, color="0.6"))
    axes.axhline(0, color="0.85", linewidth=0.8)
    axes.axvline(0, color="0.85", linewidth=0.8)


def _png(figure: Figure) -> bytes:
    target = io.BytesIO()
    figure.savefig(target, format="png", dpi=110)
    return target.getvalue()
