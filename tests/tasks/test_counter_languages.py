"""Counter languages against recognisers that know no counters: cancelling brackets, parsing by recursion, listing the words."""

from __future__ import annotations

import pytest
import torch

from eigentrack.tasks.counter_languages import BRACKETS, END, LANGUAGES, CounterLanguage

CLASSES = {"dyck1": 2, "shuffle2": 4, "shuffle4": 16, "shuffle6": 64, "boolean3": 2, "boolean5": 2}
CLASSES |= {"anbn": 4, "anbncn": 5, "anbncndn": 6}


def brackets(word: list[str]) -> tuple[bool, bool]:
    """Is it a prefix of a shuffle of Dyck-1 words, and is it one? Adjacent pairs cancel until none is left."""
    rests = ""
    for opening, closing in zip(BRACKETS[::2], BRACKETS[1::2], strict=True):
        rest = "".join(letter for letter in word if letter in (opening, closing))
        while opening + closing in rest:
            rest = rest.replace(opening + closing, "")
        rests += rest
    return not set(rests) & set(BRACKETS[1::2]), not rests


def boolean(word: list[str]) -> tuple[bool, bool]:
    def expression_end(start: int) -> int:
        if word[start] in ("0", "1"):
            return start + 1
        for _ in range(int(word[start].removeprefix("op"))):
            start = expression_end(start + 1) - 1
        return start + 1

    try:
        is_word = expression_end(0) == len(word)
    except IndexError:  # an operand is missing
        return True, False
    return is_word, is_word


def blocks(word: list[str], letters: str) -> tuple[bool, bool]:
    words = ["".join(letter * n for letter in letters) for n in range(1, len(word) + 2)]
    return any(whole.startswith("".join(word)) for whole in words), "".join(word) in words


def prefix_and_word(name: str, word: list[str]) -> tuple[bool, bool]:
    if name.startswith("boolean"):
        return boolean(word)
    return brackets(word) if name in ("dyck1", "shuffle2", "shuffle4", "shuffle6") else blocks(word, name.replace("n", ""))


@pytest.mark.parametrize("name", LANGUAGES)
def test_an_answer_is_the_set_of_letters_that_may_come_next(name: str) -> None:
    task = CounterLanguage(name)
    batch = task.sample(40, (1, 26), seed=0, step=3)
    for tokens, targets in zip(batch.tokens.tolist(), batch.targets.tolist(), strict=True):
        length = tokens.index(task.padding) if task.padding in tokens else len(tokens)
        word = [task.letters[token] for token in tokens[1:length]]
        for t in range(length):
            may_follow = {letter for letter in task.letters if prefix_and_word(name, [*word[:t], letter])[0]}
            if prefix_and_word(name, word[:t])[1]:
                may_follow.add(END)
            assert task.answer_sets[targets[t]] == may_follow, (word[:t], task.answer_sets[targets[t]])


def test_the_recognisers_know_right_from_wrong() -> None:
    assert [brackets(list(w)) for w in ("([)]", "([)", "())", "")] == [
        (True, True),
        (True, False),
        (False, False),
        (True, True),
    ]
    assert [boolean(w) for w in (["op2", "0", "1"], ["op2", "op1"], ["0", "1"])] == [
        (True, True),
        (True, False),
        (False, False),
    ]
    assert boolean(["op3", "0", "op2", "1", "1", "0"]) == (True, True)
    assert [blocks(list(w), "ab") for w in ("aabb", "aab", "aba", "")] == [
        (True, True),
        (True, False),
        (False, False),
        (True, False),
    ]


@pytest.mark.parametrize("name", LANGUAGES)
def test_all_tokens_and_answers_occur(name: str) -> None:
    task = CounterLanguage(name)
    assert task.classes == len(set(task.answer_sets)) == CLASSES[name]
    batch = task.sample(1500, (1, 50), seed=1, step=0)
    assert set(batch.targets[batch.weight > 0].tolist()) == set(range(task.classes))
    assert set(batch.tokens.flatten().tolist()) == set(range(task.vocab_size))


@pytest.mark.parametrize("name", LANGUAGES)
def test_lengths_padding_and_weights(name: str) -> None:
    task = CounterLanguage(name)
    batch = task.sample(300, (4, 12), seed=0, step=0)
    assert batch.tokens.shape == (300, 12)
    length = (batch.weight > 0).sum(1, keepdim=True)
    assert set(length.flatten().tolist()) == set(range(4, 13))
    is_token = torch.arange(12) < length
    assert torch.equal(batch.tokens != task.padding, is_token)
    torch.testing.assert_close(batch.weight, is_token / length)
    assert ((batch.tokens == task.begin) == (torch.arange(12) == 0)).all()


@pytest.mark.parametrize("name", LANGUAGES)
def test_half_of_the_words_end_with_the_sequence_and_the_others_are_cut(name: str) -> None:
    task = CounterLanguage(name)
    last = task.sample(1000, (25, 25), seed=0, step=0).targets[:, -1]  # 24 letters: words of all languages have so many
    can_end = torch.tensor([END in answers for answers in task.answer_sets])
    # a cut word may chance to end there, too
    assert 0.45 < can_end[last].float().mean() < 0.7


def test_only_the_length_bounds_the_counters() -> None:
    for name, letter_takes in (("dyck1", [1, -1]), ("boolean3", [-1, -1, 0, 1, 2])):
        task = CounterLanguage(name)
        changes = torch.tensor([*letter_takes, 0, 0])  # padding and begin
        deepest = [changes[task.sample(200, (T, T), seed=0, step=0).tokens].cumsum(1).max() for T in (25, 400)]
        assert deepest[0] <= 24
        assert deepest[1] > 35
    assert (CounterLanguage("anbn").sample(300, (33, 33), seed=0, step=0).tokens[:, 1:] == 0).all(1).any()


def test_a_word_may_be_a_single_token_long() -> None:
    for name in LANGUAGES:
        task = CounterLanguage(name)
        batch = task.sample(3, (1, 1), seed=0, step=0)
        assert batch.tokens.tolist() == [[task.begin]] * 3
        assert (END in task.answer_sets[int(batch.targets[0, 0])]) == (name in ("dyck1", "shuffle2", "shuffle4", "shuffle6"))


@pytest.mark.parametrize("name", LANGUAGES)
def test_a_batch_is_a_function_of_seed_and_step(name: str) -> None:
    task = CounterLanguage(name)
    first, again, *others = (task.sample(8, (3, 30), seed=s, step=t) for s, t in ((0, 1), (0, 1), (0, 2), (1, 1)))
    assert torch.equal(first.tokens, again.tokens)
    assert torch.equal(first.targets, again.targets)
    assert not any(torch.equal(first.tokens, other.tokens) for other in others)


def test_bad_values_are_named() -> None:
    with pytest.raises(ValueError, match=r"name='dyck2' must be one of dyck1, shuffle2, .*, anbncndn"):
        CounterLanguage("dyck2")
    with pytest.raises(ValueError, match=r"lengths=\(0, 3\) must be 1 ≤ shortest ≤ longest"):
        CounterLanguage("dyck1").sample(1, (0, 3), seed=0, step=0)
