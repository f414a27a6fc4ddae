"""The findings of the pages: with made-up results, the words follow the numbers, and turn with them."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from eigentrack.automata import DFA, minimal
from eigentrack.experiments.catalogue import named_experiment
from eigentrack.experiments.paper import parity_and_arithmetic as table3
from eigentrack.experiments.paper import word_problems
from eigentrack.experiments.questions import (
    ablation,
    deltaproduct,
    depth,
    hybrids,
    ladder,
    more_steps,
    parity,
    signed_gates,
    stability,
    tradeoff,
)
from eigentrack.experiments.reporting.findings import READING, FewerSteps, PaperCurves, PaperNumbers, Reach
from eigentrack.experiments.running.task_cell import CellResult, with_more
from eigentrack.experiments.studies.depth import label
from eigentrack.experiments.studies.ladder import StudiedResult
from tests.experiments.toy import toy_result


def result(panel: str, series: str, seed: int = 0, *, score: float = 0.5, validation: float = 0.5, **scores: int) -> CellResult:
    """Trained to length 9, tested to 100."""
    toy = toy_result(series, seed=seed, score=score, validation=validation)
    return replace(toy, panel=panel, scores=replace(toy.scores, longest=100, **scores))


@pytest.mark.parametrize(
    "name",
    [
        *("hybrids", "tradeoff", "depth", "signed_gates", "figure1", "figure3", "figure6", "table3"),
        *("deltaproduct", "parity", "longer", "arithmetic", "ladder", "patience", "ablation", "stability"),
    ],
)
def test_the_pages_have_findings(name: str) -> None:
    assert named_experiment(name).findings


def test_numbers_near_the_paper_s_agree() -> None:
    paper = {("p", "near"): ".500 [.400]", ("p", "low"): "1.000 [.999 ± .006]", ("p", "high"): ".000 [.000]"}
    found = [result("p", name, seed, score=0.45) for name in ("near", "low", "high", "unknown") for seed in (0, 1)]
    close, below, above = PaperNumbers(paper)(found)
    assert close.endswith(": near 0.450 [0.450].")
    assert below == "Below the paper, best [median]: low 0.450 [0.450], paper 1.000 [.999 ± .006]."
    assert above.startswith("Above the paper")
    assert "high 0.450" in above


def test_the_median_alone_may_miss() -> None:
    found = [result("p", "a", seed, score=score) for seed, score in enumerate((0.0, 0.0, 1.0))]
    (line,) = PaperNumbers({("p", "a"): "1.000 [1.000]"})(found)
    assert line.startswith("Below")


@pytest.mark.parametrize(
    ("reach", "right_to", "dead_by", "holds"),
    [
        (Reach(right_at=64), 64, math.inf, True),
        (Reach(right_at=64), 63, math.inf, False),
        (Reach(wrong_at=64), 63, math.inf, True),
        (Reach(wrong_at=64), 64, math.inf, False),
        (Reach(dead_at=30), 3, 30, True),
        (Reach(dead_at=30), 3, 31, False),
    ],
)
def test_a_reach_is_a_bound(reach: Reach, right_to: float, dead_by: float, holds: bool) -> None:
    assert reach.holds(right_to, dead_by) == holds


def test_curves_agree_miss_or_say_nothing() -> None:
    paper = {("p", "good"): Reach(right_at=50), ("p", "bad"): Reach(wrong_at=50)}
    words = dict.fromkeys(paper, "so")
    good = result("p", "good", right_to=60, dead_by=90, validation=1.0)
    bad = result("p", "bad", right_to=4, dead_by=7, validation=0.1)
    assert PaperCurves(paper, words)([good, bad]) == [
        READING,
        "As in the paper: p: good (right to 60, dead by 90), bad (right to 4, dead by 7).",
    ]
    missed = replace(good, scores=replace(good.scores, right_to=40))
    agree, miss = PaperCurves(paper, words)([missed, bad])[1:]
    assert "bad" in agree
    assert miss == "Not as in the paper: p: good (right to 40, dead by 90, validation accuracy 1.000; paper: so)."
    unfitted = replace(missed, validation_accuracy=0.2)
    miss, nothing = PaperCurves(paper, words)([unfitted, bad])[1:]
    assert miss.startswith("Not as in the paper")
    assert nothing.startswith("No model fits the training length of p (best validation accuracy 0.200)")
    (nothing,) = PaperCurves(paper, words)([bad])[1:]  # to fail as the paper's did is no agreement if nothing was learned
    assert nothing.startswith("No model fits the training length of p (best validation accuracy 0.100)")


def test_fewer_steps_than_the_paper_s_are_named() -> None:
    assert FewerSteps(12)([result("p", "a")]) == []
    assert FewerSteps(13)([result("p", "a")]) == ["12 steps here, 13 in the paper: a miss may be one of budget."]
    two = [result("p", "a"), replace(result("p", "b"), steps=5), replace(result("p", "c"), steps=3, diverged_at=3)]
    assert FewerSteps(13)(two) == ["5 to 12 steps here, 13 in the paper: a miss may be one of budget."]


def test_the_papers_of_the_curves_are_those_of_the_tables() -> None:
    assert word_problems.S5_REACH.keys() <= word_problems.S5_VALUES.keys()
    assert deltaproduct.PAPER_REACH.keys() <= deltaproduct.PAPER_VALUES.keys()


@pytest.mark.parametrize(("narrow", "said"), [(0.1, "division holds"), (0.6, "division does not hold")])
def test_figure1_s_division(narrow: float, said: str) -> None:
    found = [result(table3.PARITY, "sLSTM", score=0.9), result(table3.PARITY, "Mamba [0, 1]", score=narrow)]
    assert said in table3.FIGURE_1.found(found)[0]


def test_parity_counts_those_that_never_fail() -> None:
    reach = {parity.DELTA_NET.label: (40, 60, 100), parity.CUT: (100, 100, 30)}
    found = [
        result(table3.PARITY, model, seed, score=1.0, horizon=horizon)
        for model, horizons in reach.items()
        for seed, horizon in enumerate(horizons)
    ]
    agreement, lengths, budget = parity.EXPERIMENT.found(found)
    assert agreement == "Within 0.1 of the paper, best [median]: DeltaNet [-1, 1] 1.000 [1.000]."
    assert "DeltaNet [-1, 1] to 60 (40, 60, 100), and 1 of 3 to the end; DeltaNet [-1, 1], overshoot 0.05 to 100 (" in lengths
    assert lengths.endswith(", and 2 of 3 to the end.")
    assert "100,000 in the paper" in budget


def test_longer_says_how_far_each_seed_is_right_on_parity() -> None:
    found = [result(table3.PARITY, "Mamba [-1, 1]", seed, score=1.0, horizon=reach) for seed, reach in enumerate((60, 100, 80))]
    found.append(result(table3.ARITHMETIC, "sLSTM", score=0.7))
    agreement, arithmetic, reaches, budget = more_steps.LONGER.found(found)
    assert agreement == "Within 0.1 of the paper on parity, best [median]: Mamba [-1, 1] 1.000 [1.000]."
    assert (
        arithmetic
        == "Above the paper on modular arithmetic, no brackets, best [median]: sLSTM 0.700 [0.700], paper .787 [.124]."
    )
    assert reaches.endswith(": Mamba [-1, 1] to 80 (60, 100, 80), and 1 of 3 to the end.")
    assert "100,000 in the paper" in budget
    assert len(more_steps.LONGER.found(found[-1:])) == 2  # without a parity there is no line of reaches


def test_patience_tells_what_more_steps_have_learned() -> None:
    found = [
        *(result("S3", "GLA, disk", seed, horizon=reach, validation=1.0) for seed, reach in enumerate((30, 100))),
        result("Z4", "sLSTM", horizon=12, validation=0.995),
        result("A5", "sLSTM", horizon=1, validation=0.18),
    ]
    assert more_steps.PATIENCE.found(found) == [
        "Learned, a seed is right to 6 times the training length, so the budget was too small; 1 of 3 fields. S3: GLA, disk.",
        "Right at the training lengths (99%), as with fewer steps they were not, and not so far; 1 of 3 fields. Z4: sLSTM.",
        "Not learned at the training lengths either, with the best validation accuracy; 1 of 3 fields. A5: sLSTM, 0.180.",
    ]


def test_deltaproduct_counts_factors() -> None:
    found = [result("S3", deltaproduct.LABELS[n], right_to=9 * n, dead_by=90, validation=1.0) for n in (1, 2, 3)]
    assert "S3 2 (2)" in deltaproduct.EXPERIMENT.found(found)[0]
    assert "S3 none of 4 (2)" in deltaproduct.EXPERIMENT.found(found[:1])[0]


def test_hybrids_compare_together_with_alone() -> None:
    alone = [result("L", series, horizon=9) for series in ("diagonal (GLA)", "GH, n = 1")]
    together = [result("L", "gated GH, n = 1", seed, horizon=54 * seed) for seed in (0, 1)]
    first, line = hybrids.EXPERIMENT.found([*alone, *together])
    assert "in 1 of 1 languages (L)" in first
    assert line.startswith("L: learned by gated GH, n = 1 (1 of 2 seeds). Best median score: diagonal 0.500")
    assert "in no language" in hybrids.EXPERIMENT.found([*alone, result("L", "KDA, n = 1", horizon=9)])[0]
    assert "in no language" in hybrids.EXPERIMENT.found([result("L", "GH, n = 2", horizon=54), *alone, *together])[0]
    assert "in no language" in hybrids.EXPERIMENT.found(together)[0]  # nothing to compare with


@pytest.mark.parametrize(("wide", "said"), [(0.89, "costs no layer more than 0.02"), (0.5, "costs recall in GLA")])
def test_tradeoff_names_a_cost(wide: float, said: str) -> None:
    scores = {"GLA [0, 1]": 0.9, "GLA [-1, 1]": wide, "Mamba [0, 1]": 0.05, "Mamba [-1, 1]": 0.05}
    found = [result(tradeoff.RECALL, series, score=score) for series, score in scores.items()]
    found += [result(tradeoff.TRACKING, "GLA [-1, 1]", score=0.95), result(tradeoff.TRACKING, "GLA [0, 1]", score=0.01)]
    recall, silent, tracking, seeds = tradeoff.EXPERIMENT.found(found)
    assert said in recall
    assert f"GLA 0.900 → {wide:.3f}" in recall
    assert "Mamba" not in recall
    assert silent.startswith("Mamba: recall is not learned")
    assert "by GLA [-1, 1] (0.950). The best of the others: GLA [0, 1], 0.010." in tracking
    assert seeds.startswith("One seed")
    assert not any(line.startswith("One seed") for line in tradeoff.EXPERIMENT.found([*found, replace(found[0], seed=1)]))
    overlap = [result(tradeoff.RECALL, "GLA [-1, 1]", seed, score=score) for seed, score in ((1, 0.95), (2, 0.3))]
    line = tradeoff.EXPERIMENT.found([*found, *overlap])[0]
    assert ("shows (GLA: the seeds overlap)" in line) == (wide < 0.88)
    flat = tradeoff.EXPERIMENT.found([*found, result(tradeoff.RECALL, tradeoff.FLAT, score=0.6)])[1]
    assert flat.endswith("GLA, temperature 16 [-1, 1] 0.600.")


def test_depth_compares_with_the_bound() -> None:
    """DeltaNet [-1, 1]: parity takes 1 layer, even pairs 3 are enough, S3 is impossible with 1 and takes 2."""

    def at(panel: str, layers: int, horizon: int, validation: float = 1.0) -> CellResult:
        return result(panel, label("DeltaNet [-1, 1]", layers), horizon=horizon, validation=validation)

    lines = depth.EXPERIMENT.found(
        [at("parity", 1, 90), at("even pairs", 1, 90), at("Z4", 3, 90), at("S3", 1, 90), at("Q8", 2, 30)]
    )
    assert lines[0] == "Learned at the bound of theory; DeltaNet [-1, 1], 1: parity (1)."
    assert lines[1].endswith("no proof says that fewer do not; DeltaNet [-1, 1], 1: even pairs (1, bound 3).")
    assert lines[2] == "Learned only with more layers than suffice in theory; DeltaNet [-1, 1], 1: Z4 (3, bound 2)."
    assert lines[3].endswith("theory rules out, a shortcut; DeltaNet [-1, 1], 1: S3 (1).")
    assert lines[4].endswith("though right at the training lengths (99%); DeltaNet [-1, 1], 1: Q8 (bound 2).")
    (never,) = depth.EXPERIMENT.found([at("Z3", 2, 9, 0.8), at("Z3", 3, 9, 0.9)])
    assert never.endswith("not right at the training lengths at any depth; DeltaNet [-1, 1], 1: Z3 (bound 2).")


def test_signed_gates_say_whom_the_sign_helps() -> None:
    scores = {"GLA [0, 1]": 0.0, "GLA [-1, 1]": 0.9, "mLSTM [0, 1]": 0.1, "mLSTM [-1, 1]": 0.1, "GLA, disk": 0.5}
    found = [result("parity", series, score=score, horizon=int(60 * score)) for series, score in scores.items()]
    (line,) = signed_gates.EXPERIMENT.found(found)
    assert line.startswith(
        "parity: the sign helps GLA; medians of [0, 1] → [-1, 1]: GLA 0.000 → 0.900 (best 0.900), mLSTM 0.100"
    )
    assert "GLA, disk: 0.500, not above the best of them." in line
    assert line.endswith("with a seed: GLA [-1, 1].")
    (line,) = signed_gates.EXPERIMENT.found([*found, result("parity", signed_gates.FLAT, score=0.03, horizon=3)])
    assert "GLA, temperature 16 [-1, 1]: 0.030. GLA, disk: 0.500" in line
    (line,) = signed_gates.EXPERIMENT.found([*found[2:4], found[4]])
    assert "helps no layer" in line
    assert "0.500, above all of them." in line


def test_the_ladder_measures_its_languages() -> None:
    assert ladder.COMPARISON.difficulty("S3") == ("6", "6", "1")
    assert ladder.COMPARISON.difficulty("brackets, 4 deep")[:2] == ("6", "1")
    assert ladder.COMPARISON.difficulty("binary, mod 5")[:2] == ("5", "20")  # x → 2x + a modulo 5
    automaton = ladder.THEORY.automaton("parity")
    assert isinstance(automaton, DFA)
    assert minimal(automaton).states == 2


def test_the_ladder_counts_what_it_lists() -> None:
    found = [
        result("parity", "Mamba [-1, 1]", horizon=90),
        result("parity", "Mamba [0, 1]", horizon=12, validation=1.0),  # a shortcut
        result("parity", "sLSTM", horizon=12, validation=1.0),  # drifts
        result("no 000", "DeltaNet [-1, 1]", horizon=90),
        result("no 000", "DeltaNet [0, 1]", horizon=9),
    ]
    agree, missed, cannot, unknown = ladder.EXPERIMENT.found([with_more(StudiedResult, each) for each in found])
    assert agree == "Theory and training agree in 2 of the 3 fields that theory decides; 2 it leaves open."
    assert missed.startswith("In 1 fields")
    assert ": 1 are right at the training lengths" in missed
    assert cannot.startswith("No field that theory says cannot is learned; 1 are fitted")
    assert unknown == "Of the 2 fields that theory leaves open 1 are learned."
    assert (
        "1 fields are right to 6 times"
        in ladder.EXPERIMENT.found([with_more(StudiedResult, result("parity", "Mamba [0, 1]", horizon=90))])[1]
    )


def ablated(narrow: float, diagonal: float, wide: float) -> list[CellResult]:
    """The best score in [0, 1], that of the diagonal matrix in [-1, 1] and the best there."""
    scores = {"diagonal [0, 1]": narrow, "diagonal [-1, 1]": diagonal, "4 GH [-1, 1]": wide}
    names = [f"{name} {width}" for name in ablation.STRUCTURES for width in ("[0, 1]", "[-1, 1]")]
    return [result("S3", name, score=scores.get(name, 0.0)) for name in names]


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        ((0.0, 0.1, 0.9), "S3: it takes the range and the structure; best in [0, 1] diagonal 0.00, in [-1, 1] 4 GH 0.90, the"),
        ((0.0, 0.8, 0.9), "S3: it is the range"),
        ((0.7, 0.8, 0.9), "S3: neither is needed"),
        ((0.1, 0.2, 0.3), "S3: nobody learns it"),
    ],
)
def test_range_or_structure(scores: tuple[float, float, float], said: str) -> None:
    (line,) = ablation.EXPERIMENT.found(ablated(*scores))
    assert line.startswith(said)
    assert f"diagonal {scores[1] - scores[0]:+.2f}, one GH +0.00" in line
    assert ablation.EXPERIMENT.found(ablated(*scores)[:-1]) == []  # a structure is missing


def test_structure_alone() -> None:
    found = [result("S3", run.series, score=0.9 * run.series.startswith("dense")) for run in ablated(0, 0, 0)]
    (line,) = ablation.EXPERIMENT.found(found)
    assert line.startswith("S3: it is the structure: the wide range is not needed; best in [0, 1] dense 0.90")


def test_unstable_runs_are_counted_by_range() -> None:
    toy = toy_result()
    calm = replace(toy, record=replace(toy.record, highest_gradient=1.0, median_gradient=1.0))
    runs = [
        replace(calm, panel=f"Mamba {width}", series="d = 64", rate=rate, diverged_at=7 if rate > limit else None)
        for width, limit in (("[0, 1]", 1e-2), ("[-1, 1]", 1e-3))
        for rate in (1e-3, 1e-2, 1e-1)
    ]
    lines = stability.EXPERIMENT.found(runs)
    assert lines == [
        "Mamba: [0, 1] 1 of 3 runs unstable, calm up to d = 64 0.01; [-1, 1] 2 of 3 runs unstable, calm up to d = 64 0.001.",
        "No run has learned the task: at the training lengths at most 0.500 of the answers are right (Mamba [0, 1], d = 64, "
        "rate 0.001), and the lowest loss is 0.000 (1.609: guessing), so these are the first steps of a training.",
    ]
    assert stability.EXPERIMENT.found([replace(runs[0], validation_accuracy=1.0), *runs[1:]]) == lines[:1]
    exploded = replace(runs[0], record=replace(calm.record, highest_gradient=101.0))
    assert "calm up to d = 64 none" in stability.EXPERIMENT.found([exploded, *runs[1:]])[0]
    assert "calm up to d = 64 none" in stability.EXPERIMENT.found(runs[1:3] + runs[3:])[0]  # the lowest rate has not run


def test_z60_by_range_and_by_tokens() -> None:
    def run(panel: str, series: str, right_to: int) -> CellResult:
        return result(panel, series, validation=0.95, right_to=right_to)

    wide, narrow = "Mamba [-1, 1], 5 blocks", "Mamba [0, 1], 5 blocks"
    found = [
        run(word_problems.ONE, wide, 20),
        run(word_problems.ONE, narrow, 9),
        run(word_problems.TWO, wide, 42),
        run(word_problems.TWO, narrow, 19),
    ]
    first, _, tokens, _ = word_problems.FIGURE_6.found(found)
    assert first.startswith(
        f"{word_problems.ONE}: furthest is {wide}, right to 20; in the wide range (in the narrow one) {wide} 20 (9);"
    )
    assert tokens == f"Over more elements with a second token for each: {wide}."
    tied = [run(word_problems.ONE, wide, 9), found[1]]
    assert word_problems.FIGURE_6.found(tied)[0].startswith(f"{word_problems.ONE}: furthest is {wide}, {narrow}, ")
    (alone, _) = word_problems.FIGURE_6.found(found[2:3])  # nothing to compare it with
    assert "narrow" not in alone
    unfitted = [replace(each, validation_accuracy=0.5) for each in found]
    assert "nobody fits the training length" in word_problems.FIGURE_6.found(unfitted)[0]


def test_table3_column_by_column() -> None:
    found = [result(panel, "Mamba [0, 1]", score=0.5) for panel in (table3.PARITY, table3.ARITHMETIC)]
    parity, arithmetic, _ = table3.TABLE_3.found(found)
    assert parity.startswith("Above the paper on parity, best [median]: Mamba [0, 1] 0.500 [0.500], paper .000")
    assert arithmetic.startswith("Above the paper on modular arithmetic, no brackets")
