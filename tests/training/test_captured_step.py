"""A step in a CUDA graph is the same step: same batches, same losses, same weights. Needs a GPU, but for the first test."""

from __future__ import annotations

import shutil
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from eigentrack.layers import MIXERS
from eigentrack.models import ModelConfig, SequenceModel
from eigentrack.tasks.registry import TASKS, make_task
from eigentrack.training import Diverged, TrainingConfig, train
from eigentrack.training.captured_step import WARM_UP, CapturedStep
from eigentrack.training.run import RunConfig, run_training
from eigentrack.training.step import MOST_AHEAD, TrainingStep

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
OPTIONS: dict[str, dict[str, Any]] = {"dense": {"state_size": 8}, "convolution": {"width": 3}}
TASK_OPTIONS: dict[str, dict[str, Any]] = {
    "language": {"name": "dyck2-3"},
    "language-state": {"name": "d12"},
    "counter-language": {"name": "shuffle4"},
    "group": {"name": "S5", "tokens_per_letter": 2},
}
every_mixer = pytest.mark.parametrize("mixer", MIXERS)
every_task = pytest.mark.parametrize("task", TASKS)


def make_step(
    mixer: str = "deltanet",
    device: str = "cpu",
    task: str = "parity",
    mixer_options: dict[str, Any] | None = None,
    **changes: Any,
) -> TrainingStep:
    torch.manual_seed(0)
    made = make_task(task, TASK_OPTIONS.get(task, {}))
    options = OPTIONS.get(mixer, {}) if mixer_options is None else mixer_options
    config = ModelConfig(vocab_size=made.model_vocab_size, d_model=16, mixer=mixer, mixer_options=options)
    training = {"steps": 50, "batch": 16, "lengths": (24, 30), "learning_rate": 1e-2, **changes}
    return TrainingStep(SequenceModel(config).to(device), made, TrainingConfig(**training))


class HostTraffic(TorchDispatchMode):
    """Notes whatever reads a value from a tensor, or makes one from Python numbers: a graph can hold neither."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, call: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = call.overloadpacket.__name__
        by_mask = name in ("index", "index_put_") and any(x is not None and x.dtype == torch.bool for x in args[1])
        by_counts = name == "repeat_interleave" and "output_size" not in (kwargs or {})  # how long is it?
        if by_mask or by_counts or name in ("_local_scalar_dense", "lift_fresh", "nonzero", "masked_select"):
            stack = "".join(traceback.format_stack())
            # AdamW keeps its numbers on the host on a CPU; tokens are checked on a CPU alone
            if "torch/optim" not in stack and "_check_tokens" not in stack:
                self.found.append(stack)
        return call(*args, **(kwargs or {}))


def host_traffic(step: TrainingStep) -> list[str]:
    numbers = torch.zeros(2, dtype=torch.int64)
    step.learn(step.sample(numbers))  # the first time, tables are made
    with HostTraffic() as traffic:
        step.learn(step.sample(numbers))
    return traffic.found


@every_mixer
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_no_layer_reads_from_the_device(mixer: str, precision: str) -> None:
    assert host_traffic(make_step(mixer, precision=precision)) == []


def test_no_full_matrix_without_a_range_reads_from_the_device() -> None:
    assert host_traffic(make_step("dense", mixer_options={"eigenvalues": None, "state_size": 8})) == []


@every_task
def test_no_task_reads_from_the_device(task: str) -> None:
    assert host_traffic(make_step(task=task)) == []


def test_what_reads_from_the_device_is_found() -> None:
    with HostTraffic() as traffic:
        counts = torch.ones(2)[torch.tensor([True, False])].long()
        counts.repeat_interleave(counts).sum().item()
    assert len(traffic.found) == 4


@needs_cuda
@pytest.mark.parametrize("mixer", MIXERS)
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_captured_step_equals_the_step(mixer: str, precision: str) -> None:
    eager, inside = (make_step(mixer, "cuda", precision=precision) for _ in range(2))
    captured = CapturedStep(inside)
    for number in range(WARM_UP + 5):
        torch.testing.assert_close(captured(number), eager(number), rtol=1e-3, atol=1e-4)
    for name, weight in eager.model.state_dict().items():
        torch.testing.assert_close(inside.model.state_dict()[name], weight, rtol=1e-2, atol=1e-3)


@needs_cuda
@every_task
def test_a_captured_step_draws_every_batch_itself(task: str) -> None:
    """In any order of the steps, too."""
    eager, captured = make_step(task=task, device="cuda"), CapturedStep(make_step(task=task, device="cuda"))
    for number in [*range(WARM_UP + MOST_AHEAD + 2), 40, 41, 3]:
        torch.testing.assert_close(captured(number), eager(number), rtol=1e-3, atol=1e-4)


@pytest.mark.slow
@pytest.mark.skipif(not torch.cuda.is_available() and shutil.which("c++") is None, reason="needs a compiler")
@pytest.mark.parametrize("mixer", ["deltanet", "mamba"])
def test_a_compiled_step_equals_the_step(mixer: str) -> None:
    """In a process of its own: the compiler cannot see through the type checks that the tests switch on."""
    script = (
        "import torch\n"
        "from eigentrack.models import ModelConfig, SequenceModel\n"
        "from eigentrack.tasks.tracking import parity\n"
        "from eigentrack.training import TrainingConfig\n"
        "from eigentrack.training.step import TrainingStep\n"
        "def step(compiled):\n"
        "    torch.manual_seed(0)\n"
        f"    model = SequenceModel(ModelConfig(vocab_size=3, d_model=16, layers=1, mixer={mixer!r}))\n"
        "    model.to('cuda' if torch.cuda.is_available() else 'cpu')\n"
        "    config = TrainingConfig(steps=50, batch=8, lengths=(3, 12))\n"
        "    return TrainingStep(model, parity(), config, compiled=compiled)\n"
        "plain, compiled = step(False), step(True)\n"
        "for number in range(3):\n"
        "    torch.testing.assert_close(compiled(number), plain(number), rtol=1e-3, atol=1e-4)\n"
        "print('equal')\n"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert result.stdout.splitlines()[-1:] == ["equal"], result.stderr[-2000:]


@needs_cuda
def test_divergence_in_a_graph_names_the_right_step() -> None:
    found = []
    for graph in (True, False):
        step = make_step("dense", "cuda", learning_rate=1e6, warmup=0, clip=1e9)
        with pytest.raises(Diverged) as error:
            train(step.model, step.task, step.config, graph=graph)
        found.append(error.value.step)
    assert found[0] == found[1]


@needs_cuda
def test_a_run_resumes_on_a_gpu(tmp_path: Path) -> None:
    class Killed(Exception):
        pass

    def interrupt(step: int, _: dict[str, Any]) -> None:
        if step == 24:
            raise Killed

    training = TrainingConfig(steps=40, batch=16, lengths=(3, 12), warmup=5)
    model = {"d_model": 16, "layers": 1, "mixer": "deltanet", "mixer_options": {"heads": 2}}
    config = RunConfig("parity", model, training, validate_every=16, checkpoint_every=7, telemetry_every=10)
    whole = run_training(config, tmp_path / "whole", device="cuda")
    with pytest.raises(Killed):
        run_training(config, tmp_path / "broken", device="cuda", report=interrupt)
    resumed = run_training(config, tmp_path / "broken", device="cuda", resume=True)
    assert resumed.steps == whole.steps == 40
    assert resumed.validation_accuracy == pytest.approx(whole.validation_accuracy, abs=0.02)
