"""What the presets on questions that the paper leaves open share: settings, layers, languages, and when one counts as learned.

Layers have no convolution, as theory speaks of them. Trained on lengths 3–40, tested on every length to 256, and further as
long as it goes well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from eigentrack.experiments.cell import CellResult
from eigentrack.experiments.experiment import Panel, Settings
from eigentrack.experiments.length_test import LengthTest
from eigentrack.layers import MIXERS
from eigentrack.options import accepted_options
from eigentrack.training import TrainingConfig

NARROW, WIDE, DISK = [0.0, 1.0], [-1.0, 1.0], {"disk": [0.0, 1.0]}
REACH = 6  # times the training length: right so far, a model counts as having learned
IGNORED = 0.95  # of a flip-flop's letters: at 0.9, one that remembers 37 letters is right in 99 % of all places
LEAVES = 0.01  # of the letters may lead out of a language for good: half of the words are still in it at length 140

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


def layer(mixer: str, eigenvalues: Any = WIDE, **options: Any) -> dict[str, Any]:
    no_convolution = {"conv": 0} if "conv" in accepted_options(MIXERS[mixer]) else {}
    return {"mixer": mixer, "eigenvalues": eigenvalues, "mixer_options": options | no_convolution}


def language_panel(label: str, name: str) -> Panel:
    return Panel(label, "language", {"name": name, "escape": LEAVES})


def group_panel(label: str, name: str, inputs: str = "all") -> Panel:
    return Panel(label, "group", {"name": name, "inputs": inputs})


def flip_flop_panel(label: str) -> Panel:
    return Panel(label, "flip-flop", {"ignore": IGNORED})


def longer(panel: Panel, times: int, settings: Settings) -> Panel:
    """Trained for so many times the budget's steps: more answers take more of them."""
    training = settings.training
    return replace(panel, training={**panel.training, "steps": times * training.steps, "warmup": times * training.warmup})


def learned(runs: Sequence[CellResult]) -> bool:
    """By at least one seed."""
    return any(run.scores.horizon >= REACH * run.trained_to for run in runs)
