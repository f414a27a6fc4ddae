"""Associative recall against a dict."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from eigentrack.tasks.recall import AssociativeRecall

RECALL = AssociativeRecall(keys=11, values=7, pairs=5, queries=4)
TASKS = {
    "plain": RECALL,
    "gap": replace(RECALL, gap=2),
    "every key": replace(RECALL, keys=5, queries=5),
    "more queries than pairs": replace(RECALL, queries=12),
    "overwrite": replace(RECALL, keys=3, pairs=8, queries=8, overwrite=True, gap=1),
    "one pair": AssociativeRecall(keys=1, values=2, pairs=1, queries=1),
}


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_an_answer_is_the_last_value_of_the_key(task: AssociativeRecall) -> None:
    batch = task.sample(200, (1, task.length + 3), seed=0, step=0)
    assert batch.tokens.shape == (200, task.length + 3)
    for tokens, targets, weight in zip(batch.tokens.tolist(), batch.targets.tolist(), batch.weight.tolist(), strict=True):
        bound: dict[int, int] = {}
        for pair in range(task.pairs):
            key, value = tokens[2 * pair : 2 * pair + 2]
            assert 0 <= key < task.keys <= value < task.keys + task.values
            bound[key] = value - task.keys
        asked, t = [], 2 * task.pairs
        for _ in range(task.queries):
            assert tokens[t : t + task.gap] == [task.filler] * task.gap
            t += task.gap
            assert targets[t] == bound[tokens[t]]
            assert weight[t] == pytest.approx(1 / task.queries)
            asked.append(tokens[t])
            t += 1
        assert tokens[t:] == [task.padding] * 3
        assert sum(weight) == pytest.approx(1)
        assert sum(w > 0 for w in weight) == task.queries
        if not task.overwrite:
            assert len(bound) == task.pairs
            rounds = [asked[i : i + task.pairs] for i in range(0, task.queries, task.pairs)]
            assert all(len(set(some)) == len(some) for some in rounds)


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_all_tokens_and_answers_occur(task: AssociativeRecall) -> None:
    batch = task.sample(500, (1, task.length + 1), seed=0, step=0)
    assert task.classes == task.values
    assert set(batch.targets[batch.weight > 0].tolist()) == set(range(task.classes))
    assert set(batch.tokens.flatten().tolist()) == set(range(task.vocab_size)) - (set() if task.gap else {task.filler})


def test_a_value_is_overwritten_by_another() -> None:
    task = TASKS["overwrite"]
    tokens = task.sample(100, (1, task.length), seed=0, step=0).tokens
    first_again = (tokens[:, 2:16:2] == tokens[:, :1]) & (tokens[:, 3:16:2] != tokens[:, 1:2])
    assert first_again.any(1).float().mean() > 0.8  # expected: 1 - (1 - 2/7)⁷ ≈ 0.9


def test_keys_and_queries_come_in_every_order_alike() -> None:
    task = TASKS["every key"]
    tokens = task.sample(4000, (task.length, task.length), seed=0, step=0).tokens
    for order in (tokens[:, 0:10:2], tokens[:, 10:]):
        share = torch.nn.functional.one_hot(order, 5).float().mean(0)  # place, key
        torch.testing.assert_close(share, torch.full((5, 5), 0.2), atol=0.04, rtol=0)  # 6 standard errors
    same_place = (tokens[:, 0:10:2] == tokens[:, 10:]).float().mean(0)
    torch.testing.assert_close(same_place, torch.full((5,), 0.2), atol=0.04, rtol=0)


def test_a_batch_is_a_function_of_seed_and_step() -> None:
    for task in (RECALL, TASKS["overwrite"]):
        first, again, *others = (task.sample(8, (1, 40), seed=s, step=t) for s, t in ((0, 1), (0, 1), (0, 2), (1, 1)))
        assert torch.equal(first.tokens, again.tokens)
        assert torch.equal(first.targets, again.targets)
        assert not any(torch.equal(first.tokens, other.tokens) for other in others)


def test_bad_values_are_named() -> None:
    with pytest.raises(ValueError, match=r"lengths=\(3, 13\) cannot hold the 14 tokens of 5 pairs and 4 queries"):
        RECALL.sample(1, (3, 13), seed=0, step=0)
    with pytest.raises(ValueError, match=r"lengths=\(20, 14\) must be 1 ≤ shortest ≤ longest"):
        RECALL.sample(1, (20, 14), seed=0, step=0)
    with pytest.raises(ValueError, match=r"pairs=12 with distinct keys need at least as many keys, not keys=11"):
        replace(RECALL, pairs=12)
    for name, least in (("keys", 1), ("values", 2), ("pairs", 1), ("queries", 1), ("gap", 0)):
        with pytest.raises(ValueError, match=rf"{name}={least - 1} must be at least {least}"):
            replace(RECALL, overwrite=True, **{name: least - 1})
