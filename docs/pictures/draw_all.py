"""Draws the pictures of the documentation: `python docs/pictures/draw_all.py [FOLDER]`, by default docs/images."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

PICTURES = ("recurrence", "parity_flip", "reflections", "cascade", "closure", "horizon")
STYLE = {
    "font.size": 10,
    "svg.hashsalt": "eigentrack",
    "figure.facecolor": "white",
}  # the salt makes the file a function of the code


def draw_all(folder: Path) -> None:
    for name in PICTURES:
        with matplotlib.rc_context(STYLE):
            figure = importlib.import_module(name).draw()
            figure.savefig(folder / f"{name}.svg", metadata={"Date": None}, bbox_inches="tight")
            plt.close(figure)


if __name__ == "__main__":
    draw_all(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent / "images")
