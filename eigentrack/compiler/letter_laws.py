"""Letter laws: what a token does to the memory of a linear layer, H ← A H + B, and how the layer reads it, with error bounds.

The first layer of a network meets nothing but the token, so A, B and the query are constants of the token. They are enclosed by
intervals that hold every way to compute them in the network's floats. For a memory within e of a code the law gives a centre, a
bound on the norm of A, and a bound on all other errors, so that the distance after the token is at most L e + η.
Derivation: docs/derivations/correction.md.

X tokens  P pairs of a code and a token  H heads  n factors  K key dim  V value dim  s = H V
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from eigentrack.compiler.ball_forms import LARGEST, SLACK, BallArithmetic, BallForm, Slope, middle_and_half
from eigentrack.compiler.boxed_network import numbers
from eigentrack.compiler.interval import Arithmetic, Array, Interval, Unbounded
from eigentrack.layers import DeltaNet, Mixer
from eigentrack.layers.norm import RMSNorm

Rows = NDArray[np.int_]


class NoLaw(ValueError):
    """The error that a layer has no law, or none of constants of the token."""


@dataclass(frozen=True)
class Image:
    """The image of a memory near a code under a token: at most `gain` e + `error` away from the centre."""

    centre: Array  # [P, ...] as the memory
    gain: Array  # [P]
    error: Array  # [P] of the reference and of a step, at the code itself


@dataclass(frozen=True)
class Chunks:
    """The errors of a chunked form, beyond those of the constants, after segments of some number of tokens."""

    state: float
    output: float  # relative to the norm of the query


class LetterLaw(ABC):
    """The law of a linear layer for some tokens."""

    @abstractmethod
    def image(self, codes: Array, tokens: Rows) -> Image:
        """Return what each token makes of each code: codes [P, ...], tokens [P]."""

    @abstractmethod
    def chunks(self, tokens: int, codes: Array, reach: float) -> Chunks | None:
        """Return the further errors of the chunked form over so many tokens, from memories within `reach` of the codes.

        None stands for a form whose errors have no bound here.
        """

    @abstractmethod
    def read(self, codes: Array, tokens: Rows, distance: Array, output: float) -> BallForm:
        """Return the layer's output for memories within `distance` [P] of the codes, with `output` from `Chunks`."""


def letter_law(mixer: Mixer, inputs: Interval, floats: Arithmetic) -> LetterLaw:
    """Return the law of a layer whose inputs for X tokens are `inputs`, [X, d]; raise NoLaw if it has none."""
    rule = LAWS.get(type(mixer))
    if rule is None:
        raise NoLaw(f"there is no law for a layer of {type(mixer).__name__}; there is one for {_names()}")
    return rule(mixer, inputs, floats)


def _names() -> str:
    return ", ".join(kind.__name__ for kind in LAWS)


