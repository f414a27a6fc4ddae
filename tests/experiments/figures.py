"""The figure that a plot has drawn, kept from being closed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure


def drawn(monkeypatch: pytest.MonkeyPatch, plot: Callable[[str], None], path: Path) -> Figure:
    figures: list[Figure] = []
    with monkeypatch.context() as patched:
        patched.setattr(pyplot, "close", figures.append)
        plot(str(path))
    (figure,) = figures
    pyplot.close(figure)  # what was drawn can still be read
    assert path.read_bytes()[:4] == b"\x89PNG"
    return figure
