"""Does a Householder factor with a diagonal gate learn what neither learns alone?

    diagonal   A = diag(a)                            GLA, a in [-1, 1] or in the unit disk
    GH         A = Π_j (I - b_j k_j k_jᵀ)             DeltaNet, n = 1 and 2
    gated GH   A = g Π_j (I - b_j k_j k_jᵀ)           gated DeltaNet, g in [0, 1] for each head
    KDA        A = Π_j (I - b_j k_j k_jᵀ) diag(g)     DeltaNet with a gate for each channel, in [-1, 1] or [0, 1]

A gate of 0 resets, a factor of -1 flips: the languages ask for both. Resets are rare, one letter in sixteen, or a memory of as
many letters as training has would do. One layer each, so that no layer does another's part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from eigentrack.automata import DFA
from eigentrack.experiments import chomsky
from eigentrack.experiments.cell import Cell
from eigentrack.experiments.constant_answer import constant_column
from eigentrack.experiments.curve_plot import plot_scaled_accuracy
from eigentrack.experiments.experiment import HORIZON, Experiment, Panel, Series, Settings, grid
from eigentrack.experiments.open_questions import (
    DISK,
    NARROW,
    PAPER,
    SHORT,
    SMOKE,
    WIDE,
    flip_flop_panel,
    language_panel,
    layer,
)
from eigentrack.experiments.theory import Theory

LETTERS = "abcdefghijklmno"  # of which each does one of the operations; one more resets


def rarely_reset(label: str, modulus: int, *operations: Callable[[int], int]) -> Panel:
    """The number after letters that operate on it, in turn, and a reset to 0 among sixteen letters."""

    def step(number: int, letter: str) -> int:
        return 0 if letter == "0" else operations[LETTERS.index(letter) % len(operations)](number) % modulus

    dfa = DFA.from_function(LETTERS + "0", 0, step, lambda number: number == 0)
    return Panel(label, "language-state", {"dfa": dfa.to_json()})


PANELS = (
    flip_flop_panel("flip-flop, with resets"),
    rarely_reset("mod 3, with resets", 3, lambda x: x + 1),
    language_panel("Tomita 3", "tomita3"),
    rarely_reset("x+1, 2x, 0 mod 5", 5, lambda x: x + 1, lambda x: 2 * x),
)


def _series(heads: int) -> tuple[Series, ...]:
    models = {
        "diagonal (GLA)": layer("gla", WIDE, heads=heads),
        "diagonal, disk (GLA)": layer("gla", DISK, heads=heads),
        "GH, n = 1": layer("deltanet", WIDE, heads=heads),
        "GH, n = 2": layer("deltanet", WIDE, heads=heads, householders=2),
        "gated GH, n = 1": layer("deltanet", WIDE, heads=heads, gate=NARROW),
        "gated GH, n = 2": layer("deltanet", WIDE, heads=heads, gate=NARROW, householders=2),
        "KDA, n = 1, gates in [0, 1]": layer("deltanet", WIDE, heads=heads, gate=NARROW, gate_per_channel=True),
        "KDA, n = 1": layer("deltanet", WIDE, heads=heads, gate=WIDE, gate_per_channel=True),
        "KDA, n = 2": layer("deltanet", WIDE, heads=heads, gate=WIDE, gate_per_channel=True, householders=2),
    }
    return tuple(Series(label, {**model, "layers": 1}) for label, model in models.items())


def _cells(settings: Settings, seeds: Sequence[int]) -> list[Cell]:
    return grid("hybrids", PANELS, _series(settings.heads), settings, seeds)


EXPERIMENT = Experiment(
    name="hybrids",
    title="Gates and Householder factors together: what one layer learns, eigenvalues in [-1, 1] or in the disk",
    source="none: the paper leaves open what combinations of diagonal and Householder gates can do",
    settings={
        "smoke": SMOKE,
        "short": replace(SHORT, training=replace(SHORT.training, steps=2000, warmup=100)),
        "paper": PAPER,
    },
    cells=_cells,
    score=chomsky.SCORE,
    plot=plot_scaled_accuracy,
    columns=(HORIZON, constant_column(PANELS, PAPER.test.lengths), Theory(PANELS, _series(4)).column),
)