class FactorLaw(LetterLaw):
    """The law of DeltaNet: a gate, then n Householder factors with unit keys."""

    def __init__(self, mixer: DeltaNet, inputs: Interval, floats: Arithmetic) -> None:
        if mixer.convolution is not None:
            raise NoLaw("a short convolution mixes tokens: train with conv=0")
        if mixer.bare or mixer.widening is not None or mixer.turn_proj is not None or mixer.eigenvalues.overshoot:
            raise NoLaw("there is no law for bare layers, widened ranges, overshoots and gates that turn")
        self._floats, self._balls, self._mixer = floats, BallArithmetic(floats), mixer
        heads, factors = mixer.heads, (mixer.heads, mixer.householders)
        q, k, v = (
            floats.silu(floats.affine(inputs, numbers(layer.weight))) for layer in (mixer.q_proj, mixer.k_proj, mixer.v_proj)
        )
        count = len(inputs.low)
        scale = Interval.at(np.full(1, mixer.key_dim**-0.5))
        self.q, self.q_off = _centre_and_length(
            floats.times(floats.scaled_to_one(q.reshape(count, heads, -1)), scale)
        )  # [X, H, K], [X, H]
        self.k, self.k_off = _centre_and_length(floats.scaled_to_one(k.reshape(count, *factors, -1)))  # [X, H, n, K], [X, H, n]
        self.v, self.v_off = _centre_and_length(v.reshape(count, *factors, -1))
        bias = mixer.beta_proj.bias
        share = floats.sigmoid(floats.affine(inputs, numbers(mixer.beta_proj.weight), None if bias is None else numbers(bias)))
        self.beta, self.beta_off = middle_and_half(
            _between(floats, mixer.eigenvalues.low, mixer.eigenvalues.high, share, count, factors)
        )
        self.gate, self.gate_off = middle_and_half(self._gates(inputs, count))  # [X, H, K or 1]
        silu_gate = None
        if mixer.output_gate_proj is not None:
            silu_gate = floats.silu(floats.affine(inputs, numbers(mixer.output_gate_proj.weight)))
        self._output_gate = silu_gate  # [X, H V]
        self._key = (np.linalg.norm(self.k, axis=-1) + self.k_off) * SLACK  # the length of a key, at most
        self._b = np.abs(self.beta) + self.beta_off
        self._value = (np.linalg.norm(self.v, axis=-1) + self.v_off) * SLACK

    def _gates(self, inputs: Interval, count: int) -> Interval:
        mixer, floats = self._mixer, self._floats
        if mixer.gate is None:
            return Interval.at(np.ones((count, mixer.heads, 1)))
        narrow = inputs if mixer.gate_down_proj is None else floats.affine(inputs, numbers(mixer.gate_down_proj.weight))
        logits = floats.plus(
            floats.affine(narrow, numbers(mixer.gate_proj.weight)), Interval.at(numbers(mixer.gate_bias)[None])
        )
        steps = floats.softplus(logits).reshape(count, mixer.heads, -1)
        rates = floats.exp(Interval.at(numbers(mixer.gate_log_rate)[None, :, None]))
        gate = floats.exp(-floats.times(steps, rates))
        low, high = mixer.gate.radial.low, mixer.gate.radial.high
        return _lerp(floats, low, high, gate)

    def image(self, codes: Array, tokens: Rows) -> Image:
        """Return what each token makes of each code: codes [P, H, K, V]."""
        if not bool((np.abs(codes) <= LARGEST).all() and (self._value <= LARGEST).all()):
            raise Unbounded(f"codes or values exceed {LARGEST:g}: what is computed from them might not be finite")
        gate, off = self.gate[tokens][..., None], self.gate_off[tokens][..., None]  # [P, H, K or 1, 1]
        state = gate * codes
        error = _norm(off * codes)  # [P, H]
        gain = (np.abs(gate) + off).max((-1, -2)) * np.ones(codes.shape[:2])  # [P, H]
        rounding = self._balls.gamma(2) * _norm(state)
        rounding_gain = self._balls.gamma(2) * gain
        for j in range(self.k.shape[2]):
            k, v, b = self.k[tokens, :, j], self.v[tokens, :, j], self.beta[tokens, :, j]
            key, value, largest_b = self._key[tokens, :, j], self._value[tokens, :, j], self._b[tokens, :, j]
            k_off, v_off, b_off = self.k_off[tokens, :, j], self.v_off[tokens, :, j], self.beta_off[tokens, :, j]
            found = v - np.einsum("phk,phkv->phv", k, state)
            length = _norm(state)
            change = (b_off * key + largest_b * k_off) * np.linalg.norm(found, axis=-1)
            change += largest_b * key * (v_off + k_off * length)
            norm = np.maximum(1.0, largest_b * key**2 - 1) * SLACK  # |I - b k kᵀ|
            terms = self._balls.gamma(self.k.shape[-1] + 8)
            here = terms * (largest_b * key * (value + key * length) + length)
            error, rounding = norm * error + change, norm * rounding + here
            rounding_gain = norm * rounding_gain + terms * (largest_b * key**2 + 1) * (gain + rounding_gain)
            gain = norm * gain
            state = state + b[..., None, None] * k[..., None] * found[..., None, :]
        total = np.linalg.norm(error + rounding, axis=-1) + self._tiny(codes)
        return Image(state, (gain + rounding_gain).max(-1) * SLACK, total * SLACK)

    def chunks(self, tokens: int, codes: Array, reach: float) -> Chunks | None:
        """Return how far the chunked form is off: errors of its equations enter as writes, which no factor enlarges."""
        if self._mixer.gate is not None or float((self._b * self._key**2).max()) > 2 * (1 + 1e-4):
            return None
        number, key_dim, gamma = self.k.shape[2], self.k.shape[-1], self._balls.gamma
        key, b, value = (part.max((0, 2)) for part in (self._key, self._b, self._value))  # [H]
        factors, size = tokens * number, min(tokens * number, max(CHUNK, number))
        growth = (1 + 1e-4) ** factors
        state = _norm(codes).max(0) + reach + number * b * key * value  # between the factors of a token, too
        written = b * (value + key * state)
        right = gamma(key_dim + 6) * b * (value + key * state)
        # row i of the system has i entries of rounded products, and is solved with a backward error of γ_(i+3) per entry
        rows = np.arange(size)
        system = b * key**2 * (gamma(key_dim + 6) * rows.sum() + sum(gamma(int(row) + 3) * row for row in rows))
        system = system + sum(gamma(int(row) + 3) for row in rows)
        chunks = -(-factors // size)
        equations = (factors * right + chunks * system * written) * growth
        sums = (chunks * gamma(size + 3) * size * key * written + tokens * gamma(4) * state) * growth
        reading = gamma(key_dim + size + 6) * (state + 2 * size * key * written)
        return Chunks(float(np.linalg.norm(equations + sums) * SLACK), float((equations + reading).max() * SLACK))

    def read(self, codes: Array, tokens: Rows, distance: Array, output: float) -> BallForm:
        """Return the layer's output for memories within `distance` of the codes: y = Sᵀq, norm, output gate, projection."""
        mixer, q, off = self._mixer, self.q[tokens], self.q_off[tokens]
        pairs, heads, width = len(tokens), mixer.heads, mixer.value_dim
        y = np.einsum("phk,phkv->phv", q, codes)
        query = (np.linalg.norm(q, axis=-1) + off) * SLACK  # [P, H]
        far = _norm(codes) + distance[:, None]
        extra = off * far + query * output + self._balls.gamma(q.shape[-1] + 4) * query * far  # [P, H]
        slope = np.broadcast_to(np.eye(heads * width), (pairs, heads * width, heads * width))
        remainder = np.linalg.norm(extra, axis=1) * SLACK
        form = BallForm(y.reshape(pairs, -1), (Slope(slope, query.max(-1) * distance * SLACK),), remainder)
        norm = cast(RMSNorm, mixer.norm)
        normed = self._balls.rms_norm(form.parted(heads), numbers(norm.weight), cast(float, norm.eps)).joined(heads)
        if self._output_gate is not None:
            normed = self._balls.times_known(normed, self._output_gate[tokens])
        return self._balls.linear(normed, numbers(mixer.out_proj.weight))

    def _tiny(self, codes: Array) -> float:
        return float(self._floats.tiny * codes[0].size * 8 * self.k.shape[2])


CHUNK = 64  # the most factors in a chunk of the chunked backend, unless a single token has more


def _centre_and_length(x: Interval) -> tuple[Array, Array]:
    """Return the centres of vectors [..., n], and how far, in length, a vector may be from its centre, [...]."""
    centre, half = middle_and_half(x)
    return centre, np.linalg.norm(half, axis=-1) * SLACK


def _norm(states: Array) -> Array:
    """Return the norm of every head's memory: [P, H, K, V] → [P, H]."""
    return np.sqrt(np.square(states).sum((-1, -2))) * SLACK


def _lerp(floats: Arithmetic, low: float, high: float, share: Interval) -> Interval:
    """Return low + share (high - low), which torch.lerp computes from the nearer end, with one rounding more."""
    span = floats.times(floats.times(share, Interval.at(np.full(1, high - low))), Interval.at(np.ones(1)))
    return floats.plus(Interval.at(np.full(1, low)), span)


def _between(floats: Arithmetic, low: float, high: float, share: Interval, count: int, factors: tuple[int, int]) -> Interval:
    return _lerp(floats, 1 - high, 1 - low, share).reshape(count, *factors)


LAWS: dict[type[Mixer], Callable[[Any, Interval, Arithmetic], LetterLaw]] = {DeltaNet: FactorLaw}
