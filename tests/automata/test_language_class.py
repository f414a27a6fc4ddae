"""Classes of languages: known answers, and every criterion by its definition on the multiplication table of random automata."""

from __future__ import annotations

import re
import sys
import time
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, given, settings

from eigentrack.automata import DFA, MonoidTooLarge, classify, language, minimal, regex_dfa, transition_monoid
from eigentrack.automata.groups import word_problem_dfa
from eigentrack.automata.language_class import ContainedGroup
from tests.automata.multiplication import multiplication, semigroup
from tests.automata.random_automata import automata
from tests.automata.test_monoid_subgroups import some_length_contains_a_group

STAR_FREE = {"star_free", "solvable", "two_groups_only", "ac0"}
J_TRIVIAL = STAR_FREE | {"r_trivial", "l_trivial", "j_trivial", "r_omega"}
CYCLIC = {"group", "solvable", "commutative", "ac0"}

# language → (states, monoid, classes, groups)
KNOWN: dict[str, tuple[int, int, set[str], list[str]]] = {
    "tomita1": (2, 2, J_TRIVIAL | {"commutative"}, []),
    "a-then-b": (3, 5, J_TRIVIAL, []),
    "a-before-b": (3, 5, J_TRIVIAL, []),
    "subword-abc": (4, 14, J_TRIVIAL, []),
    "exactly-one-a": (3, 3, J_TRIVIAL | {"commutative"}, []),
    "tomita7": (5, 9, J_TRIVIAL, []),
    "a-or-b-then-d": (3, 5, J_TRIVIAL, []),
    "abcde": (7, 17, J_TRIVIAL, []),
    "contains-ab": (3, 5, J_TRIVIAL, []),  # without a third letter, ab occurs just if some a is before some b
    "starts-ab": (4, 5, STAR_FREE | {"r_trivial", "reverse_definite", "r_omega"}, []),
    "ends-ab": (3, 5, STAR_FREE | {"l_trivial", "definite"}, []),
    "third-last-a": (8, 15, STAR_FREE | {"l_trivial", "definite"}, []),
    "binary-mod4": (3, 5, STAR_FREE | {"l_trivial", "definite"}, []),
    "tomita2": (3, 6, STAR_FREE | {"r_omega"}, []),
    "d2": (4, 15, STAR_FREE | {"r_omega"}, []),
    "d3": (5, 31, STAR_FREE | {"r_omega"}, []),
    "d4": (6, 56, STAR_FREE | {"r_omega"}, []),
    "d12": (14, 820, STAR_FREE | {"r_omega"}, []),
    "dyck2-2": (8, 60, STAR_FREE | {"r_omega"}, []),
    "dyck2-3": (16, 285, STAR_FREE | {"r_omega"}, []),
    "ab-or-bbaa": (6, 36, STAR_FREE | {"r_omega"}, []),
    "ab-or-aabb": (5, 21, STAR_FREE, []),
    "flip-flop": (2, 3, STAR_FREE | {"l_trivial"}, []),
    "zero-then-twos": (2, 3, STAR_FREE | {"l_trivial"}, []),
    "tomita4": (4, 12, STAR_FREE, []),
    "factor-ab": (3, 6, STAR_FREE, []),
    "even-pairs": (5, 5, STAR_FREE, []),
    "gridworld4": (4, 18, STAR_FREE, []),
    "gridworld9": (9, 213, STAR_FREE, []),
    "aa": (2, 2, CYCLIC | {"two_groups_only"}, ["Z2"]),
    "aaa": (3, 3, CYCLIC, ["Z3"]),
    "aaaa": (4, 4, CYCLIC | {"two_groups_only"}, ["Z4"]),
    "unary6": (6, 6, CYCLIC, ["Z6"]),
    "unary60": (60, 60, CYCLIC, ["Z60"]),
    "even-length": (2, 2, CYCLIC | {"two_groups_only"}, ["Z2"]),
    "parity": (2, 2, CYCLIC - {"ac0"} | {"two_groups_only"}, ["Z2"]),
    "tomita5": (4, 4, CYCLIC - {"ac0"} | {"two_groups_only"}, ["Z2xZ2"]),
    "tomita6": (3, 3, CYCLIC - {"ac0"}, ["Z3"]),
    "cycle5": (5, 5, CYCLIC - {"ac0"}, ["Z5"]),
    "z2xz3": (6, 6, CYCLIC - {"ac0"}, ["Z6"]),
    "abab": (5, 10, {"solvable", "two_groups_only", "ac0"}, ["Z2"]),
    "tomita3": (5, 26, {"solvable", "two_groups_only", "ac0"}, ["Z2"]),
    "a-or-bb": (3, 7, {"solvable", "two_groups_only", "ac0"}, ["Z2"]),
    "every-second-b": (3, 7, {"solvable", "two_groups_only", "ac0"}, ["Z2"]),
    "resettable-parity": (2, 4, {"solvable", "two_groups_only", "ac0"}, ["Z2"]),
    "resettable-mod3": (3, 6, {"solvable", "ac0"}, ["Z3"]),
    "binary-mod3": (3, 6, {"group", "solvable"}, ["S3"]),
    "binary-mod5": (5, 20, {"group", "solvable"}, ["group of order 20"]),
    "binary-mod7": (7, 21, {"group", "solvable"}, ["group of order 21"]),
    "affine-mod3": (3, 9, {"solvable"}, ["S3"]),
    "affine-mod5": (5, 25, {"solvable"}, ["group of order 20"]),
    "shell-game5": (5, 120, {"group"}, ["S5"]),
    "cerny4": (4, 128, {"solvable"}, ["Z4", "Z3", "Z2"]),
    "cerny5": (5, 610, {"solvable"}, ["Z5", "Z4", "Z3", "Z2"]),
    "cerny6": (6, 2742, {"solvable"}, ["Z6", "Z5", "Z4", "Z3", "Z2"]),
    "t3": (3, 27, {"solvable"}, ["S3", "Z2"]),
    "t5": (5, 3125, set(), ["S5", "S4", "S3", "Z2"]),
    "swap-assign2": (4, 14, {"solvable", "two_groups_only", "ac0"}, ["Z2"]),
    "swap-assign3": (8, 86, {"solvable"}, ["S3", "Z2"]),
}


