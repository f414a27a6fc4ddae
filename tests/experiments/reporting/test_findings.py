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
from eigentrack.experiments.reporting.wording import gain, rounded
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
        *("deltaproduct", "parity", "longer", "arithmetic", "ladder", "patience", "ablation", "stability", "family", "mat"),
    ],
)
def test_the_pages_have_findings(name: str) -> None:
    assert named_experiment(name).findings


def test_numbers_near_the_paper_s_agree() -> None:
    paper = {("p", "near"): ".500 [.400]", ("p", "low"): "1.000 [.999 ± .006]", ("p", "high"): ".000 [.000]"}
    found = [result("p", name, seed, score=0.45) for name in ("near", "low", "high", "unknown") for seed in (0, 1)]
    close, below, above = PaperNumbers(paper)(found)
    assert close == "1 of 3 models is within 0.1 of the paper, by the best seed and by the median: near."
    assert below == (
        "low stays below the paper: its best seed scores 0.450 and its median 0.450, where the paper has 1.000 and 0.999."
    )
    assert above.startswith("high comes out above the paper: its best seed scores 0.450")


def test_the_median_alone_may_miss() -> None:
    found = [result("p", "a", seed, score=score) for seed, score in enumerate((0.0, 0.0, 1.0))]
    (line,) = PaperNumbers({("p", "a"): "1.000 [1.000]"})(found)
    assert "stays below the paper: its best seed scores 1.000 and its median 0.000" in line


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
        "These models do as the paper's:\n    - p: good is right up to length 60 and dead by 90; bad is right up to length 4 "
        "and dead by 7.",
    ]
    missed = replace(good, scores=replace(good.scores, right_to=40))
    agree, miss = PaperCurves(paper, words)([missed, bad])[1:]
    assert "bad is right" in agree
    assert "good" not in agree
    assert miss == (
        "These models do not do as the paper's:\n    - p, good: right up to length 40 and dead by 90, with a validation "
        "accuracy of 1.000. The paper: so."
    )
    unfitted = replace(missed, validation_accuracy=0.2)
    miss, nothing = PaperCurves(paper, words)([unfitted, bad])[1:]
    assert miss.startswith("These models do not do as the paper's")
    assert nothing.startswith("No model fits the training length on p (best validation accuracy 0.200)")
    (nothing,) = PaperCurves(paper, words)([bad])[1:]  # to fail as the paper's did is no agreement if nothing was learned
    assert nothing.startswith("No model fits the training length on p (best validation accuracy 0.100)")


def test_fewer_steps_than_the_paper_s_are_named() -> None:
    assert FewerSteps(12)([result("p", "a")]) == []
    (line,) = FewerSteps(13)([result("p", "a")])
    assert line.startswith("These networks were trained for 12 steps and the paper's for 13:")
    two = [result("p", "a"), replace(result("p", "b"), steps=5), replace(result("p", "c"), steps=3, diverged_at=3)]
    assert FewerSteps(13)(two)[0].startswith("These networks were trained for 5 to 12 steps and the paper's for 13:")


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
    assert agreement == "1 of 1 model is within 0.1 of the paper, by the best seed and by the median: DeltaNet [-1, 1]."
    assert lengths.splitlines()[1:] == [
        "    - DeltaNet [-1, 1]: up to length 60; 1 of 3 networks is right to the end of the test.",
        "    - DeltaNet [-1, 1], overshoot 0.05: up to length 100; 2 of 3 networks are right to the end of the test.",
    ]
    assert "the paper's for 100,000" in budget


