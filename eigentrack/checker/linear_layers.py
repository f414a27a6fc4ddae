"""The layers that the checker knows, each by its equation for one token: x is the input, y the output, S the memory of a head.

deltanet     S ← g S;  S ← S + b k (v - Sᵀk)ᵀ for each factor (k, v, b);  y = W Sᵀq;
             b = σ(W x) or 2σ(W x),  g = range(exp(-e^r softplus(W x + c)))
gla          S ← diag(a) S + k vᵀ;  y = W Sᵀq;  a = range(σ(W' W x + c))
dense        S ← A S,  A = W x + c;  y = W S;  S starts as the identity plus `initial_memory`
convolution  u = W x;  y = W Σ_j filter_j ⊙ u_{t - width + 1 + j};  the state is the window of the last width - 1 u

q, k and v are linear in x as well, every W is another, and range(s) is s or 2s - 1. What is linear in x has the type of the
weights, and so has y; memories and their gates have the type of the state. The state of a layer is a flat tuple of numbers, in
the order of joint_states.json.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from eigentrack.checker.files import Number, Tensor
from eigentrack.checker.float_types import (
    SMALL,
    SMALL_SHIFT,
    FloatType,
    Rounded,
    exponential,
    scaled,
    sigmoid,
    softplus,
    unscaled,
)

REMEMBERED = 4096  # the inputs for which a layer remembers what it has computed

Vector = tuple[Number, ...]
Take = Callable[..., Tensor]  # (name, *shape) → the tensor of a layer, which must have this shape


@contextmanager
def at(place: str) -> Iterator[None]:
    """Name the place in the message of a `Rounded` that is raised within."""
    try:
        yield
    except Rounded as found:
        raise Rounded(f"{place}, {found}") from None


class Row:
    """A row of a matrix, as pairs of a column and a weight other than 0; and the same with whole numbers, times 2^-shift."""

    def __init__(self, weights: Sequence[Number], bias: Number) -> None:
        self.bias = bias
        self.pairs = [(column, weight) for column, weight in enumerate(weights) if weight]
        self.shift, whole = scaled([weight for _, weight in self.pairs])
        self.whole = list(zip((column for column, _ in self.pairs), whole, strict=True))
        # products of small whole numbers that are few enough need no closer look
        self.is_small = not bias and all(abs(weight) <= SMALL for weight in whole)


class Linear:
    """A product with a matrix of weights, plus a bias if there is one."""

    def __init__(self, kind: FloatType, take: Take, name: str, outputs: int, inputs: int, bias: bool = False) -> None:
        weights = _cut(take(f"{name}.weight", outputs, inputs).values, inputs)
        biases = take(f"{name}.bias", outputs).values if bias else (0,) * outputs
        self._kind, self._name = kind, name
        self._rows = [Row(weights[row], biases[row]) for row in range(outputs)]

    def __call__(self, x: Sequence[Number]) -> Vector:
        with at(self._name):
            self._kind.factors(x)
            shift, whole = scaled(x)
            return tuple([self._entry(row, x, shift, whole) for row in self._rows])

    def _entry(self, row: Row, x: Sequence[Number], shift: int, whole: Sequence[int]) -> Number:
        if row.is_small and row.shift + shift <= SMALL_SHIFT:
            terms = [weight * whole[column] for column, weight in row.whole]
            if sum(map(abs, terms)) <= SMALL:
                return unscaled(sum(terms), row.shift + shift)
        used = [(weight, x[column]) for column, weight in row.pairs if x[column]]
        self._kind.factors(weight for weight, _ in used)
        return self._kind.total([row.bias, *(weight * value for weight, value in used)])


class Layer(ABC):
    """A layer that mixes tokens: its state before the first token, and its equation for one token."""

    start: Vector

    @abstractmethod
    def step(self, x: Vector, state: Vector) -> tuple[Vector, Vector]:
        """Return y and the new state."""


class Convolution(Layer):
    """The layer `convolution`."""

    def __init__(self, take: Take, width: int, options: Mapping[str, Any], weights: FloatType, state: FloatType) -> None:
        channels, taps = options["channels"], options["width"]
        self._kind, self._channels = weights, channels
        self._in, self._out = (
            Linear(weights, take, name, *shape)
            for name, shape in {"in_proj": (channels, width), "out_proj": (width, channels)}.items()
        )
        filters = take("convolution.weight", channels, taps).values
        self._filters = [filters[channel * taps : (channel + 1) * taps] for channel in range(channels)]
        self.start = (0,) * (channels * (taps - 1))

    def step(self, x: Vector, state: Vector) -> tuple[Vector, Vector]:
        """Return y and the new window."""
        seen = (*state, *self._in(x))  # tap by tap
        with at("convolution"):
            filtered = [_dot(self._kind, taps, seen[channel :: self._channels]) for channel, taps in enumerate(self._filters)]
        return self._out(filtered), seen[self._channels :]


class _Memory(Layer):
    """A layer with a memory [heads, rows, columns] that is changed and then read; the rest depends on x alone."""

    def __init__(
        self, take: Take, options: Mapping[str, Any], shape: tuple[int, int, int], weights: FloatType, state: FloatType
    ) -> None:
        self._heads, self._rows, self._columns = shape
        self._weights, self._state = weights, state
        self._known = lru_cache(REMEMBERED)(self._inputs)
        learned = options.get("learn_initial_state", False)
        self.start = take("initial_memory", *shape).values if learned else (0,) * math.prod(shape)

    @abstractmethod
    def _inputs(self, x: Vector) -> Any:
        """Return what a step needs and x alone decides."""

    def _by_head(self, state: Vector) -> list[list[Vector]]:
        """Return the rows of each head's memory."""
        rows = [state[first : first + self._columns] for first in range(0, len(state), self._columns)]
        return [rows[head * self._rows : (head + 1) * self._rows] for head in range(self._heads)]

    def _read(self, query: Vector, memory: list[Vector]) -> Vector:
        return tuple(_dot(self._state, query, column) for column in zip(*memory, strict=True))

    def _cast(self, read: Sequence[Number]) -> Sequence[Number]:
        """Return what is read of the memory, if it has the same value in the type of the weights."""
        for entry in read:
            self._weights.total((entry,))
        return read