@pytest.mark.parametrize("name", KNOWN)
def test_known_languages(name: str) -> None:
    states, monoid_size, classes, groups = KNOWN[name]
    found = classify(language(name))
    assert (found.states, found.monoid_size) == (states, monoid_size)
    assert {name for name, holds in found.classes.items() if holds} == classes
    assert [contained.name for contained in found.subgroups] == groups


@pytest.mark.parametrize("name", [name for name, known in KNOWN.items() if known[1] < 300])
def test_words_of_equal_length_in_known_languages(name: str) -> None:
    assert ("ac0" in KNOWN[name][2]) != some_length_contains_a_group(language(name))


@pytest.mark.parametrize(
    ("name", "order", "solvable", "two_group"),
    [
        ("S3", 6, True, False),
        ("D4", 8, True, True),
        ("D5", 10, True, False),
        ("Q8", 8, True, True),
        ("A4", 12, True, False),
        ("S4", 24, True, False),
        ("A5", 60, False, False),
    ],
)
def test_word_problems(name: str, order: int, solvable: bool, two_group: bool) -> None:
    found = classify(word_problem_dfa(name))
    assert (found.states, found.monoid_size) == (order, order)
    assert found.subgroups == (ContainedGroup(order, name, False, solvable),)
    holding = {"group"} | ({"solvable"} if solvable else set()) | ({"two_groups_only"} if two_group else set())
    assert {name for name, holds in found.classes.items() if holds} == holding


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(automata(most_states=5, most_letters=2))
def test_every_class_by_its_definition(dfa: DFA) -> None:
    monoid = transition_monoid(minimal(dfa))
    assume(monoid.size < 60)
    found, table, everything = classify(dfa), multiplication(monoid), range(monoid.size)
    nonempty = semigroup(monoid)
    idempotents = [e for e in everything if table[e][e] == e]

    def power(x: int, exponent: int) -> int:
        result = 0
        for _ in range(exponent):
            result = table[result][x]
        return result

    star_free = all(power(x, monoid.size) == power(x, monoid.size + 1) for x in everything)
    right = [frozenset(table[x]) for x in everything]
    left = [frozenset(table[y][x] for y in everything) for x in everything]
    both = [frozenset(table[y][z] for z in right[x] for y in everything) for x in everything]
    letters = [monoid.element([letter]) for letter in monoid.letters]
    expected = {
        "star_free": star_free,
        "group": all(0 in table[x] for x in everything),
        "commutative": all(table[x][y] == table[y][x] for x in everything for y in everything),
        "r_trivial": len(set(right)) == monoid.size,
        "l_trivial": len(set(left)) == monoid.size,
        "j_trivial": len(set(both)) == monoid.size,
        "definite": all(table[s][e] == e for s in nonempty for e in nonempty.intersection(idempotents)),
        "reverse_definite": all(table[e][s] == e for s in nonempty for e in nonempty.intersection(idempotents)),
        "ac0": not some_length_contains_a_group(minimal(dfa)),
        "r_omega": star_free and len({right[e] for e in idempotents}) == len(idempotents),
        "two_groups_only": all(period(table, x).bit_count() == 1 for x in everything),
    }
    assert found.classes == expected | {"solvable": True}  # other groups have 60 elements and more
    assert list(found.letter_orders.values()) == [period(table, x) for x in letters]
    assert found.star_free == (found.subgroups == ())
    assert set(found.witnesses) == {name for name, holds in found.classes.items() if not holds}
    assert "\n" not in found.summary + "".join(found.witnesses.values())


