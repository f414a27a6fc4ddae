"""Named automata whose letters are operations on a small state that starts at 0: counters, registers, walks, shuffles."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from eigentrack.automata.dfa import DFA

Map = tuple[int, ...]  # the image of every state


def _acting(maps: Mapping[str, Map]) -> DFA:
    """Accepts the words that lead from state 0 back to it."""
    letters = tuple(maps)
    return DFA.from_function(letters, 0, lambda state, letter: maps[letter][state], lambda state: state == 0)


def _numbers(modulus: int, operations: Mapping[str, Callable[[int], int]]) -> DFA:
    return _acting({letter: tuple(do(n) % modulus for n in range(modulus)) for letter, do in operations.items()})


def _binary(modulus: int) -> DFA:
    return _numbers(modulus, {"0": lambda n: 2 * n, "1": lambda n: 2 * n + 1})


def _affine(modulus: int) -> DFA:
    return _numbers(modulus, {"+": lambda n: n + 1, "*": lambda n: 2 * n, "0": lambda n: 0})


def _two_counters(first: int, second: int) -> DFA:
    def step(counts: tuple[int, int], letter: str) -> tuple[int, int]:
        x, y = counts
        return ((x + 1) % first, y) if letter == "a" else (x, (y + 1) % second)

    return DFA.from_function("ab", (0, 0), step, lambda counts: counts == (0, 0))


def _gridworld(places: int) -> DFA:
    """A corridor: l and r walk one place, and stay at the walls."""
    return _acting({"l": (0, *range(places - 1)), "r": (*range(1, places), places - 1)})


def _registers(bits: int) -> DFA:
    """0 and 1 write the first bit, a swaps the first two bits, b the next two; is the first bit 0?"""

    def step(register: tuple[int, ...], letter: str) -> tuple[int, ...]:
        if letter in "01":
            return (int(letter), *register[1:])
        place = "ab".index(letter)
        return (*register[:place], register[place + 1], register[place], *register[place + 2 :])

    return DFA.from_function("01ab"[: bits + 1], (0,) * bits, step, lambda register: register[0] == 0)


def _turn(points: int) -> Map:
    return (*range(1, points), 0)


def _cerny(points: int) -> DFA:
    """a turns the circle by one place, b merges the last place into the first: the shortest reset has (n-1)² letters."""
    return _acting({"a": _turn(points), "b": (*range(points - 1), 0)})


def all_maps(points: int) -> DFA:
    """A turn, a swap and a merge generate every map of the points to themselves."""
    others = tuple(range(2, points))
    return _acting({"a": _turn(points), "b": (1, 0, *others), "c": (0, 0, *others)})


def _shell_game(shells: int) -> DFA:
    """Each letter swaps two neighbouring shells; is the pea under the first again?"""
    swaps = {}
    for place in range(shells - 1):
        images = list(range(shells))
        images[place : place + 2] = place + 1, place
        swaps["abcdefgh"[place]] = tuple(images)
    return _acting(swaps)


# name → (what it says, how to build it)
MACHINES: dict[str, tuple[str, Callable[[], DFA]]] = {
    "cycle5": (
        "a walk on five places ends where it began",
        lambda: _numbers(5, {"0": lambda n: n, "+": lambda n: n + 1, "-": lambda n: n - 1}),
    ),
    "z2xz3": ("an even number of as, and a multiple of 3 of bs", lambda: _two_counters(2, 3)),
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
