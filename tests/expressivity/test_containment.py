"""The order of architectures: what is contained in what, and verdicts that never contradict it, on all kinds of layers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import pairwise, product

import pytest

from eigentrack.automata import DFA, LanguageClass, classify, language, minimal
from eigentrack.automata.groups import word_problem_dfa
from eigentrack.expressivity import Architecture, Hybrid, contains, verdicts
from eigentrack.expressivity.architecture import LAYERS, WITH_FACTORS, WITH_RANGE
from eigentrack.expressivity.containment import narrower, stacks_around, stacks_inside, wider
from eigentrack.expressivity.hybrid import Design
from eigentrack.spectrum import EigenRange

FORGET, FLIP = EigenRange(0, 1), EigenRange(-1, 1)
RANGES = [EigenRange(*ends) for ends in ((0.5, 1), (0, 0.5), (0, 1), (-0.5, 1), (-1, -0.5), (-1, 0), (-1, 0.5), (-1, 1))]
COUNTS = (1, 2, 3, 4, 6, None)  # of layers and of factors
PRECISIONS = {"open-diagonal": ("eta-finite", "constrained")}

# a layer → layers that contain it at the same depth, written out by hand: (kind, range, factors), where "same" copies
KINDS = {
    "s4d-real": [("diagonal", "same", None), ("s4d", None, None), ("s4d-mamba", None, None)],
    "s4d": [("complex-diagonal", None, None)],
    "s4d-mamba": [("diagonal", FLIP, None)],
    "diagonal": [
        ("complex-diagonal", None, None),
        ("deltanet", "same", 1),
        ("deltanet", "same", 3),
        ("gated-deltanet", "same", 1),
        ("kda", "same", 1),
        ("channel-gated-deltanet", "same", 1),
        ("rwkv7", "same", None),
    ],
    "complex-diagonal": [("dense", None, None)],
    "deltanet": [("gated-deltanet", "same", "same"), ("channel-gated-deltanet", FLIP, "same")],
    "gated-deltanet": [("kda", "same", "same")],
    "kda": [("channel-gated-deltanet", FLIP, "same")],
    "channel-gated-deltanet": [("dense", None, None)],
    "rwkv7": [("dense", None, None)],
    "pd_ssm": [("dense", None, None)],
    "sd_ssm": [("dense", None, None)],
}
GROUPS = (("S3", "all"), ("S3", "swaps"), ("A5", "all"), ("Q8", "all"), ("Z7", "all"), ("Z12", "generators"))
# of the ladder, and others that some layers can do and others cannot
NAMED = [
    "parity", "even-pairs", "aa", "aaa", "aaaa", "unary6", "abab", "flip-flop", "resettable-parity", "resettable-mod3", "d3",
    "tomita2", "tomita3", "tomita6", "tomita7", "ends-ab", "a-then-b", "cerny4", "t3", "swap-assign2", "binary-mod5",
    "every-second-b",
]  # fmt: skip
HYBRIDS = (
    (("s4d-real", FLIP, None), ("diagonal", FORGET, None)),
    (("diagonal", FORGET, None), ("deltanet", FLIP, 1)),
    (("diagonal", FLIP, None), ("deltanet", FORGET, 2)),
    (("gated-deltanet", FLIP, 1), ("attention", None, None)),
    (("mlstm", FORGET, None), ("slstm", None, None)),
    (("s4d", None, None), ("diagonal", FORGET, None)),
    (("rwkv7", FORGET, None), ("kda", EigenRange(-0.5, 1), 2)),
)


@cache
def grid() -> tuple[Architecture, ...]:
    """All kinds of layers, ranges, depths and numbers of factors; all precisions for a smaller choice."""
    found = []
    for layer in LAYERS:
        factors = COUNTS if layer in WITH_FACTORS else (None,)
        ranges = RANGES if layer in WITH_RANGE else [None]
        for eigenvalues, depth, count in product(ranges, COUNTS, factors):
            few = eigenvalues in (None, FORGET, FLIP) and count in (None, 1, 2) and depth in (1, 2, None)
            precisions = PRECISIONS.get(layer, ("finite", "ieee", "log", "robust") if few else ("finite",))
            found += [Architecture(layer, eigenvalues, depth, count, precision) for precision in precisions]
    return tuple(found)


@cache
def hybrids() -> tuple[Hybrid, ...]:
    found = []
    for kinds in HYBRIDS:
        one, two = (Architecture(layer, eigenvalues, 1, count) for layer, eigenvalues, count in kinds)
        found += [Hybrid((one, two)), Hybrid((one, one, two)), Hybrid((two, one, two, one)), Hybrid((one, two), any_depth=True)]
    return tuple(found)


def larger(architecture: Architecture) -> Iterator[Architecture]:
    """Yield the next larger architectures of the grid in each direction."""
    if architecture.layers is not None:
        yield replace(architecture, layers=COUNTS[COUNTS.index(architecture.layers) + 1])
    if architecture.householders is not None:
        yield replace(architecture, householders=COUNTS[COUNTS.index(architecture.householders) + 1])
    inner = architecture.eigenvalues
    if inner is not None:
        outer = [other for other in RANGES if other != inner and other.low <= inner.low and inner.high <= other.high]
        yield from (replace(architecture, eigenvalues=other) for other in outer)
    for layer, eigenvalues, count in KINDS.get(architecture.layer, []):
        yield replace(
            architecture,
            layer=layer,
            eigenvalues=inner if eigenvalues == "same" else eigenvalues,
            householders=architecture.householders if count == "same" else count,
        )
    if architecture.layer == "diagonal" and inner is not None and inner.low >= 0:
        yield replace(architecture, layer="s4d-mamba", eigenvalues=None)
    if architecture.layer == "deltanet" and architecture.householders == 1 and inner is not None and inner.high == 1:
        yield replace(architecture, layer="rwkv7", householders=None)


@cache
def pairs() -> tuple[tuple[Design, Design], ...]:
    """Smaller and larger architectures of the grid, and hybrids with the stacks that their layers are made of."""
    known = set(grid())
    found: list[tuple[Design, Design]] = []
    for small in grid():
        found += [(small, large) for large in larger(small) if large in known]
    for hybrid in hybrids():
        for kind in set(hybrid.kinds):
            count = None if hybrid.any_depth else hybrid.kinds.count(kind)
            found.append((replace(kind, layers=count), hybrid))
        found += [(hybrid, stack) for stack in stacks_around(hybrid)]
    for kinds in HYBRIDS:
        one, two = (Architecture(layer, eigenvalues, 1, count) for layer, eigenvalues, count in kinds)
        chain = [Hybrid((one, two)), Hybrid((one, one, two)), Hybrid((two, one, one, two)), Hybrid((one, two), any_depth=True)]
        found += list(pairwise(chain))
    return tuple(found)


def check_monotone(dfa: DFA, class_: LanguageClass) -> None:
    designs = tuple(dict.fromkeys(design for pair in pairs() for design in pair))
    answers = {verdict.architecture: verdict.answer for verdict in verdicts(dfa, class_, architectures=designs)}
    for small, large in pairs():
        said = answers[small], answers[large]
        assert said[0] != "can" or said[1] == "can", (dfa, small.name, large.name, said)
        assert said[1] != "cannot" or said[0] == "cannot", (dfa, small.name, large.name, said)


def small_automata() -> tuple[DFA, ...]:
    """The minimal automata, all different, among those of two states or one letter, and 500 of three states and two letters."""
    rng, found = random.Random(0), {}
    two = product(product(product(range(2), repeat=2), repeat=2), (frozenset({0}), frozenset({1})))
    unary = (
        (tuple((following,) for following in (*range(1, n), back)), frozenset({end}))
        for n in range(1, 7)
        for back, end in product(range(n), repeat=2)
    )
    three = (
        (tuple(tuple(rng.choices(range(3), k=2)) for _ in range(3)), frozenset(rng.sample(range(3), rng.choice([1, 2]))))
        for _ in range(500)
    )
    for table, accepting in (*two, *unary, *three):
        dfa = minimal(DFA(("a", "b")[: len(table[0])], table, accepting))
        found[dfa] = None
    return tuple(found)


@pytest.mark.parametrize("name", NAMED)
def test_verdicts_are_monotone_on_named_languages(name: str) -> None:
    dfa = minimal(language(name))
    check_monotone(dfa, classify(dfa))


@pytest.mark.parametrize(("name", "letters"), GROUPS)
def test_verdicts_are_monotone_on_groups(name: str, letters: str) -> None:
    dfa = minimal(word_problem_dfa(name, letters))
    check_monotone(dfa, classify(dfa))


@pytest.mark.parametrize("part", range(4))
def test_verdicts_are_monotone_on_some_small_automata(part: int) -> None:
    for dfa in random.Random(part).sample(small_automata(), 25):
        check_monotone(dfa, classify(dfa))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_verdicts_are_monotone_on_all_small_automata(part: int) -> None:
    for dfa in small_automata()[part::8]:
        check_monotone(dfa, classify(dfa))


def test_the_order_knows_all_these_pairs() -> None:
    assert len(pairs()) > 5000
    for small, large in pairs():
        assert contains(large, small), (small.name, large.name)
    equal = {(small.name, large.name) for small, large in pairs() if contains(small, large)}
    s4d = "S4D, real [-1, 1] + diagonal (Mamba, GLA, Mamba-2) [0, 1], any depth"
    delta, mixed = "DeltaNet [-1, 1], any depth", "diagonal (Mamba, GLA, Mamba-2) [0, 1] + DeltaNet [-1, 1], any depth"
    assert equal == {(s4d, "S4D with negative eigenvalues + Mamba, any depth"), (delta, mixed), (mixed, delta)}


def test_what_is_listed_inside_or_around_is_contained() -> None:
    for architecture in random.Random(0).sample(grid(), 150):
        assert all(contains(architecture, inside) for inside in narrower(architecture))
        assert all(contains(outside, architecture) for outside in wider(architecture))
    for hybrid in hybrids():
        assert all(contains(hybrid, inside) for inside in stacks_inside(hybrid))
        assert all(contains(outside, hybrid) for outside in stacks_around(hybrid))


@pytest.mark.parametrize(
    ("outer", "inner"),
    [
        (Architecture("deltanet", FLIP, 1, 1), Architecture("deltanet", FLIP, 1, 2)),
        (Architecture("deltanet", FLIP, 3, 1), Architecture("deltanet", FLIP, None, 1)),
        (Architecture("deltanet", EigenRange(-0.5, 1), 1, 1), Architecture("diagonal", FLIP, 1)),
        (
            Architecture("channel-gated-deltanet", EigenRange(-1, 0.5), 1, 1),
            Architecture("deltanet", EigenRange(-1, 0.5), 1, 1),
        ),
        (Architecture("channel-gated-deltanet", EigenRange(0.5, 1), 1, 1), Architecture("kda", EigenRange(0.5, 1), 1, 1)),
        (Architecture("rwkv7", EigenRange(-1, 0.5), 1), Architecture("deltanet", EigenRange(-1, 0.5), 1, 1)),
        (Architecture("rwkv7", FLIP, 1), Architecture("deltanet", FLIP, 1, 2)),
        (Architecture("diagonal", FLIP), Architecture("mlstm", FLIP)),
        (Architecture("diagonal", FLIP), Architecture("diagonal", FLIP, precision="ieee")),
        (Architecture("s4d-mamba"), Architecture("diagonal", FLIP)),
        (Architecture("diagonal", FORGET), Architecture("s4d-mamba")),
        (Hybrid((Architecture("s4d", layers=1), Architecture("attention", layers=1))), Architecture("s4d", layers=2)),
    ],
    ids=lambda value: value.name,
)
def test_what_is_not_contained(outer: Design, inner: Design) -> None:
    assert not contains(outer, inner)


def test_the_order_of_layers_matters_to_a_hybrid() -> None:
    one, two = Architecture("dense", layers=1), Architecture("attention", layers=1)
    assert contains(Hybrid((one, two, one)), Hybrid((one, two)))
    assert contains(Hybrid((one, two, one)), Hybrid((two, one)))
    assert not contains(Hybrid((one, two)), Hybrid((two, one)))
    assert contains(Hybrid((one, two), any_depth=True), Hybrid((two, one)))
