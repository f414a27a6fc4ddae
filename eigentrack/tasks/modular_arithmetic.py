"""Modular arithmetic: an expression of digits, + - * and perhaps brackets is asked modulo m at its "=".

Without brackets, as in 2 - 3 - 3 * 2 =, with * before + and -: value = finished + term, where `term` is the signed product
since the last + or -, and `finished` adds the terms before it.

With brackets, as in (2-((-3)*(4+1)))=, by the generator of Delétang et al. 2023. An expression of exactly n tokens is

    n = 1: d      2: -d      3: (d)      4: (-d)      n ≥ 5: (left op right)   |left| uniform in 1..n-4, |right| = n-3-|left|

The lengths say where everything stands, so no stack is needed: going right, an expression of n tokens at position p writes
`span` of its left part at p+1 and of its right part behind the operator; going left, its value follows from theirs.

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
CLOSES, OPERATES = 0, -1  # spans of positions where no expression starts


@dataclass(frozen=True)
class _Expressions(Task):
    symbols: ClassVar[int]  # tokens beside the digits and the padding, the same with and without multiplication
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
    """A length counts the "=", where the answer is asked; `every_prefix` asks also after every digit, with equal weights."""

    description: ClassVar[str] = "value modulo m of an expression of digits, +, - and *, without brackets"
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
        values = self.prefix_values(digits, operators).repeat_interleave(2, 1)[:, :longest]  # an operator changes nothing yet

        position = torch.arange(longest, device=device)
        is_equals = position == length - 1
        tokens = torch.where(position < length, expression, self.padding).masked_fill(is_equals, self.modulus + EQUALS)
        is_asked = is_equals
        if self.every_prefix:
            is_asked = is_equals | ((position < length) & (position % 2 == 0))
        return Batch(tokens, torch.where(is_asked, values, 0), is_asked / is_asked.sum(1, keepdim=True))

    def prefix_values(self, digits: Int[Tensor, "B N"], operators: Int[Tensor, "B N"]) -> Int[Tensor, "B N"]:
        """The value up to each digit; operator i stands after digit i, so the last column is not read."""
        before = F.pad(operators[:, :-1], (1, 0), value=PLUS)  # the operator in front of each digit
        is_first = before != TIMES  # of its term
        term = running_products(torch.where(before == MINUS, -digits, digits), is_first, self.modulus)
        finished = F.pad(torch.where(is_first[:, 1:], term[:, :-1], 0).cumsum(1), (1, 0))
        return (finished + term) % self.modulus


def running_products(factors: Int[Tensor, "B N"], is_first: Bool[Tensor, "B N"], modulus: int) -> Int[Tensor, "B N"]:
    """Modulo m, the product of the factors since the last first one."""

    def combine(earlier: Parts, later: Parts) -> Parts:
        (before, started_before), (after, started) = earlier, later
        # reduced every time: an unreduced product leaves 64 bits after a few dozen digits
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
    # d (op d)* "=" has an even length: an odd draw loses one token, or gains one where the range would be left below
    even = drawn - drawn % 2
    return torch.where(even < shortest, even + 2, even)


@dataclass(frozen=True)
class ModularArithmeticWithBrackets(_Expressions):
    """A length counts the "=", where alone the answer is asked."""

    description: ClassVar[str] = "value modulo m of a fully bracketed expression of digits, +, - and *"
    symbols: ClassVar[int] = 6

    def sample(
        self, batch: int, lengths: tuple[int, int], *, seed: int, step: int | Tensor, device: torch.device | str = "cpu"
    ) -> Batch:
        check_lengths(lengths, least=2)
        shortest, longest = lengths

        def draw(high: int, shape: tuple[int, ...], stream: int) -> Tensor:
            return random_integers(high, shape, seed=seed, step=step, stream=stream, device=device)

        # time first: the two loops below read and write whole rows
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
        """Every position shows one token: the first of the expression that starts there, an operator, or a closing bracket."""
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
        # the spare rows say "+ 0", so that (d) and (-d) are worth their inside
        operator = torch.cat([operators, torch.zeros_like(operators[:1])]).gather(0, operator_at)
        is_times, sign = operator == TIMES, torch.where(operator == MINUS, -1, 1)
        value = torch.zeros_like(span)  # of the expression that starts at each position; not read where none does
        for p in reversed(range(longest - 1)):
            left, right = value[p + 1], value.gather(0, operator_at[p : p + 1] + 1)[0]
            result = torch.where(is_times[p], left * right, left + sign[p] * right)
            result = torch.where(span[p] == 2, -left, result) % self.modulus
            value[p] = torch.where(span[p] == 1, digits[p], result)
        return value[0]


def lay_out(size: Int[Tensor, "B"], draws: Int[Tensor, "T B"]) -> tuple[Int[Tensor, "R B"], Int[Tensor, "T B"]]:
    """`size` tokens an expression; draws in [0, 2**31) choose the splits.

    Returns how many tokens the expression has that starts at each position, and where its operator stands (T: it has none).
    """
    longest, batch = draws.shape
    span = size.new_full((longest + 2, batch), CLOSES)  # rows T and T+1 take the writes of those without a right part
    operator_at = size.new_full((longest, batch), longest)
    span[0] = size
    for p in range(longest - 1):
        n = span[p]
        is_binary = n >= 5
        left = torch.where(is_binary, 1 + (draws[p] * (n - 4) >> 31), n // 2)  # n // 2: -d and (d) hold 1 token, (-d) holds 2
        operator_at[p] = torch.where(is_binary, p + 1 + left, longest)
        span[p + 1] = torch.where(n >= 2, left, span[p + 1])
        span.scatter_(0, operator_at[p : p + 1], OPERATES)
        span.scatter_(0, operator_at[p : p + 1] + 1, (n - 3 - left)[None])
    return span, operator_at
