"""What the bars of both kinds of training show, on a narrow terminal and on a wide one."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Callable
from typing import Any

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

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


def test_without_a_terminal_progress_is_plain_lines_at_a_rhythm(monkeypatch: pytest.MonkeyPatch) -> None:
    console, now = Console(file=io.StringIO(), width=80), [0.0]
    monkeypatch.setattr(consoles, "err", console)
    monkeypatch.setattr(consoles.time, "monotonic", lambda: now[0])
    with consoles.TrainingBar(1000, said_of_tasks) as bar:
        for step in range(1, 101):
            now[0] += 0.25
            bar.report(step, OF_TASKS)
    lines = console.file.getvalue().splitlines()
    assert [line.split()[1] for line in lines] == ["40/1000", "80/1000", "100/1000"]  # after 10 and 20 seconds, and at the end
    assert all(line.startswith(share) for line, share in zip(lines, ("4%", "8%", "10%"), strict=True))


def test_nothing_is_shown_before_anything_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    for is_terminal in (True, False):
        console = Console(file=io.StringIO(), force_terminal=is_terminal)
        monkeypatch.setattr(consoles, "err", console)
        with pytest.raises(KeyError), consoles.Bars():
            raise KeyError
        assert console.file.getvalue() == ""


@pytest.mark.parametrize(
    ("given", "shown"), [([], ["warned", "said"]), (["-q"], ["warned"]), (["-v"], ["warned", "said", "in detail"])]
)
def test_verbosity(given: list[str], shown: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(file=io.StringIO())
    monkeypatch.setattr(consoles, "err", console)

    def command(word: str) -> None:
        log = logging.getLogger("eigentrack.some.module")
        log.warning("warned")
        log.info("said")
        log.debug("in detail")

    app = typer.Typer()
    app.command()(consoles.with_verbosity(command))
    with consoles.logged():
        assert CliRunner().invoke(app, ["word", *given]).exit_code == 0
    assert console.file.getvalue().split("\n")[:-1] == shown
    assert not consoles.LIBRARY.handlers  # the library has none of its own
