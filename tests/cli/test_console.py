"""What the bars of both kinds of training show, on a narrow terminal and on a wide one."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console

from eigentrack.cli import console as consoles
from eigentrack.cli.lm.train import _said as said_of_language_models
from eigentrack.cli.train import _said as said_of_tasks

OF_TASKS = {"loss": 0.12345, "accuracy": 0.9931}
OF_LANGUAGE = {"loss": 4.33912, "tokens_per_second": 194_000.0, "utilisation": 0.52}
TIME_LEFT = r"\d+:\d\d:\d\d"


def last_line(
    describe: Callable[[dict[str, Any], float], str],
    metrics: dict[str, Any],
    validation: dict[str, Any],
    width: int,
    monkeypatch: pytest.MonkeyPatch,
) -> str:
    """Of a bar after steps 999 to 1001 of 200,000, the second with a validation."""
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    monkeypatch.setattr(consoles, "err", console)
    with consoles.TrainingBar(200_000, describe) as bar:
        for step, more in ((999, {}), (1000, validation), (1001, {})):
            bar.report(step, {**metrics, **more})
    shown = re.sub(r"\x1b\[[?\d;]*[A-Za-z]", "", console.file.getvalue())
    return shown.splitlines()[-1].split("\r")[-1].rstrip()


def test_a_language_model_at_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    line = last_line(said_of_language_models, OF_LANGUAGE, {"validation_loss": 4.71823}, 80, monkeypatch)
    assert len(line) <= 80
    assert re.search(rf"^.{{8}} {TIME_LEFT} 1001/200000  loss 4.339  validation 4.718  194,000 tokens/s", line), line
    assert "steps/s" not in line


def test_a_task_at_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    line = last_line(said_of_tasks, OF_TASKS, {"validation_accuracy": 0.998}, 80, monkeypatch)
    assert len(line) <= 80
    assert re.search(rf"^.{{8}} {TIME_LEFT} 1001/200000  loss 0.123  validation 0.998  accuracy 0.993", line), line


def test_a_wide_terminal_shows_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    line = last_line(said_of_language_models, OF_LANGUAGE, {"validation_loss": 4.71823}, 150, monkeypatch)
    assert re.search(rf"^.{{40}} {TIME_LEFT} .*194,000 tokens/s, 52% of the device$", line), line
    line = last_line(said_of_tasks, OF_TASKS, {"validation_accuracy": 0.998}, 150, monkeypatch)
    assert re.search(rf"{TIME_LEFT} .*accuracy 0.993  [\d.]+ steps/s$", line), line