class DeltaNet(_Memory):
    """The layer `deltanet`, with any number of factors per token, and with or without a gate for each head."""

    def __init__(self, take: Take, width: int, options: Mapping[str, Any], weights: FloatType, state: FloatType) -> None:
        heads, keys, values, factors = (options[name] for name in ("heads", "key_dim", "value_dim", "householders"))
        super().__init__(take, options, (heads, keys, values), weights, state)
        self._factors = factors
        shapes = {"q_proj": heads * keys, "k_proj": heads * factors * keys, "v_proj": heads * factors * values}
        self._q, self._k, self._v, self._beta = (
            Linear(weights, take, name, size, width) for name, size in {**shapes, "beta_proj": heads * factors}.items()
        )
        self._wide = options["eigenvalues"] == [-1, 1]
        self._gate_range = options.get("gate")
        if self._gate_range is not None:
            self._gate = Linear(weights, take, "gate_proj", heads, width)
            self._rates, self._shifts = take("gate_log_rate", heads).values, take("gate_bias", heads).values
        self._out = Linear(weights, take, "out_proj", width, heads * values)

    def step(self, x: Vector, state: Vector) -> tuple[Vector, Vector]:
        """Return y and the new memory."""
        read: list[Number] = []
        new: list[Number] = []
        for head, (memory, (query, factors, gate)) in enumerate(zip(self._by_head(state), self._known(x), strict=True), 1):
            with at(f"head {head}"):
                if gate != 1:
                    memory = [tuple(self._state.product(gate, entry) for entry in row) for row in memory]
                for key, value, beta in factors:
                    memory = self._changed(memory, key, value, beta)
                read += self._cast(self._read(query, memory))
            new += [entry for row in memory for entry in row]
        return self._out(read), tuple(new)

    def _changed(self, memory: list[Vector], key: Vector, value: Vector, beta: Number) -> list[Vector]:
        if not any(key):
            return memory
        kind = self._state
        columns = list(zip(*memory, strict=True))
        errors = [_dot(kind, key, column, start=entry, sign=-1) for column, entry in zip(columns, value, strict=True)]
        return [
            tuple(kind.total((entry, kind.product(beta, part, error))) for entry, error in zip(row, errors, strict=True))
            if part
            else row
            for row, part in zip(memory, key, strict=True)
        ]

    def _inputs(self, x: Vector) -> list[tuple[Vector, list[tuple[Vector, Vector, Number]], Number]]:
        """Return for each head its query, its factors (key, value, b) and its gate."""
        queries, keys, values = (_cut(linear(x), size) for linear, size in self._sizes())
        with at("beta_proj"):
            shares = [sigmoid(logit) for logit in self._beta(x)]
        betas = [self._state.product(2, share) if self._wide else share for share in shares]
        factors = list(zip(keys, values, betas, strict=True))
        n = self._factors
        return [(queries[h], factors[h * n : (h + 1) * n], gate) for h, gate in enumerate(self._gates(x))]

    def _sizes(self) -> list[tuple[Linear, int]]:
        return [(self._q, self._rows), (self._k, self._rows), (self._v, self._columns)]

    def _gates(self, x: Vector) -> list[Number]:
        if self._gate_range is None:
            return [1] * self._heads
        with at("gate_proj"):
            sums = [self._state.total(pair) for pair in zip(self._gate(x), self._shifts, strict=True)]
            decays = [self._state.product(exponential(r), softplus(s)) for r, s in zip(self._rates, sums, strict=True)]
            return [_in_range(self._state, self._gate_range, exponential(-decay)) for decay in decays]


