"""A name for a finite group, from the orders of its elements: Z6, Z2xZ2, S4, A5, D5 (10 elements), Q8, or "group of order n".

An abelian group is the product of cyclic ones that the counts of its orders tell. Among groups of n! or n!/2 elements, S_n and
A_n are known by the orders that occur (Shi's survey, arXiv:2309.06362). A group with the counts of D_n has a
cyclic half, and outside of it only elements of order 2: it is D_n. Of the two non-abelian groups of 8 elements only Q8 has a
single element of order 2.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator


def group_name(orders: Counter[int], abelian: bool) -> str:
    """`orders[n]` is the number of elements of order n."""
    size = orders.total()
    if size == 1:
        return "trivial"
    if abelian:
        return "x".join(f"Z{factor}" for factor in _invariant_factors(orders))
    if size == 8 and orders[2] == 1:
        return "Q8"
    for n in range(3, 13):
        for family in "SA":
            if size == math.factorial(n) // (1 + (family == "A")) and orders == _permutation_orders(n, even=family == "A"):
                return f"{family}{n}"
    if size % 2 == 0 and orders == _dihedral_orders(size // 2):
        return f"D{size // 2}"
    return f"group of order {size}"


def _invariant_factors(orders: Counter[int]) -> list[int]:
    """d1, d2, …, each a divisor of the next, with the group Z_d1 x Z_d2 x …"""
    size, factors = orders.total(), [1] * orders.total().bit_length()
    for prime in (p for p in range(2, size + 1) if size % p == 0 and all(p % q for q in range(2, math.isqrt(p) + 1))):
        power, solutions = prime, 1  # of x^power = 1; each further power multiplies them by prime^(factors that it divides)
        while (more := sum(count for order, count in orders.items() if power % order == 0)) > solutions:
            for place in range(round(math.log(more // solutions, prime))):
                factors[place] *= prime
            power, solutions = power * prime, more
    return sorted(factor for factor in factors if factor > 1)


def _permutation_orders(n: int, even: bool) -> Counter[int]:
    orders: Counter[int] = Counter()
    for cycles in _partitions(n, n):
        if even and (n - len(cycles)) % 2:
            continue
        arrangements = math.prod(math.factorial(count) * length**count for length, count in Counter(cycles).items())
        orders[math.lcm(*cycles)] += math.factorial(n) // arrangements
    return orders


def _partitions(n: int, largest: int) -> Iterator[tuple[int, ...]]:
    if n == 0:
        yield ()
    for first in range(min(n, largest), 0, -1):
        for rest in _partitions(n - first, first):
            yield (first, *rest)


def _dihedral_orders(n: int) -> Counter[int]:
    orders = Counter(n // math.gcd(n, turn) for turn in range(n))
    orders[2] += n
    return orders
