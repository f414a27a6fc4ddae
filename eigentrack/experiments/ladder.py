"""Theory against practice: languages of growing complexity × seven architectures, verdict and trained horizon side by side.

The ladder goes up in states, then in groups: star-free languages (flip-flops, brackets that nest), counters, groups that are
solvable, and groups that are not. Two layers without a convolution throughout.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from eigentrack.experiments.cell import Cell, CellResult
from eigentrack.experiments.experiment import Experiment, Score, Series, Settings, grid
from eigentrack.experiments.horizon_map import MARKS, plot_horizons
from eigentrack.experiments.hybrids import rarely_reset
from eigentrack.experiments.open_questions import (
    DISK,
    NARROW,
    PAPER,
    REACH,
    SHORT,
    SMOKE,
    WIDE,
    flip_flop_panel,
    group_panel,
    language_panel,
    layer,
    learned,
    longer,
)
from eigentrack.experiments.theory import Theory

EASY = (
    language_panel("1*", "tomita1"),
    language_panel("ends with ab", "ends-ab"),
    flip_flop_panel("flip-flop"),
    language_panel("(10)*", "tomita2"),
    language_panel("no 000", "tomita4"),
    language_panel("brackets, 2 deep", "d2"),
    language_panel("brackets, 4 deep", "d4"),
    language_panel("2 kinds of brackets, 2 deep", "dyck2-2"),
    language_panel("parity", "parity"),
    language_panel("even pairs", "even-pairs"),
    language_panel("(abab)*", "abab"),
    language_panel("odd runs (Tomita 3)", "tomita3"),
    group_panel("Z3", "Z3"),
    rarely_reset("mod 3, with resets", 3, lambda x: x + 1),
    group_panel("Z4", "Z4"),
    language_panel("binary, mod 5", "binary-mod5"),
    group_panel("S3", "S3"),
)
FITTED = 0.99  # of the answers at training lengths
MORE = 2  # times the steps, for languages with more answers than a short training tells apart
HARD = (
    group_panel("A4", "A4"),
    group_panel("S4, swaps", "S4", "swaps"),
    group_panel("Z60", "Z60"),
    group_panel("A5", "A5"),
    group_panel("S5, swaps", "S5", "swaps"),
)


def _series(heads: int) -> tuple[Series, ...]:
    models = {
        "Mamba [0, 1]": layer("mamba", NARROW),
        "Mamba [-1, 1]": layer("mamba", WIDE),
        "GLA, disk": layer("gla", DISK, heads=heads),
        "DeltaNet [0, 1]": layer("deltanet", NARROW, heads=heads),
        "DeltaNet [-1, 1]": layer("deltanet", WIDE, heads=heads),
        "DeltaProduct, n = 2, [-1, 1]": layer("deltanet", WIDE, heads=heads, householders=2),
        "sLSTM": layer("slstm", heads=heads),
    }
    return tuple(Series(label, {**model, "layers": 2}) for label, model in models.items())


THEORY = Theory((*EASY, *HARD), _series(4))


def _cells(settings: Settings, seeds: Sequence[int]) -> list[Cell]:
    return grid("ladder", [*EASY, *(longer(panel, MORE, settings) for panel in HARD)], _series(settings.heads), settings, seeds)


def table(results: Sequence[CellResult]) -> str:
    panels, series = (list(dict.fromkeys(getattr(result, name) for result in results)) for name in ("panel", "series"))
    lines = [
        "In each field what theory says (✓ can, ✗ cannot, ? unknown) and the horizon, up to which 99 % of the answers are",
        f"right, median over the seeds; bold: a seed is right to {REACH} times the training length, it has learned.",
        f"{', '.join(panel.label for panel in HARD)}: trained for {MORE} times the steps.",
        "",
        "| language | " + " | ".join(series) + " |",
        "|---" * (len(series) + 1) + "|",
    ]
    runs = {key: [result for result in results if result.key == key] for key in {result.key for result in results}}
    for panel in panels:
        lines.append(
            f"| {panel} | " + " | ".join(_entry(panel, model, runs.get((panel, model), [])) for model in series) + " |"
        )
    return "\n".join([*lines, "", *_disagreements(runs, panels, series), ""])


def _entry(panel: str, series: str, runs: Sequence[CellResult]) -> str:
    if not runs:
        return "–"
    reach = f"{statistics.median(run.scores.horizon for run in runs):,.0f}"
    return f"{MARKS[THEORY.answer(panel, series)]} {f'**{reach}**' if learned(runs) else reach}"


def _disagreements(runs: dict[tuple[str, str], list[CellResult]], panels: Sequence[str], series: Sequence[str]) -> list[str]:
    """Every field where training has not found what exists, or has found what cannot be right at every length."""
    ordered = [(panel, model) for panel in panels for model in series if (panel, model) in runs]
    decided = [key for key in ordered if THEORY.answer(*key) in ("can", "cannot")]
    missed = [key for key in decided if THEORY.answer(*key) == "can" and not learned(runs[key])]
    drifting = [key for key in missed if max(run.validation_accuracy for run in runs[key]) >= FITTED]
    unlearned = [key for key in missed if key not in drifting]
    shortcuts = [key for key in decided if THEORY.answer(*key) == "cannot" and learned(runs[key])]
    agreed, undecided = len(decided) - len(missed) - len(shortcuts), len(ordered) - len(decided)
    return [
        "## Where they disagree",
        "",
        f"Theory and training agree in {agreed} of the {len(decided)} fields that theory decides; {undecided} it leaves open.",
        "",
        f"### Can, right in training, and not to {REACH} times its length: {len(drifting)}",
        "",
        f"At the training lengths at least {FITTED:.0%} of the answers are right, beyond them fewer. Gates near to the exact",
        "values do that, and so does a shortcut; `eigentrack inspect` tells which.",
        "",
        *(_fact(key, runs[key]) for key in drifting),
        "",
        f"### Can, and not learned in training either: {len(unlearned)}",
        "",
        "A network exists, and training at this budget has not found it.",
        "",
        *(_fact(key, runs[key]) for key in unlearned),
        "",
        f"### Cannot, but right to {REACH} times the training length: {len(shortcuts)}",
        "",
        "A shortcut that gives way at some greater length, or on words that random letters seldom make.",
        "",
        *(_fact(key, runs[key]) for key in shortcuts),
    ]


def _fact(key: tuple[str, str], runs: Sequence[CellResult]) -> str:
    verdict = THEORY.verdict(*key)
    assert verdict is not None  # or there is nothing to disagree with
    best = max(runs, key=lambda run: run.scores.horizon)
    found = f"validation accuracy {best.validation_accuracy:.3f}, horizon {best.scores.horizon:,} of {best.scores.longest:,}"
    return f"- {key[0]}; {key[1]}: {found}, seed {best.seed}. Theory: {verdict.reason} ({verdict.theorem})."


EXPERIMENT = Experiment(
    name="ladder",
    title="Theory against practice: what can be recognised, and what is learned",
    source="none: the paper proves what each layer can and cannot do, and trains on a few of these languages",
    settings={
        "smoke": SMOKE,
        "short": replace(SHORT, training=replace(SHORT.training, steps=1200, warmup=60), seeds=(0,)),
        "paper": PAPER,
    },
    cells=_cells,
    score=Score("horizon", lambda result: result.scores.horizon, digits=0),
    plot=partial(plot_horizons, answer=THEORY.answer),
    table=table,
)
