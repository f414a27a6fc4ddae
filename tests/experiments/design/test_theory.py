"""The theory beside a result: from tasks to automata and from models to architectures, checked against direct ones."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from eigentrack.analysis.moore_machine import MooreMachine
from eigentrack.automata import classify, word_problem_dfa
from eigentrack.experiments.design.experiment import Panel, Series
from eigentrack.experiments.design.theory import Theory, architecture_of, automaton_of
from eigentrack.experiments.questions.deltaproduct import LABELS
from eigentrack.experiments.questions.deltaproduct import THEORY as DELTAPRODUCT
from eigentrack.expressivity import Architecture, judge
from eigentrack.models import ModelConfig
from eigentrack.spectrum import EigenDisk, EigenPolygon, EigenRange
from tests.experiments.toy import SETTINGS

WIDE = EigenRange(-1, 1)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ({"mixer": "mamba", "layers": 3}, Architecture("diagonal", WIDE, layers=3)),
        ({"mixer": "gla", "eigenvalues": EigenRange(0, 1)}, Architecture("diagonal", EigenRange(0, 1), layers=2)),
        ({"mixer": "gla", "eigenvalues": EigenDisk()}, Architecture("complex-diagonal", layers=2)),
        ({"mixer": "mlstm", "layers": 1}, Architecture("mlstm", WIDE, layers=1)),
        ({"mixer": "deltanet", "mixer_options": ({"householders": 1}, {"householders": 4})}, None),
        ({"mixer": "deltanet", "layers": 1}, Architecture("deltanet", WIDE, layers=1, householders=1)),
        (
            {"mixer": "deltanet", "mixer_options": {"gate": EigenRange(0, 1), "householders": 3}},
            Architecture("gated-deltanet", WIDE, layers=2, householders=3),
        ),
        (
            {"mixer": "deltanet", "mixer_options": {"gate": WIDE, "gate_per_channel": True}},
            Architecture("channel-gated-deltanet", WIDE, layers=2, householders=1),
        ),
        (
            {"mixer": "deltanet", "mixer_options": {"gate": EigenRange(0, 1), "gate_per_channel": True}},
            Architecture("kda", WIDE, layers=2, householders=1),
        ),
        ({"mixer": "deltanet", "mixer_options": {"gate": EigenRange(-1, 0), "gate_per_channel": True}}, None),
        ({"mixer": "deltanet", "mixer_options": {"gate": WIDE}}, None),  # theory knows no signed gate of a head
        ({"mixer": "rwkv7"}, Architecture("rwkv7", WIDE, layers=2)),
        ({"mixer": "s4d", "eigenvalues": EigenDisk()}, Architecture("s4d", layers=2)),
        ({"mixer": "s4d"}, Architecture("s4d-real", WIDE, layers=2)),
        # theory knows the whole disk alone
        ({"mixer": "gla", "eigenvalues": EigenDisk(0, 0.9)}, None),
        ({"mixer": "mamba", "eigenvalues": EigenDisk(0.5, 1)}, None),
        ({"mixer": "gla", "eigenvalues": EigenPolygon(5)}, None),
        ({"mixer": "gla", "mixer_options": {"writes": False, "learn_initial_state": True}}, None),
        ({"mixer": "s4d", "eigenvalues": EigenDisk(0.5, 0.9)}, None),
        ({"mixer": "dense", "mixer_options": {"eigenvalues": None}}, Architecture("dense", layers=2)),
        ({"mixer": "pd_ssm", "eigenvalues": EigenRange(0, 1)}, Architecture("pd_ssm", layers=2)),
        ({"mixer": "pd_ssm", "eigenvalues": EigenRange(0, 0.9)}, None),
        ({"mixer": "sd_ssm"}, Architecture("sd_ssm", layers=2)),
        ({"mixer": "sd_ssm", "mixer_options": {"eigenvalues": None}}, Architecture("sd_ssm", layers=2)),
        ({"mixer": "sd_ssm", "eigenvalues": EigenRange(0, 1)}, None),
        ({"mixer": "slstm"}, Architecture("slstm", layers=2)),
        ({"mixer": "attention"}, Architecture("attention", layers=2)),
        ({"mixer": "convolution"}, None),
        ({"mixer": ("mamba", "deltanet")}, None),
    ],
)
def test_the_architecture_of_a_model(model: dict[str, Any], expected: Architecture | None) -> None:
    assert architecture_of(ModelConfig(vocab_size=2, d_model=8, **model)) == expected


def test_two_answers_are_accepted_or_not() -> None:
    """Parity of the letter 1, answers 0 and 1: the words of answer 1."""
    dfa = automaton_of(MooreMachine(("0", "1"), ((0, 1), (1, 0)), (0, 1)))
    for word in product("01", repeat=5):
        assert dfa.accepts(word) == (word.count("1") % 2 == 1)


def test_of_several_answers_the_first_is_asked_for() -> None:
    """A number modulo 4 with its two upper values answered alike: back to 0, in an automaton without equivalent states."""
    machine = MooreMachine(("+", "0"), ((1, 0), (2, 0), (0, 0), (2, 0)), (0, 1, 2, 2), start=0)
    dfa = automaton_of(machine)
    assert dfa.states == 3
    for word in product("+0", repeat=5):
        state = 0
        for letter in word:
            state = (state + 1) % 3 if letter == "+" else 0
        assert dfa.accepts(word) == (state == 0)


def test_the_verdict_is_that_of_the_word_problem() -> None:
    panels = (Panel("S3", "group", {"name": "S3"}), Panel("recall", "recall"))
    series = (Series("one", {"mixer": "deltanet", "layers": 1}), Series("two", {"mixer": "deltanet", "layers": 2}))
    theory = Theory(panels, series, SETTINGS)
    dfa = word_problem_dfa("S3")
    for entry, layers in (("one", 1), ("two", 2)):
        expected = judge(dfa, classify(dfa), Architecture("deltanet", WIDE, layers=layers, householders=1))
        assert (theory.answer("S3", entry), theory.verdict("S3", entry).theorem) == (expected.answer, expected.theorem)
    assert (theory.answer("S3", "one"), theory.answer("S3", "two")) == ("cannot", "can")
    assert theory.verdict("recall", "one") is None
    assert theory.answer("recall", "one") == "–"


def test_the_theory_beside_deltaproduct() -> None:
    """S5 needs four factors in one layer; S3, S4 and A5 two (S4 and A5 as rotations of a solid)."""
    assert [DELTAPRODUCT.answer("S3", LABELS[n]) for n in (1, 2)] == ["cannot", "can"]
    assert [DELTAPRODUCT.answer("A5", LABELS[n]) for n in (1, 2)] == ["cannot", "can"]
    assert [DELTAPRODUCT.answer("S5", LABELS[n]) for n in (3, 4)] == ["cannot", "can"]
