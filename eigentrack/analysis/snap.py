"""Snap to exact: a trained network's near-exact memory, made exact and proved.

The heads of the one layer are rounded (exact_heads.py) and run in whole numbers: how letters move them was learned. The
automaton only chooses: the fewest heads that have one joint state of their own in each of its states make the new network's
layer. The read-out is set anew, each state's logit by the vector x that its joint state shows: ⟨x, y⟩ - |x|²/2, largest for the
nearest. The compiler builds the weights, and its certificate proves them right on every word of every length.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import torch

from eigentrack.analysis.exact_heads import NEAR, Array, ExactHead, State, exact_heads
from eigentrack.analysis.inspected_network import InspectedNetwork, model_mixers
from eigentrack.analysis.moore_machine import MooreMachine, minimal_machine
from eigentrack.compiler import Choice, Compiled, NetworkPlan, compile_network
from eigentrack.compiler.plan import ALWAYS, Block, Head, Products, Wiring
from eigentrack.layers import LinearMixer, MixerState

LEVELS = (1, 8)  # to which memories are rounded; with -1, 0 and 1 alone the proof holds for every backend
MOST_HEADS = 3  # that are joined
CANDIDATES = 16  # heads nearest to exact that are joined; alone, all are tried
MOST_PAIRS = 64  # of a state and a joint state that are looked at for another start


@dataclass(frozen=True)
class Snapped:
    """The exact network, with its certificate; the heads that it was made of, and the largest change that made them exact."""

    compiled: Compiled
    heads: tuple[str, ...]
    moved: float

    def to_json(self) -> dict[str, Any]:
        return {"heads": list(self.heads), "moved": self.moved, "certificate": self.compiled.certificate.to_json()}


@torch.no_grad()
def snap_to_exact(network: InspectedNetwork) -> Snapped:
    """ValueError says what is in the way."""
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
    """The fewest of the nearest heads that have one joint state of their own in each of the machine's states."""
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
    """A and B of every letter and head, and the memory before the first letter; in float64."""
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
    """The heads as they are; then with a memory in which they stand when the machine is in its start state again.

    A memory that starts empty may never be empty again, and would be a second joint state of the start.
    """
    first = machine.start, tuple(head.start for head in heads)
    found, known = [first], {first}
    for q, joint in found:  # grows while it is read
        if q == machine.start:
            yield tuple(replace(head, start=part) for head, part in zip(heads, joint, strict=True))
        for letter, target in enumerate(machine.transitions[q]):
            after = target, _after(heads, joint, letter)
            if after not in known and len(known) < MOST_PAIRS:
                known.add(after)
                found.append(after)


def _joint_states(machine: MooreMachine, heads: Sequence[ExactHead]) -> dict[int, tuple[State, ...]] | None:
    """The heads' joint state in every state of the machine; None unless each has one of its own."""
    start = tuple(head.start for head in heads)
    joint_of, state_of = {machine.start: start}, {start: machine.start}
    found = [machine.start]
    for q in found:  # grows while it is read
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
    """Without the columns that can be spared."""
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
    return wiring.plan("snapped", [Block(layer)], readout)


def _read(heads: Sequence[ExactHead], joint: Sequence[State]) -> tuple[int, ...]:
    """What the queries see of the joint state, all columns of all heads."""
    return tuple(
        sum(weight * row[column] for weight, row in zip(_query(head), state, strict=True))
        for head, state in zip(heads, joint, strict=True)
        for column in range(head.columns)
    )


def _query(head: ExactHead) -> range:
    """1, 2, 3 …: a different weight for each point, so that swaps show."""
    return range(1, len(head.start) + 1)
