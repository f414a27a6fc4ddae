"""The closure of the compiled (ab|ba)*: all joint states that any word can reach, found from one step function."""

from __future__ import annotations

import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from eigentrack.automata import regex_dfa
from eigentrack.compiler import choose_plan, compile_network
from eigentrack.models import ModelState

PLACES = {0: (0.0, 0.0), 1: (-1.6, 0.0), 2: (1.6, 0.0), 3: (0.0, -1.3)}
SINK = 3


def draw() -> Figure:
    arrows, accepting = joint_arrows("(ab|ba)*")
    figure, axes = plt.subplots(figsize=(6, 3.3))
    axes.set(xlim=(-2.4, 2.4), ylim=(-1.9, 0.9), aspect="equal")
    axes.axis("off")
    for (source, target), letters in arrows.items():
        _arrow(axes, source, target, ", ".join(letters))
    for state, place in PLACES.items():
        axes.add_patch(plt.Circle(place, 0.24, facecolor="#eceff1", edgecolor="#546e7a", zorder=3))
        if state in accepting:
            axes.add_patch(plt.Circle(place, 0.2, fill=False, edgecolor="#546e7a", zorder=3))
        axes.text(*place, f"$s_{state}$", ha="center", va="center", zorder=4)
    axes.set_title(f"{len(PLACES)} joint states; no letter leads out of them")
    return figure


def joint_arrows(regex: str) -> tuple[dict[tuple[int, int], list[str]], frozenset[int]]:
    """Joint states are told apart bit by bit; each is named by the automaton state that the network answers in it."""
    dfa = regex_dfa(regex)
    compiled = compile_network(choose_plan(dfa))
    step = compiled.model.step
    logits, state = step(torch.tensor([compiled.alphabet.begin]), None)
    found = {_bits(state): int(logits.argmax())}
    arrows: dict[tuple[int, int], list[str]] = {}
    frontier = [state]
    while frontier:
        before = frontier.pop()
        for number, letter in enumerate(dfa.letters):
            logits, after = step(torch.tensor([number]), before)
            if _bits(after) not in found:
                found[_bits(after)] = int(logits.argmax())
                frontier.append(after)
            arrows.setdefault((found[_bits(before)], found[_bits(after)]), []).append(letter)
    return arrows, dfa.accepting


def _bits(state: ModelState) -> bytes:
    return b"".join(part.detach().numpy().tobytes() for layer in state.layers for part in layer.memory)


def _arrow(axes: Axes, source: int, target: int, label: str) -> None:
    (x0, y0), (x1, y1) = PLACES[source], PLACES[target]
    if source == target:
        axes.text(x0, y0 - 0.42, f"{label} stay", ha="center", va="center")
        return
    bow = 0.0 if target == SINK else 0.25
    style = {"arrowstyle": "->", "connectionstyle": f"arc3,rad={bow}", "shrinkA": 16, "shrinkB": 16}
    axes.annotate("", (x1, y1), (x0, y0), arrowprops=style)
    side = 0.08 + bow / 2  # beside the middle of the bow
    axes.text((x0 + x1) / 2 + side * (y1 - y0), (y0 + y1) / 2 - side * (x1 - x0), label, ha="center", va="center")
