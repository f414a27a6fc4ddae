"""Telemetry tells the truth, and looking changes nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from eigentrack.layers import LinearMixer
from eigentrack.models import ModelConfig, SequenceModel
from eigentrack.tasks.tracking import parity
from eigentrack.training import TrainingConfig
from eigentrack.training.optimizer import model_parts
from eigentrack.training.run import METRICS_FILE, run_training
from eigentrack.training.step import TrainingStep, batch_loss, read_outcomes
from eigentrack.training.telemetry import BINS, histogram, telemetry
from tests.training.test_run import CONFIG, assert_same_run, weights


def make_step(**changes: Any) -> TrainingStep:
    torch.manual_seed(0)
    values: dict[str, Any] = {"vocab_size": 3, "d_model": 8, "mixer": ("deltanet", "mamba"), **changes}
    training = TrainingConfig(steps=50, batch=6, lengths=(3, 9), warmup=0, weight_decay=0.3, learning_rate=1e-2)
    return TrainingStep(SequenceModel(ModelConfig(**values)), parity(), training)


def test_every_parameter_belongs_to_one_part() -> None:
    parts = model_parts(make_step().model)
    assert list(parts) == ["embedding", "blocks.0.mixer", "blocks.0.mlp", "blocks.1.mixer", "blocks.1.mlp", "head"]
    listed = [id(parameter) for part in parts.values() for parameter in part]
    assert sorted(listed) == sorted(id(parameter) for parameter in make_step_parameters(parts))
    tied = model_parts(make_step(tie_embeddings=True, mlp_width=0).model)
    assert list(tied) == ["embedding", "blocks.0.mixer", "blocks.1.mixer", "head"]
    assert len(tied["head"]) == 1  # the norm: the head's matrix is the embedding


def make_step_parameters(parts: dict[str, list[torch.nn.Parameter]]) -> list[torch.nn.Parameter]:
    return list({id(parameter): parameter for part in parts.values() for parameter in part}.values())


def test_gradient_norms_are_those_of_the_loss() -> None:
    step, twin = make_step(), make_step()
    (outcome,) = read_outcomes(list(step.parts), [0], [step(0)])
    batch = twin.sample(0)
    loss = batch_loss(twin.logits(batch.tokens), batch, 0.0)
    for part, parameters in twin.parts.items():
        gradients = torch.autograd.grad(loss, parameters, retain_graph=True)
        expected = torch.cat([gradient.flatten() for gradient in gradients]).norm().item()
        assert outcome.gradient_norms[part] == pytest.approx(expected, rel=1e-5)
    assert outcome.loss == pytest.approx(loss.item(), rel=1e-6)
    assert outcome.gradient_norm == pytest.approx(sum(n**2 for n in outcome.gradient_norms.values()) ** 0.5)


def test_update_ratios_are_how_far_the_weights_moved() -> None:
    step = make_step()
    for number in range(3):
        before = {part: torch.cat([p.detach().flatten() for p in parameters]) for part, parameters in step.parts.items()}
        (outcome,) = read_outcomes(list(step.parts), [number], [step(number)])
        found = telemetry(step, outcome)["update_ratio"]
        for part, parameters in step.parts.items():
            after = torch.cat([p.detach().flatten() for p in parameters])
            assert found[part] == pytest.approx(((after - before[part]).norm() / before[part].norm()).item(), rel=1e-3)


def test_histograms_count_what_the_mixers_see() -> None:
    step = make_step()
    (outcome,) = read_outcomes(list(step.parts), [0], [step(0)])
    found = telemetry(step, outcome)["histograms"]
    assert {name: set(gates) for name, gates in found.items()} == {
        "blocks.0.mixer": {"eigenvalue", "beta"},
        "blocks.1.mixer": {"eigenvalue"},
    }
    model, tokens = step.model, step.sample(0).tokens
    mixer = model.blocks[0].mixer
    assert isinstance(mixer, LinearMixer)
    with torch.no_grad():
        eigenvalues = mixer.gates(model.blocks[0].mixer_norm(model.embedding(tokens)))["eigenvalue"]
    counted = found["blocks.0.mixer"]["eigenvalue"]
    assert sum(counted["counts"]) == eigenvalues.numel()
    assert (counted["low"], counted["high"]) == pytest.approx((eigenvalues.min().item(), eigenvalues.max().item()))


def test_a_histogram() -> None:
    values = torch.tensor([-1.0, -1.7, 0.0, 0.01, 1.0, 3.0])
    counted = histogram(values, -1, 1)
    assert counted["counts"] == [2] + [0] * (BINS // 2 - 1) + [2] + [0] * (BINS // 2 - 2) + [2]
    assert (counted["low"], counted["high"], counted["modulus"]) == pytest.approx((-1.7, 3.0, 3.0))
    turning = histogram(torch.tensor([0.3 + 0.4j]), -1, 1)
    assert (turning["low"], turning["high"], turning["modulus"]) == pytest.approx((0.3, 0.3, 0.5))


def test_looking_changes_no_bit(tmp_path: Path) -> None:
    never = replace(CONFIG, telemetry_every=0)
    run_training(never, tmp_path / "never")
    run_training(replace(CONFIG, telemetry_every=3), tmp_path / "often")
    ours, theirs = weights(tmp_path / "never"), weights(tmp_path / "often")
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    lines = [
        [json.loads(line) for line in (tmp_path / run / METRICS_FILE).read_text().splitlines()] for run in ("never", "often")
    ]
    assert [line["step"] for line in lines[1] if "telemetry" in line] == [*range(3, 40, 3), 40]
    assert not any("telemetry" in line for line in lines[0])
    assert [{**line, "telemetry": 0} for line in lines[0]] == [{**line, "telemetry": 0} for line in lines[1]]


@pytest.mark.parametrize("mixer", ["slstm", "attention", "dense", "s4d"])
def test_any_layer_can_be_looked_at(mixer: str, tmp_path: Path) -> None:
    eigenvalues: Any = {"disk": [0, 1]} if mixer == "s4d" else [-1, 1]
    model = {"d_model": 8, "layers": 1, "mixer": mixer, "eigenvalues": eigenvalues}
    config = replace(CONFIG, model=model, training=replace(CONFIG.training, steps=5), telemetry_every=5)
    run_training(config, tmp_path / "run")
    run_training(config, tmp_path / "again")
    assert_same_run(tmp_path / "run", tmp_path / "again")
    last = json.loads((tmp_path / "run" / METRICS_FILE).read_text().splitlines()[-1])
    seen = last["telemetry"]["histograms"]
    if mixer in ("dense", "s4d"):
        assert seen["blocks.0.mixer"]["eigenvalue"]["modulus"] <= 1 + 1e-6
    else:
        assert seen == {}
