"""The proofs of docs/theory.md, tried out: each construction is run, each impossibility is searched for a counterexample."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import combinations_with_replacement, permutations, product

import pytest
import torch

from eigentrack.automata import DFA, minimal, transition_monoid
from eigentrack.expressivity.even_words import turning_even_word
from eigentrack.expressivity.householder_products import factor_permutation
from eigentrack.ops import s4d


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


def differences_that_may_vanish(gates: tuple[float, ...], letters: int) -> int:
    """Return how many differences 1, δ₁, …, δ_n in {-1, 0, 1} of two histories may still be 0 in all channels.

    After δ_n the sum 1 + δ₁g + … can be changed by g^(n+1) / (1 - g) at most.
    """
    g = torch.tensor(gates, dtype=torch.float64)
    sums = torch.ones(1, len(gates), dtype=torch.float64)
    for n in range(1, letters + 1):
        sums = torch.cat([sums + step * g**n for step in (-1, 0, 1)])
        sums = sums[(sums.abs() <= g.abs() ** (n + 1) / (1 - g.abs())).all(dim=1)]
    return len(sums)


@pytest.mark.parametrize("gates", [(0.55, 0.6), (0.6, 0.64, 0.68, 0.72), (-0.7, -0.65, -0.6, -0.55)], ids=str)
def test_section_4_channels_with_gates_in_any_range_tell_the_last_letter(gates: tuple[float, ...]) -> None:
    """No two histories that differ in the last letter have the same state in all channels, though they may in one."""
    assert differences_that_may_vanish(gates[:1], 8) > 0
    assert differences_that_may_vanish(gates, 60) == 0


def test_section_7_the_sign_of_a_shrinking_state_follows_parity_and_resets_exactly() -> None:
    """Gates of ±½, in exact fractions: a keeps, b flips, s sets to +, as a geometrically constrained read-out sees it."""
    rng, state, sign = random.Random(0), Fraction(1), 1
    for letter in rng.choices("abs", weights=[4, 4, 1], k=2000):
        state = {"a": state / 2, "b": -state / 2, "s": state / 4 + 1}[letter]
        sign = {"a": sign, "b": -sign, "s": 1}[letter]
        assert (state > 0) == (sign > 0)


@pytest.mark.parametrize("seed", range(60))
def test_section_8_pairs_of_letters_with_the_length_modulo_two_make_a_star_free_automaton(seed: int) -> None:
    """The automaton that remembers the first letter of a pair and moves at the second, over letters that tell their parity."""
    rng = random.Random(seed)
    table = tuple(tuple(rng.choices(range(3), k=2)) for _ in range(3))
    dfa = minimal(DFA(("a", "b"), table, frozenset({0})))
    pairs = [(q, first) for q in range(dfa.states) for first in range(3)]  # first: the letter that is stored, or 2 for none yet
    place = {pair: number for number, pair in enumerate(pairs)}

    def move(q: int, stored: int, letter: int, closes: bool) -> int:
        if not closes:
            return place[q, letter]
        return place[dfa.transitions[dfa.transitions[q][stored]][letter] if stored < 2 else q, 2]

    rows = tuple(tuple(move(q, stored, x, closes) for closes in (False, True) for x in (0, 1)) for q, stored in pairs)
    machine = DFA(("a1", "b1", "a2", "b2"), rows, frozenset({0}))
    monoid = transition_monoid(machine)
    star_free = all(monoid.power_cycle(m)[1] == 1 for m in range(monoid.size))
    assert star_free == (turning_even_word(dfa) is None)


@pytest.mark.parametrize(("path", "cycle"), [(0, 3), (2, 5), (5, 2)])
def test_section_8_fixed_gates_follow_every_language_of_the_length(path: int, cycle: int) -> None:
    """Channels for the cosine and the sine of t/cycle turns, which start at (1, 0), and one for h ← ½h + 1."""
    time = 3000
    x = torch.tensor([0.0, 0.0, 1.0]).expand(1, time, 3)
    y, _ = s4d(
        x,
        a=torch.tensor([[1.0], [1.0], [0.5]]),
        turns=torch.tensor([[1 / cycle], [1 / cycle], [0.0]]),
        c=torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]),
        initial_state=torch.tensor([[[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]]]),
    )
    cosine, sine, start = y[0].double().unbind(-1)
    turn = (torch.atan2(sine, cosine) / (2 * torch.pi) * cycle).round().long() % cycle
    ends = 2 - 0.5 ** torch.arange(time + 1)  # after t letters 2 - 2^(1 - t)
    passed = sum(((start >= ends[t] - 1e-9).long() for t in range(path)), torch.zeros(time, dtype=torch.long))
    t = torch.arange(1, time + 1)
    assert torch.equal(turn, t % cycle)
    assert torch.equal(passed, t.clamp(max=path))


@pytest.mark.parametrize("points", [3, 4])
def test_section_9_one_swap_a_token_follows_all_permutations_two_blocks_behind(points: int) -> None:
    """State: the position, the letters of the last block and of this one, and a vector that one factor per token moves."""
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


def rotation(axis: list[float], quarters: float) -> torch.Tensor:
    """About the axis, by so many right angles."""
    x, y, z = (torch.tensor(axis, dtype=torch.float64) / torch.tensor(axis, dtype=torch.float64).norm()).tolist()
    generator = torch.tensor([[0, -z, y], [z, 0, -x], [-y, x, 0]], dtype=torch.float64)
    return torch.linalg.matrix_exp(generator * quarters * torch.pi / 2)


def takes_one_factor(matrix: torch.Tensor) -> bool:
    """Is it (I - 2 k kᵀ) diag(±1), or diag(±1) alone, for some signs?"""
    for signs in product([1.0, -1.0], repeat=3):
        rest = matrix @ torch.diag(torch.tensor(signs, dtype=torch.float64))
        if (rest - rest.T).abs().max() < 1e-9 and torch.linalg.eigvalsh(rest).sort().values[1:].sub(1).abs().max() < 1e-9:
            return True
    return False


def test_section_5_signs_and_one_factor_make_all_rotations_of_the_cube_but_not_of_the_icosahedron() -> None:
    """The coordinates: two face diagonals of the cube's xy-plane, and z. All body diagonals then lie in coordinate planes."""
    root = 2**-0.5
    basis = torch.tensor([[root, -root, 0.0], [root, root, 0.0], [0.0, 0.0, 1.0]], dtype=torch.float64)
    faces = [([1.0 * (i == j) for i in range(3)], quarters) for j in range(3) for quarters in (1, 2, 3)]
    edges = [(axis, 2) for axis in ([1.0, s, 0.0] for s in (1.0, -1.0))]
    edges += [(axis, 2) for s in (1.0, -1.0) for axis in ([1.0, 0.0, s], [0.0, 1.0, s])]
    corners = [([1.0, s, t], quarters) for s in (1.0, -1.0) for t in (1.0, -1.0) for quarters in (4 / 3, 8 / 3)]
    cube = [torch.eye(3, dtype=torch.float64), *(rotation(*turn) for turn in [*faces, *edges, *corners])]  # type: ignore[arg-type]
    assert len({tuple(matrix.round(decimals=6).add(0.0).flatten().tolist()) for matrix in cube}) == 24
    assert all(takes_one_factor(basis @ matrix @ basis.T) for matrix in cube)
    assert not all(takes_one_factor(matrix) for matrix in cube)  # the coordinates matter
    golden = (1 + 5**0.5) / 2
    assert takes_one_factor(rotation([0.0, 1.0, golden], 4 / 5))  # a five-fold axis of the icosahedron in these coordinates
    assert not takes_one_factor(rotation([1.0, 1.0, 1.0], 4 / 3))  # and a three-fold one


@pytest.mark.parametrize("length", [1, 2, 4])
def test_section_5_a_zero_in_the_gate_ends_a_path_and_saves_a_factor(length: int) -> None:
    """x_1 → … → x_m → sink: diag(1, …, 1, 0), then m - 1 swaps; without the gate the rank asks for m."""
    path = torch.zeros(length, length)
    for state in range(length - 1):
        path[state + 1, state] = 1.0
    assert int(torch.linalg.matrix_rank(path - torch.eye(length))) == length
    matrix = torch.diag(torch.tensor([1.0] * (length - 1) + [0.0]))
    for state in reversed(range(length - 1)):
        key = torch.zeros(length)
        key[state], key[state + 1] = 1.0, -1.0
        matrix = matrix - torch.outer(key, key) @ matrix
    assert torch.equal(matrix, path)
