"""Regular languages and groups as tasks, and the budgets with which most experiments on open questions learn them.

Trained on lengths 3–40, tested on every length to 256, and further as long as it goes well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from eigentrack.automata import DFA
from eigentrack.experiments.design.experiment import Panel, Settings
from eigentrack.experiments.running.length_test import LengthTest
from eigentrack.training import TrainingConfig

# the share of a flip-flop's letters that change nothing: at 0.9, a network that remembers 37 letters is right in 99 % of places
IGNORED = 0.95
LEAVES = 0.01  # the share of letters that may lead out of a language for good: half of the words are still in it at length 140
LETTERS = "abcdefghijklmno"  # each does one of the operations of `rarely_reset`; one more resets

PAPER = Settings(
    d_model=128,
    training=TrainingConfig(steps=20_000, batch=256, lengths=(3, 40), warmup=1000),
    rates=(3e-3, 1e-3),
    pilot=True,
    floor=1e-5,
    seeds=(0, 1, 2),
    test=LengthTest((40, 256), 2048, far=10_000),
)
SHORT = replace(
    PAPER,
    d_model=64,
    training=replace(PAPER.training, steps=3000, batch=64, warmup=150),
    test=LengthTest((40, 256), 1024, far=2048),
    checkpoint_every=10_000,  # a cell takes seconds: only its end is kept
)
SMOKE = replace(
    SHORT,
    d_model=8,
    heads=2,
    training=replace(SHORT.training, steps=2, batch=4, lengths=(3, 6), warmup=1),
    rates=(3e-3,),
    pilot=False,
    seeds=(0,),
    test=LengthTest((6, 36), 8),
    validate_every=2,
    checkpoint_every=2,
)


def with_steps(settings: Settings, steps: int, warmup: int) -> Settings:
    return replace(settings, training=replace(settings.training, steps=steps, warmup=warmup))


def language_panel(label: str, name: str) -> Panel:
    return Panel(label, "language", {"name": name, "escape": LEAVES})


def group_panel(label: str, name: str, inputs: str = "all") -> Panel:
    return Panel(label, "group", {"name": name, "inputs": inputs})


def flip_flop_panel(label: str) -> Panel:
    return Panel(label, "flip-flop", {"ignore": IGNORED})


def rarely_reset(label: str, modulus: int, *operations: Callable[[int], int]) -> Panel:
    """Return the task of a number after letters that operate on it, in turn, and a reset to 0 among sixteen letters."""

    def step(number: int, letter: str) -> int:
        return 0 if letter == "0" else operations[LETTERS.index(letter) % len(operations)](number) % modulus

    dfa = DFA.from_function(LETTERS + "0", 0, step, lambda number: number == 0)
    return Panel(label, "language-state", {"dfa": dfa.to_json()})
