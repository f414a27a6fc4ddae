"""Finite-precision models of one layer h_t = A(x_t) h_(t-1) + B(x_t), simulated and compared, since they can disagree.

cast        ĥ_t = cast(Σ_i cast(A(x_t) ··· A(x_(i+1)) B(x_i)) + cast(A(x_t) ··· A(x_1) h_0)): products and sum are exact, then
            rounded to the nearest float, ties to even, and beyond the range to the largest float; Merrill et al. (2024) and
            Grazzi et al. (2025) assume this model
sequential  IEEE: one token after the other, every product and every sum rounded, columns from left to right
flushed     as sequential, and results below the smallest normal number become 0, as on hardware that flushes subnormals
scan        IEEE: the pairs (A, B) are composed in the order of a parallel scan, every product and every sum rounded
exact       the reference, which rounds nothing but the returned states

Zeros of both signs are equal. A, B and h_0 are exact rationals; the IEEE models first round them to their type.

On σσσ… a state of finitely many floats must repeat, h_t = h_(t+period) for all t ≥ transient. A diagonal layer moves each float
by h ← fl(fl(a h) + b), which keeps the order of floats (a ≥ 0) or reverses it, whatever the rounding. On a constant input its
period is therefore 1, or a divisor of 2; on an input of period p, a divisor of p or of 2p. So the period of L layers divides
2^L, and it is 1 if no gate is negative.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import torch
from torch import Tensor

Vector = tuple[Fraction, ...]
Rows = tuple[Vector, ...]
Pair = tuple[Tensor, Tensor]  # A [n, n], B [n]


@dataclass(frozen=True)
class LinearRNN:
    """A linear RNN with exact rational entries, whose state is a vector of n numbers."""

    gates: Mapping[str, Rows]  # letter → A, [n, n]
    writes: Mapping[str, Vector]  # letter → B, [n]
    start: Vector  # h_0, [n]

    def __post_init__(self) -> None:
        n = len(self.start)
        if not n or not self.gates or set(self.gates) != set(self.writes):
            raise ValueError(
                f"gates for {sorted(self.gates)} and writes for {sorted(self.writes)}: both need the same letters, and n ≥ 1"
            )
        for letter, rows in self.gates.items():
            if len(rows) != n or any(len(row) != n for row in rows) or len(self.writes[letter]) != n:
                raise ValueError(f"letter {letter!r}: A must be {n} × {n} and B of length {n}, as start is")


@dataclass(frozen=True)
class Difference:
    """The first step, counted from 1, at which two models have different states, and these states."""

    step: int
    left: tuple[float, ...]
    right: tuple[float, ...]


def nearest(value: Fraction, dtype: torch.dtype) -> Fraction:
    """Return the float nearest to an exact value, ties to even; beyond the range, the largest finite float with its sign."""
    limits = torch.finfo(dtype)
    magnitude = abs(value)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()  # floor(log2), or one more
    exponent -= magnitude < Fraction(2) ** exponent
    # ulp, the spacing of floats: eps scaled by the exponent, which is at least that of the smallest normal number
    ulp = Fraction(limits.eps) * max(Fraction(2) ** exponent, Fraction(limits.tiny))
    rounded = min(round(magnitude / ulp) * ulp, Fraction(limits.max))
    return rounded if value >= 0 else -rounded


def simulate(rnn: LinearRNN, word: Sequence[str], dtype: torch.dtype, model: str) -> list[tuple[float, ...]]:
    """Return the states after 1, 2, … letters of a word, as a model of arithmetic computes them.

    Args:
        rnn: the layer, with exact entries.
        word: the letters.
        dtype: the float type to which the model rounds.
        model: cast, sequential, flushed, scan or exact; the module describes them.
    """
    if model not in MODELS:
        raise ValueError(f"model {model!r} is not known; there are {', '.join(MODELS)}")
    if foreign := set(word) - set(rnn.gates):
        raise ValueError(f"letter {min(foreign)!r} has no gate; there are {', '.join(rnn.gates)}")
    return MODELS[model](rnn, word, dtype)


def first_difference(rnn: LinearRNN, word: Sequence[str], dtype: torch.dtype, left: str, right: str) -> Difference | None:
    """Return the first step at which two models have different states, or None if they agree on the whole word."""
    states = zip(simulate(rnn, word, dtype, left), simulate(rnn, word, dtype, right), strict=True)
    return next((Difference(step, x, y) for step, (x, y) in enumerate(states, start=1) if x != y), None)


def _exact(rnn: LinearRNN, word: Sequence[str], dtype: torch.dtype) -> list[tuple[float, ...]]:
    state, states = rnn.start, []
    for letter in word:
        state = tuple(x + b for x, b in zip(_apply(rnn.gates[letter], state), rnn.writes[letter], strict=True))
        states.append(tuple(map(float, state)))
    return states


def _cast(rnn: LinearRNN, word: Sequence[str], dtype: torch.dtype) -> list[tuple[float, ...]]:
    terms, states = [rnn.start], []
    for letter in word:
        moved = [*(_apply(rnn.gates[letter], term) for term in terms), rnn.writes[letter]]
        terms = [term for term in moved if any(term)]  # a term that is zero stays zero
        sums = [sum((nearest(term[i], dtype) for term in terms), Fraction(0)) for i in range(len(rnn.start))]
        states.append(tuple(float(nearest(entry, dtype)) for entry in sums))
    return states


def _sequential(rnn: LinearRNN, word: Sequence[str], dtype: torch.dtype) -> list[tuple[float, ...]]:
    return _token_by_token(rnn, word, dtype, lambda x: x)


def _flushed(rnn: LinearRNN, word: Sequence[str], dtype: torch.dtype) -> list[tuple[float, ...]]:
    tiny = torch.finfo(dtype).tiny
    return _token_by_token(rnn, word, dtype, lambda x: torch.where(x.abs() < tiny, torch.zeros_like(x), x))


def _token_by_token(
    rnn: LinearRNN, word: Sequence[str], dtype: torch.dtype, after_rounding: Callable[[Tensor], Tensor]
) -> list[tuple[float, ...]]:
    pairs, state = _rounded_pairs(rnn, dtype)
    states = []
    for letter in word:
        gate, write = pairs[letter]
        state = after_rounding(_matrix_vector(gate, state, after_rounding) + write)
        states.append(tuple(state.tolist()))
    return states


def _scan(rnn: LinearRNN, word: Sequence[str], dtype: torch.dtype) -> list[tuple[float, ...]]:
    pairs, start = _rounded_pairs(rnn, dtype)
    return [
        tuple((_matrix_vector(a, start, lambda x: x) + b).tolist()) for a, b in _prefixes([pairs[letter] for letter in word])
    ]


def _prefixes(pairs: list[Pair]) -> list[Pair]:
    """Return the compositions of the first 1, 2, … pairs, as a parallel scan computes them.

    It composes neighbours, scans the list of half the length, and composes the results with the pairs between.
    """
    if len(pairs) < 2:
        return pairs
    even = _prefixes(
        [_compose(pairs[i], pairs[i + 1]) for i in range(0, len(pairs) - 1, 2)]
    )  # products of the first 2, 4, … pairs
    odd = [
        pairs[0],
        *(_compose(before, pair) for before, pair in zip(even, pairs[2::2], strict=False)),
    ]  # products of the first 1, 3, … pairs
    return [prefix for both in zip(odd, even, strict=False) for prefix in both] + odd[len(even) :]


def _compose(first: Pair, then: Pair) -> Pair:
    columns = [_matrix_vector(then[0], column, lambda x: x) for column in first[0].unbind(1)]
    return torch.stack(columns, dim=1), _matrix_vector(then[0], first[1], lambda x: x) + then[1]


def _matrix_vector(matrix: Tensor, vector: Tensor, after_rounding: Callable[[Tensor], Tensor]) -> Tensor:
    """Return matrix @ vector, summed over columns from left to right; torch's own product may fuse or reorder operations."""
    total = after_rounding(matrix[:, 0] * vector[0])
    for j in range(1, len(vector)):
        total = after_rounding(total + after_rounding(matrix[:, j] * vector[j]))
    return total