def period(table: list[list[int]], x: int) -> int:
    powers = [x]
    while (following := table[powers[-1]][x]) not in powers:
        powers.append(following)
    return len(powers) - powers.index(following)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(automata(most_states=5, most_letters=2))
def test_the_witness_of_a_group_can_be_run(drawn: DFA) -> None:
    turning = tuple(((q + 1) % drawn.states, *row[1:]) for q, row in enumerate(drawn.transitions))
    dfa = DFA(drawn.letters, turning, drawn.accepting, drawn.start)
    found = classify(dfa)
    assume(not found.star_free)
    said = re.fullmatch(r"([ab]+) acts with period (\d+) on states \{(.+)\}", found.witnesses["star_free"])
    assert said is not None
    word, turns, states = said[1], int(said[2]), {int(state) for state in said[3].split(", ")}
    small = minimal(dfa)

    def after(state: int, times: int) -> int:
        return DFA(small.letters, small.transitions, small.accepting, state).run(word * times)

    assert {after(state, 1) for state in states} == states
    assert all(after(state, turns) == state for state in states)
    assert all(after(state, 1) != state for state in states)
    assert not any(all(after(state, n) == state for state in states) for n in range(1, turns))


@pytest.mark.parametrize(
    ("name", "summary"),
    [
        ("abab", "contains the group Z2 though every letter is aperiodic"),
        ("t5", "contains the groups S5, S4, S3 and Z2; not solvable"),
        ("affine-mod5", "contains the group of order 20"),
        ("binary-mod3", "a group language; the letters generate the group S3, solvable"),
        ("parity", "a group language; the letters generate the group Z2, abelian"),
        ("shell-game5", "a group language; the letters generate the group S5, not solvable"),
        ("ends-ab", "star-free; definite: the last few letters decide"),
        ("starts-ab", "star-free; reverse definite: the first few letters decide"),
        ("tomita7", "star-free; piecewise testable (J-trivial)"),
        ("flip-flop", "star-free; L-trivial"),
        ("d3", "star-free; in R^ω, not R-trivial"),
        ("tomita4", "star-free; not in R^ω"),
    ],
)
def test_the_summary(name: str, summary: str) -> None:
    assert classify(language(name)).summary == summary


