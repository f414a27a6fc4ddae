"""Extraction: an automaton read off a network's joint states.

1. Build a net of joint states (reachable_states.py), closed under all letters up to a radius ρ; halve ρ until step 2 succeeds.
2. Cluster its states by single linkage. At a resolution r ≥ ρ the clusters are an automaton if each has one answer and
   every letter leads each to one cluster, on all states of the net and along random words. Take the coarsest such r.
3. Minimise the automaton, and compare it with the true one, and with the network on words that it was not read from.

If no resolution gives an automaton, the result says so and names two words that share a cluster but should not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from eigentrack.analysis.inspected_network import InspectedNetwork, require_fixed_size, state_vector
from eigentrack.analysis.moore_machine import MooreMachine, first_difference, minimal_machine
from eigentrack.analysis.reachable_states import UNASKED, Numbers, StateNet, Word, build_net, single_linkage
from eigentrack.tasks.counter_random import derived_seed

COARSEST, HALVINGS = 0.25, 12  # the first radius, as a share of the states' diameter; how many radii are tried
WORDS = 16  # random words that every automaton must explain
LIMIT = 1000  # the most states of a net


@dataclass(frozen=True)
class Extraction:
    """The automaton that was read off a network, or the reason why none was."""

    machine: MooreMachine | None  # None if no resolution gave an automaton
    resolution: float  # the distance up to which single linkage joined joint states; the last one tried if machine is None
    joint_states: int  # the number of states of the net
    clusters: int
    length: int  # letters of the random words that the machine explains
    obstacle: str | None = None  # why the last resolution that was tried gave no automaton
    difference: tuple[str, ...] | None = None  # a shortest word on which machine and truth differ; None if they are equal
    network_errs: bool = False  # whether the network itself answers `difference` wrongly
    fidelity: float = 0.0  # the share of equal answers of machine and network, on words that the machine was not read from

    @property
    def is_equal(self) -> bool:
        return self.machine is not None and self.difference is None


@torch.no_grad()
def extract_machine(
    network: InspectedNetwork, *, length: int, seed: int, limit: int = LIMIT, progress: Callable[[int], None] | None = None
) -> Extraction:
    """Read an automaton off the joint states of a network.

    Args:
        network: the network and the machine that it should be.
        length: letters of the random words; at most the horizon, beyond which a network is no automaton.
        seed: of the random words.
        limit: the most joint states of a net.
        progress: called with the number of radii tried, after each of at most HALVINGS; None: nobody is told.
    """
    require_fixed_size(network.model)
    if length < 1 or limit < 1:
        raise ValueError(f"length={length} and limit={limit} must be at least 1")
    letters, _ = network.walk(torch.full((WORDS,), network.machine.start), length, derived_seed(seed, "extraction"), 0)
    radius = COARSEST * _width(network, letters)
    failed = Extraction(None, radius, 0, 0, length, None)
    for tried in range(1, HALVINGS + 1):
        net = build_net(network, letters, radius, limit)
        if progress is not None:
            progress(tried)
        if net is None:
            too_many = f"more than {limit} joint states at resolution {radius:.3g}"
            return replace(failed, obstacle=f"{failed.obstacle}; {too_many}" if failed.obstacle else too_many)
        found = _read_net(network, net, length)
        if found.machine is not None:
            return _compare(network, found, seed)
        failed, radius = found, radius / 2
    return failed


def _read_net(network: InspectedNetwork, net: StateNet, length: int) -> Extraction:
    linkage = single_linkage(net.vectors)
    obstacle = ""
    for resolution in [*(r for r in linkage.resolutions if r > net.radius), net.radius]:
        clusters = linkage.clusters(resolution)
        count = int(clusters.max()) + 1
        obstacle = _obstacle(net, clusters, network.machine.letters)
        if not obstacle:
            machine = _machine(net, clusters, network.machine)
            return Extraction(machine, resolution, len(net.vectors), count, length)
    return Extraction(
        None, net.radius, len(net.vectors), 0, length, f"not deterministic at resolution {net.radius:.3g}: {obstacle}"
    )


def _obstacle(net: StateNet, clusters: Numbers, letters: tuple[str, ...]) -> str:
    """Say why the clusters are no automaton, by two words that share a cluster but should not; return "" if they are one."""
    seen: dict[tuple[str, int], tuple[int, Word]] = {}  # the value that was seen first, and after which word
    if net.first_answer != UNASKED:
        seen["answer", int(clusters[0])] = net.first_answer, ()
    for step in net.steps:
        here, there, letter = int(clusters[step.before]), int(clusters[step.after]), letters[step.letter]
        for key, value, word, what in (
            (("answer", there), step.answer, (*step.word, step.letter), "differ in the answer"),
            ((f"letter {letter}", here), there, step.word, f"part on {letter}"),
        ):
            known, earlier = seen.setdefault(key, (value, word))
            if known != value:
                return f"{_spell(earlier, letters)} and {_spell(word, letters)} lead to one cluster, but {what}"
    return ""


def _machine(net: StateNet, clusters: Numbers, truth: MooreMachine) -> MooreMachine:
    """Return the minimal machine of the clusters; an unasked answer to the empty word is chosen to make it smallest."""
    count, start = int(clusters.max()) + 1, int(clusters[0])
    rows, outputs = np.zeros((count, len(truth.letters)), dtype=int), np.full(count, UNASKED)
    outputs[start] = net.first_answer
    for step in net.steps:
        rows[clusters[step.before], step.letter] = clusters[step.after]
        outputs[clusters[step.after]] = step.answer
    transitions, machines = tuple(map(tuple, rows.tolist())), []
    for answer in range(truth.classes) if outputs[start] == UNASKED else [outputs[start]]:
        outputs[start] = answer
        machines.append(minimal_machine(MooreMachine(truth.letters, transitions, tuple(outputs.tolist()), start)))
    return min(machines, key=lambda machine: machine.states)


def _compare(network: InspectedNetwork, found: Extraction, seed: int) -> Extraction:
    assert found.machine is not None
    word = first_difference(found.machine, network.machine, with_empty_word=bool(network.opening))
    errs = word is not None and _errs(network, tuple(map(network.machine.letters.index, word)))
    return replace(found, difference=word, network_errs=errs, fidelity=_fidelity(network, found.machine, found.length, seed))


def _errs(network: InspectedNetwork, word: Word) -> bool:
    """Return whether the network itself answers this word wrongly."""
    logits, model_state = network.begin(1)
    state = network.machine.start
    for letter in word:
        logits, model_state = network.step(torch.tensor([letter], device=network.device), model_state)
        state = network.machine.transitions[state][letter]
    return logits is not None and int(logits.argmax()) != network.machine.outputs[state]


def _fidelity(network: InspectedNetwork, machine: MooreMachine, length: int, seed: int) -> float:
    rows = 256
    start = torch.full((rows,), network.machine.start)
    letters, _ = network.walk(start, length, derived_seed(seed, "fidelity"), 0)
    _, state = network.begin(rows)
    logits, _ = network.read(letters.to(network.device), state)
    table, outputs, now = np.array(machine.transitions), np.array(machine.outputs), np.full(rows, machine.start)
    equal = 0
    for t in range(length):
        now = table[now, letters[:, t].numpy()]
        equal += int((outputs[now] == logits[:, t].argmax(-1).cpu().numpy()).sum())
    return equal / (rows * length)


def _width(network: InspectedNetwork, letters: Int[Tensor, "W L"]) -> float:
    """Return twice the largest distance between a joint state along the words and the mean of all of them."""
    _, state = network.begin(len(letters))
    vectors = []
    for letter in letters.unbind(1):
        _, state = network.step(letter.to(network.device), state)
        vectors.append(state_vector(state))
    points = torch.cat(vectors)
    return 2 * float(torch.linalg.vector_norm(points - points.mean(0), dim=1).max())


def _spell(word: Word, letters: tuple[str, ...]) -> str:
    spelled = [letters[letter] for letter in word]
    joined = ("" if all(len(letter) == 1 for letter in letters) else " ").join(spelled)
    return repr(joined) if joined else "the empty word"
