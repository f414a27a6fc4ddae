"""Modular arithmetic without brackets: 2 - 3 - 3 * 2 = is asked modulo m, with * before + and -.

value = finished + term: `term` is the signed product since the last + or -, `finished` adds the terms before it.

Tokens 0..m-1 are the digits; + - * = and padding follow.  m modulus  B sequences  T time  N numbers in an expression
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

PLUS, MINUS, TIMES, EQUALS = range(4)  # their tokens are m + these


@dataclass(frozen=True)
class ModularArithmetic(Task):
    """A length counts the "=", where the answer is asked; `every_prefix` asks also after every digit, with equal weights."""

    description: ClassVar[str] = "value modulo m of an expression of digits, +, - and *, without brackets"
    modulus: int = 5
    multiplication: bool = True
    every_prefix: bool = False

    def __post_init__(self) -> None:
        check_modulus(self.modulus)

    @property
    def vocab_size(self) -> int:
        return self.padding + 1  # the same with and without multiplication

    @property
    def classes(self) -> int:
        return self.modulus

    @property
    def padding(self) -> int:
        return self.modulus + 4

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


def check_modulus(modulus: int) -> None:
    if modulus < 2:
        raise ValueError(f"modulus={modulus} must be at least 2")


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
