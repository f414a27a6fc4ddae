"""Every named language against an independent definition on all short words, and against its known number of states."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import groupby, pairwise, product

import pytest

from eigentrack.automata import LANGUAGES, language


def matches(pattern: str) -> Callable[[str], bool]:
    return lambda word: re.fullmatch(pattern, word) is not None


def no_odd_ones_then_odd_zeros(word: str) -> bool:
    runs = [(letter, len(list(run))) for letter, run in groupby(word)]
    return not any(a == "1" and n % 2 and b == "0" and m % 2 for (a, n), (b, m) in pairwise(runs))


def brackets(pairs: list[str], depth: int) -> Callable[[str], bool]:
    def check(word: str) -> bool:
        deepest = open_now = 0
        for letter in word:
            open_now += 1 if any(letter == pair[0] for pair in pairs) else -1
            deepest = max(deepest, open_now)
        reduced = word
        for _ in word:
            for pair in pairs:
                reduced = reduced.replace(pair, "")
        return reduced == "" and deepest <= depth

    return check


# name → (known number of states, slow definition, longest word that is tried)
KNOWN: dict[str, tuple[int, Callable[[str], bool], int]] = {
    "parity": (2, lambda w: w.count("1") % 2 == 0, 9),
    "even-pairs": (5, lambda w: (w.count("ab") + w.count("ba")) % 2 == 0, 9),
    "tomita1": (2, matches("1*"), 9),
    "tomita2": (3, matches("(10)*"), 9),
    "tomita3": (5, no_odd_ones_then_odd_zeros, 11),
    "tomita4": (4, lambda w: "000" not in w, 9),
    "tomita5": (4, lambda w: w.count("0") % 2 == 0 == w.count("1") % 2, 9),
    "tomita6": (3, lambda w: (w.count("0") - w.count("1")) % 3 == 0, 9),
    "tomita7": (5, matches("0*1*0*1*"), 9),
    "aa": (2, matches("(aa)*"), 20),
    "aaa": (3, matches("(aaa)*"), 20),
    "aaaa": (4, matches("(aaaa)*"), 20),
    "abab": (5, matches("(abab)*"), 9),
    "d2": (4, brackets(["()"], 2), 10),
    "d3": (5, brackets(["()"], 3), 10),
    "d4": (6, brackets(["()"], 4), 12),
    "d12": (14, brackets(["()"], 12), 10),
    "dyck2-2": (8, brackets(["()", "[]"], 2), 6),
    "dyck2-3": (16, brackets(["()", "[]"], 3), 7),
    "a-or-b-then-d": (3, matches("[ab]*d[bc]*"), 6),
    "abcde": (7, matches("aa*bb*cc*dd*ee*"), 6),
    "a-then-b": (3, matches("a*b*"), 9),
    "zero-then-twos": (2, matches("[012]*02*"), 7),
    "flip-flop": (2, matches("[01i]*1i*"), 7),
    "resettable-parity": (2, lambda w: w.rpartition("r")[2].count("1") % 2 == 0, 9),
    "resettable-mod3": (3, lambda w: w.rpartition("r")[2].count("1") % 3 == 0, 9),
    "contains-ab": (3, lambda w: "ab" in w, 9),
    "cycle5": (5, lambda w: (w.count("+") - w.count("-")) % 5 == 0, 7),
}


def test_every_language_has_a_definition_here() -> None:
    assert set(KNOWN) == set(LANGUAGES)


@pytest.mark.parametrize("name", LANGUAGES)
def test_the_automaton_is_the_language(name: str) -> None:
    states, belongs, longest = KNOWN[name]
    dfa = language(name)
    assert dfa.states == states
    tried = 0
    for length in range(longest + 1):
        for word in product(dfa.letters, repeat=length):
            assert dfa.accepts(word) == belongs("".join(word)), "".join(word)
            tried += 1
    assert tried > 20


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="language 'tomita8' is not known; there are parity, even-pairs, tomita1"):
        language("tomita8")
