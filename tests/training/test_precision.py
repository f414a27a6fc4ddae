"""bfloat16 autocast over float32 weights learns, and resumes with the same bits; TF32 is switched on for the step alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from eigentrack.models import ModelConfig, SequenceModel
from eigentrack.tasks.tracking import parity
from eigentrack.training import TrainingConfig, length_curve, train
from eigentrack.training.run import RunConfig, run_training
from eigentrack.training.step import TrainingStep
from tests.training.test_run import Killed, assert_same_run

SMALL = {"d_model": 16, "layers": 1, "mixer": "deltanet", "mixer_options": {"heads": 2, "conv": 0}}


def test_parity_is_learnt_in_bfloat16() -> None:
    torch.manual_seed(0)
    model = SequenceModel(ModelConfig.from_json({**SMALL, "vocab_size": 3}))
    config = TrainingConfig(steps=200, batch=64, lengths=(3, 20), learning_rate=1e-2, label_smoothing=0.1, precision="bfloat16")
    train(model, parity(), config)
    assert all(weight.dtype == torch.float32 for weight in model.parameters())
    assert length_curve(model, parity(), 40, sequences=128, seed=99).accuracy.min() > 0.99


def test_the_precision_makes_a_difference_and_float32_none() -> None:
    losses = []
    for precision in ("float32", "tfloat32", "bfloat16"):
        torch.manual_seed(0)
        model = SequenceModel(ModelConfig.from_json({**SMALL, "vocab_size": 3}))
        step = TrainingStep(model, parity(), TrainingConfig(steps=50, batch=8, lengths=(3, 9), precision=precision))
        losses.append(step(0)[0].item())
        assert torch.get_float32_matmul_precision() == "highest"
    assert losses[2] != losses[0] == pytest.approx(losses[1], rel=1e-2) == pytest.approx(losses[2], rel=1e-2)


def test_an_interrupted_run_in_bfloat16_ends_with_the_same_bits(tmp_path: Path) -> None:
    training = TrainingConfig(steps=25, batch=8, lengths=(3, 9), warmup=5, precision="bfloat16")
    config = RunConfig("parity", SMALL, training, validate_every=10, checkpoint_every=7, telemetry_every=5)

    def interrupt(step: int, _: dict[str, float]) -> None:
        if step == 18:
            raise Killed

    run_training(config, tmp_path / "whole")
    with pytest.raises(Killed):
        run_training(config, tmp_path / "broken", report=interrupt)
    run_training(config, tmp_path / "broken", resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "broken")
