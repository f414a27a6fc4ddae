"""Verdicts on named languages, in every family, with their sources and witnesses; nothing is a guess."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eigentrack.automata import DFA, LanguageClass, classify, language, minimal
from eigentrack.automata.groups import word_problem_dfa
from eigentrack.expressivity import STANDARD, Architecture, Construction, Hybrid, Verdict, judge, verdicts
from eigentrack.expressivity.architecture import WITH_FACTORS
from eigentrack.expressivity.construction import constructions
from eigentrack.spectrum import EigenDisk, EigenRange

FORGET, FLIP = EigenRange(0, 1), EigenRange(-1, 1)
GROUPS = {
    "S5-swaps": ("S5", "swaps"),
    "S5-all": ("S5", "all"),
    "A5-all": ("A5", "all"),
    "S4-all": ("S4", "all"),
    "Q8-all": ("Q8", "all"),
    "Z7-all": ("Z7", "all"),
}
NAMED = [
    "parity", "aa", "aaa", "aaaa", "abab", "flip-flop", "resettable-parity", "resettable-mod3", "t3", "d3", "dyck2-2",
    *(f"tomita{n}" for n in range(1, 8)), "ends-ab", "a-then-b", "cerny4", "unary6", "shell-game5", "binary-mod5", *GROUPS,
]  # fmt: skip

DIAGONAL = Architecture("diagonal", FORGET)
MAMBA_NEGATIVE = Architecture("diagonal", FLIP)
DELTA = Architecture("deltanet", FLIP, layers=1, householders=1)
PRODUCT = Architecture("deltanet", FLIP, layers=1)
CHANNEL = Architecture("channel-gated-deltanet", FLIP, layers=1)


@cache
def known(name: str) -> tuple[DFA, LanguageClass]:
    dfa = minimal(word_problem_dfa(*GROUPS[name]) if name in GROUPS else language(name))
    return dfa, classify(dfa)


def answer(name: str, architecture: Architecture) -> str:
    return judge(*known(name), architecture).answer


@pytest.mark.parametrize(
    ("architecture", "can", "cannot", "unknown"),
    [
        (
            DIAGONAL,
            "flip-flop tomita1 tomita2 tomita4 tomita7 d3 dyck2-2 ends-ab a-then-b",
            "parity aa abab tomita3 tomita5 tomita6 t3",
            "",
        ),
        (replace(DIAGONAL, precision="ieee"), "flip-flop d3", "parity aa abab aaa resettable-parity", ""),
        (replace(DIAGONAL, layers=1), "flip-flop ends-ab", "parity", "d3 a-then-b"),
        (Architecture("mlstm", FORGET), "flip-flop d3", "parity abab", ""),
        (
            MAMBA_NEGATIVE,
            "parity aa aaaa abab tomita3 tomita5 resettable-parity d3 Q8-all",
            "aaa unary6 tomita6 resettable-mod3 t3 binary-mod5 shell-game5",
            "",
        ),
        (
            replace(MAMBA_NEGATIVE, layers=1),
            "parity aa tomita5 resettable-parity flip-flop",
            "aaaa aaa Q8-all",
            "abab tomita3 d3",
        ),
        (replace(MAMBA_NEGATIVE, layers=2), "aaaa Q8-all parity", "aaa", "abab"),
        (replace(MAMBA_NEGATIVE, precision="log"), "parity d3", "S5-all shell-game5 A5-all", "aaa t3"),
        (Architecture("open-diagonal", FORGET, precision="eta-finite"), "ends-ab", "flip-flop d3 parity a-then-b", ""),
        (Architecture("open-diagonal", FORGET, precision="constrained"), "flip-flop d3 a-then-b ends-ab", "parity aa abab", ""),
        (Architecture("open-diagonal", FLIP, precision="eta-finite"), "ends-ab", "flip-flop d3 parity a-then-b", ""),
        (
            Architecture("open-diagonal", FLIP, precision="constrained"),
            "flip-flop d3 parity aa aaaa abab resettable-parity Q8-all",
            "aaa t3 S5-all unary6",
            "",
        ),
        (
            Architecture("open-diagonal", FLIP, layers=1, precision="constrained"),
            "flip-flop parity",
            "aaaa Q8-all aaa",
            "abab",
        ),
        (Architecture("open-diagonal", EigenRange(-0.5, 0.1), precision="constrained"), "parity", "aaa", ""),
        (Architecture("open-diagonal", EigenRange(0.5, 1), precision="constrained"), "ends-ab", "parity", "flip-flop"),
        (Architecture("open-diagonal", EigenRange(-1, 0), precision="constrained"), "ends-ab", "aaa", "flip-flop parity"),
        (
            Architecture("complex-diagonal", layers=1),
            "aaa unary6 parity tomita6",
            "S4-all Q8-all binary-mod5 A5-all",
            "t3 abab",
        ),
        (Architecture("complex-diagonal"), "aaa S4-all t3 cerny4 d3 binary-mod5", "S5-all A5-all shell-game5", ""),
        (Architecture("complex-diagonal", layers=2), "binary-mod5 Q8-all", "S4-all", "t3"),
        (Architecture("complex-diagonal", layers=3), "S4-all", "A5-all", "cerny4"),
        (Architecture("complex-diagonal", layers=1, precision="ieee"), "aaaa flip-flop", "", "aaa d3"),
        (Architecture("s4d"), "ends-ab aa aaa aaaa unary6", "parity S5-all A5-all", "flip-flop d3 t3"),
        (Architecture("s4d", layers=1, precision="ieee"), "ends-ab", "", "aaa parity S5-all"),
        (Architecture("s4d", precision="log"), "ends-ab aaa", "S5-all", "parity"),
        (Architecture("s4d-real", FORGET), "ends-ab", "parity aa aaa S5-all", "flip-flop d3"),
        (Architecture("s4d-real", FLIP), "ends-ab aa", "parity aaa aaaa unary6 S5-all abab", "flip-flop resettable-parity"),
        (Architecture("s4d-real", FLIP, layers=1), "ends-ab aa", "parity aaaa", "flip-flop"),
        (
            Architecture("s4d-mamba"),
            "aa flip-flop d3 tomita3 resettable-parity",
            "parity aaa aaaa t3 abab S5-all",
            "",
        ),
        (Architecture("s4d-mamba", precision="ieee"), "aa flip-flop d3 resettable-parity", "parity aaa aaaa t3", ""),
        (Architecture("s4d-mamba", layers=2), "aa flip-flop", "parity aaa t3 abab", "d3"),
        (Architecture("deltanet", FORGET, householders=1), "flip-flop d3 tomita7", "parity aa abab t3 S5-swaps", ""),
        (Architecture("deltanet", FORGET), "flip-flop d3", "parity aa abab", ""),
        (Architecture("deltanet", FORGET, precision="ieee"), "flip-flop", "", "parity"),
        (
            DELTA,
            "parity aa S5-swaps shell-game5 flip-flop resettable-parity ends-ab tomita1",
            "aaa tomita6 A5-all S5-all t3",
            "abab d3",
        ),
        (replace(DELTA, layers=2), "aaa unary6 tomita6 aaaa", "", "S5-all t3"),
        (replace(DELTA, layers=4), "S5-all A5-all aaa", "", "t3"),
        (replace(DELTA, layers=None), "t3 cerny4 S5-all abab resettable-mod3 d3", "", ""),
        (replace(DELTA, householders=2), "aaa A5-all S4-all tomita2 unary6", "S5-all", "abab Q8-all"),
        (replace(DELTA, householders=3), "S4-all resettable-mod3", "S5-all", "abab"),
        (replace(DELTA, householders=4), "S5-all A5-all abab d3", "", "t3"),
        (replace(DELTA, householders=2, layers=3), "S5-all A5-all", "", "t3"),
        (PRODUCT, "S5-all abab dyck2-2 resettable-mod3 Q8-all", "", "t3 cerny4"),
        (replace(PRODUCT, layers=None), " ".join(NAMED), "", ""),
        (Architecture("gated-deltanet", FORGET, householders=1), "flip-flop d3", "parity abab", ""),
        (Architecture("gated-deltanet", FLIP, layers=1, householders=1), "flip-flop S5-swaps", "t3", "d3"),
        (Architecture("gated-deltanet", FLIP, layers=1, householders=2), "resettable-mod3", "S5-all", "t3"),
        (Architecture("gated-deltanet", FLIP, householders=1), " ".join(NAMED), "", ""),
        (Architecture("channel-gated-deltanet", FORGET, householders=1), "flip-flop d3", "parity abab", ""),
        (replace(CHANNEL, householders=1), "aaa S4-all unary6 tomita2 flip-flop parity", "", "A5-all abab t3 Q8-all"),
        (replace(CHANNEL, householders=2), "abab A5-all resettable-mod3", "", "t3 S5-all"),
        (replace(CHANNEL, layers=None, householders=1), " ".join(NAMED), "", ""),
        (Architecture("kda", FORGET, householders=1), "flip-flop d3", "parity abab", ""),
        (Architecture("kda", FLIP, layers=1, householders=1), "flip-flop S5-swaps parity", "aaa t3 Z7-all S5-all", "abab"),
        (Architecture("kda", FLIP, layers=2, householders=1), "aaa", "", "t3"),
        (Architecture("kda", FLIP, layers=1, householders=2), "aaa resettable-mod3", "", "t3 S5-all"),
        (Architecture("kda", FLIP, householders=1), " ".join(NAMED), "", ""),
        (Architecture("rwkv7", FORGET), "flip-flop d3", "parity aaa", "abab"),
        (Architecture("rwkv7", FLIP, layers=1), "parity S5-swaps", "t3 aaa Z7-all", "d3 abab"),
        (Architecture("rwkv7", FLIP), " ".join(NAMED), "", ""),
        (Architecture("dense", layers=1), " ".join(NAMED), "", ""),
        (Architecture("pd_ssm", layers=1), " ".join(NAMED), "", ""),
        (Architecture("pd_ssm", precision="robust"), "ends-ab", "flip-flop parity d3 a-then-b", ""),
        (Architecture("sd_ssm", layers=1), " ".join(NAMED), "", ""),
        (Architecture("dense", precision="robust"), "ends-ab", "flip-flop parity d3 a-then-b", ""),
        (Architecture("attention"), "tomita1 tomita7 a-then-b", "flip-flop parity d3 tomita2 ends-ab", ""),
        (Architecture("attention", precision="log"), "parity aaa t3 S4-all", "S5-all shell-game5", ""),
        (Architecture("slstm", layers=1), " ".join(NAMED), "", ""),
        (Architecture("slstm", precision="robust"), " ".join(NAMED), "", ""),
        (Architecture("lstm", layers=1), " ".join(NAMED), "", ""),
        (Architecture("lstm", precision="robust"), "parity flip-flop", "", ""),
        (Architecture("attention", precision="robust"), "", "", "parity flip-flop"),
        (Architecture("diagonal", EigenRange(-0.5, 1)), "flip-flop", "aaa parity", ""),
        (Architecture("diagonal", EigenRange(-0.5, 1), precision="ieee"), "flip-flop", "aaa", "parity"),
        (Architecture("diagonal", EigenRange(0, 0.5)), "ends-ab", "parity", "flip-flop"),
        (Architecture("deltanet", EigenRange(-0.5, 1), householders=1), "flip-flop", "parity aaa", ""),
        # a factor may act on a spare dimension, so that a range without 1 keeps as well
        (Architecture("deltanet", EigenRange(-1, 0.5), layers=1, householders=1), "parity S5-swaps flip-flop", "aaa", "abab"),
        (Architecture("deltanet", EigenRange(-1, 0.5), layers=3), "S5-all aaa", "", "t3"),
        (Architecture("deltanet", EigenRange(-1, 0.5)), " ".join(NAMED), "", ""),
        (Architecture("deltanet", EigenRange(-1, -0.5), layers=1), "parity S5-all ends-ab", "", "flip-flop t3"),
        (Architecture("deltanet", EigenRange(-1, -0.5)), "parity S5-all", "", "flip-flop t3"),
        (Architecture("rwkv7", EigenRange(-1, 0.5)), "ends-ab", "", "parity aaa"),
        (Architecture("diagonal", EigenRange(0.5, 1)), "ends-ab", "parity", "flip-flop"),
    ],
    ids=lambda value: value.name if isinstance(value, Architecture) else "",
)
def test_named_languages(architecture: Architecture, can: str, cannot: str, unknown: str) -> None:
    expected = {
        name: said for said, names in (("can", can), ("cannot", cannot), ("unknown", unknown)) for name in names.split()
    }
    assert {name: answer(name, architecture) for name in expected} == expected


def test_every_row_has_a_source_a_model_and_a_reason() -> None:
    for name in NAMED:
        found = verdicts(*known(name))
        assert [verdict.architecture for verdict in found] == list(STANDARD)
        for verdict in found:
            assert verdict.reason
            if verdict.answer == "unknown":
                assert verdict.theorem == "none known"
            else:
                assert verdict.theorem.startswith(("proved in ", "stated in ", "derived in docs/theory.md, section "))
                assert len(verdict.precision) > 2
            assert (verdict.answer == "cannot") <= bool(verdict.witness)


def test_names_are_different_and_readable() -> None:
    names = [architecture.name for architecture in STANDARD]
    assert len(set(names)) == len(names)
    assert "DeltaNet [-1, 1], 1 layer" in names
    assert "DeltaProduct [-1, 1], 2 factors, 1 layer" in names
    assert "diagonal (Mamba, GLA, Mamba-2) [0, 1], any depth" in names


@pytest.mark.parametrize(
    ("name", "architecture", "expected"),
    [
        ("parity", DELTA, Construction("permutation", "deltanet", 1, 1, FLIP)),
        ("parity", replace(MAMBA_NEGATIVE, layers=1), Construction("diagonal-cascade", "diagonal", 1, 0, FLIP)),
        ("flip-flop", replace(DIAGONAL, layers=1), Construction("diagonal-cascade", "diagonal", 1, 0, FORGET)),
        ("flip-flop", Architecture("deltanet", FORGET, householders=1), Construction("permutation", "deltanet", 1, 1, FORGET)),
        ("abab", PRODUCT, Construction("permutation", "deltaproduct", 1, 4, FLIP)),
        ("aaa", replace(DELTA, layers=2), Construction("two-layer-cyclic", "deltanet", 2, 1, FLIP)),
        # Z2 and Z3 in two heads: exact, hence before the rotation
        ("unary6", replace(DELTA, householders=2), Construction("permutation", "deltaproduct", 1, 2, FLIP)),
        ("Z7-all", replace(DELTA, householders=2), Construction("rotation", "rotation", 1, 2, FLIP, exact=False)),
        ("Z7-all", replace(DELTA, layers=2), Construction("two-layer-cyclic", "deltanet", 2, 1, FLIP, exact=False)),
        ("resettable-mod3", Architecture("gated-deltanet", FLIP, layers=1), Construction("permutation", "gated", 1, 2, FLIP)),
        ("t3", replace(PRODUCT, layers=None), Construction("cascade-products", "deltaproduct", 3, 3, FLIP)),
        ("t3", Architecture("gated-deltanet", FLIP), Construction("cascade-gated", "gated", 3, 2, FLIP)),
        (
            "t3",
            Architecture("gated-deltanet", FLIP, layers=3, householders=2),
            Construction("cascade-gated", "gated", 3, 2, FLIP),
        ),
        ("t3", Architecture("dense", layers=1), Construction("dense", "dense", 1)),
        ("d3", Architecture("deltanet", FORGET, householders=1), Construction("cascade-products", "deltanet", 7, 1, FORGET)),
        ("t3", replace(DELTA, layers=None), None),  # the construction of section 9 is not built
        ("d3", Architecture("mlstm", FORGET), None),
        ("ends-ab", Architecture("dense", precision="robust"), None),
        ("parity", Architecture("slstm", precision="robust"), Construction("threshold-units", "slstm", 1)),
        ("parity", Architecture("lstm", precision="robust"), None),
    ],
    ids=str,
)
def test_what_can_be_built_is_named_with_its_sizes(
    name: str, architecture: Architecture, expected: Construction | None
) -> None:
    verdict = judge(*known(name), architecture)
    assert verdict.answer == "can"
    assert verdict.witness == expected


@pytest.mark.parametrize(
    ("name", "architecture", "element"),
    [
        ("abab", DIAGONAL, "ab acts with period 2 on states {0, 3}"),
        ("aaa", DELTA, "letter a acts with period 3"),
        ("aaa", MAMBA_NEGATIVE, "a acts with period 3 on states {0, 1, 2}; the monoid contains Z3"),
        ("t3", MAMBA_NEGATIVE, "a acts with period 3 on states {0, 1, 2}; the monoid contains S3"),
        ("aaaa", replace(MAMBA_NEGATIVE, layers=1), "letter a acts with period 4"),
        ("S5-all", replace(DELTA, householders=3), "is a 5-cycle, and the letters are all of S5"),
    ],
    ids=str,
)
def test_what_forbids_it_is_an_element_of_the_monoid(name: str, architecture: Architecture, element: str) -> None:
    verdict = judge(*known(name), architecture)
    assert verdict.answer == "cannot"
    assert element in str(verdict.witness)


def test_a_layer_count_is_enough_if_a_cascade_has_no_more() -> None:
    """One layer less than the cascade of flip-flops and delays is not known to do."""
    (built,) = {found for found in constructions(known("tomita7")[0], 1000) if found.architecture == "diagonal"}
    enough = replace(DIAGONAL, layers=built.layers)
    assert judge(*known("tomita7"), enough).answer == "can"
    assert judge(*known("tomita7"), enough).witness == built
    assert judge(*known("tomita7"), replace(DIAGONAL, layers=built.layers - 1)).answer == "unknown"


def test_beyond_the_image_limit_no_cascade_is_named() -> None:
    dfa, class_ = known("cerny4")
    gated = Architecture("gated-deltanet", FLIP)
    assert judge(dfa, class_, gated).witness == Construction("cascade-gated", "gated", 5, 3, FLIP)
    assert judge(dfa, class_, gated, image_limit=3).witness is None
    assert judge(dfa, class_, gated, image_limit=3).answer == "can"


def test_the_theorem_is_the_right_one() -> None:
    assert "Theorem 1 with Proposition 1.3" in judge(*known("parity"), Architecture("deltanet", FORGET, householders=2)).theorem
    assert "section 6" in judge(*known("parity"), Architecture("deltanet", FORGET, householders=3)).theorem
    assert "rounding boundary" in judge(*known("parity"), Architecture("deltanet", FORGET)).precision
    assert "Theorem 4" in judge(*known("S5-all"), replace(DELTA, householders=3)).theorem
    assert "Theorem 3" in judge(*known("S5-swaps"), DELTA).theorem
    assert "unless TC⁰ = NC¹" in judge(*known("shell-game5"), Architecture("attention", precision="log")).precision


@given(st.integers(1, 4), st.integers(1, 3), st.data())
@settings(max_examples=25, deadline=None)
def test_random_automata_are_judged_by_their_classes(states: int, letters: int, data: st.DataObject) -> None:
    row = st.tuples(*[st.integers(0, states - 1)] * letters)
    table = data.draw(st.tuples(*[row] * states))
    accepting = data.draw(st.frozensets(st.integers(0, states - 1)))
    dfa = minimal(DFA(tuple("abc"[:letters]), table, accepting))
    class_ = classify(dfa)
    by_name = {verdict.architecture.name: verdict.answer for verdict in verdicts(dfa, class_)}
    star_free = by_name["diagonal (Mamba, GLA, Mamba-2) [0, 1], any depth"]
    assert star_free == ("can" if class_.star_free else "cannot")
    assert by_name["transformer, any depth, finite precision"] == ("can" if class_.r_trivial else "cannot")
    assert by_name["diagonal (Mamba, GLA, Mamba-2) [-1, 1], any depth"] == ("can" if class_.two_groups_only else "cannot")
    assert by_name["any linear RNN, any depth, robust to noise"] == ("can" if class_.definite else "cannot")
    assert by_name["DeltaNet [-1, 1], any depth"] == "can"


def test_a_language_of_one_state_is_within_reach_of_all() -> None:
    everything = DFA(("a", "b"), ((0, 0),), frozenset({0}))
    assert {verdict.answer for verdict in verdicts(everything, classify(everything))} == {"can"}


def test_the_automaton_need_not_be_minimal() -> None:
    parity = DFA(("0", "1"), ((0, 1), (1, 2), (2, 3), (3, 0)), frozenset({0, 2}))
    class_ = classify(parity)
    assert class_.states == 2
    assert judge(parity, class_, DELTA).answer == "can"
    with pytest.raises(ValueError, match="the DFA has 3 states"):
        judge(language("aaa"), class_, DELTA)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"layer": "mamba"}, "layer 'mamba' is not known; there are diagonal"),
        ({"layer": "diagonal"}, "layer 'diagonal' needs an eigenvalue range"),
        ({"layer": "dense", "eigenvalues": FLIP}, "layer 'dense' has no eigenvalue range"),
        ({"layer": "diagonal", "eigenvalues": FLIP, "layers": 0}, "layers=0 must be at least 1, or None"),
        ({"layer": "diagonal", "eigenvalues": FLIP, "householders": 2}, "layer 'diagonal' has no Householder factors"),
        ({"layer": "dense", "precision": "double"}, "precision 'double' is not known; there are finite"),
        ({"layer": "diagonal", "eigenvalues": EigenDisk()}, "eigenvalues=disk are complex: ask for the layer 'complex-"),
        ({"layer": "open-diagonal", "eigenvalues": FORGET}, "floats close the open interval"),
        ({"layer": "dense", "precision": "eta-finite"}, "is for the layer 'open-diagonal' only"),
    ],
)
def test_bad_architectures_are_named(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Architecture(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (("maybe", None), "answer 'maybe' must be one of can, cannot, unknown"),
        (("can", "magic"), "witness of a verdict 'can' is a construction or none, not 'magic'"),
        (("cannot", None), "witness of a verdict 'cannot' is what in the language forbids it, not None"),
        (("cannot", ""), "is what in the language forbids it, not ''"),
        (("unknown", "dense"), "witness of a verdict 'unknown' is none, not 'dense'"),
    ],
)
def test_bad_verdicts_are_named(values: tuple[str, str | None], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Verdict(DELTA, values[0], "", "", "", values[1])


@pytest.mark.parametrize("name", ["parity", "abab", "aaa", "t3"])
@pytest.mark.parametrize("eigenvalues", [FORGET, EigenRange(-0.5, 1), FLIP], ids=str)
def test_what_mlstm_cannot_do_is_claimed_for_casts_of_the_exact_recurrence_only(name: str, eigenvalues: EigenRange) -> None:
    """Section 2 speaks of the order of floats, which the stabilised form does not keep."""
    verdict = judge(*known(name), Architecture("mlstm", eigenvalues))
    if verdict.answer == "cannot":
        assert verdict.precision.startswith("casts of exact products; nothing is claimed of the stabilised form")
        assert "order of floats" not in verdict.reason
        assert "IEEE" not in verdict.precision
    assert judge(*known(name), Architecture("mlstm", eigenvalues, precision="ieee")).answer != "cannot"
    diagonal = judge(*known(name), Architecture("diagonal", eigenvalues))
    assert diagonal.answer == verdict.answer


def test_of_mlstm_in_floats_only_exact_networks_are_claimed() -> None:
    floats = Architecture("mlstm", FLIP, precision="ieee")
    assert judge(*known("parity"), floats).answer == "can"
    assert judge(*known("parity"), floats).precision.startswith("exact")
    assert judge(*known("abab"), floats).answer == "unknown"
    assert judge(*known("abab"), replace(floats, layer="diagonal")).answer == "can"


def test_a_group_that_only_the_order_of_floats_forbids_is_not_claimed_of_mlstm() -> None:
    """Two reflections of an octagon generate D8, which takes three steps, while each letter has period 2."""
    octagon = DFA(("s", "t"), tuple((-corner % 8, (1 - corner) % 8) for corner in range(8)), frozenset({0}))
    diagonal = judge(octagon, classify(octagon), Architecture("diagonal", FLIP, layers=2))
    assert (diagonal.answer, diagonal.precision) == ("cannot", "IEEE floats, one token after the other")
    assert judge(octagon, classify(octagon), Architecture("mlstm", FLIP, layers=2)).answer == "unknown"
    assert judge(octagon, classify(octagon), Architecture("mlstm", FLIP, layers=1)).answer == "cannot"


@pytest.mark.parametrize(
    ("name", "layers", "answer"),
    [
        ("parity", (("s4d-real", FLIP), ("diagonal", FORGET)), "cannot"),
        ("parity", (("s4d-real", FLIP), ("diagonal", FLIP)), "can"),
        ("aaa", (("s4d-real", FLIP), ("diagonal", FORGET)), "cannot"),
        ("aa", (("diagonal", FORGET), ("s4d-real", FLIP)), "can"),
        ("abab", (("diagonal", FORGET), ("s4d-real", FLIP), ("diagonal", FORGET)), "cannot"),
        ("parity", (("s4d", None), ("diagonal", FORGET)), "unknown"),
        ("aaa", (("s4d", None), ("diagonal", FORGET)), "can"),
        ("S5-all", (("s4d", None), ("diagonal", FLIP)), "cannot"),
        ("parity", (("attention", None), ("deltanet", FLIP)), "can"),
        ("parity", (("attention", None), ("deltanet", FORGET)), "unknown"),
        ("parity", (("diagonal", FORGET), ("deltanet", EigenRange(-0.5, 1))), "cannot"),
        ("t3", (("deltanet", FORGET), ("slstm", None)), "can"),
        ("aaa", (("deltanet", FLIP), ("gated-deltanet", FLIP)), "can"),  # two layers that both contain DeltaNet
        ("aaa", (("deltanet", FLIP), ("diagonal", FLIP)), "unknown"),
        ("flip-flop", (("mlstm", FORGET), ("ttt", None)), "can"),
    ],
    ids=str,
)
def test_hybrids(name: str, layers: tuple[tuple[str, EigenRange | None], ...], answer: str) -> None:
    kinds = [Architecture(layer, range_, 1, 1 if layer in WITH_FACTORS else None) for layer, range_ in layers]
    verdict = judge(*known(name), Hybrid(tuple(kinds)))
    assert verdict.answer == answer
    assert verdict.answer == "unknown" or "contain" in verdict.reason  # the architecture that decided is named


def test_a_hybrid_of_any_depth_is_s4d_with_mamba() -> None:
    both = (Architecture("s4d-real", FLIP, 1), Architecture("diagonal", FORGET, 1))
    for name in NAMED:
        assert judge(*known(name), Hybrid(both, any_depth=True)).answer == answer(name, Architecture("s4d-mamba"))


def test_the_architecture_that_decides_is_named() -> None:
    assert judge(*known("parity"), Architecture("rwkv7", FLIP, layers=1)).reason.startswith("it contains diagonal (Mamba")
    assert "contains it: " in judge(*known("parity"), Architecture("s4d-real", FORGET)).reason


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        ((Architecture("s4d", layers=1),) * 2, "layers of at least two kinds"),
        ((Architecture("s4d", layers=2), Architecture("dense", layers=1)), "architecture of one layer: layers=1"),
        ((Architecture("s4d", layers=1), Architecture("dense", layers=1, precision="log")), "the same precision"),
    ],
)
def test_bad_hybrids_are_named(kinds: tuple[Architecture, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Hybrid(kinds)
