"""Complete deterministic finite automata: checking, JSON, minimisation and comparison."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from eigentrack.automata.components import root
from eigentrack.json_text import parse_json

Letter = TypeVar("Letter")


@dataclass(frozen=True)
class DFA:
    """A complete deterministic finite automaton with the states 0..n-1; its values are checked when it is made."""

    letters: tuple[str, ...]  # the names of the letters, all different
    transitions: tuple[tuple[int, ...], ...]  # [state][letter] → the next state; letters in the order of `letters`
    accepting: frozenset[int]  # the accepting states
    start: int = 0  # the state before the first letter

    def __post_init__(self) -> None:
        states = len(self.transitions)
        if not self.letters or len(set(self.letters)) != len(self.letters) or "" in self.letters:
            raise ValueError(f"letters={self.letters} must be distinct, not empty, and at least one")
        if not 0 <= self.start < states:
            raise ValueError(f"start={self.start} is not one of the {states} states")
        for state, row in enumerate(self.transitions):
            if len(row) != len(self.letters):
                raise ValueError(f"state {state} has {len(row)} transitions for {len(self.letters)} letters")
            if bad := [target for target in row if not 0 <= target < states]:
                raise ValueError(f"state {state} leads to {bad[0]}, but there are only {states} states")
        if bad := sorted(state for state in self.accepting if not 0 <= state < states):
            raise ValueError(f"accepting state {bad[0]} is not one of the {states} states")

    @property
    def states(self) -> int:
        return len(self.transitions)

    def run(self, word: Iterable[str]) -> int:
        """Return the state after the word."""
        state = self.start
        for number in letter_numbers(word, self.letters):
            state = self.transitions[state][number]
        return state

    def accepts(self, word: Iterable[str]) -> bool:
        return self.run(word) in self.accepting

    def live_states(self) -> frozenset[int]:
        """Return the states from which some word is accepted."""
        live = set(self.accepting)
        while grown := {s for s, row in enumerate(self.transitions) if s not in live and live.intersection(row)}:
            live |= grown
        return frozenset(live)

    @classmethod
    def from_function(
        cls,
        letters: Iterable[str],
        start: Any,
        step: Callable[[Any, str], Any],
        accepts: Callable[[Any], bool],
    ) -> DFA:
        """Build a DFA from the states that `step(state, letter)` reaches from `start`; any hashable values serve as states.

        Args:
            letters: the names of the letters.
            start: the start state.
            step: returns the next state.
            accepts: whether a state accepts.
        """
        alphabet = tuple(letters)
        found, rows = reachable_states(alphabet, start, step)
        return cls(alphabet, rows, frozenset(number for number, state in enumerate(found) if accepts(state)))

    def to_json(self) -> dict[str, Any]:
        return {
            "states": self.states,
            "letters": list(self.letters),
            "transitions": [list(row) for row in self.transitions],
            "accepting": sorted(self.accepting),
            "start": self.start,
        }

    @classmethod
    def from_json(cls, values: Any) -> DFA:
        """Build the DFA from values as `to_json` returns them; `states` and `start` may be missing.

        Raise ValueError if a key is missing or unknown, or if a value is invalid.
        """
        if not isinstance(values, dict):
            raise ValueError(f"an automaton is an object with {', '.join(_JSON_KEYS)}, not {values!r:.60}")
        if unknown := [key for key in values if key not in _JSON_KEYS]:
            raise ValueError(f"key {unknown[0]!r} of the automaton is not known; there are {', '.join(_JSON_KEYS)}")
        if missing := [key for key in ("letters", "transitions", "accepting") if key not in values]:
            raise ValueError(f"the automaton lacks {missing[0]!r}")
        letters, rows = _list_of(str, "letters", values["letters"]), _list_of(list, "transitions", values["transitions"])
        for letter in letters:
            if not _is_text(letter):
                raise ValueError(f"letter {letter!r} is no text: half a character cannot be written")
        states = values.get("states", len(rows))
        if not _is(int, states) or states != len(rows):
            raise ValueError(f"states={states!r} but transitions has {len(rows)} rows")
        for state, row in enumerate(rows):
            if len(row) < len(letters) or None in row:
                letter = letters[row.index(None) if None in row else len(row)]
                raise ValueError(
                    f"state {state} has no transition for letter {letter!r}: send it to a state that rejects for ever"
                )
            _list_of(int, f"transitions[{state}]", row)
        start = values.get("start", 0)
        if not _is(int, start):
            raise ValueError(f"start={start!r} must be a state number")
        accepting = _list_of(int, "accepting", values["accepting"])
        return cls(tuple(letters), tuple(map(tuple, rows)), frozenset(accepting), start)


def reachable_states(
    letters: Iterable[Letter], start: Any, step: Callable[[Any, Letter], Any]
) -> tuple[list[Any], tuple[tuple[int, ...], ...]]:
    """Return the states that words lead to from the start, nearest first, and the transitions between their numbers."""
    alphabet = tuple(letters)
    number, found, rows = {start: 0}, [start], []
    for state in found:  # the loop appends to the list
        row = []
        for letter in alphabet:
            target = step(state, letter)
            if target not in number:
                number[target] = len(found)
                found.append(target)
            row.append(number[target])
        rows.append(tuple(row))
    return found, tuple(rows)


def letter_numbers(word: Iterable[str], letters: tuple[str, ...]) -> Iterator[int]:
    """Yield the place of every letter of the word in the alphabet."""
    for letter in word:
        if letter not in letters:
            raise ValueError(f"letter {letter!r} is not in the alphabet {', '.join(letters)}")
        yield letters.index(letter)


_JSON_KEYS = ("states", "letters", "transitions", "accepting", "start")
_TYPE_NAMES = {str: "strings", int: "state numbers", list: "lists"}


def _is_text(letter: str) -> bool:
    try:
        letter.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is(kind: type, value: Any) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _list_of(kind: type, name: str, values: Any) -> list[Any]:
    if not isinstance(values, list):
        raise ValueError(f"{name}={values!r:.60} must be a list of {_TYPE_NAMES[kind]}")
    if bad := [value for value in values if not _is(kind, value)]:
        raise ValueError(f"{name} must hold {_TYPE_NAMES[kind]}, not {bad[0]!r:.60}")
    return values


def minimal(dfa: DFA) -> DFA:
    """Return the smallest DFA with the language of `dfa`: without unreachable states, equivalent states merged (Hopcroft).

    States are numbered in the order of a search from the start, so that equal languages give equal objects.
    """
    kept, rows = merged_states(dfa.transitions, [state in dfa.accepting for state in range(dfa.states)], dfa.start)
    return DFA(dfa.letters, rows, frozenset(number for number, state in enumerate(kept) if state in dfa.accepting))


def merged_states(
    transitions: tuple[tuple[int, ...], ...], answers: Sequence[Hashable], start: int
) -> tuple[list[int], tuple[tuple[int, ...], ...]]:
    """Return one state of each reachable equivalence class, and the transitions between the classes.

    Two states are equivalent if no word leads them to different answers; `answers[state]` is the answer of a state.
    """
    block_of = _equivalence_classes(transitions, answers)
    member = {block: state for state, block in enumerate(block_of)}
    blocks, rows = reachable_states(
        range(len(transitions[0])), block_of[start], lambda block, letter: block_of[transitions[member[block]][letter]]
    )
    return [member[block] for block in blocks], rows


def _equivalence_classes(transitions: tuple[tuple[int, ...], ...], answers: Sequence[Hashable]) -> list[int]:
    """Return the block of every state; two states share a block if no word leads them to different answers."""
    states, letters = len(transitions), len(transitions[0])
    sources: list[list[list[int]]] = [[[] for _ in range(states)] for _ in range(letters)]
    for state, row in enumerate(transitions):
        for letter, target in enumerate(row):
            sources[letter][target].append(state)
    number = {answer: block for block, answer in enumerate(dict.fromkeys(answers))}
    block_of = [number[answer] for answer in answers]
    blocks = [{state for state in range(states) if block_of[state] == block} for block in range(len(number))]
    waiting = set(range(len(blocks)))
    while waiting:
        splitter = list(blocks[waiting.pop()])
        for into in sources:
            hits: dict[int, set[int]] = {}
            for target in splitter:
                for state in into[target]:
                    hits.setdefault(block_of[state], set()).add(state)
            for block, members in hits.items():
                if len(members) == len(blocks[block]):
                    continue
                new = len(blocks)
                blocks[block] -= members
                blocks.append(members)
                for state in members:
                    block_of[state] = new
                # splitting by the whole block and by one half also splits by the other half, so the smaller half is enough
                waiting.add(new if block in waiting or len(members) <= len(blocks[block]) else block)
    return block_of


def same_language(x: DFA, y: DFA) -> tuple[str, ...] | None:
    """Return None if the automata `x` and `y` accept the same words, otherwise a shortest word that only one of them accepts.

    The search is breadth-first through pairs of states (Hopcroft & Karp). It skips a pair whose equivalence follows from
    earlier pairs by transitivity: a word that separates such a pair also separates one of the earlier pairs, so the search
    misses no shorter word.
    """
    if set(x.letters) != set(y.letters):
        raise ValueError(f"the alphabets differ: {', '.join(x.letters)} and {', '.join(y.letters)}")
    columns = [(letter, x.letters.index(letter), y.letters.index(letter)) for letter in x.letters]
    leader = list(range(x.states + y.states))  # union-find forest of states that must be equivalent; y's come after x's
    leader[x.states + y.start] = x.start
    pairs: list[tuple[int, int, int, str]] = [(x.start, y.start, -1, "")]  # states, number of the pair before, letter from it
    for number, (p, q, _, _) in enumerate(pairs):  # the loop appends to the list
        if (p in x.accepting) != (q in y.accepting):
            word: list[str] = []
            while number:
                _, _, number, letter = pairs[number]
                word.append(letter)
            return tuple(reversed(word))
        for letter, in_x, in_y in columns:
            p_next, q_next = x.transitions[p][in_x], y.transitions[q][in_y]
            a, b = root(leader, p_next), root(leader, x.states + q_next)
            if a != b:
                leader[b] = a
                pairs.append((p_next, q_next, number, letter))
    return None


def read_dfa_values(path: Path) -> dict[str, Any]:
    """Return the values in a JSON file; raise ValueError if they are no automaton (see `DFA.from_json`)."""
    try:
        values = parse_json(path.read_text())
        DFA.from_json(values)
    except FileNotFoundError:
        raise ValueError(f"dfa={str(path)!r} is not there: give the path of an automaton in JSON") from None
    except UnicodeDecodeError:
        raise ValueError(f"dfa={str(path)!r} is no text: give the path of an automaton in JSON") from None
    except OSError as error:
        raise ValueError(f"dfa={str(path)!r} cannot be read ({error.strerror}): give the path of a file") from None
    except ValueError as error:
        raise ValueError(f"dfa={str(path)!r}: {error}") from None
    return values


def split_word(text: str, letters: tuple[str, ...]) -> list[str]:
    """Return the letters of a word that a user has written.

    If some letter has more than one character, the letters are separated by commas or written as a JSON list.
    """
    if all(len(letter) == 1 for letter in letters):
        return list(text)
    if text.startswith("["):
        try:
            return [str(letter) for letter in json.loads(text)]
        except json.JSONDecodeError as error:
            raise ValueError(f"the word {text!r} is not a JSON list of letters ({error})") from None
    return [part.strip() for part in text.split(",")] if text.strip() else []
