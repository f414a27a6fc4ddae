"""The constructions: from an automaton to a plan, or a ValueError that says why this one does not fit.

permutation   every letter permutes or resets the states, or is injective but for a sink: one layer (Theorem 3)
cascade       any regular language: one layer for each level of the holonomy cascade, a delay between them (Theorem 4)
dense         any regular language: one layer of 0/1 matrices
flip-flops    star-free languages: an sLSTM layer for each level, and so that noise is borne (Metric Automata Theory, Theorem 5)
threshold     any regular language: one sLSTM layer of threshold units that bear noise

`spread` turns n factors a token into one, by n tokens a letter (the paper's E.3).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from eigentrack.automata import DFA, MonoidTooLarge, classify
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
    Head,
    Matrices,
    Move,
    NetworkPlan,
    Products,
    Row,
    ThresholdUnits,
    Unit,
    Wiring,
)
from eigentrack.compiler.tracking import Tracked, track, track_with_sink
from eigentrack.expressivity.construction import LARGEST_DENSE, MOST_TUPLES, MOST_UNITS

Value = TypeVar("Value")
Layer = Callable[[tuple[Channel, ...], Tracked], Products | Gates | FlipFlops]


def permutation_plan(dfa: DFA, gated: bool) -> NetworkPlan:
    wiring = Wiring(dfa)
    if _permutes_or_resets(dfa):
        tracked = track(dfa.transitions, dfa.start, wiring, gated)
    else:
        tracked = track_with_sink(dfa.transitions, _sink(dfa), dfa.start, wiring)
    return _one_layer("permutation", Products(wiring.letters, tracked.heads, gated), tracked, wiring)


def spread(plan: NetworkPlan) -> NetworkPlan:
    """Return a plan with one factor a token, and n tokens a letter: the letter, then n - 1 fillers.

    A convolution remembers how long ago the letter was; each token then makes one factor of its move.
    """
    (block,) = plan.blocks
    if not isinstance(block.mixer, Products) or block.mixer.gated:
        raise ValueError("only one layer of products without a gate can be spread over several tokens")
    factors = block.mixer.householders
    if factors == 1:
        return plan
    channels = plan.channels
    lines: list[tuple[Channel, Channel, int]] = []
    inputs = list(block.mixer.inputs)
    for lag in range(1, factors):
        for letter in block.mixer.inputs:
            lines.append((letter, channels, lag))
            inputs.append(channels)
            channels += 1
    heads = tuple(_one_factor_each(head, factors) for head in block.mixer.heads)
    blocks = (Block(Delay(tuple(lines))), Block(Products(tuple(inputs), heads, gated=False)))
    return replace(
        plan, blocks=blocks, channels=channels, tokens_per_letter=factors, construction=f"{plan.construction}-spread"
    )


def diagonal_plan(dfa: DFA, image_limit: int = DEFAULT_LIMIT) -> NetworkPlan:
    """Registers and signs only: one layer where the letters allow it, else a cascade of them."""
    wiring = Wiring(dfa)
    if _permutes_or_resets(dfa):
        tracked = track(dfa.transitions, dfa.start, wiring, gated=False)
        if all(len(head.start) == 1 for head in tracked.heads):
            return _one_layer("diagonal-cascade", Gates(wiring.letters, tracked.heads), tracked, wiring)
    levels = two_point_cascade(cascade(dfa, image_limit))
    return _plan_cascade(dfa, "diagonal-cascade", levels, lambda inputs, tracked: Gates(inputs, tracked.heads), gated=False)


def cascade_plan(dfa: DFA, gated: bool, image_limit: int = DEFAULT_LIMIT) -> NetworkPlan:
    name, levels = "cascade-gated" if gated else "cascade-products", cascade(dfa, image_limit)
    return _plan_cascade(dfa, name, levels, lambda inputs, tracked: Products(inputs, tracked.heads, gated), gated)


def flip_flop_plan(dfa: DFA, image_limit: int = DEFAULT_LIMIT) -> NetworkPlan:
    """A star-free language has a cascade whose levels are only reset. A level's point is written in binary, a flip-flop a bit:

        h ← tanh(32 h + 256 s),     s = 1, -1, 0 to set, to clear, to keep

    an sLSTM cell with forget gate 0, input gate 1 and output gate 1. tanh pulls h back to ±1 after every letter, so errors do
    not add up. Between the levels lie a delay and a table, as in the other cascades; the table's threshold is half-way between
    a bit's two values, so that it decides rightly as long as the errors of the bits that it reads stay below one half together.
    """
    levels = cascade(dfa, image_limit)
    if groups := [level for level in levels.levels if level.group_order > 1]:
        raise ValueError(f"flip-flops make star-free languages only: {_witness(dfa, groups[0].description)}")
    letters = Wiring(dfa).letters
    return _plan_cascade(
        dfa, "flip-flop-cascade", levels, lambda inputs, tracked: FlipFlops(letters, inputs, tracked.heads), gated=False
    )


def dense_plan(dfa: DFA) -> NetworkPlan:
    if dfa.states > LARGEST_DENSE:
        raise ValueError(f"{dfa.states} states are too many for dense matrices; at most {LARGEST_DENSE}")
    wiring = Wiring(dfa)
    states = wiring.new_channels(dfa.states)
    layer = Matrices(wiring.letters, tuple(letter_maps(dfa).values()), dfa.start, states)
    return wiring.plan("dense", [Block(layer)], [[(state, 1.0)] for state in states])


def threshold_plan(dfa: DFA) -> NetworkPlan:
    """A unit (q, a) for each state and letter is 1 if a was read in state q, else -1; one more is 1 on the begin token only.

    That one leads to the start. (q, a) is on after letter a if the units that lead to q, one of which is on, sum to over ½:

        h_{q,a} ← tanh(64 (Σ_{(p,b): δ(p,b) = q} (1 + h_{p,b})/2 - 1/2 - M (1 - [letter is a])))

    with M at least the number of units that lead to a state: no sum of them outweighs a wrong letter. Forget gates are 0, input
    and output gates 1, as in the flip-flops. Errors do not add up, and n units that lead to a state bear ε < 1/n. That sigmoid
    networks hold automata stably is long known (Omlin and Giles, 1996); here the boxes prove it for these weights.
    """
    pairs = [(q, a) for q in range(dfa.states) for a in range(len(dfa.letters))]
    if len(pairs) > MOST_UNITS:
        raise ValueError(f"{len(pairs)} pairs of a state and a letter are too many units for one layer; at most {MOST_UNITS}")
    wiring = Wiring(dfa)
    states = wiring.new_channels(dfa.states)
    wiring.new_channels(max(0, len(pairs) + 2 - wiring.channels))  # the layer is as wide as the stream: a cell for every unit
    units = [Unit(None, None, dfa.start)]
    units += [Unit(q, wiring.letters[a], dfa.transitions[q][a]) for q, a in pairs]
    layer = ThresholdUnits(wiring.letters, tuple(units), states)
    return wiring.plan("threshold-units", [Block(layer)], [[(state, 1.0)] for state in states])


def _one_layer(name: str, layer: Products | Gates, tracked: Tracked, wiring: Wiring) -> NetworkPlan:
    """The logit of a state counts the bits that agree with its code: half for each, minus half for each that does not."""
    readout = [
        (
            *((bit, 2.0 * value - 1) for bit, value in tracked.literals(state)),
            (ALWAYS, len(tracked.bits) / 2 - sum(tracked.codes[state])),
        )
        for state in range(wiring.dfa.states)
    ]
    return wiring.plan(name, [Block(layer)], readout)


def _plan_cascade(dfa: DFA, name: str, levels: Cascade, layer: Layer, gated: bool) -> NetworkPlan:
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


def _one_factor_each(head: Head, factors: int) -> Head:
    moves = tuple(Move(move.factors[lag : lag + 1]) for lag in range(factors) for move in head.moves)
    return replace(head, moves=moves)


def _permutes_or_resets(dfa: DFA) -> bool:
    return all(map(is_permutation_or_constant, letter_maps(dfa).values()))


def _sink(dfa: DFA) -> int:
    sink = injective_sink(dfa)
    if sink is None:
        raise ValueError("a letter merges states, and not in a sink: one layer of products cannot do that, a cascade can")
    return sink


def _witness(dfa: DFA, group: str) -> str:
    try:
        return classify(dfa).witnesses.get("star_free", f"a level of this cascade moves by the group {group}")
    except MonoidTooLarge:
        return f"a level of its cascade moves by the group {group}"
