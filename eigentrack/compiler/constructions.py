"""The constructions: functions from an automaton to a plan, which raise a ValueError that says why they do not fit.

permutation   every letter permutes or resets the states, or is one-to-one on those not sent to a sink: one layer (Theorem 3)
cascade       any regular language: one layer for each level of the holonomy cascade, delays between them (Theorem 4)
dense         any regular language: one layer of 0/1 matrices
flip-flops    star-free languages: an sLSTM layer for each level, which tolerates noise (Metric Automata Theory, Theorem 5)
threshold     any regular language: one sLSTM layer of threshold units that tolerate noise

`spread` replaces n factors per token by one, with n tokens per letter (appendix E.3 of Grazzi et al. 2025).
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
    """Return a plan with one factor per token and n tokens per letter: the letter, then n - 1 fillers.

    A convolution tells how many tokens ago the letter was read; each token then applies one factor of the letter's move.
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
    """Return a plan of registers and signs only: one layer if the letters allow it, otherwise a cascade."""
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
    """Return a plan of sLSTM flip-flops for a star-free language, whose cascade has levels that are only reset.

    A level's point is written in binary, with one flip-flop per bit:

        h ← tanh(32 h + 256 s),     s = 1, -1, 0 to set, to clear, to keep

    which is an sLSTM cell with forget gate 0, input gate 1 and output gate 1. tanh pulls h back to ±1 after every letter, so
    errors do not add up. Between the levels are a delay and a table, as in the other cascades; the table's threshold is midway
    between the two values of a bit, so that it is right as long as the errors of the bits that it reads sum to less than ½.
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
    """Return a plan of one sLSTM layer of threshold units, one for each state and letter.

    Unit (q, a) is 1 if letter a was just read in state q, otherwise -1. One more unit, which leads to the start, is 1 on the
    begin token only. (q, a) becomes 1 on letter a if one of the units that lead to q is 1, so that their sum exceeds ½:

        h_{q,a} ← tanh(64 (Σ_{(p,b): δ(p,b) = q} (1 + h_{p,b})/2 - 1/2 - M (1 - [letter is a])))

    M is at least the number of units that lead to a state, so that their sum never outweighs a wrong letter. Forget gates are
    0, input and output gates 1, as in the flip-flops. Errors do not add up, and n units that lead to a state tolerate ε < 1/n.
    It has long been known that sigmoid networks can represent automata stably (Omlin and Giles, 1996); here the boxes prove it
    for these weights.
    """
    pairs = [(q, a) for q in range(dfa.states) for a in range(len(dfa.letters))]
    if len(pairs) > MOST_UNITS:
        raise ValueError(f"{len(pairs)} pairs of a state and a letter are too many units for one layer; at most {MOST_UNITS}")
    wiring = Wiring(dfa)
    states = wiring.new_channels(dfa.states)
    # the layer is as wide as the residual stream, and needs a cell for every unit
    wiring.new_channels(max(0, len(pairs) + 2 - wiring.channels))
    units = [Unit(None, None, dfa.start)]
    units += [Unit(q, wiring.letters[a], dfa.transitions[q][a]) for q, a in pairs]
    layer = ThresholdUnits(wiring.letters, tuple(units), states)
    return wiring.plan("threshold-units", [Block(layer)], [[(state, 1.0)] for state in states])


def _one_layer(name: str, layer: Products | Gates, tracked: Tracked, wiring: Wiring) -> NetworkPlan:
    """Return a plan of one layer, where a state's logit is half of: bits that agree with its code, minus bits that differ."""
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
    now: list[Tracked] = []  # the levels above, after the letter
    before: list[Tracked] = []  # the levels above before the letter, which a level reads
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
    """Return the table as pairs of a condition on the bits of the levels and a value; each key meets exactly one condition."""
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
    """Return levels that together determine the value: each in turn is left out if the remaining ones are enough."""
    base = 1 + max((point for key in table for point in key), default=0)
    # each key becomes a number whose digits are its points, so that a subtraction removes a level
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
