"""One layer of heads: matrix heads that really follow the automaton, the ranks of their letters, the costs of known groups."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eigentrack.automata import DFA, group, language, minimal, regex_dfa
from eigentrack.automata.groups import word_problem_dfa
from eigentrack.automata.letter_maps import changed_rank, is_constant, is_partial_injection, is_permutation
from eigentrack.expressivity.householder_products import factor_partial_permutation, factor_permutation
from eigentrack.expressivity.one_layer import Head, one_layer_factors, one_layer_of_channels

maps_of_states = st.integers(1, 6).flatmap(lambda n: st.tuples(*[st.integers(0, n - 1)] * n))


def automaton(maps: tuple[tuple[int, ...], ...], accepting: frozenset[int] = frozenset({0})) -> DFA:
    return DFA(tuple("abcdef"[: len(maps)]), tuple(zip(*maps, strict=True)), accepting)


@given(maps_of_states)
def test_as_many_factors_as_the_rank_make_the_letter(images: tuple[int, ...]) -> None:
    if is_permutation(images):
        assert changed_rank(images) == len(factor_permutation(images))
    for sink in range(len(images)):
        if is_partial_injection(images, sink) and len(images) > 1:
            others = [state for state in range(len(images)) if state != sink]
            place = {state: number for number, state in enumerate(others)}
            assert changed_rank(images) == len(factor_partial_permutation([place.get(images[state]) for state in others]))


@pytest.mark.parametrize(
    ("name", "letters", "factors"),
    [
        ("Z2", "all", 1),
        ("Z3", "all", 2),
        ("Z60", "all", 4),
        ("Z2xZ2xZ2", "all", 1),
        ("S3", "swaps", 1),
        ("S3", "all", 2),
        ("S4", "swaps", 1),
        ("S4", "all", 3),
        ("A5", "all", 4),
        ("S5", "swaps", 1),
    ],
)
def test_factors_of_group_word_problems(name: str, letters: str, factors: int) -> None:
    """The word problem has a state for each element; heads find the action on points again."""
    dfa = word_problem_dfa(name, letters)
    assert dfa.states == group(name).order
    assert one_layer_factors(dfa, Head(flips=True)) == factors
    assert one_layer_factors(dfa, Head(flips=False)) is None


@pytest.mark.parametrize(
    ("pattern", "channels", "flipping", "factors", "gated"),
    [
        (".*ab", True, True, 1, 1),  # the last letters decide
        ("(b|ab*a)*", False, True, 1, 1),  # parity of a
        ("(ab)*", False, False, 2, 2),
        ("a*b*", False, False, None, None),
    ],
)
def test_one_layer_of_regular_expressions(
    pattern: str, channels: bool, flipping: bool, factors: int | None, gated: int | None
) -> None:
    dfa = minimal(regex_dfa(pattern, ("a", "b")))
    assert one_layer_of_channels(dfa, flips=False) == channels
    assert one_layer_of_channels(dfa, flips=True) == flipping
    assert one_layer_factors(dfa, Head(flips=True)) == factors
    assert one_layer_factors(dfa, Head(flips=True, gated=True)) == gated


def test_a_reset_costs_one_gate_or_a_factor_for_each_point() -> None:
    cycle_and_reset = automaton(((1, 2, 3, 4, 0), (0,) * 5))
    assert one_layer_factors(cycle_and_reset, Head(flips=True)) == 5
    assert one_layer_factors(cycle_and_reset, Head(flips=True, gated=True)) == 4
    assert one_layer_factors(language("flip-flop"), Head(flips=False)) == 1  # in one dimension there is but one point to clear


def run_head(maps: dict[str, tuple[int, ...]], origin: int | None, word: list[str], start: int) -> list[int]:
    """The affine recurrence of a matrix head, written out; the state is read back from the vector."""
    blocks = [block for block in range(len(next(iter(maps.values())))) if block != origin]
    code = {block: np.eye(len(blocks))[place] for place, block in enumerate(blocks)}
    if origin is not None:
        code[origin] = np.zeros(len(blocks))
    state, seen = code[start], []
    for letter in word:
        images = maps[letter]
        if is_constant(images):
            gate, write = np.zeros((len(blocks),) * 2), code[images[0]]
        else:
            gate = np.stack([code[images[block]] for block in blocks], axis=1)
            write = np.zeros(len(blocks))
        assert np.linalg.norm(gate, 2) <= 1
        state = gate @ state + write
        seen.append(next(block for block, vector in code.items() if np.array_equal(vector, state)))
    return seen


@given(st.integers(2, 5), st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_matrix_heads_follow_permutations_partial_injections_and_resets(states: int, seed: int) -> None:
    rng = random.Random(seed)
    origin = rng.choice([None, rng.randrange(states)])
    everything = list(product(range(states), repeat=states)) if states < 5 else None
    maps = {}
    for letter in "abc":
        allowed = [
            images
            for images in (everything or [tuple(rng.choices(range(states), k=states)) for _ in range(2000)])
            if is_constant(images) or (is_permutation(images) if origin is None else is_partial_injection(images, origin))
        ]
        maps[letter] = rng.choice(allowed)
    dfa = automaton(tuple(maps.values()))
    word = rng.choices("abc", k=30)
    expected, state = [], 0
    for letter in word:
        state = maps[letter][state]
        expected.append(state)
    assert run_head(maps, origin, word, 0) == expected
    dimensions = states - (origin is not None)
    factors = one_layer_factors(dfa, Head(flips=True))
    assert factors is not None
    assert factors <= max(1, dimensions)
