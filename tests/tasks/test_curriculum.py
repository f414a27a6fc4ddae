"""A curriculum restricts what a task draws, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from eigentrack.tasks import TrackingTask
from eigentrack.tasks.curriculum import Curriculum
from eigentrack.tasks.registry import make_task

COUNTER = {"letters": ["a", "b"], "transitions": [[(q + 1) % 20, (q + 2) % 20] for q in range(20)], "accepting": [0]}
TASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "a group": ("group", {"name": "S4"}),
    "a group, two tokens a letter": ("group", {"name": "S3", "tokens_per_letter": 2}),
    "a small automaton": ("cycle-navigation", {"places": 5}),
    "a large automaton": ("language-state", {"dfa": COUNTER}),
    "a language with dead states": ("language", {"name": "d12"}),
    "a regex": ("language", {"regex": "(aaa|b)*", "alphabet": "c"}),
}


def tracking(name: str) -> TrackingTask:
    task = make_task(*TASKS[name])
    assert isinstance(task, TrackingTask)
    return task


@pytest.mark.parametrize("name", TASKS)
def test_every_stage_draws_its_letters_alone_and_answers_rightly(name: str) -> None:
    task = tracking(name)
    stages = Curriculum("words").stages(task)
    staged = replace(task, stages=stages)
    for number, letters in enumerate(stages):
        batch = staged.sample(64, (30, 30), seed=1, step=2, stage=torch.tensor([number]))
        tokens = batch.tokens[:, int(task.begin_token) :: task.tokens_per_letter]
        assert set(tokens.flatten().tolist()) == set(letters)
        for word, answers in zip(tokens.tolist(), batch.targets.tolist(), strict=True):
            state, expected = task.start, [task.outputs[task.start]] * task.begin_token
            for letter in word:
                expected += [task.outputs[state]] * (task.tokens_per_letter - 1)
                state = task.transitions[state][letter]
                expected.append(task.outputs[state])
            assert answers == expected


@pytest.mark.parametrize("name", TASKS)
def test_without_a_stage_the_draws_are_those_of_the_task(name: str) -> None:
    task = tracking(name)
    staged = replace(task, stages=Curriculum("words").stages(task))
    plain, last = task.sample(16, (5, 20), seed=3, step=1), torch.tensor([len(staged.stages or ()) - 1])
    for batch in (staged.sample(16, (5, 20), seed=3, step=1), staged.sample(16, (5, 20), seed=3, step=1, stage=last)):
        assert torch.equal(batch.tokens, plain.tokens)
        assert torch.equal(batch.targets, plain.targets)


def test_groups_are_ordered_by_the_points_that_they_move() -> None:
    assert [len(stage) for stage in Curriculum("rank").stages(tracking("a group"))] == [4, 7, 15, 24]


def test_letters_that_are_never_drawn_are_in_no_stage() -> None:
    task = replace(tracking("a small automaton"), shares=(1.0, 0.0, 2.0))
    assert Curriculum("rank").stages(task) == ((0, 2),)


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("rank", Curriculum("rank")),
        ({"order": "words", "share": 0.9}, Curriculum("words", 0.9)),
        ({"order": "words"}, Curriculum("words")),
        ("none", None),
        (None, None),
    ],
)
def test_a_file_names_a_curriculum(value: Any, read: Curriculum | None) -> None:
    assert Curriculum.from_json(value) == read


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("size", "curriculum 'size' is not known; there are rank, words, and none"),
        ({"order": "rank", "share": 2}, "the curriculum's share=2 must be above 0 and at most 1"),
        ({"order": "rank", "share": True}, "the curriculum's share=True must be"),
        ({"share": 0.9}, "must be rank, words, none, or an object with order and share"),
        (7, "curriculum=7 must be rank, words, none"),
    ],
)
def test_bad_curricula_are_named(value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Curriculum.from_json(value)


def test_a_task_without_an_automaton_is_refused() -> None:
    with pytest.raises(ValueError, match="curriculum 'rank' orders the letters of an automaton, and this task has none"):
        Curriculum("rank").stages(make_task("recall"))
