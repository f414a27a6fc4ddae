"""Theory against practice: languages of growing complexity × seven architectures, verdict and trained horizon side by side.

The ladder goes up in states, then in groups: star-free languages (flip-flops, brackets that nest), counters, groups that are
solvable, and groups that are not. Two layers without a convolution throughout.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from eigentrack.automata import classify, holonomy, minimal
from eigentrack.experiments import open_questions
from eigentrack.experiments.cell import Cell
from eigentrack.experiments.experiment import Experiment, Score, Series, Settings, grid
from eigentrack.experiments.horizon_map import MARKS, plot_horizons
from eigentrack.experiments.hybrids import rarely_reset
from eigentrack.experiments.ladder_study import FITTED, StudiedResult, study
from eigentrack.experiments.markdown_table import markdown_table
from eigentrack.experiments.open_questions import (
    DISK,
    NARROW,
    PAPER,
    REACH,
    SMOKE,
    WIDE,
    flip_flop_panel,
    group_panel,
    language_panel,
    layer,
    learned,
    longer,
)
from eigentrack.experiments.seeds import Key
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
SECTIONS = {  # of the page, by kind of field
    "drifts": (
        f"Can, right at the training lengths, and not to {REACH} times them",
        "Numbers near to the exact ones do that, and so does a shortcut.",
    ),
    "not learned": (
        "Can, and not learned at the training lengths either",
        "A network exists, and training at this budget has not found it.",
    ),
    "beyond theory": (
        f"Cannot, and right to {REACH} times the training length",
        "It gives way at some greater length, or on words that random letters seldom make.",
    ),
    "shortcut": (
        "Cannot, and right at the training lengths: shortcuts",
        "No contradiction: theory speaks of every length.",
    ),
    "unknown, learned": (
        f"Unknown, and right to {REACH} times the training length",
        "Theory has neither a network nor a proof that there is none.",
    ),
}
HOW_IT_FAILS = (
    "How a network fails that fits its training lengths: pairs of words begin with different letters, and go on with the same "
    "ones. It **forgets** if it gives the two mostly one answer where the automaton gives two, as a number does that should "
    "keep its size and shrinks. It **holds on to what it should forget** if it often gives two answers where the automaton is "
    "in one state, as where what letters write piles up. It **drifts** if it tells them apart, mixes up no others and is wrong "
    "all the same, as an angle does that is slightly off. The shares are measured, these causes are what would give them. "
    "Nothing is said where letters in common always reset the state, or 99 % are right at that length "
    "(`experiments/two_pasts.py`).",
)
FATES = {  # of several networks
    "forgets": "forget",
    "holds on to what it should forget": "hold on to what they should forget",
    "drifts": "drift",
    "do not tell": "do not tell",
}
MORE = 2  # times the steps, for languages with more answers than a short training tells apart
HARD = (
    group_panel("A4", "A4"),
    group_panel("S4, swaps", "S4", "swaps"),
    group_panel("Z60", "Z60"),
    group_panel("A5", "A5"),
    group_panel("S5, swaps", "S5", "swaps"),
)


def architectures(heads: int) -> tuple[Series, ...]:
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


THEORY = Theory((*EASY, *HARD), architectures(4))


SHORT = replace(open_questions.SHORT, training=replace(open_questions.SHORT.training, steps=1200, warmup=60))


def _cells(settings: Settings, seeds: Sequence[int]) -> list[Cell]:
    return grid(
        "ladder", [*EASY, *(longer(panel, MORE, settings) for panel in HARD)], architectures(settings.heads), settings, seeds
    )


def table(results: Sequence[StudiedResult]) -> str:
    panels, series = (list(dict.fromkeys(getattr(result, name) for result in results)) for name in ("panel", "series"))
    head = ("language", "states", "group", "levels", *series)
    lines = [
        "Two layers, no convolution. In each field what theory says (✓ can, ✗ cannot, ? unknown) and the horizon, up to which",
        f"99 % of the answers are right, median over the seeds (and each); bold: learned, a seed gets to {REACH} times the",
        f"training length. {', '.join(panel.label for panel in HARD)}: trained for {MORE} times the steps.",
        "",
        "- states: of the minimal automaton",
        "- group: the order of the largest group in its syntactic monoid; 1: the language is star-free",
        "- levels: of its cascade of resets and groups, each level read with those above it known (holonomy)",
        "",
    ]
    runs = _by_field(results)
    rows = (
        [panel, *difficulty(panel), *(_entry(panel, model, runs.get((panel, model), [])) for model in series)]
        for panel in panels
    )
    return "\n".join([*lines, *markdown_table(head, rows), "", *_sections(runs), ""])


def difficulty(panel: str) -> tuple[str, str, str]:
    """States, order of the largest group, levels."""
    dfa = minimal(THEORY.automaton(panel))
    largest = max((group.order for group in classify(dfa).subgroups), default=1)
    return str(dfa.states), str(largest), str(len(holonomy(dfa).levels))


def _by_field(results: Sequence[StudiedResult]) -> dict[Key, list[StudiedResult]]:
    """Language by language, layer by layer."""
    panels, series = (list(dict.fromkeys(getattr(result, name) for result in results)) for name in ("panel", "series"))
    fields = {(panel, model): [r for r in results if r.key == (panel, model)] for panel in panels for model in series}
    return {key: runs for key, runs in fields.items() if runs}


def _entry(panel: str, series: str, runs: Sequence[StudiedResult]) -> str:
    if not runs:
        return "–"
    horizons = [run.scores.horizon for run in runs]
    reach, each = f"{statistics.median(horizons):,.0f}", ", ".join(f"{horizon:,}" for horizon in horizons)
    return f"{MARKS[THEORY.answer(panel, series)]} {f'**{reach}**' if learned(runs) else reach} ({each})"


def _kinds(runs: dict[Key, list[StudiedResult]]) -> dict[str, list[Key]]:
    """The fields by what theory says and what training came to; "agree" holds those with nothing to explain."""
    kinds: dict[str, list[Key]] = {kind: [] for kind in ("agree", *SECTIONS, "open")}
    for key, of_key in runs.items():
        fitted = max(run.validation_accuracy for run in of_key) >= FITTED
        match THEORY.answer(*key), learned(of_key):
            case "can", False:
                kinds["drifts" if fitted else "not learned"].append(key)
            case "cannot", True:
                kinds["beyond theory"].append(key)
            case "cannot", False if fitted:
                kinds["shortcut"].append(key)
            case "unknown", True:
                kinds["unknown, learned"].append(key)
            case "unknown", False:
                kinds["open"].append(key)
            case _:
                kinds["agree"].append(key)
    return kinds


def findings(results: Sequence[StudiedResult]) -> list[str]:
    kinds = {kind: len(keys) for kind, keys in _kinds(_by_field(results)).items()}
    missed, agreed = kinds["drifts"] + kinds["not learned"], kinds["agree"] + kinds["shortcut"]
    decided, undecided = agreed + missed + kinds["beyond theory"], kinds["open"] + kinds["unknown, learned"]
    lines = [f"Theory and training agree in {agreed} of the {decided} fields that theory decides; {undecided} it leaves open."]
    if missed:
        lines.append(
            f"In {missed} fields theory says can and training does not get to {REACH} times its length: {kinds['drifts']} are "
            f"right at the training lengths and fail beyond, {kinds['not learned']} are not learned there either."
        )
    lines.append(
        f"No field that theory says cannot is learned; {kinds['shortcut']} are fitted at the training lengths, by a shortcut."
        if not kinds["beyond theory"]
        else f"{kinds['beyond theory']} fields are right to {REACH} times the training length though theory says cannot."
    )
    if kinds["unknown, learned"]:
        lines.append(f"Of the {undecided} fields that theory leaves open {kinds['unknown, learned']} are learned.")
    if fates := Counter(run.pasts.fate or "do not tell" for run in results if run.pasts is not None):
        failing = sum(run.validation_accuracy >= FITTED and not learned([run]) for run in results)
        counted = ", ".join(f"{count} {FATES[fate]}" for fate, count in fates.most_common())
        lines.append(
            f"{failing} networks fit the training lengths and fail beyond; {fates.total()} of them were kept and looked at "
            f"(see below): {counted}."
        )
    return lines


def _sections(runs: dict[Key, list[StudiedResult]]) -> list[str]:
    kinds = _kinds(runs)
    lines = ["## Field by field", "", "Of several seeds, the one with the longest horizon.", "", *HOW_IT_FAILS, ""]
    for kind, (title, meaning) in SECTIONS.items():
        lines += [f"### {title}: {len(kinds[kind])}", ""]
        lines += [meaning, "", *(_fact(key, runs[key]) for key in kinds[kind]), ""] if kinds[kind] else []
    return lines[:-1]


def _fate(runs: Sequence[StudiedResult]) -> str:
    """How the network fails that gets furthest of those that were kept."""
    kept = [run for run in runs if run.pasts is not None]
    if not kept:
        return ""
    best = max(kept, key=lambda run: run.scores.horizon)
    pasts = best.pasts
    assert pasts is not None
    shares = []
    if pasts.told_apart is not None:
        shares.append(f"{pasts.told_apart:.0%} of two pasts that differ are told apart")
    if pasts.mixed_up is not None:
        shares.append(f"{pasts.mixed_up:.0%} of two that no longer differ get two answers")
    shares.append(f"{pasts.right:.0%} are right")
    fate = f"**{pasts.fate}**" if pasts.fate is not None else "does not tell how it fails"
    return f" Seed {best.seed} {fate}: after {pasts.length} letters {', '.join(shares)}."


def _fact(key: Key, runs: Sequence[StudiedResult]) -> str:
    verdict = THEORY.verdict(*key)
    assert verdict is not None  # or the field would have no kind
    best = max(runs, key=lambda run: run.scores.horizon)
    theory = f"Theory: {verdict.answer}, {verdict.reason} ({verdict.theorem})."
    if best.diverged_at is not None:
        return f"- {key[0]}; {key[1]}: diverged at step {best.diverged_at}. {theory}"
    classes, reach = best.scores.classes, best.scores.horizon
    training = f"validation accuracy {best.validation_accuracy:.3f}, loss {best.record.last_loss:.2g} at the end"
    if best.validation_accuracy < FITTED:
        training += f" (guessing: {1 / classes:.3f}, {math.log(classes):.2g})"
    beyond = f"right to {reach:,} of {best.scores.longest:,}"
    if reach > best.trained_to:
        beyond += f", {reach / best.trained_to:.1f} times the training length"
    if not learned(runs):
        curve, far = best.scores.curve, REACH * best.trained_to
        later = next((point for point in curve if point.length >= far), curve[-1])
        beyond += f", {later.accuracy:.0%} of the answers right at {later.length:,}"
    return f"- {key[0]}; {key[1]}: seed {best.seed}, {training}; {beyond}.{_fate(runs)} {theory}"


EXPERIMENT = Experiment(
    name="ladder",
    title="Theory against practice: what can be recognised, and what is learned",
    source="none: the paper proves what each layer can and cannot do, and trains on a few of these languages",
    settings={"smoke": SMOKE, "short": SHORT, "paper": PAPER},
    cells=_cells,
    setup="two layers, no convolution",
    score=Score("horizon", lambda result: result.scores.horizon, digits=0),
    plot=partial(plot_horizons, answer=THEORY.answer),
    findings=findings,
    table=table,
    study=study,
)
