"""The check of a folder: every joint state that the certificate lists, and every letter, by the network's own equations.

1. The joint state after the begin token is number 0, which stands for the automaton's start.
2. For every joint state s that stands for q, and every letter a: the numbers of the next joint state are those that the list
   gives for next[s][a], it stands for δ(q, a), and the logit of δ(q, a) is the highest, by itself.
3. All joint states are reached from number 0, and the certificate counts as many.
4. No value on the way is rounded, in any order of any sum (float_types.py).
5. What else the certificate says of the network is so: its float types, its least margin, and the hashes of the files.

From 1 and 2 it follows, by induction on the length of a word, that the network answers as the automaton does after every word.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eigentrack.checker.files import Number, Tensor, check_files_are_inside, exact, is_count, read_json, read_tensors
from eigentrack.checker.float_types import Rounded
from eigentrack.checker.network import Network, OutOfScope, State, known_mixers

FORMAT = 1  # the version of the format of joint_states.json
LIST = "joint_states.json"
# the entries of certificate.json that are read here
CLAIMS = (
    *("holds", "order_independent", "faults", "length_bound", "tokens_per_letter", "reachable_states", "margin"),
    *("weights_dtype", "state_dtype", "weights_sha256", "automaton_sha256", "plan_sha256"),
)
MOST_TOKENS = 1000  # the most tokens per letter


class Differs(Exception):
    """The finding that files and network contradict one another; the message names the first place."""


@dataclass(frozen=True)
class Verdict:
    """The result of a check."""

    difference: str | None  # the first difference, in words; None if there is none
    joint_states: int  # the number of listed joint states
    transitions: int  # the number of pairs of a joint state and a letter that were computed and found right
    weights_type: str
    state_type: str

    @property
    def agrees(self) -> bool:
        """Whether nothing differs."""
        return self.difference is None


@dataclass(frozen=True)
class Automaton:
    """A complete deterministic automaton."""

    letters: list[str]
    transitions: list[list[int]]  # [state][letter] → the next state
    start: int


@dataclass(frozen=True)
class JointState:
    """A joint state as the certificate lists it."""

    label: int  # the state of the automaton that it stands for
    layers: State  # the numbers of each layer's state
    after: list[int]  # [letter] → the number of the next joint state


def check_folder(folder: Path, state_limit: int = 200_000) -> Verdict:
    """Check the compiled network in a folder and return what was found.

    Raise OutOfScope if the network is none that this checker covers, and ValueError if a file cannot be read.

    Args:
        folder: the folder that `eigentrack compile` has written.
        state_limit: the most joint states; a longer list is refused.
    """
    if not folder.is_dir():
        raise ValueError(f"{folder} is no folder of a compiled network")
    check_files_are_inside(folder)
    config, certificate = read_json(folder / "model" / "config.json"), read_json(folder / "certificate.json")
    known_mixers(config)
    _check_claims(certificate)
    plan, automaton = read_json(folder / "plan.json"), read_json(folder / "automaton.json")
    tensors = read_tensors(folder / "model" / "model.safetensors")
    try:
        network = Network(config, tensors)
    except Rounded as found:
        raise ValueError(f"the network has no start that floats can hold: {found}") from None
    walk = _Walk(network, _automaton(automaton), _tokens_per_letter(plan), _listed(folder / LIST))
    if len(walk.listed) > state_limit:
        raise ValueError(f"{folder / LIST} lists more than {state_limit} joint states: raise --state-limit to go on")
    difference = None
    try:
        walk.check(certificate)
        _check_hashes(certificate, {"automaton": automaton, "plan": plan}, config, tensors)
    except Differs as found:
        difference = str(found)
    return Verdict(difference, len(walk.listed), walk.transitions, network.weights_type, network.state_type)


class _Walk:
    """The way through all listed joint states and all letters."""

    def __init__(self, network: Network, automaton: Automaton, tokens_per_letter: int, listed: list[JointState]) -> None:
        self.listed, self.transitions = listed, 0
        self._network, self._automaton = network, automaton
        self._begin = len(automaton.letters)
        self._fillers = [self._begin + 1] * (tokens_per_letter - 1)
        self._margin: Number | None = None

    def check(self, certificate: Mapping[str, Any]) -> None:
        """Raise Differs at the first difference between network, automaton and certificate."""
        self._check_sizes(certificate)
        first, start = self.listed[0], self._automaton.start
        if first.label != start:
            raise Differs(f"{LIST}: joint state 0 stands for state {first.label}, the automaton starts in {start}")
        self._check_step("the begin token", [self._begin], self._network.start(), 0, start)
        for number, state in enumerate(self.listed):
            for letter, name in enumerate(self._automaton.letters):
                goal, after = self._automaton.transitions[state.label][letter], state.after[letter]
                place = f"joint state {number}, letter {name!r}"
                if self.listed[after].label != goal:
                    stands = f"{LIST} goes to joint state {after}, which stands for state {self.listed[after].label}"
                    raise Differs(f"{place}: {stands}, the automaton goes from {state.label} to {goal}")
                self._check_step(place, [letter, *self._fillers], state.layers, after, goal)
                self.transitions += 1
        if self._margin != exact(certificate["margin"]):
            raise Differs(f"the least margin is {self._margin}, certificate.json says {certificate['margin']}")

    def _check_step(self, place: str, tokens: Sequence[int], state: State, after: int, goal: int) -> None:
        for number, token in enumerate(tokens):
            try:
                logits, state = self._network.step(token, state)
            except Rounded as rounding:
                within = f", filler {number}" if number else ""
                raise Differs(f"{place}{within}: {rounding}; the certificate says that nothing is rounded") from None
        for layer, (found, listed) in enumerate(zip(state, self.listed[after].layers, strict=True), start=1):
            for entry, (value, said) in enumerate(zip(found, listed, strict=True), start=1):
                if value != said:
                    raise Differs(f"{place}: number {entry} of layer {layer} is {value}, {LIST} says {said} in {after}")
        others = [(logit, answer) for answer, logit in enumerate(logits) if answer != goal]
        highest, answer = max(others, default=(logits[goal] - 1, goal))
        if highest >= logits[goal]:
            raise Differs(f"{place}: the logit {highest} of answer {answer} is not below that of state {goal}, {logits[goal]}")
        margin = logits[goal] - highest
        self._margin = margin if self._margin is None else min(self._margin, margin)

    def _check_sizes(self, certificate: Mapping[str, Any]) -> None:
        """Raise Differs if the list does not fit network, automaton and certificate, or if a state of it is never reached."""
        states, letters = len(self._automaton.transitions), len(self._automaton.letters)
        needed = max(states, letters + 1 + bool(self._fillers))
        if self._network.answers < needed:
            raise Differs(f"the network knows {self._network.answers} tokens, and the automaton needs {needed}")
        found = {
            "reachable_states": len(self.listed),
            "tokens_per_letter": 1 + len(self._fillers),
            "weights_dtype": self._network.weights_type,
            "state_dtype": self._network.state_type,
        }
        for name, value in found.items():
            if certificate[name] != value:
                raise Differs(f"{name} is {value}, certificate.json says {certificate[name]}")
        sizes = [len(part) for part in self._network.start()]
        for number, state in enumerate(self.listed):
            if state.label >= states:
                raise Differs(f"{LIST}: joint state {number} stands for state {state.label}, the automaton has {states}")
            if [len(part) for part in state.layers] != sizes:
                raise Differs(f"{LIST}: joint state {number} has not {sizes} numbers, as the layers of the network have")
            if len(state.after) != letters or any(after >= len(self.listed) for after in state.after):
                raise Differs(
                    f"{LIST}: joint state {number} does not lead to a listed joint state by each of {letters} letters"
                )
        reached = {0: None}
        for number in (waiting := [0]):
            waiting += [after for after in dict.fromkeys(self.listed[number].after) if after not in reached]
            reached |= dict.fromkeys(self.listed[number].after)
        if unreached := set(range(len(self.listed))) - set(reached):
            raise Differs(f"{LIST}: no word leads to joint state {min(unreached)}")


def _check_claims(certificate: Any) -> None:
    if not isinstance(certificate, dict):
        raise ValueError("certificate.json is no object")
    if missing := [name for name in CLAIMS if name not in certificate]:
        raise ValueError(f"certificate.json lacks {missing[0]!r}: compile the network again")
    if certificate["length_bound"] is not None:
        raise OutOfScope(f"its rotations are proved up to {certificate['length_bound']} letters only, as they are rounded")
    if certificate["holds"] is not True:
        raise ValueError("certificate.json says that the proof fails: there is nothing to check")
    if certificate["order_independent"] is not True:
        raise OutOfScope(f"certificate.json says that values are rounded, {certificate['faults']!r:.200}")
    if isinstance(certificate["margin"], bool) or not isinstance(certificate["margin"], int | float):
        raise ValueError(f"certificate.json: margin={certificate['margin']!r} must be a number")


def _automaton(values: Any) -> Automaton:
    names = {"states", "letters", "transitions", "accepting", "start"}
    if not isinstance(values, dict) or set(values) != names:
        raise ValueError(f"automaton.json must hold exactly {', '.join(sorted(names))}")
    letters, rows, states = values["letters"], values["transitions"], values["states"]
    if not isinstance(letters, list) or not all(isinstance(letter, str) for letter in letters) or not letters:
        raise ValueError("automaton.json: letters must be a list of texts")
    if len(set(letters)) < len(letters):
        raise ValueError("automaton.json: a letter comes twice")
    if not isinstance(rows, list) or not all(isinstance(row, list) and len(row) == len(letters) for row in rows):
        raise ValueError(f"automaton.json: transitions must have a list of {len(letters)} states for each state")
    numbers = [*(state for row in rows for state in row), values["start"]]
    numbers += values["accepting"] if isinstance(values["accepting"], list) else [None]
    if states != len(rows) or not all(is_count(number) and number < len(rows) for number in numbers):
        raise ValueError(f"automaton.json: states must be {len(rows)}, and all states numbers below that")
    return Automaton(letters, rows, values["start"])


def _tokens_per_letter(plan: Any) -> int:
    tokens = plan.get("tokens_per_letter") if isinstance(plan, dict) else None
    if not isinstance(tokens, int) or not is_count(tokens) or not 1 <= tokens <= MOST_TOKENS:
        raise ValueError(f"plan.json: tokens_per_letter must lie between 1 and {MOST_TOKENS}")
    return tokens


def _listed(path: Path) -> list[JointState]:
    if not path.exists():
        raise ValueError(f"{path} is missing: this certificate lists no joint states, so compile the network again")
    values = read_json(path)
    if not isinstance(values, dict) or values.get("format") != FORMAT or set(values) != {"format", "states"}:
        raise ValueError(f"{path} is not a list of joint states in format {FORMAT}: compile the network again")
    if not isinstance(values["states"], list) or not values["states"]:
        raise ValueError(f"{path}: states must be a list of joint states")
    return [_joint_state(f"{path}: joint state {number}", entry) for number, entry in enumerate(values["states"])]


def _joint_state(place: str, entry: Any) -> JointState:
    if not isinstance(entry, dict) or set(entry) != {"label", "layers", "next"}:
        raise ValueError(f"{place} must hold exactly label, layers and next")
    layers, after = entry["layers"], entry["next"]
    if not is_count(entry["label"]) or not isinstance(after, list) or not all(map(is_count, after)):
        raise ValueError(f"{place}: label and next must be whole numbers")
    if not isinstance(layers, list) or not all(isinstance(layer, list) for layer in layers):
        raise ValueError(f"{place}: layers must be lists of numbers")
    if any(isinstance(value, bool) or not isinstance(value, int | float) for layer in layers for value in layer):
        raise ValueError(f"{place}: layers must be lists of numbers")
    return JointState(entry["label"], tuple(tuple(map(exact, layer)) for layer in layers), after)


def _check_hashes(
    certificate: Mapping[str, Any], described: Mapping[str, Any], config: Any, tensors: Mapping[str, Tensor]
) -> None:
    """Raise Differs if the certificate was written for other files."""
    weights = hashlib.sha256(_sorted_text(config))
    for name, tensor in sorted(tensors.items()):
        weights.update(f"{name} torch.{tensor.kind} {list(tensor.shape)}".encode())
        weights.update(tensor.data)
    found = {f"{name}_sha256": hashlib.sha256(_sorted_text(value)).hexdigest() for name, value in described.items()}
    for name, value in {**found, "weights_sha256": weights.hexdigest()}.items():
        if certificate[name] != value:
            raise Differs(f"{name} is {value}, certificate.json says {certificate[name]}")


def _sorted_text(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True).encode()
