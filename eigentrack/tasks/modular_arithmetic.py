"""Modular arithmetic: after the "=" of an expression of digits, +, -, * and possibly brackets, name its value modulo m.

Without brackets, as in 2 - 3 - 3 * 2 =, * binds tighter than + and -: value = finished + term, where `term` is the signed
product since the last + or -, and `finished` is the sum of the terms before it.

With brackets, as in (2-((-3)*(4+1)))=, expressions follow the generator of Delétang et al. 2023. An expression of exactly n
tokens is

    n = 1: d      2: -d      3: (d)      4: (-d)      n ≥ 5: (left op right)   |left| uniform in 1..n-4, |right| = n-3-|left|

The lengths determine all positions, so no stack is needed. A pass from left to right visits every expression and stores the
lengths (`span`) of its parts: that of the left part at p+1, if the expression starts at p, and that of the right part after the
operator. A pass from right to left computes the value of every expression from the values of its parts.

Tokens 0..m-1 are the digits; + - * =, the brackets where there are any, and padding follow.
m modulus  B sequences  T time  N numbers in an expression  R = T+2 rows
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn import functional as F

from eigentrack.tasks.associative_scan import Parts, associative_scan
from eigentrack.tasks.counter_random import random_integers
from eigentrack.tasks.task import Batch, Task, check_lengths

PLUS, MINUS, TIMES, EQUALS, OPEN, CLOSE = range(6)  # their tokens are m + these
CLOSES, OPERATES = 0, -1  # values of `span` where no expression starts: at a closing bracket, at an operator


@dataclass(frozen=True)
class _Expressions(Task):
    """A task on expressions modulo `modulus`, which contain * only if `multiplication` is true."""

    symbols: ClassVar[int]  # the number of tokens other than digits and padding, the same with and without multiplication
    modulus: int = 5
    multiplication: bool = True

    def __post_init__(self) -> None:
        if self.modulus < 2:
            raise ValueError(f"modulus={self.modulus} must be at least 2")

    @property
    def padding(self) -> int:
        return self.modulus + self.symbols

    @property
    def vocab_size(self) -> int:
        return self.padding + 1

    @property
    def classes(self) -> int:
        return self.modulus


@dataclass(frozen=True)
class ModularArithmetic(_Expressions):
    """The task to evaluate an expression without brackets; lengths include the "=", where the answer is due.

    With `every_prefix`, an answer is also due after every digit: the value up to there. All answers have equal weights.
    """

    description: ClassVar[str] = "Ask for the value modulo m of an expression of digits, +, - and *, without brackets."
    symbols: ClassVar[int] = 4
    every_prefix: bool = False

    def as_tested(self) -> ModularArithmetic:
        return replace(self, every_prefix=False)

    def sample(
        self, batch: int, lengths: tuple[int, int], *, seed: int, step: int | Tensor, device: torch.device | str = "cpu"
    ) -> Batch:
        length, longest = _even_lengths(batch, lengths, seed, step, device), lengths[1]
        shape, operators_in_use = (batch, (longest + 1) // 2), 3 if self.multiplication else 2
        digits = random_integers(self.modulus, shape, seed=seed, step=step, stream=1, device=device)
        operators = random_integers(operators_in_use, shape, seed=seed, step=step, stream=2, device=device)
        expression = torch.stack([digits, self.modulus + operators], 2).flatten(1)[:, :longest]  # d op d op …
        values = self.prefix_values(digits, operators).repeat_interleave(2, 1)[
            :, :longest
        ]  # an operator does not change the value

        position = torch.arange(longest, device=device)
        is_equals = position == length - 1
        tokens = torch.where(position < length, expression, self.padding).masked_fill(is_equals, self.modulus + EQUALS)
        is_asked = is_equals
        if self.every_prefix:
            is_asked = is_equals | ((position < length) & (position % 2 == 0))
        return Batch(tokens, torch.where(is_asked, values, 0), is_asked / is_asked.sum(1, keepdim=True))

    def prefix_values(self, digits: Int[Tensor, "B N"], operators: Int[Tensor, "B N"]) -> Int[Tensor, "B N"]:
        """Return the value up to each digit; operator i follows digit i, so the last column of `operators` is not used."""
        before = F.pad(operators[:, :-1], (1, 0), value=PLUS)  # the operator in front of each digit
        is_first = before != TIMES  # whether the digit starts a term
        term = running_products(torch.where(before == MINUS, -digits, digits), is_first, self.modulus)
        finished = F.pad(torch.where(is_first[:, 1:], term[:, :-1], 0).cumsum(1), (1, 0))
        return (finished + term) % self.modulus


def running_products(factors: Int[Tensor, "B N"], is_first: Bool[Tensor, "B N"], modulus: int) -> Int[Tensor, "B N"]:
    """Return at each position the product, modulo `modulus`, of the factors since the last one where `is_first` is true."""

    def combine(earlier: Parts, later: Parts) -> Parts:
        (before, started_before), (after, started) = earlier, later
        # reduce every product: otherwise products overflow 64 bits after a few dozen digits
        return torch.where(started, after, before * after % modulus), started_before | started

    return associative_scan(combine, factors % modulus, is_first)[0]


def _even_lengths(
    batch: int, lengths: tuple[int, int], seed: int, step: int | Tensor, device: torch.device | str
) -> Int[Tensor, "B 1"]:
    check_lengths(lengths)
    shortest, longest = lengths
    if shortest == longest and shortest % 2:
        raise ValueError(f"lengths={lengths} must hold an even number: digit (operator digit)* = has an even length")
    drawn = shortest + random_integers(longest - shortest + 1, (batch, 1), seed=seed, step=step, stream=0, device=device)
    # d (op d)* "=" has an even length: subtract 1 from an odd length, or add 1 if the result would be below `shortest`
    even = drawn - drawn % 2
    return torch.where(even < shortest, even + 2, even)


@dataclass(frozen=True)
class ModularArithmeticWithBrackets(_Expressions):
    """The task to evaluate an expression with brackets; lengths include the "=", the only place where an answer is due."""

    description: ClassVar[str] = "Ask for the value modulo m of a fully bracketed expression of digits, +, - and *."
    symbols: ClassVar[int] = 6

    def sample(
        self, batch: int, lengths: tuple[int, int], *, seed: int, step: int | Tensor, device: torch.device | str = "cpu"
    ) -> Batch:
        check_lengths(lengths, least=2)
        shortest, longest = lengths

        def draw(high: int, shape: tuple[int, ...], stream: int) -> Tensor:
            return random_integers(high, shape, seed=seed, step=step, stream=stream, device=device)

        # time is the first axis, so that the loops over time in lay_out and evaluate read and write whole rows
        length = shortest + draw(longest - shortest + 1, (batch,), stream=0)
        span, operator_at = lay_out(length - 1, draw(2**31, (batch, longest), stream=1).mT)
        digits = draw(self.modulus, (batch, longest), stream=2).mT
        operators = draw(3 if self.multiplication else 2, (batch, longest), stream=3).mT
        value = self.evaluate(span, operator_at, digits, operators)

        position = torch.arange(longest, device=device)[:, None]
        is_equals = position == length - 1
        tokens = self.spell(span[:longest], digits, operators)
        tokens = torch.where(position < length, tokens, self.padding).masked_fill(is_equals, self.modulus + EQUALS)
        weight = is_equals.to(torch.get_default_dtype())
        return Batch(tokens.T.contiguous(), (is_equals * value).T.contiguous(), weight.T.contiguous())

    def spell(self, span: Int[Tensor, "T B"], digits: Int[Tensor, "T B"], operators: Int[Tensor, "T B"]) -> Int[Tensor, "T B"]:
        """Return the token at every position: the first one of an expression, an operator, or a closing bracket."""
        symbol = torch.where(span > 2, OPEN, torch.where(span == 2, MINUS, torch.where(span == OPERATES, operators, CLOSE)))
        return torch.where(span == 1, digits, self.modulus + symbol)

    def evaluate(
        self,
        span: Int[Tensor, "R B"],
        operator_at: Int[Tensor, "T B"],
        digits: Int[Tensor, "T B"],
        operators: Int[Tensor, "T B"],
    ) -> Int[Tensor, "B"]:
        longest = len(digits)
        # expressions without an operator read "+ 0" from the extra rows, so that (d) has the value of d, and (-d) that of -d
        operator = torch.cat([operators, torch.zeros_like(operators[:1])]).gather(0, operator_at)
        is_times, sign = operator == TIMES, torch.where(operator == MINUS, -1, 1)
        value = torch.zeros_like(span)  # value of the expression that starts at each position; unused where none starts
        for p in reversed(range(longest - 1)):
            left, right = value[p + 1], value.gather(0, operator_at[p : p + 1] + 1)[0]
            result = torch.where(is_times[p], left * right, left + sign[p] * right)
            result = torch.where(span[p] == 2, -left, result) % self.modulus
            value[p] = torch.where(span[p] == 1, digits[p], result)
        return value[0]


def lay_out(size: Int[Tensor, "B"], draws: Int[Tensor, "T B"]) -> tuple[Int[Tensor, "R B"], Int[Tensor, "T B"]]:
    """Return the number of tokens of the expression that starts at each position, and the position of its operator.

    The position is T for an expression without an operator.

    Args:
        size: the number of tokens of each whole expression.
        draws: random numbers in [0, 2**31) that choose where expressions are split.
    """
    longest, batch = draws.shape
    span = size.new_full((longest + 2, batch), CLOSES)  # expressions without a right part write to rows T and T+1
    operator_at = size.new_full((longest, batch), longest)
    span[0] = size
    for p in range(longest - 1):
        n = span[p]
        is_binary = n >= 5
        left = torch.where(
            is_binary, 1 + (draws[p] * (n - 4) >> 31), n // 2
        )  # n // 2: the inner expression of -d and (d) has 1 token, that of (-d) has 2
        operator_at[p] = torch.where(is_binary, p + 1 + left, longest)
        span[p + 1] = torch.where(n >= 2, left, span[p + 1])
        span.scatter_(0, operator_at[p : p + 1], OPERATES)
        span.scatter_(0, operator_at[p : p + 1] + 1, (n - 3 - left)[None])
    return span, operator_at
