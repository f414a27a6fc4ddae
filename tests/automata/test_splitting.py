"""Splitting: the columns simulate the automaton and tell its states apart, with the fewest reflections and points."""

from __future__ import annotations

from itertools import combinations, permutations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from eigentrack.automata import DFA, language
from eigentrack.automata.congruences import Transitions, canonical_partition, congruences, is_trivial_meet, quotient
from eigentrack.automata.letter_maps import changed_rank, is_constant
from eigentrack.automata.splitting import Action, split
from tests.automata.transformations import automaton, word_problem


@st.composite
def permutation_reset_automata(draw: st.DrawFn) -> DFA:
    states = draw(st.integers(2, 5))
    resets = st.integers(0, states - 1).map(lambda target: [target] * states)
    return automaton(*draw(st.lists(st.permutations(range(states)) | resets, min_size=1, max_size=3)))


def reflections(images: tuple[int, ...]) -> int:
    """A reset costs none."""
    return 0 if is_constant(images) else changed_rank(images)


def costliest(action: Action) -> int:
    return max(map(reflections, action.maps))


def check(dfa: DFA, actions: tuple[Action, ...]) -> None:
    columns = [column for action in actions for column in action.columns]
    assert is_trivial_meet(columns)
    for action in actions:
        for column in action.columns:
            for state, row in enumerate(dfa.transitions):
                for letter, target in enumerate(row):
                    assert action.maps[letter][column[state]] == column[target]
    if len(columns) > 1:
        for left_out in range(len(columns)):
            assert not is_trivial_meet(columns[:left_out] + columns[left_out + 1 :])


def same_up_to_names(p: Transitions, q: Transitions) -> bool:
    """By brute force over all ways to rename the points."""
    points = range(len(p))
    return len(p) == len(q) and any(
        all(name[p[x][a]] == q[name[x]][a] for x in points for a in range(len(p[0]))) for name in permutations(points)
    )


@given(permutation_reset_automata())
@settings(max_examples=60, deadline=None)
def test_it_is_the_best_choice(dfa: DFA) -> None:
    actions = split(dfa.transitions)
    check(dfa, actions)
    cost = {p: max(map(reflections, zip(*quotient(dfa.transitions, p), strict=True))) for p in congruences(dfa.transitions)}
    assume(len(cost) <= 25)  # few enough to try all choices
    fewest = min(
        max((cost[p] for p in chosen), default=0)
        for size in range(1, dfa.states)
        for chosen in combinations(cost, size)
        if is_trivial_meet(chosen)
    )
    assert max(map(costliest, actions)) == fewest
    if fewest == 0:
        assert [(action.points, len(action.columns)) for action in actions] == [(dfa.states, 1)]
        return
    classes: list[list[tuple[int, ...]]] = []  # of congruences with equal actions
    for p in (p for p in cost if cost[p] <= fewest and max(p)):
        for alike in classes:
            if same_up_to_names(quotient(dfa.transitions, p), quotient(dfa.transitions, alike[0])):
                alike.append(p)
                break
        else:
            classes.append([p])
    assert sum(action.points for action in actions) == min(
        sum(max(alike[0]) + 1 for alike in chosen)
        for size in range(1, dfa.states)
        for chosen in combinations(classes, size)
        if is_trivial_meet([p for alike in chosen for p in alike])
    )


def shapes(dfa: DFA) -> list[tuple[int, int, int]]:
    actions = split(dfa.transitions)
    check(dfa, actions)
    return [(action.points, len(action.columns), costliest(action)) for action in actions]


@pytest.mark.parametrize(
    ("name", "letters", "expected"),
    [
        ("S5", "swaps", [(5, 4, 1)]),
        ("S5", "all", [(5, 4, 4)]),
        ("A5", "all", [(5, 3, 4)]),
        ("S3", "all", [(3, 2, 2)]),
        ("Z60", "all", [(5, 1, 4), (4, 1, 3), (3, 1, 2)]),
        ("Z60", "generators", [(5, 1, 4), (4, 1, 3), (3, 1, 2)]),
        ("Q8", "generators", [(8, 1, 6)]),
        ("Z2xZ2xZ2", "generators", [(2, 1, 1)] * 3),
    ],
)
def test_word_problems(name: str, letters: str, expected: list[tuple[int, int, int]]) -> None:
    assert shapes(word_problem(name, letters)) == expected


def test_more_congruences_than_are_listed() -> None:
    assert shapes(word_problem("Z2xZ2xZ2xZ2xZ2xZ2")) == [(2, 1, 1)] * 6


def test_parity_stays_parity() -> None:
    (action,) = split(language("parity").transitions)
    assert action == Action(2, ((0, 1), (1, 0)), ((0, 1),))


def test_resets_split_with_the_permutations() -> None:
    assert shapes(word_problem("Z12", resets=(0, 5))) == [(4, 1, 3), (3, 1, 2)]


def test_a_state_alone_needs_no_action() -> None:
    assert split(((0, 0),)) == ()


def test_other_letters_are_refused() -> None:
    with pytest.raises(ValueError, match="letter 1 is neither a permutation nor a reset of the states"):
        split(((1, 0), (2, 0), (0, 1)))
    with pytest.raises(ValueError, match="no permutation and no reset"):
        Action(3, ((0, 0, 1),), ((0, 1, 2),))
    with pytest.raises(ValueError, match="at least one column"):
        Action(2, ((0, 1),), ())


def test_columns_are_congruences_in_one_numbering() -> None:
    """Each column of S3's action on three points is another point's place."""
    dfa = word_problem("S3", "all")
    (action,) = split(dfa.transitions)
    assert set(map(canonical_partition, action.columns)) <= set(congruences(dfa.transitions))
    assert all(set(column) == {0, 1, 2} for column in action.columns)


@pytest.mark.parametrize(
    ("maps", "ungated", "gated"),
    [
        (((0, 0, 0), (0, 1, 2)), 1, 1),  # a register
        (((1, 0), (0, 0)), 1, 1),  # a sign
        (((1, 2, 0), (0, 1, 2)), 2, 2),
        (((1, 2, 0), (1, 1, 1)), 3, 2),  # a reset overwrites three points, or a gate clears them
        (((1, 0, 2, 3), (3, 3, 3, 3)), 4, 1),
    ],
)
def test_factors_of_an_action(maps: tuple[tuple[int, ...], ...], ungated: int, gated: int) -> None:
    action = Action(len(maps[0]), maps, (tuple(range(len(maps[0]))),))
    assert (action.factors(gated=False), action.factors(gated=True)) == (ungated, gated)
    assert action.is_register == (maps == ((0, 0, 0), (0, 1, 2)))
