"""Which trainings are compiled, and what is said where that takes long."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from eigentrack.layers import MIXERS
from eigentrack.layers.slstm import SLSTM
from eigentrack.ops.shared import dispatch
from eigentrack.training import step
from eigentrack.training.compilation import STEPS_TO_PAY, looping_mixers, worth_compiling
from eigentrack.training.run import run_training
from tests.training.test_run import CONFIG


def model(*mixers: str, is_cuda: bool = True, d_model: int = 8) -> Any:
    layers = [SLSTM(d_model, heads=1) for name in mixers if name == "slstm"]
    return SimpleNamespace(
        parameters=lambda: iter([SimpleNamespace(is_cuda=is_cuda)]),
        modules=lambda: iter(layers),
        config=SimpleNamespace(mixers=mixers),
    )


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU."""
    monkeypatch.setattr(dispatch, "no_triton", lambda x: None)


@pytest.mark.usefixtures("kernels")
def test_long_trainings_on_a_gpu_are_compiled_but_for_loops() -> None:
    assert {name for name in MIXERS if not worth_compiling(model(name), STEPS_TO_PAY)} == {"lstm"}
    assert not worth_compiling(model("deltanet", "lstm"), STEPS_TO_PAY)
    assert not worth_compiling(model("deltanet"), STEPS_TO_PAY - 1)
    assert not worth_compiling(model("deltanet", is_cuda=False), STEPS_TO_PAY)


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(("d_model", "loops"), [(64, []), (65, ["slstm"])])
def test_slstm_on_its_kernel_is_no_loop_but_wide_heads_have_none(d_model: int, loops: list[str]) -> None:
    assert looping_mixers(model("slstm", "deltanet", d_model=d_model)) == loops
    assert looping_mixers(model("slstm", "lstm", d_model=d_model)) == ["lstm", *loops]


@pytest.mark.parametrize(("mixer", "warned"), [("lstm", True), ("slstm", True), ("deltanet", False)])
def test_to_compile_a_loop_is_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mixer: str, warned: bool) -> None:
    monkeypatch.setattr(step, "compile_pass", lambda function: function)
    config = replace(CONFIG, model={"d_model": 8, "mixer": mixer}, training=replace(CONFIG.training, steps=1, warmup=0))
    said: list[str] = []
    run_training(config, tmp_path, compiled=True, say=said.append)
    line = f"torch.compile unrolls the loop over time of {mixer}, for many minutes: better without --compile"
    assert said == ([line] if warned else [])