def test_witnesses_in_words() -> None:
    assert classify(language("abab")).witnesses == {
        "star_free": "ab acts with period 2 on states {0, 3}",
        "group": "letter a sends states 1 and 2 both to 2",
        "commutative": "ab and ba lead from state 0 to different states",
        "r_trivial": "a and ab act differently, yet lead to each other by appending letters",
        "l_trivial": "a and ba act differently, yet lead to each other by prepending letters",
        "j_trivial": "a and ab act differently, yet lead to each other by appending letters",
        "definite": "abab is idempotent, but the letter a before it still matters",
        "reverse_definite": "abab is idempotent, but the letter a after it still matters",
        "r_omega": "ab acts with period 2 on states {0, 3}",
    }
    five = classify(language("t5")).witnesses
    assert five["solvable"] == "contains S5 on states {0, 1, 2, 3, 4}"
    assert five["ac0"] == "words of equal length act as S5 on states {0, 1, 2, 3, 4}"
    assert (
        "; the monoid contains a group of order 20 on states" in classify(language("binary-mod5")).witnesses["two_groups_only"]
    )


@pytest.mark.parametrize("name", ["aaa", "unary6", "binary-mod5", "t3", "t5", "cerny6", "resettable-mod3", "affine-mod3"])
def test_the_witness_against_two_groups_is_a_word_of_another_period(name: str) -> None:
    """As the powers of the word really are."""
    dfa, said = language(name), classify(language(name)).witnesses["two_groups_only"]
    word, period = said.partition(";")[0].partition(" on states")[0].split(" acts with period ")
    powers = [tuple(range(dfa.states))]
    while powers[-1] not in powers[:-1]:
        images = powers[-1]
        for letter in word:
            images = tuple(dfa.transitions[state][dfa.letters.index(letter)] for state in images)
        powers.append(images)
    assert len(powers) - 1 - powers.index(powers[-1]) == int(period)
    assert int(period).bit_count() > 1
    assert classify(language("flip-flop")).witnesses["r_omega"] == (
        "0 and 1 are idempotent and lead to each other by appending letters"
    )
    assert (
        classify(word_problem_dfa("Z60"))
        .witnesses["star_free"]
        .endswith("on states {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, …, 59}")
    )


def test_one_state_is_in_every_class() -> None:
    for accepting in (frozenset({0}), frozenset[int]()):
        found = classify(DFA(("a", "b"), ((0, 0),), accepting))
        assert all(found.classes.values())
        assert (found.summary, found.witnesses) == ("accepts every word or none", {})


def test_it_minimises_first() -> None:
    assert classify(DFA(("a",), ((1,), (0,)), frozenset({0, 1}))).states == 1


def test_without_libsemigroups_the_answer_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    with_it = classify(language("cerny5"))
    monkeypatch.setitem(sys.modules, "libsemigroups_pybind11", None)
    assert classify(language("cerny5")) == with_it


def test_a_witness_belongs_to_every_class_that_does_not_hold() -> None:
    found = classify(language("parity"))
    with pytest.raises(ValueError, match="class star_free: a witness belongs to every class that does not hold"):
        replace(found, star_free=True)


def test_thousands_of_states() -> None:
    start = time.perf_counter()
    definite = classify(regex_dfa("(a|b)*a(a|b){10}"))
    assert (definite.states, definite.monoid_size, definite.definite) == (2048, 4095, True)
    with pytest.raises(MonoidTooLarge, match="--monoid-limit"):
        classify(regex_dfa("(a|b)*a(a|b){10}"), limit=4000)
    assert time.perf_counter() - start < 20
