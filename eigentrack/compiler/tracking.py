"""Heads that track an automaton of permutations and resets, exactly, and the bits in which they tell its state.

Three kinds, the smallest that fits the action of the letters on its points:
  register  identity and resets only    S is the code of the point itself, overwritten by one factor
  sign      two points                  S = ±1, swapped by I - 2kkᵀ with k = 1
  one-hot   anything else               S is a one-hot vector, moved by swaps; one head for each bit of the point's code

A swap of points i and j is the factor I - b k kᵀ with key e_i - e_j and b = 1, and erasing point i that with key e_i and b = 1.
All entries are -1, 0 or 1, so nothing is ever rounded; with unit keys the swap would have 1/√2 in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eigentrack.automata.letter_maps import is_constant, is_identity
from eigentrack.automata.splitting import Action, split
from eigentrack.compiler.plan import Channel, Factor, Head, Move, Wiring
from eigentrack.expressivity.householder_products import factor_partial_permutation


@dataclass(frozen=True)
class Tracked:
    """`codes[state]` are the values of the channels `bits` in that state, all different."""

    heads: tuple[Head, ...]
    bits: tuple[Channel, ...]
    codes: tuple[tuple[int, ...], ...]

    def literals(self, state: int) -> tuple[tuple[Channel, int], ...]:
        return tuple(zip(self.bits, self.codes[state], strict=True))


def track(transitions: Sequence[Sequence[int]], start: int, wiring: Wiring, gated: bool) -> Tracked:
    """`transitions[state][input]`, every input a permutation or a reset of the states."""
    parts = [_track_action(action, start, wiring, gated) for action in split(transitions)]
    codes = (sum((part.codes[state] for part in parts), ()) for state in range(len(transitions)))
    return Tracked(
        tuple(head for part in parts for head in part.heads),
        tuple(bit for part in parts for bit in part.bits),
        tuple(codes),
    )


def track_with_sink(transitions: Sequence[Sequence[int]], sink: int, start: int, wiring: Wiring) -> Tracked:
    """The sink is the zero vector; every input is injective on the states that it does not send there."""
    live = [state for state in range(len(transitions)) if state != sink]
    place = {state: point for point, state in enumerate(live)}
    moves = []
    for images in zip(*(transitions[state] for state in live), strict=True):
        moves.append(move_points([place.get(image) for image in images], columns=1))
    first = tuple((float(state == start),) for state in live)
    codes = tuple(_code(place.get(state, -1) + 1, len(live)) for state in range(len(transitions)))  # the sink is all zeros
    bits = wiring.new_channels(len(codes[0]))
    heads = tuple(
        Head(first, tuple(moves), tuple(float(codes[state][b]) for state in live), (bit,)) for b, bit in enumerate(bits)
    )
    return Tracked(heads, bits, codes)


def _track_action(action: Action, start: int, wiring: Wiring, gated: bool) -> Tracked:
    if action.is_register:
        return _register(action, start, wiring)
    if action.points == 2:
        return _sign(action, start, wiring)
    return _one_hot(action, start, wiring, gated)


def _register(action: Action, start: int, wiring: Wiring) -> Tracked:
    columns = len(action.columns)
    codes = _column_codes(action)
    bits = wiring.new_channels(len(codes[0]))

    def overwrite(images: Sequence[int]) -> Move:
        if is_identity(images):
            return Move()
        code = _code(images[0], action.points - 1) * columns
        return Move((Factor((1.0,), 1, tuple(map(float, code))),))

    head = Head((tuple(map(float, codes[start])),), tuple(map(overwrite, action.maps)), (1.0,), bits)
    return Tracked((head,), bits, codes)


def _sign(action: Action, start: int, wiring: Wiring) -> Tracked:
    codes = tuple(zip(*action.columns, strict=True))
    bits = tuple(wiring.channel(offset=0.5) for _ in action.columns)  # ½ + ½S is 0 or 1

    def swap_or_write(images: Sequence[int]) -> Move:
        if is_identity(images):
            return Move()
        if is_constant(images):
            return Move((Factor((1.0,), 1, (2.0 * images[0] - 1,) * len(bits)),))
        return Move((Factor((1.0,), 2, (0.0,) * len(bits)),))

    first = tuple(2.0 * bit - 1 for bit in codes[start])
    return Tracked((Head((first,), tuple(map(swap_or_write, action.maps)), (1.0,), bits, scale=0.5),), bits, codes)


def _one_hot(action: Action, start: int, wiring: Wiring, gated: bool) -> Tracked:
    columns = len(action.columns)
    first = tuple(tuple(float(column[start] == point) for column in action.columns) for point in range(action.points))
    moves = tuple(
        reset_points(action.points, [images[0]] * columns, gated) if is_constant(images) else move_points(images, columns)
        for images in action.maps
    )
    point_codes = [_code(point, action.points - 1) for point in range(action.points)]
    heads = [
        Head(first, moves, tuple(float(code[b]) for code in point_codes), wiring.new_channels(columns))
        for b in range(len(point_codes[0]))
    ]
    bits = tuple(heads[b].outputs[c] for c in range(columns) for b in range(len(heads)))  # column by column, as the codes
    return Tracked(tuple(heads), bits, _column_codes(action))


def _column_codes(action: Action) -> tuple[tuple[int, ...], ...]:
    """The codes of a state's points, column after column."""
    states = range(len(action.columns[0]))
    return tuple(sum((_code(column[state], action.points - 1) for column in action.columns), ()) for state in states)


def _code(number: int, largest: int) -> tuple[int, ...]:
    """Binary, lowest bit first, as many bits as the largest number needs."""
    return tuple(number >> b & 1 for b in range(max(1, largest.bit_length())))


def move_points(images: Sequence[int | None], columns: int) -> Move:
    """Return the injective map point → images[point], None for nothing, applied to every column."""
    nothing = (0.0,) * columns
    return Move(tuple(Factor(factor.key, factor.beta, nothing) for factor in factor_partial_permutation(images)))


def reset_points(size: int, targets: Sequence[int], gated: bool) -> Move:
    """Column c becomes the one-hot vector of targets[c]: by the gate and a write, or by overwriting point after point."""
    points = sorted(set(targets)) if gated else range(size)
    writes = (
        Factor(tuple(float(p == point) for p in range(size)), 1, tuple(float(t == point) for t in targets)) for point in points
    )
    return Move(tuple(writes), forget=gated)
