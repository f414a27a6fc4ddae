"""The proofs of docs/theory.md, tried out: each construction is run, each impossibility is searched for a counterexample."""

from __future__ import annotations

import random
from itertools import combinations_with_replacement, permutations

import pytest
import torch

from eigentrack.automata import DFA, transition_monoid
from eigentrack.expressivity.householder import factor_permutation


@pytest.mark.parametrize("length", [3, 4])
def test_sections_2_and_3_maps_that_keep_or_reverse_the_order_have_groups_of_two_elements_at_most(length: int) -> None:
    keep = [tuple(images) for images in combinations_with_replacement(range(length), length)]
    for maps, largest in ((keep, 1), (keep + [images[::-1] for images in keep], 2)):
        letters = tuple(map(str, range(len(maps))))
        monoid = transition_monoid(DFA(letters, tuple(zip(*maps, strict=True)), frozenset({0})))
        assert monoid.size == len(set(maps)) + (tuple(range(length)) not in maps)
        assert max(monoid.power_cycle(m)[1] for m in range(monoid.size)) == largest


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_section_4_a_channel_keeps_the_last_two_letters_whatever_is_rounded(dtype: torch.dtype) -> None:
    bits = 2
    h, before, rng = torch.zeros((), dtype=dtype), 0, random.Random(0)
    for _ in range(2000):
        letter = rng.randrange(2**bits)
        h = torch.tensor(2.0 ** (-2 * bits), dtype=dtype) * h + torch.tensor(float(letter), dtype=dtype)
        newest = int(h)
        assert newest == letter
        assert int((float(h) - newest) * 2 ** (2 * bits)) == before
        before = letter


@pytest.mark.parametrize("points", [3, 4])
def test_section_9_one_swap_a_token_follows_all_permutations_two_blocks_behind(points: int) -> None:
    """State: the position, the letters of the last block and of this one, and a vector that one factor a token moves."""
    block, rng = points - 1, random.Random(1)
    letters = list(permutations(range(points)))

    def composed(word: list[tuple[int, ...]]) -> list[int]:
        state = list(range(points))
        for images in word:
            state = [images[place] for place in state]
        return state

    def swaps(word: list[tuple[int, ...]]) -> list[list[int]]:
        """The product of a block as swaps, filled up with keys of zeros: β = 0."""
        keys = [list(map(int, factor.key)) for factor in factor_permutation(composed(word))]
        return keys + [[0] * points] * (block - len(keys))

    def moved(vector: list[int], key: list[int]) -> list[int]:
        along = sum(k * x for k, x in zip(key, vector, strict=True))
        return [x - k * along for k, x in zip(key, vector, strict=True)]

    last: list[tuple[int, ...]] = []
    current: list[tuple[int, ...]] = []
    vector = list(range(points))  # what stands where; the product of all blocks but the last, when a block is over
    history = []
    for _ in range(300):
        history.append(rng.choice(letters))
        if len(current) == block:
            last, current = current, []
        current.append(history[-1])
        vector = moved(vector, swaps(last)[len(current) - 1])
        # read-out: the swaps left of the last block, then the letters since
        standing = vector
        for key in swaps(last)[len(current) :]:
            standing = moved(standing, key)
        since = composed(current)
        answer = [0] * points
        for place, content in enumerate(standing):
            answer[content] = since[place]
        assert answer == composed(history)


def test_section_8_keys_of_one_half_keep_the_normaliser_out() -> None:
    memory = normaliser = 0.0
    rng, bit = random.Random(2), 0
    for _ in range(1000):
        letter = rng.choice([None, None, -1, 1])
        forget, key = (1.0, 0.0) if letter is None else (0.0, 0.5)
        bit = bit if letter is None else letter
        memory = forget * memory + 2 * (letter or 0) * key
        normaliser = forget * normaliser + key
        assert memory / max(abs(normaliser), 1) == bit
