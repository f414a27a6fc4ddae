"""Compiler and expressivity agree: what is built is called "can", and what a verdict promises is built, with its sizes."""

from __future__ import annotations

import pytest

from eigentrack.automata import DFA, LANGUAGES, classify, language, word_problem_dfa
from eigentrack.compiler import ARCHITECTURES, NetworkPlan, choose_plan
from eigentrack.compiler.network import model_config
from eigentrack.expressivity import Architecture, Construction, judge, verdicts
from eigentrack.spectrum import EigenRange
from tests.compiler.automata_cases import random_dfa

SMALL = [name for name in LANGUAGES if language(name).states <= 6]
LARGE = [name for name in LANGUAGES if name not in SMALL]
GROUPS = [("S3", "all"), ("S4", "swaps"), ("Q8", "all"), ("Z7", "all"), ("Z12", "generators"), ("Z2xZ2xZ2", "all")]
LARGE_GROUPS = [("S5", "swaps"), ("S5", "all"), ("A5", "all"), ("Z60", "all"), ("Z60", "generators")]


def range_of(plan: NetworkPlan) -> EigenRange | None:
    """The widest range of its layers; a delay and a dense layer have none."""
    ranges = [options["eigenvalues"] for options in model_config(plan).options if options.get("eigenvalues")]
    return min(ranges, key=lambda eigenvalues: eigenvalues.low, default=None)


def architecture_of(plan: NetworkPlan) -> Architecture:
    """As expressivity speaks of it, where a delay between levels is a layer as well."""
    depth = len(plan.blocks)
    if plan.architecture == "dense":
        return Architecture("dense", layers=depth)
    if plan.architecture == "slstm":
        return Architecture("slstm", layers=depth, precision="robust")
    if plan.architecture == "diagonal":
        return Architecture("diagonal", range_of(plan), layers=depth)
    layer = "gated-deltanet" if plan.architecture == "gated" else "deltanet"
    return Architecture(layer, range_of(plan), layers=depth, householders=plan.householders)


def contains(outer: Architecture, inner: Architecture) -> bool:
    """A network of the inner architecture is one of the outer."""
    if outer.layer != inner.layer or outer.precision not in ("finite", "ieee", "log"):
        return False
    if outer.eigenvalues is not None and inner.eigenvalues is not None and outer.eigenvalues.low > inner.eigenvalues.low:
        return False
    depths, factors = (outer.layers, inner.layers), (outer.householders, inner.householders)
    return all(most is None or (least is not None and least <= most) for most, least in (depths, factors))


def check_what_is_built(dfa: DFA) -> None:
    facts = classify(dfa)
    out_of_reach = [verdict.architecture for verdict in verdicts(dfa, facts) if verdict.answer == "cannot"]
    for architecture in ARCHITECTURES:
        try:
            plans = choose_plan(dfa, architecture).plans
        except ValueError:  # there is none
            continue
        for plan in plans:
            verdict = judge(dfa, facts, architecture_of(plan))
            assert verdict.answer == "can", (architecture, plan.construction, verdict)
            assert isinstance(verdict.witness, Construction), (architecture, plan.construction, verdict)
            if plan.exact:
                assert not any(contains(outer, architecture_of(plan)) for outer in out_of_reach), plan.construction


def check_what_is_promised(dfa: DFA) -> None:
    promised = {
        verdict.witness: verdict.architecture
        for verdict in verdicts(dfa, classify(dfa))
        if isinstance(verdict.witness, Construction)
    }
    assert promised
    for construction, architecture in promised.items():
        (plan,) = choose_plan(dfa, construction.architecture, construction.name).plans
        assert plan.construction == construction.name
        assert (len(plan.blocks), plan.householders) == (construction.layers, construction.householders), construction
        assert (range_of(plan), plan.exact) == (construction.eigenvalues, construction.exact), construction
        assert construction.layers <= (architecture.layers or construction.layers)
        assert construction.householders <= (architecture.householders or construction.householders)


@pytest.mark.parametrize("name", [*SMALL, *range(8)])
def test_what_is_built_can_be(name: str | int) -> None:
    check_what_is_built(language(name) if isinstance(name, str) else random_dfa(name, states=4, letters=2))


@pytest.mark.parametrize(("group", "letters"), GROUPS)
def test_what_is_built_for_groups_can_be(group: str, letters: str) -> None:
    check_what_is_built(word_problem_dfa(group, letters))


@pytest.mark.parametrize("name", [*SMALL, *range(8)])
def test_what_is_promised_is_built(name: str | int) -> None:
    check_what_is_promised(language(name) if isinstance(name, str) else random_dfa(name, states=5, letters=2))


@pytest.mark.parametrize(("group", "letters"), GROUPS)
def test_what_is_promised_for_groups_is_built(group: str, letters: str) -> None:
    check_what_is_promised(word_problem_dfa(group, letters))


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_what_is_promised_and_built_for_large_languages(name: str) -> None:
    check_what_is_promised(language(name))
    check_what_is_built(language(name))


@pytest.mark.slow
@pytest.mark.parametrize(("group", "letters"), LARGE_GROUPS)
def test_what_is_promised_for_large_groups_is_built(group: str, letters: str) -> None:
    check_what_is_promised(word_problem_dfa(group, letters))


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("abab", {"permutation", "cascade-gated", "diagonal-cascade", "dense", "threshold-units"}),
        ("flip-flop", {"permutation", "diagonal-cascade", "dense", "threshold-units"}),
        ("t3", {"cascade-products", "cascade-gated", "dense", "threshold-units"}),
        ("resettable-mod3", {"permutation", "dense", "threshold-units"}),
    ],
)
def test_every_construction_that_fits_is_named(name: str, names: set[str]) -> None:
    dfa = language(name)
    found = {v.witness.name for v in verdicts(dfa, classify(dfa)) if isinstance(v.witness, Construction)}
    assert found == names
