"""Counting modulo m without permutations of m points: rotations of the plane, and the two-layer construction.

rotation   one layer, two reflections per token, R(2πx/m). The angles are rounded, so its certificate has a length bound.
two-layer  one reflection per token. Layer 1 computes whether t is odd; with φ_t = (-1)^t s_t, s_t = s_{t-1} + x becomes
           φ_t = (-1)^t x - φ_{t-1}, a reflection of the m-gon. Exact if m divides 12: the factor 2 by signs, 3 by swaps of
           three points, 4 by signs and swaps of the plane.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from eigentrack.automata import DFA
from eigentrack.automata.letter_maps import counter_steps
from eigentrack.compiler.plan import Block, Factor, Head, Move, NetworkPlan, Products, Row, Wiring
from eigentrack.compiler.tracking import Tracked, track

PARITY_SWAP = ((0, 1), (1, 0))  # [state][input] → the next state; input 1 swaps the states


def rotation_plan(dfa: DFA) -> NetworkPlan:
    number, steps = _counter(dfa)
    if dfa.states < 3:
        raise ValueError("two states are told by a sign: they need no rotation")
    wiring, angle = Wiring(dfa), 2 * math.pi / dfa.states
    moves = tuple(_rotation(angle * x) for x in steps)
    x, y = wiring.new_channels(2)
    heads = (Head(((1.0,), (0.0,)), moves, (1.0, 0.0), (x,)), Head(((1.0,), (0.0,)), moves, (0.0, 1.0), (y,)))
    layer = Products(wiring.letters, heads, gated=False)
    readout = tuple(((x, math.cos(angle * n)), (y, math.sin(angle * n))) for n in number)
    return wiring.plan("rotation", [Block(layer)], readout, exact=False)


def two_layer_plan(dfa: DFA) -> NetworkPlan:
    number, steps = _counter(dfa)
    wiring, m = Wiring(dfa), dfa.states
    letters = wiring.letters
    parity = track(tuple(tuple(row[1] for _ in letters) for row in PARITY_SWAP), 0, wiring, gated=False)
    # one input for each letter and parity, which applies the reflection φ → (±x) - φ
    signed = [(a, odd, (-x if odd else x) % m) for a, x in enumerate(steps) for odd in (0, 1)]
    inputs = wiring.new_channels(len(signed))
    choose = tuple(
        Row(((letters[a], 1), *parity.literals(odd)), channel) for channel, (a, odd, _) in zip(inputs, signed, strict=True)
    )
    first = Block(Products(letters, parity.heads, gated=False), choose)
    turns = [turn for _, _, turn in signed]
    if 12 % m == 0:
        parts = [(p, _exact_part(p, [turn % p for turn in turns], wiring)) for p in _prime_powers(m)]
        states = wiring.new_channels(m)
        table = tuple(
            Row(
                (*parity.literals(odd), *(literal for p, part in parts for literal in part.literals((-n if odd else n) % p))),
                states[s],
            )
            for s, n in enumerate(number)
            for odd in (0, 1)
        )
        heads = tuple(head for _, part in parts for head in part.heads)
        blocks = (first, Block(Products(inputs, heads, gated=False), table))
        return wiring.plan("two-layer-cyclic", blocks, [[(state, 1.0)] for state in states])
    angle = 2 * math.pi / m
    moves = tuple(_reflection(angle * turn) for turn in turns)
    x, y, turned = wiring.new_channels(3)
    heads = (Head(((1.0,), (0.0,)), moves, (1.0, 0.0), (x,)), Head(((1.0,), (0.0,)), moves, (0.0, 1.0), (y,)))
    mirror = tuple(Row(parity.literals(odd), turned, source=y, weight=1.0 - 2 * odd) for odd in (0, 1))
    readout = tuple(((x, math.cos(angle * n)), (turned, math.sin(angle * n))) for n in number)
    blocks = (first, Block(Products(inputs, heads, gated=False), mirror))
    return wiring.plan("two-layer-cyclic", blocks, readout, exact=False)


def _counter(dfa: DFA) -> tuple[tuple[int, ...], tuple[int, ...]]:
    found = counter_steps(dfa)
    if found is None:
        raise ValueError("the language does not count modulo a number: no rotation can track it")
    return found


def _exact_part(p: int, turns: Sequence[int], wiring: Wiring) -> Tracked:
    """Return heads that track φ → turn - φ modulo p = 2, 3 or 4, each turn by one factor."""
    if p < 4:
        return track(tuple(tuple((turn - phi) % p for turn in turns) for phi in range(p)), 0, wiring, gated=False)
    # S is one of the corners ±e_1, ±e_2 of a square; S·(1, 1) and S·(1, -1) are ±1 and identify it
    keys = {0: ((0.0, 1.0), 2), 1: ((1.0, -1.0), 1), 2: ((1.0, 0.0), 2), 3: ((1.0, 1.0), 1)}
    moves = tuple(Move((Factor(keys[turn][0], keys[turn][1], (0.0,)),)) for turn in turns)
    bits = tuple(wiring.channel(offset=0.5) for _ in range(2))
    start = ((1.0,), (0.0,))
    heads = tuple(
        Head(start, moves, query, (bit,), scale=0.5) for query, bit in zip(((1.0, 1.0), (1.0, -1.0)), bits, strict=True)
    )
    return Tracked(heads, bits, ((1, 1), (1, 0), (0, 0), (0, 1)))


def _rotation(angle: float) -> Move:
    if angle == 0:
        return Move()
    return Move((_mirror(0.0), _mirror(angle / 2)))


def _reflection(angle: float) -> Move:
    """Return the reflection of the point at φ to angle - φ; the mirror's normal is perpendicular to the line at angle / 2."""
    return Move((_mirror(angle / 2 + math.pi / 2),))


def _mirror(normal: float) -> Factor:
    return Factor((math.cos(normal), math.sin(normal)), 2, (0.0,))


def _prime_powers(m: int) -> list[int]:
    return [p for p in (4, 3) if m % p == 0] + ([2] if m % 4 == 2 else [])
