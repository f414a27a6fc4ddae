"""A training with a curriculum goes from stage to stage, resumes bit by bit, and without one nothing changes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from eigentrack.cli import app
from eigentrack.models import ModelConfig, SequenceModel
from eigentrack.tasks.curriculum import Curriculum
from eigentrack.tasks.registry import make_task
from eigentrack.training import TrainingConfig
from eigentrack.training.captured_step import CapturedStep
from eigentrack.training.letter_schedule import LOOK_EVERY, LetterSchedule
from eigentrack.training.run import METRICS_FILE, RUN_FILE, load_run, run_training
from eigentrack.training.step import MOST_AHEAD, TrainingStep
from tests.training.test_captured_step import host_traffic
from tests.training.test_run import CONFIG, Killed, assert_same_run

EASY = Curriculum("rank", share=0.05)  # which guessing reaches: each of three stages takes one look
S3 = replace(
    CONFIG,
    task="group",
    task_options={"name": "S3"},
    training=replace(CONFIG.training, steps=57, curriculum=EASY),
    validate_every=60,
)


def stages_of(folder: Path) -> list[int]:
    return [json.loads(line)["stage"] for line in (folder / METRICS_FILE).read_text().splitlines()]


def schedule(share: float = 0.5) -> LetterSchedule:
    return LetterSchedule(Curriculum("rank", share), make_task("group", {"name": "S3"}), torch.device("cpu"))


def test_the_next_stage_begins_when_enough_answers_are_right() -> None:
    letters, began = schedule(), []
    accuracy = [0.4] * LOOK_EVERY + [0.6] * LOOK_EVERY + [0.0] * LOOK_EVERY + [1.0] * 2 * LOOK_EVERY
    for step, share in enumerate(accuracy):
        letters.prepare(step)
        began.append(letters.stage)
        letters.count_answers(torch.tensor(share))
    assert began == [0] * 2 * LOOK_EVERY + [1] * 2 * LOOK_EVERY + [2] * LOOK_EVERY
    assert [letters.stage_at(step) for step in range(len(accuracy))] == began
    assert letters.count == 3


def test_a_step_draws_the_letters_of_its_stage_alone() -> None:
    letters, seen = schedule(share=0.01), []
    for step in range(2 * LOOK_EVERY + 1):
        letters.prepare(step)
        batch = letters.sample(64, (9, 9), seed=0, step=step, device=torch.device("cpu"))
        seen.append(len(set(batch.tokens[:, 1:].flatten().tolist())))
        letters.count_answers(torch.tensor(1.0))
    assert seen == [3] * LOOK_EVERY + [4] * LOOK_EVERY + [6]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    result = run_training(S3, folder)
    assert result.stages == (3, 3)
    return folder


def test_a_run_logs_its_stages(whole: Path) -> None:
    stages = stages_of(whole)
    assert sorted(set(stages)) == [1, 2, 3]
    assert stages == sorted(stages)
    assert all(stages[step] == stages[step - 1] for step in range(1, len(stages)) if step % LOOK_EVERY)


@pytest.mark.parametrize("stop_at", [LOOK_EVERY - 1, LOOK_EVERY + 3, 2 * LOOK_EVERY])
def test_an_interrupted_run_has_the_same_stages_and_bits(whole: Path, tmp_path: Path, stop_at: int) -> None:
    def interrupt(step: int, _: dict[str, Any]) -> None:
        if step == stop_at:
            raise Killed

    with pytest.raises(Killed):
        run_training(S3, tmp_path / "broken", report=interrupt)
    assert run_training(S3, tmp_path / "broken", resume=True).stages == (3, 3)
    assert_same_run(whole, tmp_path / "broken")


def test_a_run_is_stored_with_its_curriculum(whole: Path) -> None:
    assert load_run(whole) == S3
    with pytest.raises(ValueError, match="holds a run with another configuration"):
        run_training(replace(S3, training=replace(S3.training, curriculum=None)), whole, resume=True)


def test_one_stage_is_no_curriculum(tmp_path: Path) -> None:
    """Parity's letters are generators: every weight and every figure is that of a run without a curriculum."""
    run_training(CONFIG, tmp_path / "without")
    run_training(replace(CONFIG, training=replace(CONFIG.training, curriculum=EASY)), tmp_path / "with")
    assert "curriculum" not in (tmp_path / "without" / RUN_FILE).read_text()
    assert set(stages_of(tmp_path / "with")) == {1}
    lines = [json.loads(line) for line in (tmp_path / "with" / METRICS_FILE).read_text().splitlines()]
    plain = "".join(json.dumps({k: v for k, v in line.items() if k != "stage"}) + "\n" for line in lines)
    (tmp_path / "with" / METRICS_FILE).write_text(plain)
    assert_same_run(tmp_path / "without", tmp_path / "with")


def test_the_command_line_says_how_far_it_came(tmp_path: Path) -> None:
    command = "train --task group --task-option name=S3 --curriculum words --steps 3 --batch 4 --d-model 8 --out"
    done = CliRunner().invoke(app, [*command.split(), str(tmp_path / "run")])
    assert done.exit_code == 0
    assert "curriculum: stage 1 of 3: letters of later stages were never drawn, so train for more steps" in " ".join(
        done.output.split()
    )
    assert load_run(tmp_path / "run").training.curriculum == Curriculum("words")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--curriculum size", "curriculum 'size' is not known; there are rank, words, and none"),
        ("--curriculum rank --task recall", "curriculum 'rank' orders the letters of an automaton, and this task has none"),
    ],
)
def test_bad_input_is_named_and_nothing_is_written(tmp_path: Path, arguments: str, message: str) -> None:
    done = CliRunner().invoke(app, ["train", *arguments.split(), "--out", str(tmp_path / "run")])
    assert done.exit_code != 0
    assert message in " ".join(str(done.exception).split())
    assert not (tmp_path / "run").exists()


def make_step(device: str) -> TrainingStep:
    torch.manual_seed(0)
    task = make_task("group", {"name": "S3"})
    model = SequenceModel(ModelConfig(vocab_size=task.model_vocab_size, d_model=16, mixer="deltanet"))
    config = TrainingConfig(steps=99, batch=16, lengths=(24, 30), learning_rate=1e-2, curriculum=Curriculum("rank", 0.1))
    return TrainingStep(model.to(device), task, config)


def test_the_letters_are_chosen_without_reading_from_the_device() -> None:
    assert host_traffic(make_step("cpu")) == []


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_captured_step_changes_its_letters_at_the_same_step() -> None:
    """Batches that were drawn ahead for the stage before are drawn again."""
    assert LOOK_EVERY % MOST_AHEAD
    eager, inside = make_step("cuda"), make_step("cuda")
    captured = CapturedStep(inside)
    for number in range(2 * LOOK_EVERY + 3):
        torch.testing.assert_close(captured(number), eager(number), rtol=1e-3, atol=1e-4)
        assert inside.letters is not None
        assert eager.letters is not None
        assert inside.letters.stage == eager.letters.stage
    assert inside.letters.stage == 2