def test_longer_says_how_far_each_seed_is_right_on_parity() -> None:
    found = [result(table3.PARITY, "Mamba [-1, 1]", seed, score=1.0, horizon=reach) for seed, reach in enumerate((60, 100, 80))]
    found.append(result(table3.ARITHMETIC, "sLSTM", score=0.7))
    agreement, arithmetic, reaches, budget = more_steps.LONGER.found(found)
    assert agreement == "On parity, 1 of 1 model is within 0.1 of the paper, by the best seed and by the median: Mamba [-1, 1]."
    assert arithmetic == (
        "On “modular arithmetic, no brackets”, sLSTM comes out above the paper: its best seed scores 0.700 and its median "
        "0.700, where the paper has 0.787 and 0.124."
    )
    assert reaches.endswith("\n    - Mamba [-1, 1]: up to length 80; 1 of 3 networks is right to the end of the test.")
    assert "the paper's for 100,000" in budget
    assert len(more_steps.LONGER.found(found[-1:])) == 2  # without a parity there is no line of reaches


def test_patience_tells_what_more_steps_have_learned() -> None:
    found = [
        *(result("S3", "GLA, disk", seed, horizon=reach, validation=1.0) for seed, reach in enumerate((30, 100))),
        result("Z4", "sLSTM", horizon=12, validation=0.995),
        result("A5", "sLSTM", horizon=1, validation=0.18),
    ]
    assert more_steps.PATIENCE.found(found) == [
        "1 of 3 fields is learned now, as a seed is right to 6 times the training length: the budget was too small."
        "\n    - S3: GLA, disk",
        "1 of 3 fields is right at the training lengths now (99% of the answers), but not so far beyond them.\n    - Z4: sLSTM",
        "1 of 3 fields is not right at the training lengths either.\n    - A5: sLSTM (validation accuracy 0.180)",
    ]
    assert more_steps.PATIENCE.answer(found).startswith("Mostly not: of 3 fields (a language and an architecture) 1 is learned")
    assert more_steps.PATIENCE.answer(found[:2]).startswith("Mostly: of 1 field ")
    assert more_steps.PATIENCE.answer(found[2:]).startswith("No: of 2 fields ")


def test_deltaproduct_counts_factors() -> None:
    found = [result("S3", deltaproduct.LABELS[n], right_to=9 * n, dead_by=90, validation=1.0) for n in (1, 2, 3)]
    assert "    - S3 is learned from 2 factors on; in theory 2 are enough." in deltaproduct.EXPERIMENT.found(found)[0]
    assert "    - S3 is not learned with up to 4 factors; in theory 2" in deltaproduct.EXPERIMENT.found(found[:1])[0]
    assert deltaproduct.EXPERIMENT.answer(found).startswith(
        "One layer takes 2 factors for S3 (2 in theory) to be right at twice"
    )
    missed = deltaproduct.EXPERIMENT.answer(found[:1])
    assert missed == "S3 is learned with none of up to 4 factors, though 2 are enough in theory."


def test_hybrids_compare_together_with_alone() -> None:
    alone = [result("L", series, horizon=9) for series in ("diagonal (GLA)", "GH, n = 1")]
    together = [result("L", "gated GH, n = 1", seed, horizon=54 * seed) for seed in (0, 1)]
    *_, line = hybrids.EXPERIMENT.found([*alone, *together])
    assert line.startswith(
        "“L” is learned by “gated GH, n = 1” (1 of 2 seeds). The best median scores are 0.500 (a diagonal gate"
    )
    answer = hybrids.EXPERIMENT.answer
    assert answer([*alone, *together]).startswith("Yes: 1 of 1 language (L) is learned only by layers with both.")
    assert "0 with a diagonal gate alone, 0 with factors alone and 1 with both" in answer([*alone, *together])
    assert answer([*alone, result("L", "KDA, n = 1", horizon=9)]).startswith("No:")
    assert answer([result("L", "GH, n = 2", horizon=54), *alone, *together]).startswith("No:")
    assert answer(together).startswith("No:")  # nothing to compare with


