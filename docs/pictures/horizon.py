"""Why trained weights give way: |h| after n ones, when a one multiplies by -1, by -0.999 and by -0.99."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

MARGIN = 0.2  # below it a read-out, say, can no longer tell the signs apart


def draw() -> Figure:
    figure, axes = plt.subplots(figsize=(6.4, 2.8))
    ones = np.geomspace(1, 1e5, 400)
    for eigenvalue, colour in ((1.0, "#1565c0"), (0.999, "#6a1b9a"), (0.99, "#c62828")):
        axes.plot(ones, eigenvalue**ones, color=colour, label=f"eigenvalue −{eigenvalue:g}")
        if eigenvalue < 1:
            end = np.log(MARGIN) / np.log(eigenvalue)
            axes.plot([end, end], [0, MARGIN], color=colour, linewidth=1)
            axes.text(end, MARGIN + 0.03, f" horizon {end:.0f}", color=colour, fontsize=9)
    axes.axhline(MARGIN, color="#90a4ae", linestyle="--", linewidth=1)
    axes.text(1.1, MARGIN + 0.03, "what the read-out can tell apart", fontsize=9, color="#546e7a")
    axes.set(xscale="log", xlim=(1, 1e5), ylim=(0, 1.08), xlabel="ones read", ylabel="|h|")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="center left")
    figure.tight_layout()
    return figure
