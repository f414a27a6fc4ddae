"""State-tracking batches against slow definitions: counting, sympy's permutations, Python's re."""

from __future__ import annotations

import re

import pytest
import torch
from sympy.combinatorics import Permutation

from eigentrack.automata import group, language
from eigentrack.tasks import TrackingTask
from eigentrack.tasks.tracking import cycle_navigation, flip_flop, parity, recognition, state_prediction, word_problem


def rows(task: TrackingTask, batch: int = 60, lengths: tuple[int, int] = (3, 17), step: int = 4):
    """(tokens without padding and begin, targets, weights) of each sequence."""
    sample = task.sample(batch, lengths, seed=0, step=step)
    begin = int(task.begin_token)
    for tokens, targets, weight in zip(sample.tokens.tolist(), sample.targets.tolist(), sample.weight, strict=True):
        end = tokens.index(task.padding) if task.padding in tokens else len(tokens)
        assert lengths[0] <= end - begin <= lengths[1]
        assert set(tokens[end:]) <= {task.padding}
        assert (weight[end:] == 0).all()
        assert weight.sum().item() == pytest.approx(1)
        if begin:
            assert tokens[0] == task.begin
            assert targets[0] == task.outputs[task.start]
        yield tokens[begin:end], targets[begin:end], weight[begin:end]


def test_parity_counts_the_ones() -> None:
    lengths = set()
    for tokens, targets, weight in rows(parity(0.5), batch=300):
        assert targets == [sum(tokens[: t + 1]) % 2 for t in range(len(tokens))]
        assert weight[-1] == weight.max()
        lengths.add(len(tokens))
    assert lengths == set(range(3, 18))
    assert parity().vocab_size == 3


def test_the_loss_can_fall_on_the_last_bit_alone() -> None:
    for _, _, weight in rows(parity(1.0)):
        assert weight.count_nonzero() == 1
        assert weight[-1] == 1


def test_cycle_navigation_walks() -> None:
    for tokens, targets, _ in rows(cycle_navigation(5)):
        moves = [(0, 1, -1)[token] for token in tokens]
        assert targets == [sum(moves[: t + 1]) % 5 for t in range(len(moves))]


@pytest.mark.parametrize("k", [1, 2, 4])
@pytest.mark.parametrize("inputs", ["all", "swaps", "upto3"])
def test_s5_multiplies_permutations_and_answers_k_tokens_later(inputs: str, k: int) -> None:
    s5, task = group("S5"), word_problem("S5", inputs, tokens_per_letter=k)
    elements = [Permutation(list(map(int, name.split()))) for name in s5.names]
    subset = s5.subset(inputs)
    for tokens, targets, weight in rows(task):
        for position, token in enumerate(tokens):
            assert (token == task.filler) == (position % k != 0)
        for position, target in enumerate(targets):
            product = Permutation(4)
            for letter in tokens[: position - (k - 1) + 1 : k] if position >= k - 1 else []:
                product = product * elements[subset[letter]]
            assert elements[target] == product
        assert torch.allclose(weight, weight[0])
    assert task.vocab_size == len(subset) + (k > 1) + 2
    assert task.classes == 120


@pytest.mark.parametrize(
    ("name", "pattern"), [("tomita2", "(10)*"), ("abab", "(abab)*"), ("abcde", "aa*bb*cc*dd*ee*"), ("flip-flop", "[01i]*1i*")]
)
def test_recognition_is_what_re_says(name: str, pattern: str) -> None:
    letters, seen = language(name).letters, set()
    for tokens, targets, _ in rows(recognition(name), batch=200):
        word = "".join(letters[token] for token in tokens)
        assert targets == [int(re.fullmatch(pattern, word[: t + 1]) is not None) for t in range(len(word))]
        seen |= set(targets)
    assert seen == {0, 1}


def test_states_of_the_minimal_automaton() -> None:
    dfa = language("tomita3")
    for tokens, targets, _ in rows(state_prediction("tomita3")):
        assert targets == [dfa.run(dfa.letters[token] for token in tokens[: t + 1]) for t in range(len(tokens))]


def test_words_stay_alive_unless_they_escape() -> None:
    """Without help, a random word leaves (abab)* at once; with escape 0 never; and the letters it may use all occur."""
    alive = {}
    for escape in (0.0, 0.1, 1.0):
        task = state_prediction("abab", escape=escape)
        targets = task.sample(500, (20, 20), seed=1, step=0).targets
        assert task.live is not None
        alive[escape] = torch.isin(targets[:, -1], torch.tensor(sorted(task.live))).float().mean().item()
    assert alive[0.0] == 1.0
    assert 0.2 < alive[0.1] < 0.5  # 0.95 to the power of 20 is 0.36
    assert alive[1.0] < 0.01
    tokens = recognition("d3", escape=0.0).sample(50, (20, 20), seed=0, step=0).tokens
    assert set(tokens.unique().tolist()) == {0, 1}


@pytest.mark.parametrize("ignore", [0.8, 0.98, 0.1])
def test_flip_flop_keeps_the_last_bit_written(ignore: float) -> None:
    task = flip_flop(ignore)
    written = 0
    for tokens, targets, _ in rows(task, lengths=(50, 50)):
        bit = 0
        for token, target in zip(tokens, targets, strict=True):
            bit = token if token < 2 else bit
            assert target == bit
            written += token < 2
    share = 1 - written / (60 * 50)
    assert abs(share - ignore) < 5 * (ignore * (1 - ignore) / 3000) ** 0.5


def test_a_batch_is_a_function_of_seed_and_step() -> None:
    task = word_problem("A5")
    first, again, other = (task.sample(8, (3, 9), seed=0, step=step).tokens for step in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize(
    "task", [parity(), word_problem("S3", tokens_per_letter=3), recognition("d3")], ids=["parity", "S3", "d3"]
)
def test_a_stream_goes_on_where_the_piece_before_ended(task: TrackingTask) -> None:
    tokens, targets = (torch.cat(parts, 1) for parts in zip(*task.stream(5, 31, piece=6, seed=2), strict=True))
    begin = int(task.begin_token)
    assert tokens.shape == (5, 31 + begin)
    k = task.tokens_per_letter
    for row, answers in zip(tokens[:, begin:].tolist(), targets[:, begin:].tolist(), strict=True):
        state, states = task.start, [task.start]
        for letter in row[::k]:
            state = task.transitions[state][letter]
            states.append(state)
        assert answers == [task.outputs[states[(position + 1) // k]] for position in range(31)]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: parity(last_weight=1.5), "last_weight=1.5 must lie between 0 and 1"),
        (lambda: cycle_navigation(1), "places=1 must be at least 2"),
        (lambda: word_problem("S3", tokens_per_letter=0), "tokens_per_letter=0 must be at least 1"),
        (lambda: flip_flop(1.0), "ignore=1.0 must be at least 0 and below 1"),
        (lambda: TrackingTask(((0,),), (0, 1)), "2 outputs for 1 states"),
        (lambda: TrackingTask(((0,),), (0,), shares=(-1.0,)), "shares="),
        (lambda: parity().sample(1, (5, 3), seed=0, step=0), r"lengths=\(5, 3\) must be 1 ≤ shortest ≤ longest"),
        (lambda: parity().sample(1, (0, 3), seed=0, step=0), r"lengths=\(0, 3\)"),
    ],
)
def test_bad_values_are_named(build, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()
