"""A run can be killed at any moment and ends with the same bits; damaged checkpoints are passed over and named."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from eigentrack.files import only_process_in
from eigentrack.models import load_model
from eigentrack.training import Diverged
from eigentrack.training.checkpoint import checkpoints
from eigentrack.training.config import TrainingConfig
from eigentrack.training.driver import Ending, OneProcess, RunStopped
from eigentrack.training.run import CHECKPOINTS, METRICS_FILE, MODEL, RunConfig, load_run, run_training

ROOT = Path(__file__).resolve().parent.parent.parent
CONFIG = RunConfig(
    task="parity",
    model={"d_model": 8, "layers": 1, "mixer": "deltanet", "mixer_options": {"heads": 2, "conv": 0}},
    training=TrainingConfig(steps=40, batch=8, lengths=(3, 9), warmup=5),
    validate_every=16,
    checkpoint_every=7,
)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_model(folder / MODEL).state_dict()


def assert_same_run(first: Path, second: Path) -> None:
    assert (first / METRICS_FILE).read_text() == (second / METRICS_FILE).read_text()
    ours, theirs = weights(first), weights(second)
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_what_is_read_late_ends_nothing() -> None:
    """On a GPU the model is some steps ahead of what is read: only the step that was asked about in time is the last."""
    ending = Ending(lambda: True, OneProcess())
    assert ending.comes_at(32)
    assert [step for step in range(1, 40) if ending.came_at(step)] == [32]
    assert not ending.comes_at(33)


class Killed(Exception):
    pass


@pytest.mark.parametrize("stop_at", [1, 7, 8, 20, 39])
def test_an_interrupted_run_ends_with_the_same_bits(tmp_path: Path, stop_at: int) -> None:
    run_training(CONFIG, tmp_path / "whole")

    def interrupt(step: int, _: dict[str, float]) -> None:
        if step == stop_at:
            raise Killed

    with pytest.raises(Killed):
        run_training(CONFIG, tmp_path / "broken", report=interrupt)
    run_training(CONFIG, tmp_path / "broken", resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "broken")
    lines = (tmp_path / "whole" / METRICS_FILE).read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == list(range(1, 41))


def test_a_run_whose_time_is_over_stops_with_a_checkpoint_of_that_step(tmp_path: Path) -> None:
    run_training(CONFIG, tmp_path / "whole")
    for done in range(1, 40):  # each call takes one step more
        with pytest.raises(RunStopped, match=f"stopped after {done} of 40 steps"):
            run_training(CONFIG, tmp_path / "slices", resume=True, is_over=lambda: True)
    run_training(CONFIG, tmp_path / "slices", resume=True, is_over=lambda: True)  # the last step is no interruption
    assert_same_run(tmp_path / "whole", tmp_path / "slices")


def test_a_run_killed_with_sigkill_resumes_bit_by_bit(tmp_path: Path) -> None:
    config = replace(CONFIG, training=replace(CONFIG.training, steps=300), stop_when_solved=False, checkpoint_every=3)
    run_training(config, tmp_path / "whole")
    (tmp_path / "config.json").write_text(json.dumps(config.to_json()))
    command = [sys.executable, "-m", "eigentrack", "train", "--config", str(tmp_path / "config.json")]
    command += ["--out", str(tmp_path / "killed"), "--resume"]
    environment, folder, kills = {**os.environ, "OMP_NUM_THREADS": "1"}, tmp_path / "killed" / CHECKPOINTS, 0
    for patience in (0.1, 0.3):
        before = checkpoints(folder)[-1:]
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and checkpoints(folder)[-1:] == before:
            time.sleep(0.01)
        time.sleep(patience)
        kills += process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert kills >= 1
    run_training(config, tmp_path / "killed", resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "killed")


def test_a_damaged_checkpoint_is_passed_over_and_named(tmp_path: Path) -> None:
    run_training(CONFIG, tmp_path / "whole")
    run_training(CONFIG, tmp_path / "run")
    newest = checkpoints(tmp_path / "run" / CHECKPOINTS)[-1]
    newest.write_bytes(newest.read_bytes()[:100])
    said: list[str] = []
    run_training(CONFIG, tmp_path / "run", resume=True, say=said.append)
    assert len(said) == 1
    assert newest.name in said[0]
    assert "going back to what was before it" in said[0]
    assert_same_run(tmp_path / "whole", tmp_path / "run")


def test_an_incomplete_checkpoint_changes_nothing(tmp_path: Path) -> None:
    """All of it is checked before any of it is loaded: the run then starts afresh, from fresh weights."""
    run_training(CONFIG, tmp_path / "whole")
    run_training(CONFIG, tmp_path / "run")
    oldest, newest = checkpoints(tmp_path / "run" / CHECKPOINTS)
    oldest.unlink()
    tensors = load_file(newest)
    del tensors["random"]
    save_file(tensors, newest, metadata={"step": "40"})
    said: list[str] = []
    run_training(CONFIG, tmp_path / "run", resume=True, say=said.append)
    assert "random does not fit" in said[0]
    assert_same_run(tmp_path / "whole", tmp_path / "run")


def test_lost_and_torn_metrics_do_not_stop_a_run_from_going_on(tmp_path: Path) -> None:
    def interrupt(step: int, _: dict[str, float]) -> None:
        if step == 24:
            raise Killed

    with pytest.raises(Killed):
        run_training(CONFIG, tmp_path, report=interrupt)
    lines = (tmp_path / METRICS_FILE).read_text().splitlines()
    del lines[3]
    lines[5] = lines[5][:10]
    torn = ["[1, 2]", '{"step": "x"}', '{"step": 25, "lo']
    (tmp_path / METRICS_FILE).write_bytes("\n".join([*lines, *torn]).encode() + b"\xb7")
    run_training(CONFIG, tmp_path, resume=True)
    steps = [json.loads(line)["step"] for line in (tmp_path / METRICS_FILE).read_text().splitlines()]
    assert steps == [step for step in range(1, 41) if step not in (4, 7)]


def test_a_full_disk_does_not_end_the_run(tmp_path: Path) -> None:
    """A process that may not write files larger than 8000 bytes: the metrics fit, no checkpoint does, and each is named."""
    config = replace(CONFIG, model={**CONFIG.model, "d_model": 16}, telemetry_every=0)
    (tmp_path / "config.json").write_text(json.dumps(config.to_json()))
    script = (
        "import resource, signal, sys\n"
        "from pathlib import Path\n"
        "from eigentrack.training.run import load_run_file, run_training\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (8000, 8000))\n"
        "folder = Path(sys.argv[1])\n"
        "try:\n"
        "    run_training(load_run_file(folder / 'config.json'), folder / 'run', say=print)\n"
        "except OSError as error:\n"
        "    print('at the end:', error)\n"
    )
    result = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, text=True, cwd=ROOT, check=False)
    said = result.stdout.splitlines()
    assert result.returncode == 0, result.stderr
    assert "the checkpoint of step 7 could not be written" in said[0]
    assert sum("could not be written" in line for line in said) == 7  # six checkpoints and the model
    assert said[-1].startswith("at the end:")
    assert len((tmp_path / "run" / METRICS_FILE).read_text().splitlines()) == 40


def test_a_run_that_cannot_start_leaves_nothing_behind(tmp_path: Path) -> None:
    bad_heads = replace(CONFIG, model={**CONFIG.model, "mixer_options": {"heads": 5}})
    with pytest.raises(ValueError, match="must be a multiple of heads=5"):
        run_training(bad_heads, tmp_path / "run")
    with pytest.raises(ValueError, match="lengths"):
        run_training(replace(CONFIG, task="recall"), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    run_training(CONFIG, tmp_path / "run")


def test_a_hybrid_resumes(tmp_path: Path) -> None:
    hybrid = replace(CONFIG, model={"d_model": 8, "layers": 2, "mixer": ("deltanet", "mamba")})
    first = run_training(hybrid, tmp_path)
    assert run_training(hybrid, tmp_path, resume=True) == first


def test_the_head_holds_every_answer(tmp_path: Path) -> None:
    """A word problem over few generators has more answers than tokens."""
    options = {"name": "A5", "inputs": "generators"}
    config = replace(CONFIG, task="group", task_options=options, training=replace(CONFIG.training, steps=5))
    assert config.build_task().classes == 60 > config.build_task().vocab_size
    assert config.build_model_config().vocab_size == 60
    assert run_training(config, tmp_path).steps == 5


def test_two_checkpoints_are_kept(tmp_path: Path) -> None:
    run_training(CONFIG, tmp_path)
    assert [path.name for path in checkpoints(tmp_path / CHECKPOINTS)] == [
        "step-000000035.safetensors",
        "step-000000040.safetensors",
    ]
    assert load_run(tmp_path) == CONFIG


def test_checkpoints_that_cannot_be_used_do_not_displace_new_ones(tmp_path: Path) -> None:
    """Both are torn, so that the run starts again; stopped before it is where they were, it goes on from where it stopped."""
    run_training(CONFIG, tmp_path)
    for path in checkpoints(tmp_path / CHECKPOINTS):
        path.write_bytes(b"torn")
    with pytest.raises(RunStopped, match="stopped after 1 of 40 steps"):
        run_training(CONFIG, tmp_path, resume=True, is_over=lambda: True, say=lambda text: None)
    assert [path.name for path in checkpoints(tmp_path / CHECKPOINTS)] == ["step-000000001.safetensors"]


def test_what_a_killed_process_was_writing_is_cleared_away(tmp_path: Path) -> None:
    run_training(CONFIG, tmp_path)
    left = tmp_path / CHECKPOINTS / ".step-000000042.safetensors.4242.tmp"
    left.write_bytes(b"half a checkpoint")
    run_training(CONFIG, tmp_path, resume=True)
    assert not left.exists()


def test_two_processes_do_not_share_a_folder(tmp_path: Path) -> None:
    with only_process_in(tmp_path), pytest.raises(ValueError, match="another process is at work in"):
        run_training(CONFIG, tmp_path)
    assert run_training(CONFIG, tmp_path).steps == 40


def test_it_stops_when_solved(tmp_path: Path) -> None:
    training = TrainingConfig(steps=2000, batch=64, lengths=(3, 12), learning_rate=1e-2)
    model = {"d_model": 16, "layers": 1, "mixer": "deltanet", "mixer_options": {"heads": 2, "conv": 0}}
    config = RunConfig(task="parity", model=model, training=training, validate_every=20, checkpoint_every=50)
    result = run_training(config, tmp_path)
    assert result.solved
    assert result.steps < 1000
    again = run_training(config, tmp_path, resume=True)
    assert again == result


def test_a_diverging_loss_stops_with_the_step(tmp_path: Path) -> None:
    training = replace(CONFIG.training, learning_rate=1e12, warmup=0, clip=1e9, steps=200)
    message = r"the loss is nan at step 2: lower the learning rate \(9.99941e\+11\); the step before had loss .* norm, .*, in "
    with pytest.raises(Diverged, match=message) as error:
        run_training(replace(CONFIG, training=training), tmp_path)
    assert f"at step {error.value.step}:" in str(error.value)
    lines = [json.loads(line) for line in (tmp_path / METRICS_FILE).read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(1, error.value.step))
    assert all(math.isfinite(line["loss"]) and math.isfinite(line["gradient_norm"]) for line in lines)


def test_folders_in_use_are_named(tmp_path: Path) -> None:
    run_training(CONFIG, tmp_path / "run")
    with pytest.raises(ValueError, match="already holds a run: add --resume"):
        run_training(CONFIG, tmp_path / "run")
    with pytest.raises(ValueError, match="holds a run with another configuration"):
        run_training(replace(CONFIG, validate_every=3), tmp_path / "run", resume=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="is a file: name a folder"):
        run_training(CONFIG, tmp_path / "file")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task": "pairty"}, "task 'pairty' is not known; there are parity"),
        ({"task_options": {"size": 3}}, "task 'parity' has no option 'size'; it takes last_weight"),
        ({"model": {"width": 3}}, "unknown configuration entry 'width'"),
        ({"training": {"steps": 3}}, "the training configuration needs 'batch'"),
        ({"training": {"steps": 3, "batch": 2, "lengths": [1, 2], "speed": 1}}, "unknown training entry 'speed'"),
        ({"validate_every": 0}, "validate_every=0 must be at least 1"),
        ({"telemetry_every": -1}, "telemetry_every=-1 must be at least 0"),
        ({"checkpoint_every": "often"}, "checkpoint_every='often' must be at least 1"),
        ({"validation_lengths": [3]}, r"validation_lengths=\(3,\) must be two whole numbers"),
        ({"validation_lengths": 5}, "validation_lengths=5 must be two whole numbers"),
        ({"validation_lengths": "abc"}, "validation_lengths='abc' must be two whole numbers"),
        ({"validation_lengths": [3.5, 8]}, r"validation_lengths=\(3.5, 8\) must be two whole numbers"),
        ({"validation_lengths": [8, 3]}, r"lengths=\(8, 3\) must be 1 ≤ shortest ≤ longest"),
        ({"stop_when_solved": "no"}, "stop_when_solved='no' must be true or false"),
        ({"task_options": [1]}, r"task_options=\[1\] must be an object"),
        ({"depth": 1}, "unknown run entry 'depth'"),
    ],
)
def test_bad_entries_are_named(change: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RunConfig.from_json({**CONFIG.to_json(), **change})
