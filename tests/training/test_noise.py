"""The noise that layers draw follows from the seed and the step's number, not from what was drawn before."""

from __future__ import annotations

import pytest
import torch

from eigentrack.models import ModelConfig, SequenceModel
from eigentrack.tasks.tracking import parity
from eigentrack.training import TrainingConfig
from eigentrack.training.noise import seed_noise
from eigentrack.training.step import TrainingStep


def model(noise: float) -> SequenceModel:
    torch.manual_seed(0)
    return SequenceModel(ModelConfig(vocab_size=3, d_model=8, mixer_options={"heads": 2, "write_noise": noise}))


def make_step(noise: float, seed: int = 0) -> TrainingStep:
    return TrainingStep(model(noise), parity(), TrainingConfig(steps=50, batch=8, lengths=(3, 9), seed=seed))


def losses(numbers: list[int], drawn_before: int, noise: float = 1.0) -> list[float]:
    step = make_step(noise)
    torch.randn(drawn_before)
    return [float(step(number)[0]) for number in numbers]


def test_what_was_drawn_before_changes_nothing() -> None:
    assert losses([4, 5], drawn_before=0) == losses([4, 5], drawn_before=17)


def test_every_step_has_noise_of_its_own() -> None:
    drawn = []
    for seed, number in ((0, 0), (0, 1), (1, 0)):
        make_step(1.0, seed).prepare(number)
        drawn.append(torch.randn(4))
    seed_noise(torch.device("cpu"), 0, 0, rank=1)
    drawn.append(torch.randn(4))
    assert not any(torch.equal(drawn[i], drawn[j]) for i in range(4) for j in range(i))


def test_the_noise_is_there() -> None:
    assert losses([4], drawn_before=0) != losses([4], drawn_before=0, noise=0.0)


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_without_noise_nothing_is_seeded(noise: float) -> None:
    assert model(noise).draws_noise == (noise > 0)
    step = make_step(noise)
    before = torch.get_rng_state()
    step.prepare(3)
    assert torch.equal(before, torch.get_rng_state()) == (noise == 0)


def test_what_is_computed_again_draws_the_same_noise() -> None:
    gradients = []
    for checkpointing in (False, True):
        noisy = model(1.0)
        noisy.activation_checkpointing = checkpointing
        seed_noise(torch.device("cpu"), 0, 0)
        noisy(torch.tensor([[0, 1, 1, 0, 1]]))[0].square().sum().backward()
        gradients.append([parameter.grad for parameter in noisy.parameters()])
    for plain, again in zip(*gradients, strict=True):
        assert plain is not None
        torch.testing.assert_close(plain, again)