@pytest.mark.parametrize(("wide", "said"), [(0.89, "costs no layer more than 0.02"), (0.5, "costs recall in GLA")])
def test_tradeoff_names_a_cost(wide: float, said: str) -> None:
    scores = {"GLA [0, 1]": 0.9, "GLA [-1, 1]": wide, "Mamba [0, 1]": 0.05, "Mamba [-1, 1]": 0.05}
    found = [result(tradeoff.RECALL, series, score=score) for series, score in scores.items()]
    found += [result(tradeoff.TRACKING, "GLA [-1, 1]", score=0.95), result(tradeoff.TRACKING, "GLA [0, 1]", score=0.01)]
    recall, silent, tracking, seeds = tradeoff.EXPERIMENT.found(found)
    assert said in recall
    assert f"    - GLA: a median of 0.900 in [0, 1] and of {wide:.3f} in [-1, 1]" in recall
    assert said in tradeoff.EXPERIMENT.answer(found)
    assert f"GLA recalls {wide:.3f} (0.900 in [0, 1])" in tradeoff.EXPERIMENT.answer(found)  # it tracks as well
    assert "Mamba" not in recall
    assert silent.startswith("Mamba does not learn recall in either range")
    assert "by GLA [-1, 1] (0.950). The best of the others is GLA [0, 1], with 0.010." in tracking
    assert seeds.startswith("There is only one seed")
    assert not any(line.startswith("There is") for line in tradeoff.EXPERIMENT.found([*found, replace(found[0], seed=1)]))
    overlap = [result(tradeoff.RECALL, "GLA [-1, 1]", seed, score=score) for seed, score in ((1, 0.95), (2, 0.3))]
    line = tradeoff.EXPERIMENT.found([*found, *overlap])[0]
    assert ("between seeds (the medians of GLA fall, but the seeds overlap)" in line) == (wide < 0.88)
    flat = tradeoff.EXPERIMENT.found([*found, result(tradeoff.RECALL, tradeoff.FLAT, score=0.6)])[1]
    assert flat.endswith("the median recall is 0.600 (GLA, temperature 16 [-1, 1]).")


def test_depth_compares_with_the_bound() -> None:
    """DeltaNet [-1, 1]: parity takes 1 layer, even pairs 3 are enough, S3 is impossible with 1 and takes 2."""

    def at(panel: str, layers: int, horizon: int, validation: float = 1.0) -> CellResult:
        return result(panel, label("DeltaNet [-1, 1]", layers), horizon=horizon, validation=validation)

    lines = depth.EXPERIMENT.found(
        [at("parity", 1, 90), at("even pairs", 1, 90), at("Z4", 3, 90), at("S3", 1, 90), at("Q8", 2, 30)]
    )
    heads, items = zip(*(line.split("\n    - DeltaNet [-1, 1]: 1 language, ") for line in lines), strict=True)
    assert items == (
        "“parity” (at 1).",
        "“even pairs” (at 1, 3 suffice).",
        "“Z4” (at 3, 2 suffice).",
        "“S3” (at 1).",
        "“Q8” (2 suffice).",
    )
    assert [head.split()[1] for head in heads] == ["at", "with", "only", "to", "at"]
    assert "that theory rules out" in heads[3]
    (never,) = depth.EXPERIMENT.found([at("Z3", 2, 9, 0.8), at("Z3", 3, 9, 0.9)])
    assert never.startswith("Not right at the training lengths at any depth up to 4")
    assert never.endswith("    - DeltaNet [-1, 1]: 1 language, “Z3” (2 suffice).")


def test_depth_counts_its_languages() -> None:
    found = [
        result(panel, label("DeltaNet [-1, 1]", layers), horizon=90)
        for panel, layers in (("parity", 1), ("even pairs", 1), ("Z4", 3), ("S3", 1))
    ]
    found.append(result("Q8", label("DeltaNet [-1, 1]", 2), horizon=3))
    assert depth.EXPERIMENT.answer(found).startswith(
        "Of 5 pairs of a language and a layer, 1 are learned at exactly the depth that suffices in theory, 1 with fewer layers "
        "and 1 only with more. 1 are right far beyond training at a depth that theory rules out. The other 1 are learned at no "
        "depth"
    )
    assert "rules out" not in depth.EXPERIMENT.answer(found[:3])
    assert depth.EXPERIMENT.answer([]) == ""


