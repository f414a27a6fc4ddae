"""The minimal DFA of a regular expression, which accepts the words that `re.fullmatch` accepts: regex → NFA → minimal DFA.

Python's own parser reads the pattern, so that it means the same here as in `re`; Thompson's construction turns it into an NFA;
automata-lib makes the NFA deterministic. The syntax: a . [ab] [^a-c] (..) | * + ? {n} {n,} {n,m} \\* and the empty word.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

from eigentrack.automata.dfa import DFA, minimal

MOST_LETTERS = 1_000
LARGEST_NFA = 5_000
LARGEST_DFA = 50_000
MOST_PLACES = 5_000_000  # the most NFA states in all subsets together

_REFUSED = {
    op.AT: r"an anchor such as ^ $ \A \Z \b",
    op.ASSERT: "look-ahead or look-behind",
    op.ASSERT_NOT: "look-ahead or look-behind",
    op.ATOMIC_GROUP: "an atomic group (?>...)",
    op.CATEGORY: r"a character class such as \d \s \w",
    op.GROUPREF: r"a back-reference such as \1",
    op.GROUPREF_EXISTS: "a conditional group (?(1)...)",
    op.MIN_REPEAT: "a lazy repeat such as *? +? ??",
    op.POSSESSIVE_REPEAT: "a possessive repeat such as *+ ++ ?+",
}
_REPEATS = (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT)

Item = tuple[Any, Any]  # an opcode of Python's parser and its argument


def regex_dfa(pattern: str, alphabet: Iterable[str] = ()) -> DFA:
    """Return the complete minimal DFA of a regular expression, `pattern`, in Python's syntax.

    Its letters are those in the pattern and the single characters in `alphabet`, sorted.
    """
    items = _parse(pattern)
    extra = set(alphabet)
    if bad := sorted(letter for letter in extra if len(letter) != 1):
        raise ValueError(f"letter {bad[0]!r} of the alphabet must be a single character")
    letters = sorted(extra | _letters(pattern, items))
    if not letters:
        raise ValueError(f"regex {pattern!r} has no letters: add an alphabet")
    try:
        nfa = _Thompson(pattern, letters)
        final = nfa.sequence(items, nfa.state())
    except RecursionError:
        raise ValueError(f"regex {pattern!r:.60} is nested too deeply") from None
    return _determinise(pattern, letters, nfa.arrows, final)


def _parse(pattern: str) -> list[Item]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python warns of sets such as [[a], whose meaning may change one day
            items = list(_parser.parse(pattern))
        for opcode, _ in _walk(items):
            if opcode in _REFUSED:
                raise ValueError(f"regex {pattern!r:.60} uses {_REFUSED[opcode]}, which is not supported")
    except (re.error, OverflowError) as error:
        raise ValueError(f"regex {pattern!r:.60} is malformed: {error}") from None
    except RecursionError:
        raise ValueError(f"regex {pattern!r:.60} is nested too deeply") from None
    without_escapes_and_sets = re.sub(r"\\.|\[\^?\]?(\\.|[^\]\\])*\]", "", pattern, flags=re.DOTALL)
    if "(?" in without_escapes_and_sets:  # the parser drops some extensions, such as comments, from its result
        raise ValueError(f"regex {pattern!r:.60} uses an extension (?...), which is not supported: write plain groups (...)")
    return items


def _walk(items: Iterable[Item]) -> Iterator[Item]:
    """Yield the items at every depth."""
    for opcode, value in items:
        yield opcode, value
        if opcode is op.IN:
            yield from value
        elif opcode is op.BRANCH:
            for branch in value[1]:
                yield from _walk(branch)
        elif opcode is op.SUBPATTERN or opcode in _REPEATS:
            yield from _walk(value[-1])


def _letters(pattern: str, items: list[Item]) -> set[str]:
    codes: set[int] = set()
    for opcode, value in _walk(items):
        if opcode in (op.LITERAL, op.NOT_LITERAL):
            codes.add(value)
        elif opcode is op.RANGE:
            codes.update(range(value[0], min(value[1], value[0] + MOST_LETTERS) + 1))
        if len(codes) > MOST_LETTERS:
            raise ValueError(f"regex {pattern!r:.60} has more than {MOST_LETTERS} letters: name fewer")
    return set(map(chr, codes))


def _chosen(opcode: Any, value: Any, letters: list[str]) -> list[str]:
    """Return the letters that a one-letter item matches."""
    if opcode is op.ANY:
        return [letter for letter in letters if letter != "\n"]
    if opcode is op.LITERAL:
        return [chr(value)]
    if opcode is op.NOT_LITERAL:
        return [letter for letter in letters if ord(letter) != value]
    named = {chr(argument) for kind, argument in value if kind is op.LITERAL}
    ranges = [argument for kind, argument in value if kind is op.RANGE]
    inside = {letter for letter in letters if letter in named or any(low <= ord(letter) <= high for low, high in ranges)}
    negated = any(kind is op.NEGATE for kind, _ in value)
    return [letter for letter in letters if (letter in inside) != negated]


class _Thompson:
    """Thompson's construction of an NFA; `sequence` and `repeat` continue from a state and return the state where they end.

    The label "" marks a move without a letter.
    """

    def __init__(self, pattern: str, letters: list[str]) -> None:
        self.pattern, self.letters = pattern, letters
        self.arrows: list[dict[str, set[int]]] = []

    def state(self) -> int:
        if len(self.arrows) == LARGEST_NFA:
            raise ValueError(f"regex {self.pattern!r:.60} needs more than {LARGEST_NFA} states with its repeats written out")
        self.arrows.append({})
        return len(self.arrows) - 1

    def arrow(self, source: int, label: str, target: int) -> int:
        self.arrows[source].setdefault(label, set()).add(target)
        return target

    def sequence(self, items: Iterable[Item], start: int) -> int:
        for opcode, value in items:
            if opcode is op.SUBPATTERN:
                start = self.sequence(value[-1], start)
            elif opcode is op.BRANCH:
                start = self.join([self.sequence(branch, self.arrow(start, "", self.state())) for branch in value[1]])
            elif opcode is op.MAX_REPEAT:
                least, most, body = value
                start = self.repeat(body, least, most, start)
            else:
                end = self.state()
                for letter in _chosen(opcode, value, self.letters):
                    self.arrow(start, letter, end)
                start = end
        return start

    def repeat(self, items: Iterable[Item], least: int, most: int, start: int) -> int:
        for _ in range(least):
            before, start = start, self.sequence(items, start)
            if start == before:  # the body is empty, and so are all its copies
                return start
        if most is op.MAXREPEAT:
            loop = self.arrow(start, "", self.state())
            self.arrow(self.sequence(items, loop), "", loop)
            return loop
        ends = [start]
        for _ in range(most - least):
            ends.append(self.sequence(items, ends[-1]))
            if ends[-1] == ends[-2]:
                return start
        return self.join(ends)

    def join(self, ends: list[int]) -> int:
        together = self.state()
        for end in ends:
            self.arrow(end, "", together)
        return together


def _determinise(pattern: str, letters: list[str], arrows: list[dict[str, set[int]]], final: int) -> DFA:
    try:
        from automata.fa.dfa import DFA as LibraryDFA
        from automata.fa.nfa import NFA
    except ImportError:
        raise ValueError("regular expressions need the package automata-lib: pip install automata-lib") from None

    class BoundedNFA(NFA):
        """An NFA that stops a subset construction with too many states; the library calls its method once per subset."""

        subsets = places = 0

        def _iterate_through_symbol_path_pairs(self, current_states: Any) -> Any:
            BoundedNFA.subsets += 1
            BoundedNFA.places += len(current_states)
            if BoundedNFA.subsets > LARGEST_DFA or BoundedNFA.places > MOST_PLACES:
                raise ValueError(f"regex {pattern!r:.60} needs more than {LARGEST_DFA} states: simplify it")
            return super()._iterate_through_symbol_path_pairs(current_states)

    nfa = BoundedNFA(
        states=set(range(len(arrows))),
        input_symbols=set(letters),
        transitions=dict(enumerate(arrows)),
        initial_state=0,
        final_states={final},
    )
    found = LibraryDFA.from_nfa(nfa)
    # a missing transition leads to None, the dead state; `minimal` numbers the states
    complete = DFA.from_function(
        letters,
        found.initial_state,
        lambda state, letter: None if state is None else found.transitions[state].get(letter),
        lambda state: state in found.final_states,
    )
    return minimal(complete)
