from __future__ import annotations

import dataclasses
import time

import pytest

from eigentrack.explorer.language_choice import REGEX, LanguageChoice
from eigentrack.explorer.session import Session
from eigentrack.explorer.training_choice import LAYERS, MEMBER, STATE, TASKS, TrainingChoice, draw_up_runs
from eigentrack.explorer.training_view import show_training, training_status
from eigentrack.explorer.twin_training import LONGEST, StepNews, TrainingQueue, TwinProgress, TwinTraining
from eigentrack.models import load_model
from eigentrack.training.run import MODEL, load_run

CHOICE = TrainingChoice("parity", "DeltaNet", ("[0, 1]", "[-1, 1]"), steps=10, longest=8, seed=3)


def finish(training: TwinTraining) -> tuple[TwinProgress, ...]:
    for _ in range(600):
        twins = training.poll()
        if training.is_over:
            return twins
        time.sleep(0.05)
    raise AssertionError("the training does not end")


def test_the_twins_differ_in_nothing_but_the_range():
    runs = draw_up_runs(None, CHOICE)
    narrow, wide = (run.to_json() for run in runs.values())
    assert narrow["model"].pop("eigenvalues") == [0, 1]
    assert wide["model"].pop("eigenvalues") == [-1, 1]
    assert narrow == wide


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("layer", LAYERS)
def test_every_task_and_layer_of_the_room_exists(task, layer):
    language = LanguageChoice(REGEX, "(ab|ba)*") if task in (MEMBER, STATE) else None
    run = dataclasses.replace(CHOICE, task=task, layer=layer, language=language).run("[-1, 1]")
    assert run.build_model_config().vocab_size >= 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task": "chess"}, "task 'chess' is not known"),
        ({"layer": "ELIZA"}, "layer 'ELIZA' is not known"),
        ({"ranges": ()}, "tick at least one"),
        ({"ranges": ("[0, 2]",)}, r"range '\[0, 2\]' is not known"),
        ({"steps": 10**6}, "steps=1000000 must be a whole number from 1 to 2000"),
        ({"seed": -1}, "seed=-1 must be"),
    ],
)
def test_a_choice_that_cannot_be_trained_is_named(change, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(CHOICE, **change)


def test_a_language_with_too_many_states_is_refused():
    choice = dataclasses.replace(CHOICE, task=STATE, language=LanguageChoice(REGEX, "(a{600})*"))
    with pytest.raises(ValueError, match="600 states are too many"):
        choice.run("[-1, 1]")


def test_pages_train_one_after_the_other_and_leave_runs_that_can_be_opened(tmp_path):
    queue, runs = TrainingQueue(), draw_up_runs(None, CHOICE)
    first, second = (TwinTraining(CHOICE, runs, tmp_path / name, queue) for name in "ab")
    assert (first.ahead, second.ahead) == (0, 1)
    assert all(twin.steps == () for twin in second.poll())  # it waits
    twins = finish(first)
    assert second.ahead == 0
    for twin in twins:
        assert [news.step for news in twin.steps] == [5, 10]
        assert len(twin.curve) == LONGEST
        assert all(0 <= value <= 1 for value in twin.curve)
        assert load_run(first.folder(twin.eigenvalues)) == runs[twin.eigenvalues]
        assert str(load_model(first.folder(twin.eigenvalues) / MODEL).config.eigenvalues) == twin.eigenvalues
    again = finish(second)
    assert [twin.curve for twin in again] == [twin.curve for twin in twins]  # the seed decides, not the neighbours


def test_a_stopped_training_is_tested_as_it_is(tmp_path):
    choice = dataclasses.replace(CHOICE, steps=2000, ranges=("[-1, 1]",))
    training = TwinTraining(choice, draw_up_runs(None, choice), tmp_path, TrainingQueue())
    while not training.poll()[0].steps:
        time.sleep(0.02)
    training.stop()
    (twin,) = finish(training)
    assert twin.steps[-1].step < 2000
    assert len(twin.curve) == LONGEST


def test_a_training_leaves_the_line_when_it_is_stopped_or_its_page_closed(tmp_path):
    queue, runs = TrainingQueue(), draw_up_runs(None, CHOICE)
    first, second, third = (TwinTraining(CHOICE, runs, tmp_path / name, queue) for name in "abc")
    first.poll()
    second.stop()
    assert second.is_over
    assert third.ahead == 1
    session = Session(training=first)
    session.close()
    assert first.is_over
    assert third.ahead == 0
    third.close()


def test_a_twin_that_fails_says_why(tmp_path):
    runs = draw_up_runs(None, dataclasses.replace(CHOICE, ranges=("[-1, 1]",)))
    (tmp_path / "taken").write_text("a file where the folder should be")
    training = TwinTraining(CHOICE, runs, tmp_path / "taken", TrainingQueue())
    (twin,) = finish(training)
    assert "taken" in twin.trouble
    assert "taken" in show_training(CHOICE, [twin], 0, True)


NEWS = (StepNews(5, 0.7, 0.5), StepNews(10, 0.1, 1.0))


@pytest.mark.parametrize(
    ("twins", "ahead", "is_over", "said"),
    [
        ([TwinProgress("[0, 1]")], 2, False, "waiting: 2 trainings of other pages come first"),
        ([TwinProgress("[0, 1]", NEWS[:1])], 0, False, "DeltaNet on parity: step 5 of 10"),
        ([TwinProgress("[0, 1]", NEWS)], 0, False, "DeltaNet on parity: trained, now tested on longer words"),
        ([TwinProgress("[0, 1]", NEWS, (1.0,) * 8)], 0, True, "DeltaNet on parity: 10 steps, done"),
        ([TwinProgress("[0, 1]")], 0, True, "DeltaNet on parity: stopped before the first step"),
    ],
)
def test_the_room_says_how_far_it_is(twins, ahead, is_over, said):
    assert training_status(CHOICE, twins, ahead, is_over) == said
    assert said in show_training(CHOICE, twins, ahead, is_over)


def test_the_table_tells_the_horizon():
    curve = (1.0,) * 20 + (0.5,) * 12
    page = show_training(CHOICE, [TwinProgress("[0, 1]", NEWS, curve), TwinProgress("[-1, 1]", NEWS, (1.0,) * 32)], 0, True)
    assert "<td>20 letters</td>" in page
    assert "<td>beyond 32 letters</td>" in page
