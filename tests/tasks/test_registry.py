"""Every task by its name: what holds for all of them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from eigentrack.tasks.registry import TASKS, describe, make_task

CASES: list[tuple[str, dict[str, Any]]] = [
    ("parity", {}),
    ("cycle-navigation", {"places": 7}),
    ("modular-arithmetic", {"every_prefix": True}),
    ("modular-arithmetic-brackets", {"modulus": 3}),
    ("group", {"name": "S4", "tokens_per_letter": 2}),
    ("language", {"name": "dyck2-2"}),
    ("language-state", {"name": "tomita3"}),
    ("flip-flop", {"ignore": 0.5}),
    ("counter-language", {"name": "shuffle2"}),
    ("recall", {"pairs": 4, "queries": 3, "keys": 9, "values": 5}),
]
every_task = pytest.mark.parametrize(("name", "options"), CASES, ids=lambda value: value if isinstance(value, str) else "")


def test_the_cases_cover_every_task() -> None:
    assert {name for name, _ in CASES} == set(TASKS)


@every_task
def test_tokens_answers_and_weights_are_in_range(name: str, options: dict[str, Any]) -> None:
    task = make_task(name, options)
    batch = task.sample(64, (12, 20), seed=1, step=3)
    assert batch.tokens.shape == batch.targets.shape == batch.weight.shape
    assert 0 <= batch.tokens.min() <= batch.tokens.max() < task.vocab_size
    assert 0 <= batch.targets.min() <= batch.targets.max() < task.classes
    assert torch.allclose(batch.weight.sum(1), torch.ones(64))
    assert describe(name)


@every_task
def test_batches_depend_on_seed_and_step_alone(name: str, options: dict[str, Any]) -> None:
    task = make_task(name, options)
    torch.manual_seed(0)
    first = task.sample(16, (12, 20), seed=1, step=3)
    torch.manual_seed(1)
    again = make_task(name, options).sample(16, (12, 20), seed=1, step=3)
    assert torch.equal(first.tokens, again.tokens)
    assert torch.equal(first.targets, again.targets)
    for other in ({"seed": 2, "step": 3}, {"seed": 1, "step": 4}):
        assert not torch.equal(first.tokens, task.sample(16, (12, 20), **other).tokens)


@every_task
def test_the_step_may_be_a_tensor(name: str, options: dict[str, Any]) -> None:
    task = make_task(name, options)
    known, unknown = (task.sample(32, (12, 40), seed=1, step=step) for step in (3, torch.tensor(3)))
    assert torch.equal(known.tokens, unknown.tokens)
    assert torch.equal(known.targets, unknown.targets)
    assert torch.equal(known.weight, unknown.weight)


@every_task
def test_several_steps_at_once_are_their_batches_one_below_the_other(name: str, options: dict[str, Any]) -> None:
    task = make_task(name, options)
    together = task.sample(24, (12, 20), seed=1, step=torch.tensor([5, 3, 9]))
    apart = [task.sample(8, (12, 20), seed=1, step=step) for step in (5, 3, 9)]
    for part in ("tokens", "targets", "weight"):
        assert torch.equal(getattr(together, part), torch.cat([getattr(batch, part) for batch in apart]))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@every_task
def test_a_gpu_draws_the_same_batches(name: str, options: dict[str, Any]) -> None:
    task = make_task(name, options)
    here, there = (task.sample(300, (12, 40), seed=1, step=3, device=device) for device in ("cpu", "cuda"))
    assert torch.equal(here.tokens, there.tokens.cpu())
    assert torch.equal(here.targets, there.targets.cpu())
    assert torch.allclose(here.weight, there.weight.cpu())


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("pairty", {}, "task 'pairty' is not known; there are parity, cycle-navigation"),
        ("parity", {"bits": 3}, "task 'parity' has no option 'bits'; it takes last_weight"),
        ("counter-language", {}, "task 'counter-language' needs the option 'name'"),
        ("group", {"name": "S99"}, "group S99 has more than 5040 elements"),
        ("language", {"name": "tomita9"}, "language 'tomita9' is not known"),
        ("language", {}, "a language is given by one of name, regex and dfa, not by none of them"),
        ("language-state", {"name": "aa", "regex": "a*"}, "by one of name, regex and dfa, not by name and regex"),
        ("language", {"name": "aa", "alphabet": "ab"}, "alphabet='ab' adds letters to a regex: a name has its own"),
        ("language", {"regex": "a("}, r"regex 'a\(' is malformed"),
        ("language", {"dfa": "/nowhere.json"}, "dfa='/nowhere.json' is not there"),
        ("language", {"dfa": {"letters": ["a"]}}, "the automaton lacks 'transitions'"),
        ("language", {"dfa": 3}, "option dfa=3 must be of type dict or str or None"),
    ],
)
def test_bad_names_and_options_are_named(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_task(name, options)