def _rounded_pairs(rnn: LinearRNN, dtype: torch.dtype) -> tuple[dict[str, Pair], Tensor]:
    def rounded(vector: Vector) -> list[float]:
        return [float(nearest(entry, dtype)) for entry in vector]

    pairs = {
        letter: (
            torch.tensor([rounded(row) for row in rows], dtype=dtype),
            torch.tensor(rounded(rnn.writes[letter]), dtype=dtype),
        )
        for letter, rows in rnn.gates.items()
    }
    return pairs, torch.tensor(rounded(rnn.start), dtype=dtype)


def _apply(rows: Rows, vector: Vector) -> Vector:
    return tuple(sum((a * x for a, x in zip(row, vector, strict=True)), Fraction(0)) for row in rows)


MODELS: dict[str, Callable[[LinearRNN, Sequence[str], torch.dtype], list[tuple[float, ...]]]] = {
    "exact": _exact,
    "cast": _cast,
    "sequential": _sequential,
    "flushed": _flushed,
    "scan": _scan,
}


State = tuple[Tensor, ...]


@dataclass(frozen=True)
class Cycle:
    """The smallest numbers of steps for which, from step `transient` on, the state repeats every `period` steps."""

    transient: int
    period: int


@dataclass(frozen=True)
class DiagonalLayer:
    """A diagonal layer h ← a(x) h + b(x), rounded after each operation; x is the letter or the output of the layer below."""

    gate: Callable[[Tensor], Tensor]  # a
    write: Callable[[Tensor], Tensor]  # b
    read: Callable[[Tensor, Tensor], Tensor]  # y(h, x), the output


def diagonal_step(layers: Sequence[DiagonalLayer], letter: Tensor) -> Callable[[State], State]:
    """Return the function from the state of a stack to its next state under a letter; a state is one tensor per layer."""

    def step(state: State) -> State:
        signal, after = letter, []
        for layer, h in zip(layers, state, strict=True):
            after.append(layer.gate(signal) * h + layer.write(signal))
            signal = layer.read(after[-1], signal)
        return tuple(after)

    return step


def find_cycle(step: Callable[[State], State], state: State, limit: int = 1_000_000) -> Cycle:
    """Return the step from which the state repeats, and the period, by Brent's algorithm; zeros of both signs are equal.

    Args:
        step: the function from a state to the next.
        state: the state at step 0, a tuple of tensors.
        limit: the most steps of the search; ValueError if the state has not repeated by then.
    """
    if any(torch.isnan(part).any() for part in state):
        raise ValueError("the state holds NaN, which never equals itself")
    power = period = 1
    kept, moving = state, step(state)
    steps = 1
    while not _equal(kept, moving):
        if power == period:
            kept, power, period = moving, 2 * power, 0
        moving, period, steps = step(moving), period + 1, steps + 1
        if steps > limit:
            raise ValueError(f"the state has not repeated within limit={limit} steps: raise the limit")
    behind = ahead = state
    for _ in range(period):
        ahead = step(ahead)
    transient = 0
    while not _equal(behind, ahead):
        behind, ahead, transient = step(behind), step(ahead), transient + 1
    return Cycle(transient, period)


def _equal(left: State, right: State) -> bool:
    return all(torch.equal(x, y) for x, y in zip(left, right, strict=True))
