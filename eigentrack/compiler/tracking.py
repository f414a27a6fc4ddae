"""Heads that track an automaton of permutations and resets exactly, and the bits that encode its state.

There are three kinds of heads; each action of the letters on points gets the smallest kind that fits:
  register  identity and resets only    S is the code of the point itself, overwritten by one factor
  sign      two points                  S = ±1, swapped by I - 2kkᵀ with k = 1
  one-hot   anything else               S is a one-hot vector, moved by swaps; one head for each bit of the point's code

The factor I - b k kᵀ swaps points i and j if its key is e_i - e_j and b = 1, and erases point i if its key is e_i and b = 1.
All entries are -1, 0 or 1, so nothing is ever rounded; the unit key of a swap would have entries ±1/√2.
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
    """Heads that track an automaton, and the bits that encode its state."""

    heads: tuple[Head, ...]
    bits: tuple[Channel, ...]  # the channels of the bits
    codes: tuple[tuple[int, ...], ...]  # [state] → the values of the bits in that state; all states have different codes

    def literals(self, state: int) -> tuple[tuple[Channel, int], ...]:
        return tuple(zip(self.bits, self.codes[state], strict=True))


def track(transitions: Sequence[Sequence[int]], start: int, wiring: Wiring, gated: bool) -> Tracked:
    """Return heads that track an automaton of permutations and resets, where `transitions[state][input]` is the next state."""
    parts = [_track_action(action, start, wiring, gated) for action in split(transitions)]
    codes = (sum((part.codes[state] for part in parts), ()) for state in range(len(transitions)))
    return Tracked(
        tuple(head for part in parts for head in part.heads),
        tuple(bit for part in parts for bit in part.bits),
        tuple(codes),
    )


def track_with_sink(transitions: Sequence[Sequence[int]], sink: int, start: int, wiring: Wiring) -> Tracked:
    """Return heads that track an automaton whose inputs are one-to-one on the states that they do not send to the sink.

    The sink is coded as the zero vector.
    """
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
    bits = tuple(heads[b].outputs[c] for c in range(columns) for b in range(len(heads)))  # column by column, like the codes
    return Tracked(tuple(heads), bits, _column_codes(action))


def _column_codes(action: Action) -> tuple[tuple[int, ...], ...]:
    """Return the code of each state: the codes of its points, column after column."""
    states = range(len(action.columns[0]))
    return tuple(sum((_code(column[state], action.points - 1) for column in action.columns), ()) for state in states)


def _code(number: int, largest: int) -> tuple[int, ...]:
    """Return the number in binary, lowest bit first, with as many bits as the largest number needs."""
    return tuple(number >> b & 1 for b in range(max(1, largest.bit_length())))


def move_points(images: Sequence[int | None], columns: int) -> Move:
    """Return the move that takes each point to images[point], or erases it if that is None, in every column.

    The map must be one-to-one on the points that it does not erase.
    """
    nothing = (0.0,) * columns
    return Move(tuple(Factor(factor.key, factor.beta, nothing) for factor in factor_partial_permutation(images)))


def reset_points(size: int, targets: Sequence[int], gated: bool) -> Move:
    """Return the move that sets column c to the one-hot vector of targets[c].

    If `gated`, the gate clears the state and factors write the targets; otherwise factors overwrite one point after the other.
    """
    points = sorted(set(targets)) if gated else range(size)
    writes = (
        Factor(tuple(float(p == point) for p in range(size)), 1, tuple(float(t == point) for t in targets)) for point in points
    )
    return Move(tuple(writes), forget=gated)
