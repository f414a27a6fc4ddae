"""The cascade of "the word ends with ab": the automaton, and two flip-flops of which the second reads the first."""

from __future__ import annotations

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from eigentrack.automata import regex_dfa

BOX = {"boxstyle": "round,pad=0.6", "facecolor": "#eceff1", "edgecolor": "#546e7a"}
WORD = "abbab"


def draw() -> Figure:
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 2.9), width_ratios=(1.1, 1))
    for axes in (left, right):
        axes.axis("off")
    _levels(left)
    _run(right)
    figure.tight_layout()
    return figure


def _levels(axes: Axes) -> None:
    axes.set(xlim=(0, 10), ylim=(0, 6), title="two levels, each keeps one bit")
    axes.text(2.6, 3, "level 1\nwas the last\nletter an a?", ha="center", va="center", bbox=BOX)
    axes.text(7.6, 3, "level 2\ndid a b come\nright after an a?", ha="center", va="center", bbox=BOX)
    axes.annotate("", (5.65, 3), (4.15, 3), arrowprops={"arrowstyle": "->"})
    axes.text(4.9, 3.35, "before\nthe letter", ha="center", fontsize=8)
    for x in (2.6, 7.6):
        axes.annotate("", (x, 1.8), (x, 0.8), arrowprops={"arrowstyle": "->"})
        axes.text(x, 0.4, "letter", ha="center", va="center")
    axes.annotate("", (7.6, 5.5), (7.6, 4.3), arrowprops={"arrowstyle": "->"})
    axes.text(8.0, 5.2, "accept?", va="center")


def _run(axes: Axes) -> None:
    """The bits along a word, and what the automaton says."""
    dfa = regex_dfa("(a|b)*ab")
    first, second, state = 0, 0, dfa.start
    rows = []
    for letter in WORD:
        second = int(letter == "b" and first == 1)  # by what level 1 held before the letter
        first = int(letter == "a")
        state = dfa.transitions[state][dfa.letters.index(letter)]
        rows.append((letter, first, second, "yes" if state in dfa.accepting else "no"))
    columns = [list(column) for column in zip(*rows, strict=True)]
    table = axes.table(columns, rowLabels=["letter", "level 1", "level 2", "automaton"], loc="center", cellLoc="center")
    table.scale(0.8, 1.7)
    axes.set_title(f"reading {WORD}")
