"""I - βkkᵀ in the plane: what β = 0 … 2 does to a vector, a swap as one reflection, a rotation as two."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

Vector = NDArray[np.float64]


def draw() -> Figure:
    figure, panels = plt.subplots(1, 3, figsize=(9.6, 2.9))
    for axes in panels:
        axes.set(xlim=(-1.35, 1.35), ylim=(-0.5, 1.35), aspect="equal", xticks=(), yticks=())
        axes.spines[:].set_visible(False)
    _one_factor(panels[0])
    _swap(panels[1])
    _rotation(panels[2])
    figure.tight_layout()
    return figure


def _one_factor(axes: Axes) -> None:
    axes.set_title("one factor: β slides h along k", fontsize=10)
    key, h = _unit(0), _unit(40)
    _mirror(axes, 90)
    for beta, colour in ((0, "black"), (1, "#78909c"), (2, "#c62828")):
        _arrow(axes, h - beta * key * (key @ h), f"β = {beta}", colour)
    _arrow(axes, 0.45 * key, "k", "#1565c0")


def _swap(axes: Axes) -> None:
    axes.set_title("k = (e₁ − e₂)/√2, β = 2: a swap", fontsize=10)
    _mirror(axes, 45)
    _arrow(axes, _unit(0), "e₁", "black")
    _arrow(axes, _unit(90), "e₂", "#c62828")
    axes.annotate("", 0.75 * _unit(80), 0.75 * _unit(10), arrowprops={"arrowstyle": "<->", "connectionstyle": "arc3,rad=0.35"})


def _rotation(axes: Axes) -> None:
    axes.set_title("two mirrors 60° apart turn by 120°", fontsize=10)
    for angle in (20, 80):
        _mirror(axes, angle)
    _arrow(axes, _unit(0), "h", "black")
    _arrow(axes, _unit(40), "first", "#78909c")  # 2·20 - 0
    _arrow(axes, _unit(120), "second", "#c62828")  # 2·80 - 40


def _unit(degrees: float) -> Vector:
    return np.array([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))])


def _mirror(axes: Axes, degrees: float) -> None:
    end = 1.3 * _unit(degrees)
    axes.plot([-end[0], end[0]], [-end[1], end[1]], color="#90a4ae", linestyle="--", linewidth=1)


def _arrow(axes: Axes, end: Vector, label: str, colour: str) -> None:
    axes.annotate("", end, (0, 0), arrowprops={"arrowstyle": "-|>", "color": colour, "shrinkA": 0, "shrinkB": 0})
    axes.text(*(end + 0.17 * end / np.linalg.norm(end)), label, color=colour, ha="center", va="center", fontsize=9)
