"""Ctrl-C and SIGTERM end a command with one line and the exit code 130 or 143, a training with a checkpoint."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from eigentrack.cli import main
from eigentrack.cli.interruption import Interrupted, handled, noted, raise_if_noted
from eigentrack.training.run import CHECKPOINTS, METRICS_FILE

ROOT = Path(__file__).resolve().parent.parent.parent
SMALL = ["--d-model", "8", "--layer-option", "heads=2", "--batch", "4", "--lengths", "3,6", "--telemetry-every", "0"]


def test_a_signal_is_raised_or_noted() -> None:
    with handled():
        with pytest.raises(Interrupted, match="stopped by SIGTERM: the same command starts anew") as stopped:
            os.kill(os.getpid(), signal.SIGTERM)
        assert stopped.value.exit_code == 143
        with noted() as has_come:
            assert not has_come()
            os.kill(os.getpid(), signal.SIGINT)
            assert has_come()
        with pytest.raises(Interrupted, match="stopped by Ctrl-C: more") as stopped:
            raise_if_noted("more")
        assert stopped.value.exit_code == 130


def test_a_second_signal_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with handled(), noted():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)  # the same, passed on
        now = time.monotonic()
        monkeypatch.setattr("eigentrack.cli.interruption.time.monotonic", lambda: now + 2)
        with pytest.raises(Interrupted):
            os.kill(os.getpid(), signal.SIGINT)


def test_a_training_stops_with_a_checkpoint_and_names_the_command_that_resumes_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "eigentrack", "train", *SMALL, "--steps", "100000", "--out", str(tmp_path / "run")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)
    metrics = tmp_path / "run" / METRICS_FILE
    while process.poll() is None and not (metrics.exists() and metrics.stat().st_size):
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=120)[1]
    assert process.returncode == 143, said
    *_, last = said.splitlines()
    done = len(metrics.read_text().splitlines())
    resume = f"eigentrack train --out {tmp_path / 'run'} --resume"
    assert last == f"stopped by SIGTERM: stopped after {done} of 100000 steps; `{resume}` goes on"
    assert [path.name for path in (tmp_path / "run" / CHECKPOINTS).iterdir()][-1:] == [f"step-{done:09d}.safetensors"]
    assert "Traceback" not in said


def test_other_commands_end_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("eigentrack.compiler.choose_plan", interrupted)
    monkeypatch.setattr(sys, "argv", ["eigentrack", "compile", "(aa)*", "-o", str(tmp_path / "net")])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "stopped by Ctrl-C: the same command starts anew\n"
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_named_with_what_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    arguments = ["eigentrack", "train", *SMALL, "--steps", "4", "--checkpoint-every", "2", "--out", str(run)]

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sys, "argv", arguments)
    with monkeypatch.context() as patch:
        patch.setattr("eigentrack.models.storage.write_json", full)
        with pytest.raises(SystemExit) as ended:
            main()
    assert ended.value.code == 2
    assert capsys.readouterr().err.splitlines()[-2:] == [
        f"error: {run / 'model'} could not be written (No space left on device); nothing is left of it",
        f"the checkpoints are kept: with more space `eigentrack train --out {run} --resume` goes on",
    ]
    monkeypatch.setattr(sys, "argv", ["eigentrack", "train", "--out", str(run), "--resume"])
    main_ends_well()
    assert [json.loads(line)["step"] for line in (run / METRICS_FILE).read_text().splitlines()] == [1, 2, 3, 4]
    assert (run / "model" / "config.json").exists()


def main_ends_well() -> None:
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
