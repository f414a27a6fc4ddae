"""Does a Householder factor with a diagonal gate learn what neither learns alone?

    diagonal   A = diag(a)                            GLA, a in [-1, 1] or in the unit disk
    GH         A = Π_j (I - b_j k_j k_jᵀ)             DeltaNet, n = 1 and 2
    gated GH   A = g Π_j (I - b_j k_j k_jᵀ)           gated DeltaNet, g in [0, 1] for each head
    KDA        A = Π_j (I - b_j k_j k_jᵀ) diag(g)     DeltaNet with a gate for each channel, in [-1, 1] or [0, 1]

A gate of 0 resets, a factor of -1 flips: the languages ask for both. Resets are rare, one letter in sixteen, or a memory of as
many letters as training has would do. One layer each, so that no layer does another's part, and equally many parameters.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from eigentrack.automata import DFA
from eigentrack.experiments import chomsky
from eigentrack.experiments.cell import Cell, CellResult
from eigentrack.experiments.constant_answer import constant_column
from eigentrack.experiments.experiment import HORIZON, Experiment, Panel, Series, Settings, grid
from eigentrack.experiments.matched_parameters import matched
from eigentrack.experiments.open_questions import (
    DISK,
    NARROW,
    PAPER,
    REACH,
    SHORT,
    SMOKE,
    WIDE,
    flip_flop_panel,
    language_panel,
    layer,
    learned,
)
from eigentrack.experiments.series_grid_plot import plot_each_series
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


def models(d_model: int, heads: int) -> tuple[Series, ...]:
    layers = {
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
    one_layer = {label: {**model, "layers": 1} for label, model in layers.items()}
    return tuple(Series(label, model) for label, model in matched(one_layer, d_model, mlp_width=2 * d_model).items())


THEORY = Theory(PANELS, models(PAPER.d_model, PAPER.heads))


def _cells(settings: Settings, seeds: Sequence[int]) -> list[Cell]:
    return grid("hybrids", PANELS, models(settings.d_model, settings.heads), settings, seeds)


KINDS = {"diagonal": "diagonal", "GH": "GH alone", "gated GH": "gate and GH", "KDA": "gate and GH"}  # by the label's beginning


def _kind(series: str) -> str:
    return next(kind for start, kind in KINDS.items() if series.startswith(start))


def findings(results: Sequence[CellResult]) -> list[str]:
    """Language by language, who learned it, and whether gate and factors together learned what neither did alone."""
    lines, only_together = [], []
    panels = list(dict.fromkeys(result.panel for result in results))
    for panel in panels:
        runs = {
            result.series: [r for r in results if r.key == (panel, result.series)]
            for result in results
            if result.panel == panel
        }
        who = [series for series in runs if learned(runs[series])]
        if {_kind(series) for series in runs} == set(KINDS.values()) and {_kind(series) for series in who} == {"gate and GH"}:
            only_together.append(panel)
        medians = {series: statistics.median(run.scores.scaled_accuracy for run in runs[series]) for series in runs}
        best = {
            kind: max((s for s in runs if _kind(s) == kind), key=lambda s: medians[s], default=None) for kind in KINDS.values()
        }
        scores = ", ".join(f"{kind} {medians[series]:.3f}" for kind, series in best.items() if series is not None)
        names = ", ".join(f"{s} ({sum(learned([run]) for run in runs[s])} of {len(runs[s])} seeds)" for s in who) or "none"
        if len(who) > len(runs) / 2:
            names = " but ".join(["all", *filter(None, [", ".join(series for series in runs if series not in who)])])
        lines.append(f"{panel}: learned by {names}. Best median score: {scores}.")
    said = (
        f"in {len(only_together)} of {len(panels)} languages ({', '.join(only_together)})"
        if only_together
        else "in no language"
    )
    return [
        f"Gate and GH together learn, and neither alone does, {said}. Learned: a seed is right to {REACH} times the training "
        "length.",
        *lines,
    ]


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
    setup="one layer, no convolution, MLPs that make all models equally large; resets are one letter in sixteen",
    score=chomsky.SCORE,
    findings=findings,
    plot=partial(plot_each_series, models="one layer; GH, KDA: n factors with eigenvalues in [-1, 1]"),
    columns=(HORIZON, constant_column(PANELS, PAPER.test.lengths), THEORY.column),
)
