"""The named languages of the state-tracking literature, as minimal automata that need no extra package."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

from eigentrack.automata.dfa import DFA, minimal
from eigentrack.automata.letter_maps import Map


@cache
def language(name: str) -> DFA:
    """Return the minimal DFA of the language called `name`; `LANGUAGES` lists the names."""
    if name not in LANGUAGES:
        raise ValueError(f"language {name!r} is not known; there are {', '.join(LANGUAGES)}")
    return minimal(LANGUAGES[name][1]())


def _star(letters: str, *blocks: str) -> DFA:
    """Return a DFA for (block|block|…)*, where no block is a prefix of another.

    A state is the part of the current block that has been read, or None after an error.
    """

    def step(read: str | None, letter: str) -> str | None:
        if read is None or not any(block.startswith(read + letter) for block in blocks):
            return None
        return "" if read + letter in blocks else read + letter

    return DFA.from_function(letters, "", step, lambda read: read == "")


def _last_letters(letters: str, length: int, accepts: Callable[[str], bool]) -> DFA:
    return DFA.from_function(letters, "", lambda last, letter: (last + letter)[-length:], accepts)


def _first_letters(letters: str, length: int, accepts: Callable[[str], bool]) -> DFA:
    return DFA.from_function(letters, "", lambda first, letter: (first + letter)[:length], accepts)


def _subword(letters: str, word: str) -> DFA:
    """Return a DFA for the words that contain the letters of `word` in this order, with any letters between them.

    A state is the number of letters of `word` met so far.
    """

    def step(met: int, letter: str) -> int:
        return met + (met < len(word) and word[met] == letter)

    return DFA.from_function(letters, 0, step, lambda met: met == len(word))


def _factor_ab(letters: str) -> DFA:
    def step(last: str, letter: str) -> str:
        return last if last == "ab" else "ab" if last + letter == "ab" else letter

    return DFA.from_function(letters, "", step, lambda last: last == "ab")


def _exactly_one_a() -> DFA:
    return DFA.from_function("ab", 0, lambda count, letter: min(count + (letter == "a"), 2), lambda count: count == 1)


def _tomita3() -> DFA:
    """Return a DFA for the words in which no odd run of 1s is ever followed by an odd run of 0s.

    A state is (letter of the current run, parity of its length, whether an odd run of 1s precedes it).
    """

    def step(state: tuple[str, int, bool], letter: str) -> tuple[str, int, bool]:
        run, parity, after_odd = state
        if run == "dead":
            return state
        if letter == run:
            return run, 1 - parity, after_odd
        if run == "0" and parity and after_odd:
            return "dead", 0, False
        return letter, 1, run == "1" and parity == 1

    def accepts(state: tuple[str, int, bool]) -> bool:
        run, parity, after_odd = state
        return run != "dead" and not (run == "0" and parity == 1 and after_odd)

    return DFA.from_function("01", ("0", 0, False), step, accepts)


def _tomita4() -> DFA:
    return DFA.from_function("01", 0, lambda run, x: run if run == 3 else (run + 1 if x == "0" else 0), lambda run: run < 3)


def _tomita7() -> DFA:
    """Return a DFA for 0*1*0*1*; a state is the number of the current run, 4 after an error."""

    def step(run: int, x: str) -> int:
        return run if run == 4 or "0101"[run] == x else run + 1

    return DFA.from_function("01", 0, step, lambda run: run < 4)


def _bounded_dyck(kinds: int, depth: int) -> DFA:
    """Return a DFA for the well-bracketed words over `kinds` pairs of brackets, nested at most `depth` deep.

    A state is the stack of open brackets, or None after an error.
    """
    opens, closes = "([{<"[:kinds], ")]}>"[:kinds]

    def step(stack: str | None, x: str) -> str | None:
        if stack is None:
            return None
        if x in opens:
            return stack + x if len(stack) < depth else None
        return stack[:-1] if stack and opens.index(stack[-1]) == closes.index(x) else None

    return DFA.from_function(opens + closes, "", step, lambda stack: stack == "")


def _runs(word: str, at_least_one: bool) -> DFA:
    """Return a DFA for a*b*…, or for aa*bb*… if `at_least_one`, with the letters of `word`.

    A state is the number of the current run, -1 before the first letter, or None after an error.
    """

    def step(place: int | None, x: str) -> int | None:
        if place is None:
            return None
        for target in (place, place + 1) if at_least_one else range(max(place, 0), len(word)):
            if 0 <= target < len(word) and word[target] == x:
                return target
        return None

    last = len(word) - 1
    return DFA.from_function(word, -1, step, (lambda p: p == last) if at_least_one else (lambda p: p is not None))


def _a_or_b_then_d_then_b_or_c() -> DFA:
    def step(part: int | None, x: str) -> int | None:
        if part == 0:
            return {"a": 0, "b": 0, "d": 1}.get(x)
        return 1 if part == 1 and x in "bc" else None

    return DFA.from_function("abcd", 0, step, lambda part: part == 1)


def _last_written() -> DFA:
    """Return a DFA for the flip-flop: the letters 1 and 0 write a bit, i keeps it; accept if the last bit written is 1."""
    return DFA.from_function("01i", 0, lambda bit, x: bit if x == "i" else int(x), lambda bit: bit == 1)


def _even_pairs() -> DFA:
    """Return a DFA for the words whose first and last letter agree: ab and ba together occur an even number of times."""
    return DFA.from_function("ab", "", lambda ends, x: (ends or x)[0] + x, lambda ends: ends == "" or ends[0] == ends[-1])


def _acting(maps: Mapping[str, Map]) -> DFA:
    """Return a DFA for the words that lead from state 0 back to it, where `maps[letter][state]` is the next state."""
    letters = tuple(maps)
    return DFA.from_function(letters, 0, lambda state, letter: maps[letter][state], lambda state: state == 0)


def _numbers(modulus: int, operations: Mapping[str, Callable[[int], int]]) -> DFA:
    """Return a DFA whose letters are operations on a number modulo `modulus` that starts at 0; accept if it is 0 again."""
    return _acting({letter: tuple(do(n) % modulus for n in range(modulus)) for letter, do in operations.items()})


def _binary(modulus: int) -> DFA:
    return _numbers(modulus, {"0": lambda n: 2 * n, "1": lambda n: 2 * n + 1})


def _affine(modulus: int) -> DFA:
    return _numbers(modulus, {"+": lambda n: n + 1, "*": lambda n: 2 * n, "0": lambda n: 0})


def _two_counters(letters: str, first: int, second: int) -> DFA:
    """Return a DFA that counts one letter modulo `first` and the other modulo `second`; accept if both counts are 0."""

    def step(counts: tuple[int, int], letter: str) -> tuple[int, int]:
        x, y = counts
        return ((x + 1) % first, y) if letter == letters[0] else (x, (y + 1) % second)

    return DFA.from_function(letters, (0, 0), step, lambda counts: counts == (0, 0))


def _gridworld(places: int) -> DFA:
    """Return a DFA for a corridor: l and r walk one place left and right, but not through a wall; accept at the left end."""
    return _acting({"l": (0, *range(places - 1)), "r": (*range(1, places), places - 1)})


def _registers(bits: int) -> DFA:
    """Return a DFA for a register of bits: 0 and 1 write the first bit, a swaps the first and second, b the second and third.

    Accept if the first bit is 0.
    """

    def step(register: tuple[int, ...], letter: str) -> tuple[int, ...]:
        if letter in "01":
            return (int(letter), *register[1:])
        place = "ab".index(letter)
        return (*register[:place], register[place + 1], register[place], *register[place + 2 :])

    return DFA.from_function("01ab"[: bits + 1], (0,) * bits, step, lambda register: register[0] == 0)


def _turn(points: int) -> Map:
    return (*range(1, points), 0)


def _cerny(points: int) -> DFA:
    """Return Černý's automaton: a turns a circle of n points by one place, b merges the last point into the first.

    The shortest word that resets it has (n-1)² letters.
    """
    return _acting({"a": _turn(points), "b": (*range(points - 1), 0)})


def all_maps(points: int) -> DFA:
    """Return a DFA whose three letters, a turn, a swap and a merge, generate every map of the points to themselves."""
    others = tuple(range(2, points))
    return _acting({"a": _turn(points), "b": (1, 0, *others), "c": (0, 0, *others)})


def _shell_game(shells: int) -> DFA:
    """Return a DFA whose letters swap neighbouring shells; accept if the pea is under the first shell again."""
    swaps = {}
    for place in range(shells - 1):
        images = list(range(shells))
        images[place : place + 2] = place + 1, place
        swaps["abcdefgh"[place]] = tuple(images)
    return _acting(swaps)


# name → (description, function that builds the automaton)
LANGUAGES: dict[str, tuple[str, Callable[[], DFA]]] = {
    "parity": ("an even number of 1s", lambda: _numbers(2, {"0": lambda n: n, "1": lambda n: n + 1})),
    "even-pairs": ("first and last letter agree", _even_pairs),
    "tomita1": ("1*", lambda: _star("01", "1")),
    "tomita2": ("(10)*", lambda: _star("01", "10")),
    "tomita3": ("no odd run of 1s is ever followed by an odd run of 0s", _tomita3),
    "tomita4": ("no 000", _tomita4),
    "tomita5": ("an even number of 0s and an even number of 1s", lambda: _two_counters("01", 2, 2)),
    "tomita6": ("as many 0s as 1s modulo 3", lambda: _numbers(3, {"0": lambda n: n + 1, "1": lambda n: n - 1})),
    "tomita7": ("0*1*0*1*", _tomita7),
    "aa": ("(aa)*", lambda: _star("a", "aa")),
    "aaa": ("(aaa)*", lambda: _star("a", "aaa")),
    "aaaa": ("(aaaa)*", lambda: _star("a", "aaaa")),
    "unary6": ("a multiple of 6 of letters a", lambda: _star("a", "a" * 6)),
    "unary60": ("a multiple of 60 of letters a", lambda: _star("a", "a" * 60)),
    "even-length": ("((a|b)(a|b))*", lambda: _star("ab", "aa", "ab", "ba", "bb")),
    "abab": ("(abab)*", lambda: _star("ab", "abab")),
    "ab-or-bbaa": ("(ab|bbaa)*", lambda: _star("ab", "ab", "bbaa")),
    "ab-or-aabb": ("(ab|aabb)*", lambda: _star("ab", "ab", "aabb")),
    "a-or-bb": ("(a|bb)*", lambda: _star("ab", "a", "bb")),
    "every-second-b": ("((a|b)b)*", lambda: _star("ab", "ab", "bb")),
    "d2": ("brackets nested at most 2 deep", lambda: _bounded_dyck(1, 2)),
    "d3": ("brackets nested at most 3 deep", lambda: _bounded_dyck(1, 3)),
    "d4": ("brackets nested at most 4 deep", lambda: _bounded_dyck(1, 4)),
    "d12": ("brackets nested at most 12 deep", lambda: _bounded_dyck(1, 12)),
    "dyck2-2": ("two kinds of brackets, at most 2 deep", lambda: _bounded_dyck(2, 2)),
    "dyck2-3": ("two kinds of brackets, at most 3 deep", lambda: _bounded_dyck(2, 3)),
    "a-or-b-then-d": ("{a,b}* d {b,c}*", _a_or_b_then_d_then_b_or_c),
    "abcde": ("aa* bb* cc* dd* ee*", lambda: _runs("abcde", at_least_one=True)),
    "a-then-b": ("a* b*", lambda: _runs("ab", at_least_one=False)),
    "a-before-b": ("an a, and later a b, among letters a, b, c", lambda: _subword("abc", "ab")),
    "subword-abc": ("an a, later a b, later a c", lambda: _subword("abc", "abc")),
    "exactly-one-a": ("a single a among letters a, b", _exactly_one_a),
    "starts-ab": ("begins with ab", lambda: _first_letters("ab", 2, lambda first: first == "ab")),
    "ends-ab": ("ends with ab", lambda: _last_letters("ab", 2, lambda last: last == "ab")),
    "third-last-a": (
        "the third letter from the end is an a",
        lambda: _last_letters("ab", 3, lambda last: len(last) == 3 and last[0] == "a"),
    ),
    "contains-ab": ("ab occurs", lambda: _factor_ab("ab")),
    "factor-ab": ("ab occurs, among letters a, b, c", lambda: _factor_ab("abc")),
    "zero-then-twos": (
        "{0,1,2}* 0 2*",
        lambda: DFA.from_function("012", 0, lambda s, x: s if x == "2" else int(x == "0"), bool),
    ),
    "flip-flop": ("the last bit written is a 1", _last_written),
    "cycle5": (
        "a walk on five places ends where it began",
        lambda: _numbers(5, {"0": lambda n: n, "+": lambda n: n + 1, "-": lambda n: n - 1}),
    ),
    "z2xz3": ("an even number of as, and a multiple of 3 of bs", lambda: _two_counters("ab", 2, 3)),
    "resettable-parity": (
        "an even number of 1s since the last reset",
        lambda: _numbers(2, {"1": lambda n: n + 1, "r": lambda n: 0}),
    ),
    "resettable-mod3": (
        "a multiple of 3 of 1s since the last reset",
        lambda: _numbers(3, {"1": lambda n: n + 1, "r": lambda n: 0}),
    ),
    "binary-mod3": ("a binary number that 3 divides", lambda: _binary(3)),
    "binary-mod4": ("a binary number that 4 divides", lambda: _binary(4)),
    "binary-mod5": ("a binary number that 5 divides", lambda: _binary(5)),
    "binary-mod7": ("a binary number that 7 divides", lambda: _binary(7)),
    "affine-mod3": ("x+1, 2x and x:=0 modulo 3 make 0 of 0", lambda: _affine(3)),
    "affine-mod5": ("x+1, 2x and x:=0 modulo 5 make 0 of 0", lambda: _affine(5)),
    "gridworld4": ("a walk between two walls, 4 places, ends at the left", lambda: _gridworld(4)),
    "gridworld9": ("a walk between two walls, 9 places, ends at the left", lambda: _gridworld(9)),
    "swap-assign2": ("the first of 2 bits is 0 after swaps and assignments", lambda: _registers(2)),
    "swap-assign3": ("the first of 3 bits is 0 after swaps and assignments", lambda: _registers(3)),
    "cerny4": ("turns of 4 places, with one merge, end at the first", lambda: _cerny(4)),
    "cerny5": ("turns of 5 places, with one merge, end at the first", lambda: _cerny(5)),
    "cerny6": ("turns of 6 places, with one merge, end at the first", lambda: _cerny(6)),
    "t3": ("all maps of 3 points: the first returns to itself", lambda: all_maps(3)),
    "t5": ("all maps of 5 points: the first returns to itself", lambda: all_maps(5)),
    "shell-game5": ("swaps of 5 shells bring the pea back under the first", lambda: _shell_game(5)),
}
