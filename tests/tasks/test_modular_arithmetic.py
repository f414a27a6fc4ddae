"""Modular arithmetic, with and without brackets, against Python's own: each sequence is spelled out and given to `eval`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable

import pytest
import torch

from eigentrack.tasks.modular_arithmetic import TIMES, ModularArithmetic, ModularArithmeticWithBrackets
from eigentrack.tasks.task import Batch

AnyArithmetic = ModularArithmetic | ModularArithmeticWithBrackets
KINDS = [ModularArithmetic, ModularArithmeticWithBrackets]
PADDING = "_"


def symbols(task: AnyArithmetic) -> str:
    brackets = "()" if isinstance(task, ModularArithmeticWithBrackets) else ""
    return "0123456789"[: task.modulus] + "+-*=" + brackets + PADDING


def spelled(task: AnyArithmetic, batch: Batch) -> list[str]:
    return ["".join(symbols(task)[token] for token in row) for row in batch.tokens.tolist()]


def expressions(task: AnyArithmetic, batch: int, lengths: tuple[int, int]) -> list[str]:
    return [text.partition("=")[0] for text in spelled(task, task.sample(batch, lengths, seed=3, step=1))]


def subexpressions(text: str, start: int = 0) -> list[tuple[int, int, str]]:
    """(tokens, tokens of the left part, operator) of each expression that begins at start, the outer one first."""
    if text[start].isdigit():
        return [(1, 0, "")]
    if text[start] == "-":
        assert text[start + 1].isdigit()
        return [(2, 0, "")]
    assert text[start] == "("
    inside = subexpressions(text, start + 1)
    after = start + 1 + inside[0][0]
    if text[after] == ")":
        assert inside[0][0] <= 2  # only d and -d stand alone in brackets
        return [(inside[0][0] + 2, 0, ""), *inside]
    assert text[after] in "+-*"
    right = subexpressions(text, after + 1)
    assert text[after + 1 + right[0][0]] == ")"
    return [(inside[0][0] + right[0][0] + 3, inside[0][0], text[after]), *inside, *right]


def assert_uniform(drawn: Iterable[Hashable], choices: int) -> None:
    counts = Counter(drawn)
    expected = counts.total() / choices
    assert expected > 100, "too few draws to say anything"
    assert len(counts) == choices
    assert all(abs(count - expected) < 5 * math.sqrt(expected) for count in counts.values()), counts


@pytest.mark.parametrize("multiplication", [True, False])
@pytest.mark.parametrize("modulus", [2, 5, 7])
@pytest.mark.parametrize("kind", KINDS)
def test_the_answer_is_what_python_computes(kind: type[AnyArithmetic], modulus: int, multiplication: bool) -> None:
    task = kind(modulus, multiplication)
    batch = task.sample(600, (2, 41), seed=0, step=4)
    assert task.classes == modulus
    assert task.vocab_size == len(symbols(task))
    assert batch.tokens.shape == batch.targets.shape == batch.weight.shape == (600, 41)
    lengths = set()
    for text, targets, weight in zip(spelled(task, batch), batch.targets.tolist(), batch.weight.tolist(), strict=True):
        expression, _, rest = text.partition("=")
        equals_at = len(expression)
        lengths.add(equals_at + 1)
        assert set(rest) <= {PADDING}
        assert PADDING not in expression
        assert targets[equals_at] == eval(expression) % modulus
        assert not any(targets[:equals_at] + targets[equals_at + 1 :])
        assert weight == [float(position == equals_at) for position in range(41)]
    assert lengths == set(range(2, 42, 2 if kind is ModularArithmetic else 1))
    used = set("".join(spelled(task, batch)))
    assert used == set(symbols(task)) - (set() if multiplication else {"*"})


@pytest.mark.parametrize("kind", KINDS)
def test_long_sequences(kind: type[AnyArithmetic]) -> None:
    task = kind(7)
    batch = task.sample(20, (400, 400), seed=0, step=0)
    for text, answer in zip(spelled(task, batch), batch.targets[:, -1].tolist(), strict=True):
        assert text.index("=") == 399
        assert answer == eval(text[:-1]) % 7


@pytest.mark.parametrize(
    ("lengths", "possible"), [((3, 9), {4, 6, 8}), ((3, 4), {4}), ((4, 5), {4}), ((1, 3), {2}), ((2, 2), {2}), ((6, 9), {6, 8})]
)
def test_without_brackets_lengths_are_even_and_in_the_range(lengths: tuple[int, int], possible: set[int]) -> None:
    task = ModularArithmetic()
    batch = task.sample(200, lengths, seed=0, step=0)
    assert batch.tokens.shape == (200, lengths[1])
    assert {text.index("=") + 1 for text in spelled(task, batch)} == possible


def test_multiplication_binds_first() -> None:
    digits, operators = torch.tensor([[2, 3, 3, 2]]), torch.tensor([["+-*".index(sign) for sign in "--*+"]])
    assert ModularArithmetic().prefix_values(digits, operators).tolist() == [[2, 4, 1, 3]]  # 2, -1, -4, 2 - 3 - 3 * 2 = -7
    from_left_to_right, texts = 0, expressions(ModularArithmetic(), 300, (2, 40))
    for text in texts:
        value = int(text[0])
        for operator, digit in zip(text[1::2], text[2::2], strict=True):
            value = eval(f"({value}) {operator} {digit}")
        from_left_to_right += value % 5 == eval(text) % 5
    assert 0 < from_left_to_right < 0.6 * len(texts)  # so the test against Python tells the two apart


def test_products_do_not_overflow() -> None:
    operators = torch.full((1, 200), TIMES)
    values = ModularArithmetic(7).prefix_values(torch.full((1, 200), 5), operators)
    assert values.tolist() == [[pow(5, power, 7) for power in range(1, 201)]]


@pytest.mark.parametrize("modulus", [2, 5, 7])
def test_every_prefix_can_be_asked(modulus: int) -> None:
    task = ModularArithmetic(modulus, every_prefix=True)
    batch = task.sample(200, (2, 41), seed=0, step=0)
    for text, targets, weight in zip(spelled(task, batch), batch.targets.tolist(), batch.weight, strict=True):
        equals_at = text.index("=")
        asked = [*range(0, equals_at, 2), equals_at]
        prefixes = {at: text[: min(at + 1, equals_at)] for at in asked}
        assert targets == [eval(prefixes[at]) % modulus if at in prefixes else 0 for at in range(41)]
        assert weight.nonzero().flatten().tolist() == asked
        assert weight[asked].tolist() == pytest.approx([1 / len(asked)] * len(asked))
    tested = task.as_tested().sample(200, (2, 41), seed=0, step=0)
    assert torch.equal(tested.tokens, batch.tokens)
    assert tested.weight.sum(0).tolist() == [sum(text[at : at + 1] == "=" for text in spelled(task, batch)) for at in range(41)]


@pytest.mark.parametrize(("multiplication", "operators"), [(True, 3), (False, 2)])
def test_digits_and_operators_are_uniform_and_independent(multiplication: bool, operators: int) -> None:
    task = ModularArithmetic(5, multiplication)
    texts = expressions(task, 300, (40, 40))
    assert_uniform(((at, text[at]) for text in expressions(task, 1000, (6, 6)) for at in (0, 2, 4)), 3 * 5)
    assert_uniform(((text[at], text[at + 1]) for text in texts for at in range(0, 38, 2)), 5 * operators)
    assert_uniform(((text[at], text[at - 1]) for text in texts for at in range(2, 39, 2)), 5 * operators)


@pytest.mark.parametrize(("multiplication", "operators"), [(True, 3), (False, 2)])
def test_bracketed_expressions_follow_the_grammar(multiplication: bool, operators: int) -> None:
    task = ModularArithmeticWithBrackets(5, multiplication)
    for tokens in range(1, 41):
        for text in expressions(task, 20, (tokens + 1, tokens + 1)):
            assert subexpressions(text)[0][0] == len(text) == tokens
    parsed = [subexpressions(text) for text in expressions(task, 9000, (16, 16))]
    nines = [part for _, *inner in parsed for part in inner if part[0] == 9]
    # 15 tokens: left parts of 1..11; and below them, wherever 9 tokens come up, left parts of 1..5
    assert_uniform(((left, operator) for (_, left, operator), *_ in parsed), 11 * operators)
    assert_uniform(((left, operator) for _, left, operator in nines), 5 * operators)
    digits = [symbol for text in expressions(task, 1000, (31, 31)) for symbol in text if symbol.isdigit()]
    assert_uniform(digits, 5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_is_a_function_of_seed_and_step(kind: type[AnyArithmetic]) -> None:
    task, generator_before = kind(), torch.get_rng_state()
    first, again, later, other = (
        task.sample(8, (2, 20), seed=seed, step=step) for seed, step in [(0, 1), (0, 1), (0, 2), (1, 1)]
    )
    assert torch.equal(generator_before, torch.get_rng_state())
    assert torch.equal(first.tokens, again.tokens)
    assert torch.equal(first.targets, again.targets)
    assert torch.equal(first.weight, again.weight)
    assert not torch.equal(first.tokens, later.tokens)
    assert not torch.equal(first.tokens, other.tokens)


@pytest.mark.parametrize("kind", KINDS)
def test_bad_values_are_named(kind: type[AnyArithmetic]) -> None:
    with pytest.raises(ValueError, match=r"modulus=1 must be at least 2"):
        kind(modulus=1)
    with pytest.raises(ValueError, match=r"lengths=\(5, 3\) must be \d ≤ shortest ≤ longest"):
        kind().sample(1, (5, 3), seed=0, step=0)
    with pytest.raises(ValueError, match=r"lengths=\(0, 3\) must be \d ≤ shortest ≤ longest"):
        kind().sample(1, (0, 3), seed=0, step=0)
    with pytest.raises(ValueError, match=r"lengths=\(1, 1\) must "):
        kind().sample(1, (1, 1), seed=0, step=0)


def test_one_odd_length_has_no_expression_without_brackets() -> None:
    with pytest.raises(ValueError, match=r"lengths=\(7, 7\) must hold an even number"):
        ModularArithmetic().sample(1, (7, 7), seed=0, step=0)