class GLA(_Memory):
    """The layer `gla`, with a gate for each key channel."""

    def __init__(self, take: Take, width: int, options: Mapping[str, Any], weights: FloatType, state: FloatType) -> None:
        heads, keys, values, rank = (options[name] for name in ("heads", "key_dim", "value_dim", "gate_rank"))
        super().__init__(take, options, (heads, keys, values), weights, state)
        self._range = options["eigenvalues"]
        self._q, self._k, self._v = (
            Linear(weights, take, name, heads * size, width)
            for name, size in {"q_proj": keys, "k_proj": keys, "v_proj": values}.items()
        )
        self._down = Linear(weights, take, "gate_proj.0", rank, width)
        self._up = Linear(weights, take, "gate_proj.1", heads * keys, rank, bias=True)
        self._out = Linear(weights, take, "out_proj", width, heads * values)

    def step(self, x: Vector, state: Vector) -> tuple[Vector, Vector]:
        """Return y and the new memory."""
        kind = self._state
        read: list[Number] = []
        new: list[Number] = []
        for head, (memory, inputs) in enumerate(zip(self._by_head(state), self._known(x), strict=True), 1):
            query, key, value, gates = inputs
            with at(f"head {head}"):
                after = [
                    tuple(kind.total((kind.product(gate, s), kind.product(k, v))) for s, v in zip(row, value, strict=True))
                    for row, k, gate in zip(memory, key, gates, strict=True)
                ]
                read += self._cast(self._read(query, after))
            new += [entry for row in after for entry in row]
        return self._out(read), tuple(new)

    def _inputs(self, x: Vector) -> list[tuple[Vector, Vector, Vector, Vector]]:
        """Return for each head its query, key, value and gates."""
        with at("gate_proj"):
            gates = tuple(_in_range(self._state, self._range, sigmoid(logit)) for logit in self._up(self._down(x)))
        parts = (self._q(x), self._k(x), self._v(x), gates)
        sizes = (self._rows, self._rows, self._columns, self._rows)
        return list(zip(*map(_cut, parts, sizes), strict=True))


class Dense(_Memory):
    """The layer `dense`, without a bound on its matrices."""

    def __init__(self, take: Take, width: int, options: Mapping[str, Any], weights: FloatType, state: FloatType) -> None:
        heads, size = options.get("heads", 1), options["state_size"]
        super().__init__(take, options, (heads, size, size), weights, state)
        self._matrix = Linear(weights, take, "matrix_proj", heads * size * size, width, bias=True)
        self._out = Linear(weights, take, "out_proj", width, heads * size * size)
        with at("initial_memory"):
            self.start = tuple(
                state.total((entry, int(place // size % size == place % size))) for place, entry in enumerate(self.start)
            )

    def step(self, x: Vector, state: Vector) -> tuple[Vector, Vector]:
        """Return y and the new memory."""
        new: list[Number] = []
        for head, (memory, matrix) in enumerate(zip(self._by_head(state), self._known(x), strict=True), 1):
            with at(f"head {head}"):
                new += [entry for row in matrix for entry in self._read(row, memory)]
        return self._out(self._cast(new)), tuple(new)

    def _inputs(self, x: Vector) -> list[list[Vector]]:
        """Return the rows of each head's matrix."""
        return self._by_head(self._matrix(x))


def _dot(kind: FloatType, x: Sequence[Number], y: Sequence[Number], start: Number = 0, sign: int = 1) -> Number:
    """Return start + sign Σ x·y."""
    used = [(a, b) for a, b in zip(x, y, strict=True) if a and b]
    kind.factors(number for pair in used for number in pair)
    return kind.total([start, *(sign * a * b for a, b in used)])


def _cut(numbers: Vector, size: int) -> list[Vector]:
    return [numbers[first : first + size] for first in range(0, len(numbers), size)]


def _in_range(kind: FloatType, ends: list[int], share: Number) -> Number:
    return share if ends == [0, 1] else kind.total((-1, kind.product(2, share)))