def test_signed_gates_say_whom_the_sign_helps() -> None:
    scores = {"GLA [0, 1]": 0.0, "GLA [-1, 1]": 0.9, "mLSTM [0, 1]": 0.1, "mLSTM [-1, 1]": 0.1, "GLA, disk": 0.5}
    found = [result("parity", series, score=score, horizon=int(60 * score)) for series, score in scores.items()]
    (line,) = signed_gates.EXPERIMENT.found(found)
    assert line.splitlines()[:2] == [
        "On parity, negative gates help GLA. GLA [-1, 1] is right to 6 times the training length with at least one seed.",
        "    - GLA: the median score is 0.000 in [0, 1] and 0.900 in [-1, 1], where the best seed has 0.900.",
    ]
    assert "GLA, disk: the median score is 0.500, not above the best of these." in line
    assert signed_gates.EXPERIMENT.answer(found) == "On the other tasks the best median score is 0.900 on parity (GLA)."
    assert signed_gates.EXPERIMENT.answer(found[:2]) == (
        "On parity all of them do, with median scores of 0.900 or more where those in [0, 1] are 0.000 or less."
    )
    (line,) = signed_gates.EXPERIMENT.found([*found, result("parity", signed_gates.FLAT, score=0.03, horizon=3)])
    assert "GLA, temperature 16 [-1, 1]: the median score is 0.030.\n    - GLA, disk: the median score is 0.500" in line
    (line,) = signed_gates.EXPERIMENT.found([*found[2:4], found[4]])
    assert "help no layer. No layer is right" in line
    assert "0.500, above all of these." in line


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
    studied = [with_more(StudiedResult, each) for each in found]
    missed, cannot, unknown = ladder.EXPERIMENT.found(studied)
    assert missed.startswith("In 1 field theory says that the architecture can")
    assert ": 1 is right at the training lengths and fails beyond, 0 are not learned" in missed
    assert cannot.startswith("No field that theory rules out is learned; 1 of them is right at the training lengths")
    assert unknown == "Of the 2 fields that theory leaves open, 1 is learned."
    assert ladder.EXPERIMENT.answer(studied).startswith("They agree in 2 of the 3 fields (a language and an architecture)")
    assert ladder.EXPERIMENT.answer(studied).endswith("No field that theory rules out is learned.")
    beyond = [with_more(StudiedResult, result("parity", "Mamba [0, 1]", horizon=90))]
    assert ladder.EXPERIMENT.found(beyond)[0].startswith("1 field is right to 6 times")
    assert ladder.EXPERIMENT.answer(beyond).endswith("1 field that theory rules out is learned.")


def ablated(narrow: float, diagonal: float, wide: float) -> list[CellResult]:
    """The best score in [0, 1], that of the diagonal matrix in [-1, 1] and the best there."""
    scores = {"diagonal [0, 1]": narrow, "diagonal [-1, 1]": diagonal, "4 GH [-1, 1]": wide}
    names = [f"{name} {width}" for name in ablation.STRUCTURES for width in ("[0, 1]", "[-1, 1]")]
    return [result("S3", name, score=scores.get(name, 0.0)) for name in names]


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        ((0.0, 0.1, 0.9), "it takes both the wide range and the structure"),
        ((0.0, 0.8, 0.9), "the wide range is what helps"),
        ((0.7, 0.8, 0.9), "neither is needed"),
        ((0.1, 0.2, 0.3), "no structure learns the task"),
    ],
)
def test_range_or_structure(scores: tuple[float, float, float], said: str) -> None:
    legend, line = ablation.EXPERIMENT.found(ablated(*scores))
    assert legend.startswith("GH stands for a generalised Householder factor")
    assert line.startswith(f"On S3, {said}")
    assert f"in [0, 1] (diagonal) and {rounded(scores[2])} in [-1, 1] (4 GH)" in line
    assert f"by {gain(scores[1] - scores[0])} (diagonal), 0.000 (one GH)" in line
    best = f"In [0, 1] no median score of any structure is above {rounded(scores[0])}."
    assert ablation.EXPERIMENT.answer(ablated(*scores)).endswith(best)
    assert ablation.EXPERIMENT.answer(ablated(*scores)[:-1]) == ""
    assert ablation.EXPERIMENT.found(ablated(*scores)[:-1]) == []  # a structure is missing


