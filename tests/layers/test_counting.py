"""Counting modulo 3 with rotations: right at length 100,000 with weights that are set, and learnt from 20 letters."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from eigentrack.layers import GLA, DeltaNet
from eigentrack.models import ModelConfig, SequenceModel
from eigentrack.spectrum import EigenDisk, EigenPolygon, EigenRange
from eigentrack.tasks.tracking import word_problem
from eigentrack.training import TrainingConfig, length_curve, scaled_accuracy, train
from eigentrack.training.step import TrainingStep

LENGTH = 100_000


def counter(modulus: int) -> GLA:
    """Letter g turns (1, 0) by g/modulus; one head reads the cosine, the other the sine."""
    layer = GLA(
        modulus, heads=2, key_dim=2, value_dim=1, gate_rank=1, eigenvalues=EigenDisk(), bare=True, learn_initial_state=True
    )
    assert layer.turn_proj is not None
    assert layer.initial_memory is not None
    with torch.no_grad():
        for weight in layer.parameters():
            weight.zero_()
        last = layer.gate_proj[1]
        assert isinstance(last, nn.Linear)
        last.bias.fill_(200.0)  # a gate of exactly 1
        layer.turn_proj.weight.copy_((torch.arange(modulus) / modulus).expand(2, -1))
        layer.initial_memory[:, 0] = 1.0
        layer.q_proj.weight.copy_(torch.tensor([1.0, 0.0, 0.0, 1.0])[:, None].expand(-1, modulus))
        layer.out_proj.weight[:2] = torch.eye(2)
    return layer


def read(y: Tensor, modulus: int) -> Tensor:
    angle = torch.atan2(y[..., 1].double(), y[..., 0].double()) / (2 * torch.pi)
    return (angle * modulus).round().long() % modulus


@pytest.mark.parametrize("modulus", [3, 4, 7])
def test_a_rotation_counts_at_every_length(modulus: int) -> None:
    letters = torch.randint(modulus, (1, LENGTH))
    layer = counter(modulus)
    with torch.no_grad():
        y, state = layer(nn.functional.one_hot(letters, modulus).float())
        count = letters.cumsum(1) % modulus
        assert torch.equal(read(y, modulus), count)
        for letter in (1, 0, modulus - 1):
            y, state = layer.step(nn.functional.one_hot(torch.tensor([letter]), modulus).float(), state)
            count = (count[:, -1:] + letter) % modulus
            assert torch.equal(read(y, modulus), count[:, 0])


def test_a_cast_to_half_precision_leaves_the_angles_alone() -> None:
    """In bfloat16 a third of a turn is 0.334: the count is lost within 500 letters."""
    letters, layer = torch.randint(3, (1, 5000)), counter(3).bfloat16()
    assert layer.turn_proj is not None
    assert (layer.turn_proj.weight.dtype, layer.q_proj.weight.dtype) == (torch.float32, torch.bfloat16)
    with torch.no_grad():
        y, _ = layer(nn.functional.one_hot(letters, 3).bfloat16())
    assert torch.equal(read(y, 3), letters.cumsum(1) % 3)
    assert layer.double().turn_proj.weight.dtype == torch.float64
    assert layer.to("meta").turn_proj.weight.is_meta


def test_deltanet_counts_where_its_gate_turns() -> None:
    """Letter g turns by g/5, with factors that are switched off; the chunked form and steps agree with the count."""
    layer = DeltaNet(5, heads=2, key_dim=2, value_dim=1, gate=EigenDisk(), conv=0, bare=True, learn_initial_state=True)
    assert layer.turn_proj is not None
    assert layer.initial_memory is not None
    with torch.no_grad():
        for weight in layer.parameters():
            weight.zero_()
        layer.gate_bias.fill_(-200.0)  # a gate of exactly 1
        layer.beta_proj.weight.fill_(-200.0)  # b = 0
        layer.turn_proj.weight.copy_((torch.arange(5) / 5).expand(2, -1))
        layer.initial_memory[:, 0] = 1.0
        layer.q_proj.weight.copy_(torch.tensor([1.0, 0.0, 0.0, 1.0])[:, None].expand(-1, 5))
        layer.out_proj.weight[:2] = torch.eye(2)
        letters = torch.randint(5, (1, LENGTH))
        y, state = layer(nn.functional.one_hot(letters, 5).float())
        count = letters.cumsum(1) % 5
        assert torch.equal(read(y, 5), count)
        y, _ = layer.step(nn.functional.one_hot(torch.tensor([3]), 5).float(), state)
        assert torch.equal(read(y, 5), (count[:, -1] + 3) % 5)


@pytest.mark.parametrize(("modulus", "corners"), [(3, 3), (5, 5), (5, 60)])
def test_corners_of_a_polygon_count_at_every_length(modulus: int, corners: int) -> None:
    """Letter g chooses the corner g/modulus, by logits of 20 where all others have 0."""
    options = {"heads": 2, "key_dim": 2, "value_dim": 1, "bare": True, "learn_initial_state": True}
    layer = GLA(modulus, eigenvalues=EigenPolygon(corners), **options)
    assert layer.corner_proj is not None
    assert layer.initial_memory is not None
    with torch.no_grad():
        for weight in layer.parameters():
            weight.zero_()
        chosen = nn.functional.one_hot(torch.arange(modulus) * corners // modulus, corners).T.float()  # [corner, letter]
        layer.corner_proj.logits.weight.copy_(20 * chosen.repeat(2, 1))
        layer.initial_memory[:, 0] = 1.0
        layer.q_proj.weight.copy_(torch.tensor([1.0, 0.0, 0.0, 1.0])[:, None].expand(-1, modulus))
        layer.out_proj.weight[:2] = torch.eye(2)
        letters = torch.randint(modulus, (1, LENGTH))
        y, state = layer(nn.functional.one_hot(letters, modulus).float())
        count = letters.cumsum(1) % modulus
        assert torch.equal(read(y, modulus), count)
        y, _ = layer.step(nn.functional.one_hot(torch.tensor([2]), modulus).float(), state)
        assert torch.equal(read(y, modulus), (count[:, -1] + 2) % modulus)


def test_choices_become_sharp_after_so_many_steps_of_training() -> None:
    task = word_problem("Z3")
    options = {"heads": 2, "key_dim": 4, "eigenvalues": EigenPolygon(3, sharp_after=2)}
    model = SequenceModel(ModelConfig(task.vocab_size, 8, 1, mixer="gla", mixer_options=options))
    layer, x = model.blocks[0].mixer, torch.randn(1, 50, 8)
    assert isinstance(layer, GLA)
    assert layer.corner_proj is not None

    def moduli() -> Tensor:
        return layer.gates(x)["eigenvalue"].abs()

    step = TrainingStep(model, task, TrainingConfig(steps=5, warmup=1, batch=4, lengths=(3, 5)))
    for number in range(2):
        step(number)
        assert moduli().max() < 0.999
    before = layer.corner_proj.logits.weight.clone()
    step(2)
    torch.testing.assert_close(moduli(), torch.ones_like(moduli()), rtol=0, atol=2e-7)
    assert not torch.equal(layer.corner_proj.logits.weight, before)  # gradients are those of the mean
    step(1)  # a step's number alone decides
    assert moduli().max() < 0.999


def test_a_gate_in_a_polygon_remembers_at_first() -> None:
    layer = GLA(64, eigenvalues=EigenPolygon(5))
    with torch.no_grad():
        eigenvalues = layer.gates(torch.randn(1, 1000, 64))["eigenvalue"]
    assert 0.8 < float(eigenvalues.real.mean()) < 0.95


def test_a_gate_of_deltanet_hardly_turns_at_first() -> None:
    layer = DeltaNet(64, gate=EigenDisk())
    with torch.no_grad():
        turns = layer._turns(torch.randn(1, 1000, 64))
    assert turns is not None
    assert 0.01 < float(turns.square().mean().sqrt()) < 0.025


@pytest.mark.slow
@pytest.mark.parametrize(("group", "enough"), [("Z3", 0.95), ("Z5", 0.85)])
def test_a_disk_learns_to_count_where_the_real_twin_does_not(group: str, enough: float) -> None:
    task = word_problem(group)
    config = ModelConfig(task.vocab_size, 32, 1, mixer="gla", mixer_options={"heads": 4, "key_dim": 8}, eigenvalues=EigenDisk())
    scores = []
    for model_config in (config, replace(config, eigenvalues=EigenRange(-1, 1))):
        torch.manual_seed(0)
        model = SequenceModel(model_config)
        train(model, task, TrainingConfig(steps=250, batch=128, lengths=(3, 20), learning_rate=1e-2, seed=0))
        curve = length_curve(model, task, 100, sequences=64, seed=10**6)
        scores.append(float(scaled_accuracy(curve.accuracy, task.classes)[20:].mean()))
    turning, real = scores
    assert turning > enough
    assert real < 0.3
