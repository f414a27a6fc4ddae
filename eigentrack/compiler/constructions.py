"""The constructions: from an automaton to a plan, or a ValueError that says why this one does not fit.

permutation   every letter permutes or resets the states, or is injective but for a sink: one layer (Theorem 3)
cascade       any regular language: one layer for each level of the holonomy cascade, a delay between them (Theorem 4)
dense         any regular language: one layer of 0/1 matrices
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from eigentrack.automata import DFA
from eigentrack.automata.cascade import Cascade, cascade
from eigentrack.automata.splitting import is_permutation_or_constant
from eigentrack.automata.two_point_levels import two_point_cascade
from eigentrack.compiler.plan import (
    ALWAYS,
    Block,
    Channel,
    Delay,
    Gates,
    Matrices,
    Plan,
    Products,
    Row,
    Wiring,
    letter_channel,
)
from eigentrack.compiler.tracking import Tracked, track, track_with_sink

LARGEST_DENSE = 256  # states; a dense layer has their square in parameters for every letter
MOST_TUPLES = 20_000  # joint states of a cascade that a table can tell apart

Value = TypeVar("Value")
Layer = Callable[[tuple[Channel, ...], Tracked], Products | Gates]


def permutation_plan(dfa: DFA, gated: bool) -> Plan:
    wiring, letters = Wiring(dfa), _letter_channels(dfa)
    if all(is_permutation_or_constant(images) for images in zip(*dfa.transitions, strict=True)):
        tracked = track(dfa.transitions, dfa.start, wiring, gated)
    else:
        tracked = track_with_sink(dfa.transitions, _sink(dfa), dfa.start, wiring)
    return _one_layer(dfa, "permutation", Products(letters, tracked.heads, gated), tracked, wiring)


def diagonal_plan(dfa: DFA) -> Plan:
    """Registers and signs only: one layer where the letters allow it, else a cascade of them."""
    wiring, letters = Wiring(dfa), _letter_channels(dfa)
    if all(is_permutation_or_constant(images) for images in zip(*dfa.transitions, strict=True)):
        tracked = track(dfa.transitions, dfa.start, wiring, gated=False)
        if all(len(head.start) == 1 for head in tracked.heads):
            return _one_layer(dfa, "diagonal-cascade", Gates(letters, tracked.heads), tracked, wiring)
    levels = two_point_cascade(cascade(dfa))
    return _cascade(dfa, "diagonal-cascade", levels, lambda inputs, tracked: Gates(inputs, tracked.heads), gated=False)


def cascade_plan(dfa: DFA, gated: bool) -> Plan:
    name = "cascade-gated" if gated else "cascade-products"
    return _cascade(dfa, name, cascade(dfa), lambda inputs, tracked: Products(inputs, tracked.heads, gated), gated)


def dense_plan(dfa: DFA) -> Plan:
    if dfa.states > LARGEST_DENSE:
        raise ValueError(f"{dfa.states} states are too many for dense matrices; at most {LARGEST_DENSE}")
    wiring = Wiring(dfa)
    states = wiring.new_channels(dfa.states)
    layer = Matrices(_letter_channels(dfa), tuple(zip(*dfa.transitions, strict=True)), dfa.start, states)
    return _plan(dfa, "dense", [Block(layer)], wiring, [((state, 1.0),) for state in states])


def _one_layer(dfa: DFA, name: str, layer: Products | Gates, tracked: Tracked, wiring: Wiring) -> Plan:
    """The logit of a state counts the bits that agree with its code: half for each, minus half for each that does not."""
    readout = [
        (
            *((bit, 2.0 * value - 1) for bit, value in tracked.literals(state)),
            (ALWAYS, len(tracked.bits) / 2 - sum(tracked.codes[state])),
        )
        for state in range(dfa.states)
    ]
    return _plan(dfa, name, [Block(layer)], wiring, readout)


def _cascade(dfa: DFA, name: str, levels: Cascade, layer: Layer, gated: bool) -> Plan:
    reachable = levels.reachable()
    if not levels.levels:
        raise ValueError("an automaton of one state has no cascade")
    if len(reachable) > MOST_TUPLES:
        raise ValueError(f"the cascade has {len(reachable)} joint states; a table holds at most {MOST_TUPLES}")
    wiring, letters = Wiring(dfa), _letter_channels(dfa)
    blocks: list[Block] = []
    now: list[Tracked] = []  # the levels above, as they are after the letter
    before: list[Tracked] = []  # and as they were before it: a level reads those
    for number in range(len(levels.levels)):
        actions = _actions_of_level(levels, number, len(letters))
        maps = tuple(dict.fromkeys(images for row in actions for images in row.values()))
        if number == 0:
            inputs, maps = letters, tuple(row[()] for row in actions)
        else:
            delayed = _delayed(now[-1], wiring)
            before.append(delayed)
            identity = tuple(range(levels.levels[number].points))
            maps = tuple(images for images in maps if images != identity)
            inputs = wiring.new_channels(len(maps))
            signal = dict(zip(maps, inputs, strict=True))
            choose = tuple(
                Row(((letters[letter], 1), *when), signal[images])
                for letter, row in enumerate(actions)
                for when, images in _decisions(row, before)
                if images != identity
            )
            lines = tuple((source, target, 1) for source, target in zip(now[-1].bits, delayed.bits, strict=True))
            blocks.append(Block(Delay(lines), choose))
        tracked = track(tuple(zip(*maps, strict=True)), levels.start[number], wiring, gated)
        blocks.append(Block(layer(inputs, tracked)))
        now.append(tracked)
    states = wiring.new_channels(dfa.states)
    answers = {joint: levels.read(joint) for joint in reachable}
    tell = tuple(Row(when, states[state]) for when, state in _decisions(answers, now))
    blocks[-1] = Block(blocks[-1].mixer, tell)
    return _plan(dfa, name, blocks, wiring, [((state, 1.0),) for state in states])


def _actions_of_level(levels: Cascade, number: int, letters: int) -> list[dict[tuple[int, ...], tuple[int, ...]]]:
    """For every letter: the points of the levels above → the map of this level."""
    contexts = sorted({joint[:number] for joint in levels.reachable()})
    return [{above: levels.action(number, letter, above) for above in contexts} for letter in range(letters)]


def _decisions(
    table: Mapping[tuple[int, ...], Value], levels: Sequence[Tracked]
) -> list[tuple[tuple[tuple[Channel, int], ...], Value]]:
    """Conditions on the bits of the levels, one of which holds for each key, with the value that they decide."""
    relevant = list(range(len(levels)))
    for level in tuple(relevant):  # a level without which the value is still decided need not be read
        rest = [other for other in relevant if other != level]
        if len({(tuple(key[r] for r in rest), value) for key, value in table.items()}) == len(
            {tuple(key[r] for r in rest) for key in table}
        ):
            relevant = rest
    decided = {tuple(key[r] for r in relevant): value for key, value in table.items()}
    found: list[tuple[tuple[tuple[Channel, int], ...], Value]] = []

    def descend(prefix: tuple[int, ...], entries: dict[tuple[int, ...], Value]) -> None:
        if len(set(entries.values())) == 1:
            literals = tuple(
                literal for level, point in zip(relevant, prefix, strict=False) for literal in levels[level].literals(point)
            )
            found.append((literals, next(iter(entries.values()))))
            return
        for point in sorted({key[len(prefix)] for key in entries}):
            descend((*prefix, point), {key: value for key, value in entries.items() if key[len(prefix)] == point})

    descend((), decided)
    return found


def _delayed(level: Tracked, wiring: Wiring) -> Tracked:
    return Tracked((), wiring.new_channels(len(level.bits)), level.codes)


def _sink(dfa: DFA) -> int:
    """The one state that no letter leaves, where every letter is injective on the states that it does not send there."""
    for state, row in enumerate(dfa.transitions):
        if set(row) == {state}:
            for letter, images in zip(dfa.letters, zip(*dfa.transitions, strict=True), strict=True):
                kept = [image for image in images if image != state]
                if len(set(kept)) < len(kept):
                    raise ValueError(f"letter {letter!r} merges states: one layer of products cannot, a cascade can")
            return state
    raise ValueError("a letter merges states, and there is no sink: one layer of products cannot do that, a cascade can")


def _letter_channels(dfa: DFA) -> tuple[Channel, ...]:
    return tuple(letter_channel(letter) for letter in range(len(dfa.letters)))


def _plan(
    dfa: DFA, name: str, blocks: Sequence[Block], wiring: Wiring, readout: Sequence[Sequence[tuple[Channel, float]]]
) -> Plan:
    return Plan(
        dfa,
        name,
        tuple(blocks),
        wiring.channels,
        tuple(sorted(wiring.offsets.items())),
        tuple(tuple(row) for row in readout),
    )
