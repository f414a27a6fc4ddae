"""Snap to exact: a trained network's near-exact memory, made exact and proved.

The heads of the network's only layer are rounded (exact_heads.py) and then run in whole numbers; how letters move them was
learned. The automaton only selects heads: the fewest whose joint state identifies each of its states form the new layer. The
read-out is set anew: with x the vector that is read in a state, its logit on the read-out y is ⟨x, y⟩ - |x|²/2, largest for the
nearest x. The compiler builds the weights, and its certificate proves them right on every word of every length: these weights,
not the trained ones, which may know another automaton (snap_agreement.py).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any

import torch

from eigentrack.analysis.exact_heads import NEAR, Array, ExactHead, State, exact_heads
from eigentrack.analysis.inspected_network import InspectedNetwork, model_mixers
from eigentrack.analysis.moore_machine import MooreMachine, minimal_machine
from eigentrack.analysis.snap_agreement import Agreement
from eigentrack.compiler import Choice, Compiled, NetworkPlan, compile_network
from eigentrack.compiler.compiled import SNAPPED
from eigentrack.compiler.plan import ALWAYS, Block, Head, Products, Wiring
from eigentrack.layers import LinearMixer, MixerState

LEVELS = (1, 8)  # the largest whole numbers of a rounded memory, in turn; with 1 the proof holds for every backend
MOST_HEADS = 3  # the most heads of the new layer
CANDIDATES = 16  # several heads are chosen among so many nearest to exact; a single head among all
MOST_PAIRS = 64  # the most pairs of a state and a joint state in the search for another start


@dataclass(frozen=True)
class Snapped:
    """An exact network that was made of a trained one."""

    compiled: Compiled  # the exact network, with its certificate
    heads: tuple[str, ...]  # the names of the trained heads that it is made of
    moved: float  # the largest change that made these heads exact
    agreement: Agreement | None = None  # with the trained network; None if they have not been compared

    def to_json(self) -> dict[str, Any]:
        compared = None if self.agreement is None else {**asdict(self.agreement), "holds": self.agreement.holds}
        proof = self.compiled.certificate.to_json()
        return {"heads": list(self.heads), "moved": self.moved, "agreement": compared, "certificate": proof}


@torch.no_grad()
def snap_to_exact(network: InspectedNetwork) -> Snapped:
    """Return the exact network that a trained `network` is near; raise ValueError with the reason if there is none."""
    machine, actions = minimal_machine(network.machine), _letter_actions(network)
    by_level = [exact_heads(*actions, levels) for levels in LEVELS]
    if found := _first_fit(machine, [[head for head in heads if head.moved <= NEAR] for heads in by_level]):
        return _snapped(machine, _thinned(machine, found))
    if not any(by_level):
        raise ValueError("no head of the trained layer is near an exact one: train it longer, or with smaller heads")
    if loose := _first_fit(machine, by_level):
        distance = max(head.moved for head in loose)
        raise ValueError(f"the nearest exact network is {distance:.2f} away, farther than {NEAR}: train it longer")
    raise ValueError(
        f"of the exact heads nearby, {len(by_level[0])}, no {MOST_HEADS} or fewer tell the automaton's states apart"
    )


def _first_fit(machine: MooreMachine, by_level: Sequence[Sequence[ExactHead]]) -> tuple[ExactHead, ...] | None:
    """Return the fewest of the nearest heads whose joint states correspond one to one to the machine's states, or None."""
    for candidates in by_level:
        for count in range(1, MOST_HEADS + 1):
            for heads in combinations(candidates if count == 1 else candidates[:CANDIDATES], count):
                for started in _restarts(machine, heads):
                    if _joint_states(machine, started) is not None:
                        return started
    return None


def _snapped(machine: MooreMachine, heads: tuple[ExactHead, ...]) -> Snapped:
    names, moved = tuple(head.name for head in heads), max(head.moved for head in heads)
    why = f"read off a trained network, {'; '.join(names)}, and moved by at most {moved:.2g}"
    return Snapped(compile_network(Choice((_plan(machine, heads),), why)), names, moved)


