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


def ends_at_zero(operations: dict[str, str], modulus: int) -> Callable[[str], bool]:
    """The formula of every letter, applied one after the other to 0."""

    formulas = {letter: eval(f"lambda x: {formula}") for letter, formula in operations.items()}

    def check(word: str) -> bool:
        x = 0
        for letter in word:
            x = formulas[letter](x) % modulus
        return x == 0

    return check


def first_bit_is_zero(bits: int) -> Callable[[str], bool]:
    def check(word: str) -> bool:
        register = ["0"] * bits
        for letter in word:
            if letter in "01":
                register[0] = letter
            else:
                i = {"a": 0, "b": 1}[letter]
                register[i], register[i + 1] = register[i + 1], register[i]
        return register[0] == "0"

    return check


def pea_comes_back(word: str) -> bool:
    shells = ["pea", "", "", "", ""]
    for letter in word:
        i = "abcd".index(letter)
        shells[i], shells[i + 1] = shells[i + 1], shells[i]
    return shells[0] == "pea"


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
    "unary6": (6, lambda w: len(w) % 6 == 0, 30),
    "unary60": (60, lambda w: len(w) % 60 == 0, 130),
    "even-length": (2, lambda w: len(w) % 2 == 0, 9),
    "ab-or-bbaa": (6, matches("(ab|bbaa)*"), 12),
    "ab-or-aabb": (5, matches("(ab|aabb)*"), 12),
    "a-or-bb": (3, matches("(a|bb)*"), 9),
    "every-second-b": (3, lambda w: len(w) % 2 == 0 and set(w[1::2]) <= {"b"}, 9),
    "a-before-b": (3, matches(".*a.*b.*"), 7),
    "subword-abc": (4, matches(".*a.*b.*c.*"), 7),
    "exactly-one-a": (3, lambda w: w.count("a") == 1, 9),
    "starts-ab": (4, matches("ab.*"), 9),
    "ends-ab": (3, matches(".*ab"), 9),
    "third-last-a": (8, matches(".*a.."), 9),
    "factor-ab": (3, lambda w: "ab" in w, 7),
    "z2xz3": (6, lambda w: w.count("a") % 2 == 0 == w.count("b") % 3, 9),
    "binary-mod3": (3, lambda w: int("0" + w, 2) % 3 == 0, 9),
    "binary-mod4": (3, lambda w: int("0" + w, 2) % 4 == 0, 9),
    "binary-mod5": (5, lambda w: int("0" + w, 2) % 5 == 0, 9),
    "binary-mod7": (7, lambda w: int("0" + w, 2) % 7 == 0, 9),
    "affine-mod3": (3, ends_at_zero({"+": "x + 1", "*": "2 * x", "0": "0"}, 3), 7),
    "affine-mod5": (5, ends_at_zero({"+": "x + 1", "*": "2 * x", "0": "0"}, 5), 7),
    "gridworld4": (4, ends_at_zero({"l": "max(x - 1, 0)", "r": "min(x + 1, 3)"}, 4), 9),
    "gridworld9": (9, ends_at_zero({"l": "max(x - 1, 0)", "r": "min(x + 1, 8)"}, 9), 10),
    "swap-assign2": (4, first_bit_is_zero(2), 8),
    "swap-assign3": (8, first_bit_is_zero(3), 6),
    "cerny4": (4, ends_at_zero({"a": "x + 1", "b": "0 if x == 3 else x"}, 4), 9),
    "cerny5": (5, ends_at_zero({"a": "x + 1", "b": "0 if x == 4 else x"}, 5), 9),
    "cerny6": (6, ends_at_zero({"a": "x + 1", "b": "0 if x == 5 else x"}, 6), 9),
    "t3": (3, ends_at_zero({"a": "x + 1", "b": "{0: 1, 1: 0}.get(x, x)", "c": "0 if x == 1 else x"}, 3), 6),
    "t5": (5, ends_at_zero({"a": "x + 1", "b": "{0: 1, 1: 0}.get(x, x)", "c": "0 if x == 1 else x"}, 5), 6),
    "shell-game5": (5, pea_comes_back, 6),
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
