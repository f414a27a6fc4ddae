"""Exact arithmetic that raises `Rounded` wherever floats could round.

Σ t of numbers t that are multiples of u = 2^p: every partial sum, in any order, is a multiple of u and at most Σ|t|. If
Σ|t| ≤ 2^m u, with m bits in the mantissa, then each of them is a float, and fused multiply-adds change nothing. u must not be
below the smallest normal number, since some processors take smaller ones for 0, and Σ|t| not beyond the largest.

A graphics card may round the factors of a float32 product to the 11 bits of TF32, so factors must be that narrow.

σ, silu, softplus and exp are known at few points only: at 0, and from 1000 on, where exp(-x) is 0 and 1 + exp(-x) is 1 in every
float type, and 1 + exp(x) is infinite or absorbs the 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from eigentrack.checker.files import Number

# whole numbers up to SMALL, times 2^-SMALL_SHIFT or more, are floats of every type, and narrow enough as factors of products
SMALL, SMALL_SHIFT = 256, 14
SETTLED = 1000


class Rounded(Exception):
    """The finding that floats may round a value; the message says where."""


@dataclass(frozen=True)
class FloatType:
    """A float type with the sums and products that it computes exactly."""

    name: str
    mantissa: int  # bits, with the leading one
    factor: int  # bits of a factor that products keep
    largest: int  # all floats are below 2 to this power
    smallest: int  # 2 to this power is the smallest normal float

    def total(self, terms: Iterable[Number]) -> Number:
        """Return the sum of the terms, if every partial sum in every order is a float."""
        given = [term for term in terms if term]
        result, size = sum(given), sum(term if term > 0 else -term for term in given)
        if type(result) is int and type(size) is int and size <= SMALL:
            return result
        unit = min(map(_lowest_bit, given))
        if size > Fraction(2) ** (unit + self.mantissa) or size >= 2**self.largest or unit < self.smallest:
            raise Rounded(f"a sum may reach {_short(size)} in units of 2^{unit}, which {self.name} cannot hold")
        return _plain(result)

    def product(self, *factors: Number) -> Number:
        """Return the product of two or three factors, if it and the product of every two of them are floats."""
        result = factors[0] * factors[1]
        for third in factors[2:]:
            for other in factors[:2]:
                self.total((third * other,))
            self.total((result,))
            result *= third
        return self.total((result,))

    def factors(self, numbers: Iterable[Number]) -> None:
        """Raise if one of the numbers has more bits than products keep of a factor."""
        for number in numbers:
            if type(number) is int and -SMALL <= number <= SMALL:
                continue
            numerator = abs(number.numerator)
            if numerator.bit_length() - (numerator & -numerator).bit_length() + 1 > self.factor:
                raise Rounded(f"the factor {_short(number)} of a product has more than {self.factor} bits")


# operands of float32 products may be rounded to TF32
FLOAT_TYPES = {
    "float64": FloatType("float64", 53, 53, 1024, -1022),
    "float32": FloatType("float32", 24, 11, 128, -126),
    "float16": FloatType("float16", 11, 11, 16, -14),
    "bfloat16": FloatType("bfloat16", 8, 8, 128, -126),
}
# the type of memories and gates by the type of the weights
STATE_TYPES = {"float64": "float64", "float32": "float32", "float16": "float32", "bfloat16": "float32"}


def sigmoid(x: Number) -> Number:
    """Return σ(x) where it is known exactly."""
    if x == 0:
        return Fraction(1, 2)
    return int(_is_far(x, "σ"))


def silu(x: Number) -> Number:
    """Return x σ(x) where it is known exactly."""
    return x if x == 0 or _is_far(x, "silu") else 0


def softplus(x: Number) -> Number:
    """Return log(1 + exp(x)) where it is known exactly."""
    return x if _is_far(x, "softplus") else 0


def exponential(x: Number) -> Number:
    """Return exp(x) where it is known exactly."""
    if x == 0:
        return 1
    if _is_far(x, "exp"):
        raise Rounded(f"exp is taken at {_short(x)}, where it is infinite")
    return 0


def _is_far(x: Number, function: str) -> bool:
    """Return whether x is far above 0 and not far below; raise if it is neither."""
    if -SETTLED < x < SETTLED:
        raise Rounded(f"{function} is taken at {_short(x)}, where its value is no float")
    return x > 0


def scaled(numbers: Sequence[Number]) -> tuple[int, list[int]]:
    """Return a shift and whole numbers which, times 2^-shift, are the numbers."""
    shift = max((number.denominator.bit_length() - 1 for number in numbers), default=0)
    return shift, [number.numerator << shift + 1 - number.denominator.bit_length() for number in numbers]


def unscaled(whole: int, shift: int) -> Number:
    """Return a whole number times 2^-shift."""
    return whole >> shift if whole & (1 << shift) - 1 == 0 else Fraction(whole, 1 << shift)


def _lowest_bit(number: Number) -> int:
    """Return the largest p for which a number other than 0 is a multiple of 2^p."""
    numerator, denominator = number.numerator, number.denominator
    return (numerator & -numerator).bit_length() - denominator.bit_length()


def _plain(number: Number) -> Number:
    return number.numerator if number.denominator == 1 else number


def _short(number: Number) -> str:
    if number.numerator.bit_length() - number.denominator.bit_length() > 1000:
        return "a number beyond 2^1000"
    return str(number) if len(str(number)) <= 12 else f"{float(number):g}"