def test_structure_alone() -> None:
    found = [result("S3", run.series, score=0.9 * run.series.startswith("dense")) for run in ablated(0, 0, 0)]
    _, line = ablation.EXPERIMENT.found(found)
    assert line.startswith("On S3, the structure is what helps, and the wide range is not needed.\n")
    assert "0.900 in [0, 1] (dense)" in line
    assert ablation.EXPERIMENT.answer(found).startswith("On S3 the structure is enough.")


def test_unstable_runs_are_counted_by_range() -> None:
    toy = toy_result()
    calm = replace(toy, record=replace(toy.record, highest_gradient=1.0, median_gradient=1.0))
    runs = [
        replace(calm, panel=f"Mamba {width}", series="d = 64", rate=rate, diverged_at=7 if rate > limit else None)
        for width, limit in (("[0, 1]", 1e-2), ("[-1, 1]", 1e-3))
        for rate in (1e-3, 1e-2, 1e-1)
    ]
    lines = stability.EXPERIMENT.found(runs)
    stable = "The highest learning rate up to which every run is stable is"
    assert lines == [
        f"Mamba [0, 1]: 1 of 3 runs are unstable. {stable} 0.01 (for d = 64).",
        f"Mamba [-1, 1]: 2 of 3 runs are unstable. {stable} 0.001 (for d = 64).",
        "No run has learned the task, so these are the first steps of a training: at the training lengths at most 0.500 of the "
        "answers are right (Mamba [0, 1], d = 64, rate 0.001), and the lowest loss is 0.000, where guessing has 1.609.",
    ]
    assert stability.EXPERIMENT.answer(runs).startswith(
        "2 of 3 runs of Mamba are unstable in [-1, 1] and 1 of 3 in [0, 1]. A run is unstable if"
    )
    assert stability.EXPERIMENT.answer(runs[:3]) == ""  # no twin
    assert stability.EXPERIMENT.found([replace(runs[0], validation_accuracy=1.0), *runs[1:]]) == lines[:2]
    exploded = replace(runs[0], record=replace(calm.record, highest_gradient=101.0))
    assert "stable is none (for d = 64)" in stability.EXPERIMENT.found([exploded, *runs[1:]])[0]
    assert "stable is none (for d = 64)" in stability.EXPERIMENT.found(runs[1:3] + runs[3:])[0]  # the lowest rate has not run


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
        f"On “{word_problems.ONE}”, “{wide}” gets furthest, with 90 % of the sequences right up to length 20. The "
    )
    assert first.endswith(f"\n    - “{wide}” is right up to length 20, its twin in [0, 1] up to 9.")
    assert tokens == f"“{wide}” gets over more elements when each element has a second token."
    tied = [run(word_problems.ONE, wide, 9), found[1]]
    assert word_problems.FIGURE_6.found(tied)[0].startswith(f"On “{word_problems.ONE}”, “{wide}” and “{narrow}” get furthest")
    (alone, _) = word_problems.FIGURE_6.found(found[2:3])  # nothing to compare it with
    assert "twin" not in alone
    unfitted = [replace(each, validation_accuracy=0.5) for each in found]
    assert "No model fits the training length" in word_problems.FIGURE_6.found(unfitted)[0]


def test_table3_column_by_column() -> None:
    found = [result(panel, "Mamba [0, 1]", score=0.5) for panel in (table3.PARITY, table3.ARITHMETIC)]
    parity, arithmetic, _ = table3.TABLE_3.found(found)
    assert parity.startswith("On parity, Mamba [0, 1] comes out above the paper: its best seed scores 0.500")
    assert arithmetic.startswith("On “modular arithmetic, no brackets”, Mamba [0, 1] comes out above the paper")
