"""The answers of the pages: with made-up results, the words follow the numbers, and turn with them."""

from __future__ import annotations

import pytest

from eigentrack.experiments.paper import parity_and_arithmetic as table3
from eigentrack.experiments.paper import word_problems
from eigentrack.experiments.questions import family, more_steps, parity
from eigentrack.experiments.questions.arithmetic import EXPERIMENT as ARITHMETIC
from eigentrack.experiments.reporting.wording import all_of, counted, joined, named, nested, quoted, rounded
from tests.experiments.reporting.test_findings import result


def test_parts_of_sentences() -> None:
    assert joined(["a"]) == "a"
    assert joined(["a", "b [-1, 1]", "c"]) == "a, b [-1, 1] and c"
    assert joined(["a, b", "c"]) == "a, b and c"
    assert joined(["a, b", "c", "d"]) == "a, b; c and d"
    assert quoted("Mamba [-1, 1]") == "Mamba [-1, 1]"
    assert all_of(["S3", "S5, swaps"]) == "S3 and “S5, swaps”"
    assert named(list("abcdefg")) == "see the table"
    assert named(list("abcdef")) == "a, b, c, d, e and f"
    assert nested("These:", ["a", "b"]) == "These:\n    - a\n    - b"
    assert (counted(1, "field"), counted(1234, "field")) == ("1 field", "1,234 fields")
    assert (rounded(-0.0001), rounded(-0.001)) == ("0.000", "-0.001")


@pytest.mark.parametrize(("narrow", "said"), [(0.05, "their twins in [0, 1] stay near guessing"), (0.4, "have (0.400")])
def test_twins_beyond_training(narrow: float, said: str) -> None:
    scores = {"DeltaNet [-1, 1]": 0.9, "Mamba [-1, 1]": 0.8, "DeltaNet [0, 1]": narrow, "Mamba [0, 1]": 0.0}
    found = [result(table3.PARITY, series, score=score) for series, score in scores.items()]
    answer = table3.FIGURE_1.answer(found)
    assert answer.startswith("With eigenvalues in [-1, 1] DeltaNet scores 0.900 in the median at lengths 40–256 (0 is guessing")
    assert "and Mamba 0.800;" in answer
    assert said in answer
    assert table3.FIGURE_1.answer(found[:1]) == ""  # a twin is missing
    assert table3.FIGURE_1.answer(found[::2]).endswith(f"{narrow:.3f}).")


def test_who_solves_which_task() -> None:
    scores = {
        (table3.PARITY, "sLSTM"): 0.9,
        (table3.PARITY, "mLSTM"): 0.1,
        (table3.ARITHMETIC, "sLSTM"): 0.2,
        (table3.ARITHMETIC, "mLSTM"): 0.3,
    }
    found = [result(*key, score=score) for key, score in scores.items()]
    assert table3.TABLE_3.answer(found) == (
        "On parity sLSTM does, with median scores of 0.900 or more at lengths 40–256 (0 is guessing, 1 is perfect). No model "
        "does on the other tasks: the best median score is 0.300 on “modular arithmetic, no brackets” (mLSTM)."
    )
    assert table3.TABLE_3.answer(found[2:]).startswith("No model does on these tasks: the best median score is 0.300 on ")


@pytest.mark.parametrize(
    ("wide", "said"),
    [
        (0.9, "From [0, 1] to [-1, 1] the median score at lengths 40–256 (0 is guessing, 1 is perfect)"),
        (0.15, "On none of the tasks does the range change"),
    ],
)
def test_what_the_range_changes_task_by_task(wide: float, said: str) -> None:
    found = [
        result(table3.PARITY, "DeltaNet [0, 1]", score=0.1),
        result(table3.PARITY, "DeltaNet [-1, 1]", score=wide),
        result(table3.ARITHMETIC, "DeltaNet [0, 1]", score=0.1),
        result(table3.ARITHMETIC, "DeltaNet [-1, 1]", score=0.1),
    ]
    assert table3.FIGURE_2.answer(found).startswith(said)
    assert ("goes from 0.100 to 0.900 on parity." in table3.FIGURE_2.answer(found)) == (wide == 0.9)
    assert ("at most 0.1 on “modular arithmetic, no brackets”" in table3.FIGURE_2.answer(found)) == (wide == 0.9)


