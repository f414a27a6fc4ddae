"""A name for a finite group, from the orders of its elements: Z6, Z2xZ2, S4, A5, D5 (10 elements), Q8, or "group of order n".

An abelian group is a product of cyclic groups, which the counts of its orders determine. Among groups of n! or n!/2 elements,
the orders that occur identify S_n and A_n (Shi's survey, arXiv:2309.06362). A group with the counts of D_n has a cyclic
subgroup of half its size, and all other elements have order 2, so it is D_n. Of the two non-abelian groups of 8 elements only
Q8 has a single element of order 2.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator


def group_name(orders: Counter[int], abelian: bool) -> str:
    """Return the name of a group, where `orders[n]` is the number of its elements of order n."""
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
    """Return the invariant factors d1, d2, … of an abelian group Z_d1 x Z_d2 x …, each a divisor of the next."""
    size, factors = orders.total(), [1] * orders.total().bit_length()
    for prime in (p for p in range(2, size + 1) if size % p == 0 and all(p % q for q in range(2, math.isqrt(p) + 1))):
        # x^power = 1 has `solutions` solutions; raising the power by one multiplies them by prime^(factors that it divides)
        power, solutions = prime, 1
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
