"""A proof that a corrected network answers like an automaton on every word of every length.

Between two corrections the memory is carried by H ← A H + B. If for every code c_m and token x the distance from A c_m + B to
the code c_δ(m,x) is at most ε, rounding included, and no |A| exceeds L, then a memory that starts at a code is, j tokens
later, at most e_j = ε (1 + L + … + L^(j-1)) from the code that δ leads to. With 2r the least distance of two codes, e_C < r
lets the correction return exactly that code, and everything begins anew. Answers are right if they are right on the balls of
radius e_C around the codes. Theorem and proof: docs/derivations/correction.md.

M codes  P pairs of a code and a token  C tokens from one correction to the next
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from eigentrack.compiler.ball_forms import BallArithmetic, BallForm
from eigentrack.compiler.boxed_network import float_arithmetic, numbers
from eigentrack.compiler.interval import OWN_UNIT, Arithmetic, Array, Interval, Unbounded
from eigentrack.compiler.letter_laws import Image, NoLaw, letter_law
from eigentrack.layers.correction import Correction
from eigentrack.models import SequenceModel
from eigentrack.models.sequence_model import Block

Rows = NDArray[np.int_]
AT_ONCE = 128  # pairs whose read-out is enclosed together
HARDEST = 128  # pairs on which the largest ball with right answers is searched, before it is checked on all
HALVINGS = 12
STEPWISE, CHUNKED = ("reference",), ("reference", "chunked")


class Refuted(ValueError):
    """The error that a corrected network has no proof; it says what is missing."""


@dataclass(frozen=True)
class Language:
    """An automaton that a network should answer like, and the tokens in which words are spelled."""

    transitions: tuple[tuple[int, ...], ...]  # [state][letter]
    outputs: tuple[int, ...]  # the answer in each state
    start: int
    letters: tuple[int, ...]  # the token of each letter
    opening: int | None  # the token before the first letter; None if there is none
    classes: int  # how many logits, from the first one on, are answers


@dataclass(frozen=True)
class Moves:
    """All pairs of a code and a token that words lead to: where the token leads, and the right answer."""

    codes: Rows  # [P]
    tokens: Rows  # [P]
    targets: Rows  # [P]
    answers: Rows  # [P]


@dataclass(frozen=True)
class CorrectionProof:
    """The numbers of a proof about a corrected network."""

    every: int  # C
    codes: int
    pairs: int  # pairs of a code and a token
    error: float  # ε, the largest distance from what a token makes of a code to the next code, rounding included
    gain: float  # L, the largest norm of a transition, rounding included
    reach: float  # the largest distance to a code before a correction, e_C
    half_gap: float  # r, half the least distance of two codes
    margin: float  # the least lead of the right logit over the next on all balls of radius e_C
    noise: float  # an error of this norm in the memory after every token, beside all rounding, is borne for ever
    largest_every: int  # the largest C for which the same proof holds
    backends: tuple[str, ...]  # the backends whose rounding is covered; a step of a single token is of the reference
    weights_dtype: str


def prove_correction(model: SequenceModel, language: Language) -> CorrectionProof:
    """Prove that a corrected network answers like an automaton at every length; raise Refuted if that fails.

    Args:
        model: the network, of one linear layer, with a correction.
        language: the automaton and the tokens of its letters.
    """
    if model.correction is None:
        raise Refuted("the network has no correction")
    bounds = CorrectedBounds(model, language)
    return bounds.proof(model.correction.every)


def find_moves(successors: Sequence[Sequence[int]], language: Language) -> Moves:
    """Return all moves that words lead to, with the answers of the automaton; raise Refuted if answers contradict each other.

    Args:
        successors: the code that each token makes of each code.
        language: the automaton and the tokens of its letters.
    """
    found: dict[tuple[int, int], tuple[int, int]] = {}
    first = 0, language.start
    words: dict[tuple[int, int], tuple[int, ...]] = {}
    waiting: deque[tuple[int, int]] = deque()
    if language.opening is None:
        words[first] = ()
        waiting.append(first)
    else:
        after = successors[0][language.opening], language.start
        found[0, language.opening] = after[0], language.outputs[language.start]
        words[after] = ()
        waiting.append(after)
    while waiting:
        code, state = pair = waiting.popleft()
        for letter, token in enumerate(language.letters):
            target = language.transitions[state][letter]
            after = successors[code][token], target
            move = after[0], language.outputs[target]
            if found.setdefault((code, token), move) != move:
                word = " ".join(map(str, (*words[pair], letter)))
                raise Refuted(f"the codes do not follow the automaton: after the letters {word} two answers would be right")
            if after not in words:
                words[after] = (*words[pair], letter)
                waiting.append(after)
    if language.opening is not None and any(target == 0 for target, _ in found.values()):
        raise Refuted("a token leads back to code 0, the memory before the opening")
    keys = np.array(list(found), dtype=np.int64)
    values = np.array(list(found.values()), dtype=np.int64)
    return Moves(keys[:, 0], keys[:, 1], values[:, 0], values[:, 1])


class CorrectedBounds:
    """The bounds of the proof for one network, for any number of tokens between corrections."""

    def __init__(self, model: SequenceModel, language: Language) -> None:
        correction = _checked(model)
        self._model, self._classes = model, language.classes
        self.codes = numbers(correction.codes[0])
        self._block = cast(Block, model.blocks[0])
        self._floats = float_arithmetic(model.embedding.weight.dtype)
        self._balls = BallArithmetic(self._floats)
        embedded = Interval.at(numbers(model.embedding.weight))
        inputs = embedded if self._block.norm_after else _norm(self._floats, self._block.mixer_norm, embedded)
        self._embedded = embedded
        try:
            self._law = letter_law(self._block.mixer, inputs, self._floats)
            self.moves = find_moves(cast(torch.Tensor, correction.successors).tolist(), language)
            image = self._law.image(self.codes[self.moves.codes], self.moves.tokens)
        except (NoLaw, Unbounded) as reason:
            raise Refuted(str(reason)) from None
        self.error, self.gain = self._error_and_gain(image)
        self.largest = float(np.sqrt(np.square(self.codes).sum((*range(1, self.codes.ndim),)).max()))
        self.half_gap = _half_gap(self.codes.reshape(len(self.codes), -1))

    def reach(self, every: int) -> float:
        """Return e_C of the reference, for C = `every`."""
        return self.error * _series(self.gain, every)

    def proof(self, every: int) -> CorrectionProof:
        """Return the proof for C = `every`; raise Refuted if there is none."""
        reach = self.reach(every)
        if reach >= self.safe_reach:
            raise Refuted(self._what_is_missing(every, reach))
        covered: tuple[str, ...] = STEPWISE
        margin = self.margin(reach, 0.0)
        if margin <= 0:
            raise Refuted(
                f"C={every}: answers are not certain on the balls of radius {reach:.3g} around the codes, only on those of "
                f"radius {self.ball:.3g}: choose a C of at most {self.largest_every(self.ball)}"
            )
        more = self._law.chunks(every, self.codes, reach)
        if more is not None and reach + more.state < self.safe_reach:
            in_chunks = self.margin(reach + more.state, more.output)
            if in_chunks > 0:
                covered, reach, margin = CHUNKED, reach + more.state, in_chunks
        return CorrectionProof(
            every=every,
            codes=len(self.codes),
            pairs=len(self.moves.codes),
            error=self.error,
            gain=self.gain,
            reach=reach,
            half_gap=self.half_gap,
            margin=margin,
            noise=max(0.0, (self.ball - reach) / _series(self.gain, every)),
            largest_every=max(every, self.largest_every(self.ball)),
            backends=covered,
            weights_dtype=str(self._model.embedding.weight.dtype).removeprefix("torch."),
        )

    @property
    def safe_reach(self) -> float:
        """The distance to a code below which the nearest code is found despite the rounding of float64."""
        dims = self.codes[0].size
        rounding = 4 * (dims + 8) * OWN_UNIT * (self.largest + 2 * self.half_gap) ** 2
        return self.half_gap - rounding / self.half_gap

    def largest_every(self, ball: float) -> int:
        """Return the largest C whose e_C stays within balls on which all answers are right; 0 if there is none."""
        every, reach = 0, self.error
        while reach < min(ball, self.safe_reach) and every < 2**20:
            every, reach = every + 1, reach * self.gain + self.error
        return every

    @cached_property
    def ball(self) -> float:
        """A radius, as large as can be shown, of balls around the codes on which all answers are right; 0 if there is none."""
        everything = np.arange(len(self.moves.codes))
        hardest = everything[np.argsort(self._leads(everything, self.safe_reach / 64, 0.0))[:HARDEST]]
        right, wrong = 0.0, self.safe_reach
        for _ in range(HALVINGS):
            middle = (right + wrong) / 2
            right, wrong = (middle, wrong) if self._leads(hardest, middle, 0.0).min() > 0 else (right, middle)
        while right > 1e-9 * self.safe_reach and self.margin(right, 0.0) <= 0:
            right *= 0.9
        return right if self.margin(right, 0.0) > 0 else 0.0

    def margin(self, distance: float, output: float) -> float:
        """Return the least lead of the right logit over the next for memories within `distance` of the right code."""
        return float(self._leads(np.arange(len(self.moves.codes)), distance, output).min())

    def _leads(self, rows: Rows, distance: float, output: float) -> Array:
        """Return the least lead for each of some pairs; -inf where there is no bound."""
        found = []
        for piece in np.array_split(rows, -(-len(rows) // AT_ONCE)):
            try:
                found.append(self._balls.margins(self._logits(piece, distance, output), self.moves.answers[piece]))
            except Unbounded:
                found.append(np.full(len(piece), -np.inf))
        return np.nan_to_num(np.concatenate(found), nan=-np.inf, neginf=-np.inf)

    def _logits(self, rows: Rows, distance: float, output: float) -> BallForm:
        tokens, balls, block = self.moves.tokens[rows], self._balls, self._block
        mixed = self._law.read(self.codes[self.moves.targets[rows]], tokens, np.full(len(rows), distance), output)
        if block.norm_after:
            mixed = self._normed(block.mixer_norm, mixed)
        x = balls.plus_known(mixed, self._embedded[tokens])
        if block.mlp is not None and block.mlp_norm is not None:
            mlp = block.mlp
            inside = (x if block.norm_after else self._normed(block.mlp_norm, x)).unfolded()
            gated = balls.times(
                balls.silu(balls.linear(inside, numbers(mlp.gate_proj.weight))),
                balls.linear(inside, numbers(mlp.up_proj.weight)),
            )
            out = balls.linear(gated, numbers(mlp.down_proj.weight))
            x = balls.plus(x, self._normed(block.mlp_norm, out) if block.norm_after else out)
        return balls.linear(self._normed(self._model.norm, x), numbers(self._model.head.weight)[: self._classes])

    def _normed(self, norm: torch.nn.Module, x: BallForm) -> BallForm:
        if isinstance(norm, torch.nn.Identity):
            return x
        rms = cast(torch.nn.RMSNorm, norm)
        return self._balls.rms_norm(x, numbers(rms.weight), cast(float, rms.eps))

    def _error_and_gain(self, image: Image) -> tuple[float, float]:
        far = (image.centre - self.codes[self.moves.targets]).reshape(len(image.error), -1)
        distance = np.linalg.norm(far, axis=1) * (1 + 1e-9)
        return float((distance + image.error).max()), max(1.0, float(image.gain.max()))

    def _what_is_missing(self, every: int, reach: float) -> str:
        if self.error >= self.half_gap:
            return (
                f"no C is proved: a token may lead {self.error:.3g} away from the next code, and codes are only "
                f"{2 * self.half_gap:.3g} apart"
            )
        return (
            f"C={every}: memories may be {reach:.3g} from their code when they are corrected, and half the least distance "
            f"of two codes is {self.half_gap:.3g}: choose a C of at most {self.largest_every(self.safe_reach)}"
        )


def _checked(model: SequenceModel) -> Correction:
    """Return the correction of a network for which the theorem holds, or raise Refuted."""
    if model.correction is None:
        raise Refuted("the network has no correction")
    if len(model.blocks) != 1:
        raise Refuted(f"the theorem is for one layer, and this network has {len(model.blocks)}")
    dtypes = {parameter.dtype for parameter in model.parameters()}
    if len(dtypes) > 1 or not dtypes <= {torch.float32, torch.float64}:
        raise Refuted("the theorem is for weights of one type, float32 or float64")
    (dtype,) = dtypes
    if any(code.dtype != dtype or not bool(code.isfinite().all()) for code in model.correction.codes):
        raise Refuted(f"codes must be finite and of the memories' type, {dtype}")
    return model.correction


def _norm(floats: Arithmetic, norm: torch.nn.Module, x: Interval) -> Interval:
    if isinstance(norm, torch.nn.Identity):
        return x
    rms = cast(torch.nn.RMSNorm, norm)
    return floats.rms_norm(x, numbers(rms.weight), cast(float, rms.eps))


def _series(gain: float, terms: int) -> float:
    """Return 1 + L + … + L^(terms - 1), rounded up."""
    if gain == 1:
        return float(terms)
    return float(np.expm1(terms * np.log(gain)) / (gain - 1)) * (1 + 1e-6) if gain > 1 + 1e-9 else terms * gain**terms


def _half_gap(codes: Array) -> float:
    """Return half the least distance of two codes, rounded down: codes [M, D]."""
    least: Any = np.inf
    for number in range(len(codes) - 1):
        least = min(least, np.linalg.norm(codes[number + 1 :] - codes[number], axis=1).min())
    return float(least) / 2 * (1 - 1e-9)
