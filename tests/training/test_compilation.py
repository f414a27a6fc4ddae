"""Which trainings are compiled, and what is said where that takes long."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from eigentrack.layers import MIXERS
from eigentrack.training import step
from eigentrack.training.compilation import STEPS_TO_PAY, worth_compiling
from eigentrack.training.run import run_training
from tests.training.test_run import CONFIG


def model(*mixers: str, is_cuda: bool = True) -> Any:
    return SimpleNamespace(parameters=lambda: iter([SimpleNamespace(is_cuda=is_cuda)]), config=SimpleNamespace(mixers=mixers))


def test_long_trainings_on_a_gpu_are_compiled_but_for_loops() -> None:
    assert {name for name in MIXERS if not worth_compiling(model(name), STEPS_TO_PAY)} == {"slstm", "lstm"}
    assert not worth_compiling(model("deltanet", "slstm"), STEPS_TO_PAY)
    assert not worth_compiling(model("deltanet"), STEPS_TO_PAY - 1)
    assert not worth_compiling(model("deltanet", is_cuda=False), STEPS_TO_PAY)


@pytest.mark.parametrize(("mixer", "warned"), [("slstm", True), ("deltanet", False)])
def test_to_compile_a_loop_is_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mixer: str, warned: bool) -> None:
    monkeypatch.setattr(step, "compile_pass", lambda function: function)
    config = replace(CONFIG, model={"d_model": 8, "mixer": mixer}, training=replace(CONFIG.training, steps=1, warmup=0))
    said: list[str] = []
    run_training(config, tmp_path, compiled=True, say=said.append)
    line = "torch.compile unrolls the loop over time of slstm, for many minutes: better without --compile"
    assert said == ([line] if warned else [])
