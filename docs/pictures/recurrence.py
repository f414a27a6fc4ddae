"""The recurrence H_t = A(x_t) H_{t-1} + B(x_t) as a chain: what a token does to the state."""

from __future__ import annotations

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

BOX = {"boxstyle": "round,pad=0.45", "facecolor": "#eceff1", "edgecolor": "#546e7a"}


def draw() -> Figure:
    figure, axes = plt.subplots(figsize=(9.6, 2.4))
    axes.set(xlim=(-0.4, 9.5), ylim=(-0.2, 2.4))
    axes.axis("off")
    for n, x in enumerate((1.5, 4.5, 7.5)):
        t = ("t", "t+1", "t+2")[n]
        axes.text(x, 1.2, f"$A(x_{{{t}}})\\,H + B(x_{{{t}}})$", ha="center", va="center", bbox=BOX)
        axes.annotate("", (x, 0.85), (x, 0.2), arrowprops={"arrowstyle": "->"})
        axes.text(x, 0.0, f"token $x_{{{t}}}$", ha="center", va="center")
        axes.annotate("", (x, 2.1), (x, 1.55), arrowprops={"arrowstyle": "->"})
        axes.text(x, 2.25, f"$y_{{{t}}} = $ dec$(H_{{{t}}}, x_{{{t}}})$", ha="center", va="center")
        axes.annotate("", (x - 1.15, 1.2), (x - 1.85, 1.2), arrowprops={"arrowstyle": "->"})
        axes.text(x - 1.5, 1.42, f"$H_{{{('t-1', 't', 't+1')[n]}}}$", ha="center", va="center")
    axes.annotate("", (9.35, 1.2), (8.65, 1.2), arrowprops={"arrowstyle": "->"})
    axes.text(9.0, 1.42, "$H_{t+2}$", ha="center", va="center")
    return figure