def _letter_actions(network: InspectedNetwork) -> tuple[Array, Array, Array]:
    """Return A and B of every letter and head, and the memory before the first letter, in float64."""
    model = copy.deepcopy(network.model).cpu().double()
    mixers = model_mixers(model)
    if len(mixers) != 1 or not isinstance(mixers[0], LinearMixer):
        raise ValueError(f"the network has the layers {', '.join(model.config.mixers)}: one linear layer can be made exact")
    mixer = mixers[0]
    _, begun = replace(network, model=model).begin(1)
    if begun.layers[0].window is not None or network.tokens_per_letter > 1:
        raise ValueError(
            "a letter must act alone: train a layer that sees no token before it (conv=0, no rwkv7), with one token a letter"
        )
    inputs: list[torch.Tensor] = []
    hook = mixer.register_forward_pre_hook(lambda _, given: inputs.append(given[0]))
    try:
        model(torch.tensor(network.spelling))
    finally:
        hook.remove()
    (x,) = inputs  # [letters, 1, d]
    memory = begun.layers[0].memory
    if len(memory) > 1:
        raise ValueError(f"{model.config.mixers[0]} carries {len(memory)} memories: a layer with one can be made exact")
    _, after = mixer(x, MixerState((torch.zeros_like(memory[0]).expand(len(x), *memory[0].shape[1:]),)))
    shape = (*mixer.memory_shape, 1) if len(mixer.memory_shape) == 2 else mixer.memory_shape
    written, start = after.memory[0].view(-1, *shape), memory[0].view(shape)
    return mixer.transitions(x)[:, 0].numpy(), written.numpy(), start.numpy()


def _restarts(machine: MooreMachine, heads: tuple[ExactHead, ...]) -> Iterator[tuple[ExactHead, ...]]:
    """Yield the heads as they are, then with each memory that they have when the machine is in its start state again.

    A memory that starts empty may never be empty again; the start state would then have two joint states.
    """
    first = machine.start, tuple(head.start for head in heads)
    found, known = [first], {first}
    for q, joint in found:  # the loop appends to `found`
        if q == machine.start:
            yield tuple(replace(head, start=part) for head, part in zip(heads, joint, strict=True))
        for letter, target in enumerate(machine.transitions[q]):
            after = target, _after(heads, joint, letter)
            if after not in known and len(known) < MOST_PAIRS:
                known.add(after)
                found.append(after)


def _joint_states(machine: MooreMachine, heads: Sequence[ExactHead]) -> dict[int, tuple[State, ...]] | None:
    """Return the heads' joint state in every state of the machine; None unless they correspond one to one."""
    start = tuple(head.start for head in heads)
    joint_of, state_of = {machine.start: start}, {start: machine.start}
    found = [machine.start]
    for q in found:  # the loop appends to `found`
        for letter, target in enumerate(machine.transitions[q]):
            joint = _after(heads, joint_of[q], letter)
            if joint_of.setdefault(target, joint) != joint or state_of.setdefault(joint, target) != target:
                return None
            if len(joint_of) > len(found):
                found.append(target)
    if len({_read(heads, joint) for joint in joint_of.values()}) < len(joint_of):
        return None
    return joint_of


def _after(heads: Sequence[ExactHead], joint: tuple[State, ...], letter: int) -> tuple[State, ...]:
    return tuple(head.after(part, letter) for head, part in zip(heads, joint, strict=True))


def _thinned(machine: MooreMachine, heads: tuple[ExactHead, ...]) -> tuple[ExactHead, ...]:
    """Drop the columns without which the joint states still identify the machine's states."""
    for number in range(len(heads)):
        for column in reversed(range(heads[number].columns)):
            fewer = (*heads[:number], heads[number].without_column(column), *heads[number + 1 :])
            if fewer[number].columns and _joint_states(machine, fewer) is not None:
                heads = fewer
    return heads


def _plan(machine: MooreMachine, heads: Sequence[ExactHead]) -> NetworkPlan:
    joint_states = _joint_states(machine, heads)
    assert joint_states is not None
    wiring = Wiring(machine.recogniser(1 if machine.classes == 2 else machine.outputs[machine.start]))
    outputs = [wiring.new_channels(head.columns) for head in heads]
    layer = Products(
        wiring.letters,
        tuple(
            Head(tuple(tuple(map(float, row)) for row in head.start), head.moves, tuple(map(float, _query(head))), channels)
            for head, channels in zip(heads, outputs, strict=True)
        ),
        gated=False,
    )
    channels = [channel for row in outputs for channel in row]
    points = [_read(heads, joint_states[q]) for q in range(machine.states)]
    readout = [[(ALWAYS, -sum(x * x for x in point) / 2), *zip(channels, map(float, point), strict=True)] for point in points]
    return wiring.plan(SNAPPED, [Block(layer)], readout)


def _read(heads: Sequence[ExactHead], joint: Sequence[State]) -> tuple[int, ...]:
    """Return what the queries read from the joint state, in all columns of all heads."""
    return tuple(
        sum(weight * row[column] for weight, row in zip(_query(head), state, strict=True))
        for head, state in zip(heads, joint, strict=True)
        for column in range(head.columns)
    )


def _query(head: ExactHead) -> range:
    """Return the query 1, 2, 3 …, with a different weight for each point, so that a swap changes what is read."""
    return range(1, len(head.start) + 1)
