"""How many layers does a language take? The smallest depth that learns it, beside the smallest that theory knows to suffice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from eigentrack.experiments.cell import Cell, CellResult
from eigentrack.experiments.experiment import Experiment, Score, Series, Settings, grid
from eigentrack.experiments.horizon_map import plot_horizons
from eigentrack.experiments.markdown_table import markdown_table
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

LANGUAGES = {  # all named ones that some depth of at least one of the layers can do, says theory, and training can show
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
    "GLA [-1, 1]": {"mixer": "gla", "eigenvalues": WIDE, "gate_temperature": 1.0},  # from the middle
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
        rows = (_row(results, panel, name) for panel in dict.fromkeys(result.panel for result in results))
        lines += [f"## {name}", "", *markdown_table(head, rows), ""]
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


KINDS = {
    "at": "Learned at the bound of theory",
    "fewer": "Learned with fewer layers than theory's bound, which is a depth that suffices: no proof says that fewer do not",
    "more": "Learned only with more layers than suffice in theory",
    "against": f"Right to {REACH} times the training length at a depth that theory rules out, a shortcut",
    "fitted": f"Bounded by {DEPTHS[-1]} layers and learned at no depth, though right at the training lengths ({FITTED:.0%})",
    "never": f"Bounded by {DEPTHS[-1]} layers and not right at the training lengths at any depth",
}


def findings(results: Sequence[CellResult]) -> list[str]:
    """The smallest depth that learned, against the smallest that theory knows to be enough: languages by kind and layer."""
    told: dict[tuple[str, str], list[str]] = {}
    for name in LAYERS:
        for panel in dict.fromkeys(result.panel for result in results):
            if compared := _compared(results, panel, name):
                told.setdefault((compared[0], name), []).append(f"{panel} ({compared[1]})")
    return [
        f"{text}; {name}, {len(told[kind, name])}: {'; '.join(told[kind, name])}."
        for kind, text in KINDS.items()
        for name in LAYERS
        if (kind, name) in told
    ]


def _compared(results: Sequence[CellResult], panel: str, name: str) -> tuple[str, str] | None:
    """The kind, and the depths in words; None for a language without a bound that is not learned, or not trained."""
    runs = {depth: [r for r in results if r.key == (panel, label(name, depth))] for depth in DEPTHS}
    answers = {depth: THEORY.answer(panel, label(name, depth)) for depth in DEPTHS}
    found = min((depth for depth in DEPTHS if learned(runs[depth])), default=None)
    enough = min((depth for depth in DEPTHS if answers[depth] == "can"), default=None)
    bound = f"bound {'unknown' if enough is None else enough}"
    if found is None:
        if enough is None or not any(runs.values()):
            return None
        fitted = any(run.validation_accuracy >= FITTED for of_depth in runs.values() for run in of_depth)
        return "fitted" if fitted else "never", bound
    if answers[found] == "cannot":
        return "against", str(found)
    if enough == found:
        return "at", str(found)
    return "fewer" if enough is None or found < enough else "more", f"{found}, {bound}"


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
    "knows a depth from 1 to 4 of one of the layers to be enough, but the length modulo 60, of which lengths up to 40 show "
    f"nothing, and {len(GROUPS)} groups of which it does for DeltaNet: {', '.join(GROUPS)}",
    score=Score("horizon", lambda result: result.scores.horizon, digits=0),
    plot=partial(plot_horizons, answer=THEORY.answer),
    findings=findings,
    table=table,
)
