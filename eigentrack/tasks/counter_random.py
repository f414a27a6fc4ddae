"""Random numbers as a pure function of (seed, step, position): the same on every device, in any order, after any restart.

Each number is a counter put through the finaliser of SplitMix64 (Steele, Lea, Flood 2014), in wrapping 64-bit integers.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Int
from torch import Tensor

_GOLDEN, _MIX_1, _MIX_2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def random_integers(
    high: int, shape: tuple[int, ...], *, seed: int, step: int | Tensor, stream: int = 0, device: torch.device | str = "cpu"
) -> Int[Tensor, "..."]:
    """Return random integers from 0 to high-1.

    Args:
        high: the number of possible values, at most 2³¹.
        shape: the shape of the result.
        seed: the seed of all draws.
        step: the step that draws. A tensor on the device gives the same numbers as the int, without a transfer to the host.
            For a vector of n steps, the first dimension of the result holds the draws of the n steps one after another.
        stream: a number that makes several draws of one step independent.
        device: the device of the result.
    """
    if not 1 <= high <= 2**31:
        raise ValueError(f"high={high} must lie between 1 and 2**31")
    steps = 1 if isinstance(step, int) else step.numel()
    counter = torch.arange(math.prod(shape) // steps, dtype=torch.int64, device=device)
    key = _key(seed, step, stream)
    bits = _mix(counter * _signed(_GOLDEN) + (key if isinstance(key, int) else key[..., None]))
    # scale the upper 31 bits; the bias is at most high / 2**31, too small to be seen in a batch
    return (_shift_right(bits, 33) * high >> 31).view(shape)


def derived_seed(seed: int, purpose: str) -> int:
    """Return a seed for one purpose, so that training, validation and test use different random numbers for any `seed`."""
    key = seed
    for letter in purpose.encode():
        key = _mix_number(key + letter)
    return key


def _key(seed: int, step: int | Tensor, stream: int) -> int | Tensor:
    before = _mix_number(seed)
    if isinstance(step, int):
        return _signed(_mix_number(_mix_number(before + step) + stream))
    return _mix(_mix(step + _signed(before + _GOLDEN)) + _signed(stream + _GOLDEN))


def _mix(x: Tensor) -> Tensor:
    x = (x ^ _shift_right(x, 30)) * _signed(_MIX_1)
    x = (x ^ _shift_right(x, 27)) * _signed(_MIX_2)
    return x ^ _shift_right(x, 31)


def _mix_number(x: int) -> int:
    x = (x + _GOLDEN) % 2**64
    x = (x ^ (x >> 30)) * _MIX_1 % 2**64
    x = (x ^ (x >> 27)) * _MIX_2 % 2**64
    return x ^ (x >> 31)


def _shift_right(x: Tensor, bits: int) -> Tensor:
    # torch shifts int64 arithmetically: clear the copies of the sign bit
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def _signed(x: int) -> int:
    x %= 2**64
    return x - 2**64 if x >= 2**63 else x
