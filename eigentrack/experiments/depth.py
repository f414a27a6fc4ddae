"""How many layers does a language take? The smallest depth that learns it, beside the smallest that theory knows to suffice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from eigentrack.experiments.cell import Cell, CellResult
from eigentrack.experiments.experiment import Experiment, Score, Series, Settings, grid
from eigentrack.experiments.horizon_map import plot_horizons
from eigentrack.experiments.open_questions import (
    DISK,
    PAPER,
    REACH,
    SHORT,
    SMOKE,
    WIDE,
    group_panel,
    language_panel,
    layer,
    learned,
)
from eigentrack.experiments.theory import Theory

LANGUAGES = {  # all named ones that some depth of at least one of the layers can do, says theory
    "1*": "tomita1",
    "ends with ab": "ends-ab",
    "third last is a": "third-last-a",
    "last of 0, 1 is 0": "zero-then-twos",
    "last bit written": "flip-flop",
    "one a": "exactly-one-a",
    "ab occurs": "factor-ab",
    "(10)*": "tomita2",
    "binary, mod 4": "binary-mod4",
    "even pairs": "even-pairs",
    "(a|bb)*": "a-or-bb",
    "((a|b)b)*": "every-second-b",
    "parity": "parity",
    "even 0s, even 1s": "tomita5",
    "parity, with resets": "resettable-parity",
    "(aa)*": "aa",
    "even length": "even-length",
    "two bits, swapped and set": "swap-assign2",
    "(aaa)*": "aaa",
    "0s = 1s, mod 3": "tomita6",
    "(aaaa)*": "aaaa",
    "cycle of 5": "cycle5",
    "even as, bs mod 3": "z2xz3",
    "length, mod 6": "unary6",
    "length, mod 60": "unary60",
    "binary, mod 3": "binary-mod3",
    "binary, mod 5": "binary-mod5",
    "binary, mod 7": "binary-mod7",
    "five shells": "shell-game5",
}
GROUPS = ("Z3", "Z4", "S3", "Q8", "A4")
PANELS = (
    *(language_panel(label, name) for label, name in LANGUAGES.items()),
    *(group_panel(name, name) for name in GROUPS),
)
LAYERS: dict[str, dict[str, Any]] = {
    "DeltaNet [-1, 1]": {"mixer": "deltanet", "eigenvalues": WIDE},
    "GLA [-1, 1]": {"mixer": "gla", "eigenvalues": WIDE, "gate_temperature": 1.0},  # at its own 16 it hardly reaches -1
    "GLA, disk": {"mixer": "gla", "eigenvalues": DISK},
}
DEPTHS = (1, 2, 3, 4)
FITTED = 0.99  # of the answers at the training lengths


def label(name: str, depth: int) -> str:
    return f"{name}, depth {depth}"


def _series(heads: int) -> tuple[Series, ...]:
    return tuple(
        Series(label(name, depth), {**layer(heads=heads, **options), "layers": depth})
        for name, options in LAYERS.items()
        for depth in DEPTHS
    )


THEORY = Theory(PANELS, _series(4))


def _cells(settings: Settings, seeds: Sequence[int]) -> list[Cell]:
    return grid("depth", PANELS, _series(settings.heads), settings, seeds)


def table(results: Sequence[CellResult]) -> str:
    lines = [
        f"- learned at: the smallest depth with a seed that is right to {REACH} times the training length",
        "- enough in theory: the smallest depth for which `eigentrack explain` says can; – where it says so for none of them",
        "- impossible up to: the largest depth for which it says cannot",
        "- horizons: by depth, every seed",
        "",
    ]
    for name in LAYERS:
        head = ("language", "learned at", "enough in theory", "impossible up to", *(f"horizons, {depth}" for depth in DEPTHS))
        lines += [f"## {name}", "", "| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
        for panel in dict.fromkeys(result.panel for result in results):
            lines.append("| " + " | ".join(_row(results, panel, name)) + " |")
        lines.append("")
    return "\n".join(lines)


def _row(results: Sequence[CellResult], panel: str, name: str) -> list[str]:
    runs = {depth: [result for result in results if result.key == (panel, label(name, depth))] for depth in DEPTHS}
    answers = {depth: THEORY.answer(panel, label(name, depth)) for depth in DEPTHS}
    return [
        panel,
        str(min((depth for depth in DEPTHS if learned(runs[depth])), default="–")),
        str(min((depth for depth in DEPTHS if answers[depth] == "can"), default="–")),
        str(max((depth for depth in DEPTHS if answers[depth] == "cannot"), default="–")),
        *(", ".join(f"{run.scores.horizon:,}" for run in runs[depth]) or "–" for depth in DEPTHS),
    ]


def findings(results: Sequence[CellResult]) -> list[str]:
    """The smallest depth that learned, against the smallest that theory knows to be enough."""
    at_bound: list[str] = []
    fewer: list[str] = []
    more: list[str] = []
    against: list[str] = []
    never, fitted = 0, 0
    for name in LAYERS:
        for panel in dict.fromkeys(result.panel for result in results):
            runs = {depth: [r for r in results if r.key == (panel, label(name, depth))] for depth in DEPTHS}
            answers = {depth: THEORY.answer(panel, label(name, depth)) for depth in DEPTHS}
            found = min((depth for depth in DEPTHS if learned(runs[depth])), default=None)
            enough = min((depth for depth in DEPTHS if answers[depth] == "can"), default=None)
            pair = f"{panel} with {name}"
            if found is not None and answers[found] == "cannot":
                against.append(f"{pair} ({found})")
            elif found is not None and (enough is None or found < enough):
                fewer.append(f"{pair} ({found}, bound {enough if enough is not None else 'unknown'})")
            elif found is not None:
                (at_bound if found == enough else more).append(f"{pair} ({found}, bound {enough})")
            elif enough is not None and any(runs.values()):
                never += 1
                fitted += any(run.validation_accuracy >= FITTED for depth in DEPTHS for run in runs[depth])
    lines = [f"Learned at the bound of theory: {', '.join(at_bound) or 'none'}."]
    if fewer:
        lines.append(
            f"Learned with fewer layers than theory's bound: {', '.join(fewer)}. The bound is a depth that suffices; no proof "
            "says that fewer do not."
        )
    if more:
        lines.append(f"Learned only with more layers than suffice in theory: {', '.join(more)}.")
    if against:
        lines.append(
            f"Right to {REACH} times the training length at a depth that theory rules out, a shortcut: {', '.join(against)}."
        )
    if never:
        lines.append(
            f"{never} pairs of language and layer have a bound of at most {DEPTHS[-1]} layers and are learned at no depth; in "
            f"{fitted} of them a network is right at the training lengths ({FITTED:.0%}) and fails before {REACH} times these."
        )
    return lines


EXPERIMENT = Experiment(
    name="depth",
    title="The smallest depth that learns a language, beside the bound of theory",
    source="none: the paper proves that depth helps (its Theorems 4 and 6), and trains 1 and 5 layers",
    settings={
        "smoke": SMOKE,
        "short": replace(SHORT, training=replace(SHORT.training, steps=1500, warmup=75)),
        "paper": PAPER,
    },
    cells=_cells,
    setup=f"no convolution, GLA [-1, 1] with a gate temperature of 1; all {len(LANGUAGES)} named languages for which theory "
    f"knows a depth from 1 to 4 of one of the layers to be enough, and {len(GROUPS)} groups of which it does for DeltaNet: "
    f"{', '.join(GROUPS)}",
    score=Score("horizon", lambda result: result.scores.horizon, digits=0),
    plot=partial(plot_horizons, answer=THEORY.answer),
    findings=findings,
    table=table,
)
