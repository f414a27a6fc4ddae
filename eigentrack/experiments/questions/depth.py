"""The smallest number of layers that learns a language, beside the smallest that theory knows to suffice."""

from __future__ import annotations

from functools import partial

from eigentrack.experiments.design.experiment import HEADS, HORIZON_SCORE, Experiment, Series
from eigentrack.experiments.design.models import DISK, WIDE, layer
from eigentrack.experiments.design.theory import Theory
from eigentrack.experiments.questions.regular_languages import (
    PAPER,
    SHORT,
    SMOKE,
    group_panel,
    language_panel,
    with_steps,
)
from eigentrack.experiments.reporting.horizon_map import CAPTION, plot_horizons
from eigentrack.experiments.studies.depth import SmallestDepth, label

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
DEPTHS = (1, 2, 3, 4)
SERIES = tuple(
    Series(label(name, depth), {**model, "layers": depth})
    for name, model in {
        "DeltaNet [-1, 1]": layer("deltanet", WIDE, layers=1, heads=HEADS),
        "GLA [-1, 1]": layer("gla", WIDE, layers=1, heads=HEADS, gate_temperature=1.0),  # from the middle
        "GLA, disk": layer("gla", DISK, layers=1, heads=HEADS),
    }.items()
    for depth in DEPTHS
)
THEORY = Theory(PANELS, SERIES, PAPER)
SMALLEST = SmallestDepth(("DeltaNet [-1, 1]", "GLA [-1, 1]", "GLA, disk"), DEPTHS, THEORY)

EXPERIMENT = Experiment(
    name="depth",
    title="The smallest depth that learns a language, beside the bound of theory",
    question="How many layers does a language take, in training and in theory?",
    answer=SMALLEST.answer,
    source="none: the paper proves that depth helps (its Theorems 4 and 6), and trains 1 and 5 layers",
    settings={"smoke": SMOKE, "short": with_steps(SHORT, 1500, warmup=75), "paper": PAPER},
    family="depth",
    panels=PANELS,
    series=SERIES,
    setup=f"no convolution, GLA [-1, 1] with a gate temperature of 1; all {len(LANGUAGES)} named languages for which theory "
    "knows a depth from 1 to 4 of one of the layers to be enough, but the length modulo 60, of which lengths up to 40 show "
    f"nothing, and {len(GROUPS)} groups of which it does for DeltaNet: {', '.join(GROUPS)}",
    score=HORIZON_SCORE,
    plot=partial(plot_horizons, answer=THEORY.answer),
    caption=CAPTION,
    findings=(SMALLEST.findings,),
    table=SMALLEST.table,
)