def test_the_furthest_reach() -> None:
    found = [
        result(word_problems.SWAPS, word_problems.WIDE_1, right_to=60, validation=1.0),
        result(word_problems.SWAPS, word_problems.NARROW_5, right_to=6, validation=0.95),
        result(word_problems.SWAPS, "full matrix, 1 block", right_to=99, validation=1.0),
        result(word_problems.ALL, word_problems.WIDE_1, right_to=2, validation=0.2),
        result(word_problems.ALL, "full matrix, 1 block", right_to=30, validation=1.0),
    ]
    assert word_problems.FIGURE_3.answer(found) == (
        "Trained at length 9, the best models are right on 90 % of the sequences, in the median over the seeds, up to length "
        "60 on “S5, swaps” (“DeltaNet [-1, 1], 1 block”). On “S5, all” none of them fits even the training length, where the "
        "best validation accuracy is 0.200. The baseline, “full matrix, 1 block”, gets at least to length 30 on every task."
    )
    assert word_problems.FIGURE_6.answer([found[3]]).startswith("On “S5, all” no model fits even the training length")


def test_beside_the_paper() -> None:
    found = [
        result(table3.PARITY, "sLSTM", score=1.0),
        result(table3.PARITY, "Mamba [-1, 1]", score=0.6),
        result(table3.ARITHMETIC, "mLSTM", score=0.5),
    ]
    answer = more_steps.LONGER.answer(found)
    assert answer == (
        "1 of 3 scores (a task and a model) is within 0.1 of the paper's, by the best seed and by the median; 1 is below and 1 "
        "is above. Furthest below is Mamba [-1, 1] on parity, with a median of 0.600 where the paper has 1.000."
    )
    assert "Furthest" not in more_steps.LONGER.answer(found[::2])


def test_the_best_change_of_a_training() -> None:
    scores = {"Mamba [-1, 1]": 0.9, "Mamba [-1, 1], no decay": 0.95, "Mamba [-1, 1], smoothed 0.1": 0.8}
    found = [result(table3.PARITY, series, score=score, horizon=50) for series, score in scores.items()]
    answer = parity.EXPERIMENT.answer(found)
    assert "is highest with “no decay” for Mamba [-1, 1] (from 0.900 to 0.950)." in answer
    assert answer.endswith("None of the 3 networks is right at every length up to 100.")
    assert "which does not raise it, from 0.900 to 0.800" in parity.EXPERIMENT.answer(found[::2])
    never = result(table3.PARITY, "Mamba [-1, 1]", 1, score=0.9, horizon=100)
    assert parity.EXPERIMENT.answer([*found, never]).endswith("1 of the 4 networks is right at every length up to 100.")


def test_agreement_with_theory() -> None:
    found = [
        result("parity", "Mamba [-1, 1]", horizon=90),  # can, and learned
        result("parity", "DeltaNet [-1, 1]", horizon=9),  # can, and not learned
        result("S5, swaps", "Mamba [-1, 1]", horizon=9),  # cannot, and not learned
    ]
    assert family.EXPERIMENT.answer(found) == (
        "Mamba [-1, 1] learns the most tasks, 1 of 2, right to 6 times the training length. Training agrees with theory in 2 "
        "of the 3 fields (a task and a layer) that theory decides, and no field is learned that theory rules out."
    )
    beyond = [*found[:2], result("S5, swaps", "Mamba [-1, 1]", horizon=90)]
    assert "in 1 of the 3 fields" in family.EXPERIMENT.answer(beyond)
    assert family.EXPERIMENT.answer(beyond).endswith("and 1 field is learned that theory rules out.")


def test_a_search_is_called_one() -> None:
    first, best = "1 factor", "2 factors, gated, no decay"
    found = [result(table3.ARITHMETIC, series, seed, score=s) for series in (first, best) for seed, s in ((0, 0.3), (1, 0.4))]
    better = [*found[:2], result(table3.ARITHMETIC, best, score=0.9), result(table3.ARITHMETIC, best, 1, score=0.8)]
    answer = ARITHMETIC.answer(better)
    assert answer.startswith(
        f"The best network, “{best}”, has a median score of 0.850 at lengths 40–256 and 0.800 with its worst seed"
    )
    assert "has a median of 0.350 here and of 0.826 in the paper." in answer
    assert answer.endswith("so this is no fair comparison with the paper.")
    assert "no fair comparison" not in ARITHMETIC.answer(found[:2])
    assert ARITHMETIC.answer(found[2:]) == ""
