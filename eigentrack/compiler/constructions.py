"""The constructions: from an automaton to a plan, or a ValueError that says why this one does not fit.

permutation   every letter permutes or resets the states, or is injective but for a sink: one layer (Theorem 3)
cascade       any regular language: one layer for each level of the holonomy cascade, a delay between them (Theorem 4)
dense         any regular language: one layer of 0/1 matrices
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from eigentrack.automata import DFA
from eigentrack.automata.cascade import Cascade, cascade, two_point_cascade
from eigentrack.automata.image_sets import DEFAULT_LIMIT
from eigentrack.automata.letter_maps import injective_sink, is_identity, is_permutation_or_constant, letter_maps
from eigentrack.compiler.plan import (
    ALWAYS,
    Block,
    Channel,
    Delay,
    FlipFlops,
    Gates,
    Matrices,
    Plan,
    Products,
    Row,
    Wiring,
)
from eigentrack.compiler.tracking import Tracked, track, track_with_sink
from eigentrack.expressivity.construction import LARGEST_DENSE, MOST_TUPLES

Value = TypeVar("Value")
Layer = Callable[[tuple[Channel, ...], Tracked], Products | Gates | FlipFlops]


def permutation_plan(dfa: DFA, gated: bool) -> Plan:
    wiring = Wiring(dfa)
    if _permutes_or_resets(dfa):
        tracked = track(dfa.transitions, dfa.start, wiring, gated)
    else:
        tracked = track_with_sink(dfa.transitions, _sink(dfa), dfa.start, wiring)
    return _one_layer("permutation", Products(wiring.letters, tracked.heads, gated), tracked, wiring)


def diagonal_plan(dfa: DFA, image_limit: int = DEFAULT_LIMIT) -> Plan:
    """Registers and signs only: one layer where the letters allow it, else a cascade of them."""
    wiring = Wiring(dfa)
    if _permutes_or_resets(dfa):
        tracked = track(dfa.transitions, dfa.start, wiring, gated=False)
        if all(len(head.start) == 1 for head in tracked.heads):
            return _one_layer("diagonal-cascade", Gates(wiring.letters, tracked.heads), tracked, wiring)
    levels = two_point_cascade(cascade(dfa, image_limit))
    return plan_cascade(dfa, "diagonal-cascade", levels, lambda inputs, tracked: Gates(inputs, tracked.heads), gated=False)


def cascade_plan(dfa: DFA, gated: bool, image_limit: int = DEFAULT_LIMIT) -> Plan:
    name, levels = "cascade-gated" if gated else "cascade-products", cascade(dfa, image_limit)
    return plan_cascade(dfa, name, levels, lambda inputs, tracked: Products(inputs, tracked.heads, gated), gated)


def dense_plan(dfa: DFA) -> Plan:
    if dfa.states > LARGEST_DENSE:
        raise ValueError(f"{dfa.states} states are too many for dense matrices; at most {LARGEST_DENSE}")
    wiring = Wiring(dfa)
    states = wiring.new_channels(dfa.states)
    layer = Matrices(wiring.letters, tuple(letter_maps(dfa).values()), dfa.start, states)
    return wiring.plan("dense", [Block(layer)], [[(state, 1.0)] for state in states])


def _one_layer(name: str, layer: Products | Gates, tracked: Tracked, wiring: Wiring) -> Plan:
    """The logit of a state counts the bits that agree with its code: half for each, minus half for each that does not."""
    readout = [
        (
            *((bit, 2.0 * value - 1) for bit, value in tracked.literals(state)),
            (ALWAYS, len(tracked.bits) / 2 - sum(tracked.codes[state])),
        )
        for state in range(wiring.dfa.states)
    ]
    return wiring.plan(name, [Block(layer)], readout)


def plan_cascade(dfa: DFA, name: str, levels: Cascade, layer: Layer, gated: bool) -> Plan:
    reachable = levels.reachable()
    if not levels.levels:
        raise ValueError("an automaton of one state has no cascade")
    if len(reachable) > MOST_TUPLES:
        raise ValueError(f"the cascade has {len(reachable)} joint states; a table holds at most {MOST_TUPLES}")
    wiring = Wiring(dfa)
    letters = wiring.letters
    blocks: list[Block] = []
    now: list[Tracked] = []  # the levels above, as they are after the letter
    before: list[Tracked] = []  # and as they were before it: a level reads those
    for number in range(len(levels.levels)):
        actions = levels.table(number)
        if number == 0:
            inputs, maps = letters, tuple(row[()] for row in actions)
        else:
            delayed = _delayed(now[-1], wiring)
            before.append(delayed)
            maps = levels.maps(number)
            inputs = wiring.new_channels(len(maps))
            signal = dict(zip(maps, inputs, strict=True))
            choose = tuple(
                Row(((letters[letter], 1), *when), signal[images])
                for letter, row in enumerate(actions)
                for when, images in _decisions(row, before)
                if not is_identity(images)
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
    return wiring.plan(name, blocks, [[(state, 1.0)] for state in states])


def _decisions(
    table: Mapping[tuple[int, ...], Value], levels: Sequence[Tracked]
) -> list[tuple[tuple[tuple[Channel, int], ...], Value]]:
    """Conditions on the bits of the levels, one of which holds for each key, with the value that they decide."""
    relevant = _relevant_levels(table, len(levels))
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


def _relevant_levels(table: Mapping[tuple[int, ...], Value], levels: int) -> list[int]:
    """A level without which the value is still decided need not be read."""
    base = 1 + max((point for key in table for point in key), default=0)
    # of each key a number with its points as digits: one level is taken out by a subtraction
    codes = [sum(point * base**level for level, point in enumerate(key)) for key in table]
    relevant = []
    for level in range(levels):
        digits = base**level
        without = [code - key[level] * digits for key, code in zip(table, codes, strict=True)]
        if len(set(zip(without, table.values(), strict=True))) == len(set(without)):
            codes = without
        else:
            relevant.append(level)
    return relevant


def _delayed(level: Tracked, wiring: Wiring) -> Tracked:
    return Tracked((), wiring.new_channels(len(level.bits)), level.codes)


def _permutes_or_resets(dfa: DFA) -> bool:
    return all(map(is_permutation_or_constant, letter_maps(dfa).values()))


def _sink(dfa: DFA) -> int:
    sink = injective_sink(dfa)
    if sink is None:
        raise ValueError("a letter merges states, and not in a sink: one layer of products cannot do that, a cascade can")
    return sink
