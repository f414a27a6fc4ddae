"""Parity as a flip: h ← a(x) h with a(1) = -1 beside the best that a(1) in [0, 1] can do."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

BITS = (1, 0, 1, 1, 0, 1, 0, 0, 1, 1)
COLOURS = {"even": "#1565c0", "odd": "#c62828"}


def draw() -> Figure:
    figure, panels = plt.subplots(1, 2, figsize=(8, 2.6), sharey=True)
    gates = ((-1.0, "a one multiplies by −1: it flips"), (0.6, "a one multiplies by 0.6: it fades"))
    for axes, (gate, title) in zip(panels, gates, strict=True):
        states = np.cumprod([gate if bit else 1.0 for bit in BITS])
        colours = [COLOURS["odd" if ones % 2 else "even"] for ones in np.cumsum(BITS)]
        axes.axhline(0, color="black", linewidth=0.8)
        axes.bar(range(len(BITS)), states, color=colours, width=0.7)
        axes.set(title=title, ylim=(-1.2, 1.2), xlabel="bits read", yticks=(-1, 0, 1))
        axes.set_xticks(range(len(BITS)), [str(bit) for bit in BITS])
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("state h")
    handles = [plt.Rectangle((0, 0), 1, 1, color=colour) for colour in COLOURS.values()]
    panels[1].legend(handles, [f"{name} number of ones" for name in COLOURS], loc="lower right", frameon=False)
    figure.tight_layout()
    return figure
