"""The schedule, the loop and the evaluation by length."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from eigentrack.models import ModelConfig, SequenceModel
from eigentrack.spectrum import EigenRange
from eigentrack.tasks.counter_random import derived_seed
from eigentrack.tasks.tracking import parity, word_problem
from eigentrack.training import TrainingConfig, accuracy_between, horizon, length_curve, scaled_accuracy, train
from eigentrack.training.optimizer import make_optimizer
from eigentrack.training.step import batch_accuracy, batch_loss


def small_model(eigenvalues: EigenRange = EigenRange(-1, 1)) -> SequenceModel:
    torch.manual_seed(0)
    options = {"heads": 2, "conv": 0}
    return SequenceModel(ModelConfig(vocab_size=3, d_model=16, layers=1, mixer_options=options, eigenvalues=eigenvalues))


def test_the_rate_warms_up_and_follows_a_cosine() -> None:
    config = TrainingConfig(steps=110, batch=1, lengths=(1, 2), learning_rate=2.0, warmup=10, final_rate=0.1)
    rates = [config.rate(step) for step in range(111)]
    assert rates[:10] == pytest.approx([0.2 * (step + 1) for step in range(10)])
    assert rates[10] == pytest.approx(2.0)
    assert rates[60] == pytest.approx(2.0 * (0.1 + 0.9 / 2))
    assert rates[110] == pytest.approx(0.2)


@pytest.mark.parametrize("mixer", ["mamba", "deltanet", "slstm"])
def test_weight_decay_falls_on_matrices_that_multiply_activations(mixer: str) -> None:
    options = {"learn_initial_state": True} if mixer != "slstm" else {}
    model = SequenceModel(ModelConfig(vocab_size=3, d_model=16, layers=1, mixer=mixer, mixer_options=options))
    decayed, plain = make_optimizer(model, TrainingConfig(steps=1, batch=1, lengths=(1, 1), warmup=0)).param_groups
    names = {id(weight): name for name, weight in model.named_parameters()}
    spared = {names[id(weight)].rpartition(".mixer.")[2] for weight in plain["params"]}
    assert (decayed["weight_decay"], plain["weight_decay"]) == (0.01, 0.0)
    assert len(decayed["params"]) + len(plain["params"]) == len(names)
    expected = {
        "mamba": {"log_rate", "skip", "dt_proj.bias", "convolution.weight", "convolution.bias", "initial_memory"},
        "deltanet": {"convolution.weight", "norm.weight", "initial_memory"},
        "slstm": {"gates.input_proj.bias", "norm.weight"},
    }[mixer]
    assert spared == expected | {"blocks.0.mixer_norm.weight", "blocks.0.mlp_norm.weight", "norm.weight"}


def test_the_loss_is_the_weighted_cross_entropy() -> None:
    model, batch = small_model(), parity().sample(5, (2, 9), seed=0, step=0)
    logits, _ = model(batch.tokens)
    expected = 0.0
    for row in range(5):
        for t in range(9):
            expected += batch.weight[row, t] * F.cross_entropy(logits[row, t], batch.targets[row, t])
    assert batch_loss(logits, batch, 0.0).item() == pytest.approx((expected / batch.weight.sum()).item(), rel=1e-5)


def test_the_accuracy_is_weighted_alike_and_padding_is_no_answer() -> None:
    model, batch = small_model(), parity().sample(5, (2, 9), seed=0, step=0)
    logits, _ = model(batch.tokens)
    expected = 0.0
    for row in range(5):
        for t in range(9):
            expected += batch.weight[row, t] * (logits[row, t, :2].argmax() == batch.targets[row, t])
    assert batch_accuracy(logits, batch, 2).item() == pytest.approx((expected / 5).item(), rel=1e-5)
    everywhere_padding = torch.tensor([0.0, 1.0, 9.0]).expand(5, 9, 3)
    assert batch_accuracy(everywhere_padding, batch, 2) == batch_accuracy(everywhere_padding[..., :2], batch, 2) > 0


def test_training_is_reproducible_and_reports_every_step() -> None:
    config = TrainingConfig(steps=5, batch=8, lengths=(3, 12), warmup=2)
    losses: list[list[float]] = [[], []]
    for run in losses:
        train(small_model(), parity(), config, lambda _, loss, run=run: run.append(loss))
    assert losses[0] == losses[1]
    assert len(losses[0]) == 5
    assert all(math.isfinite(loss) for loss in losses[0])


def test_a_short_training_learns_parity_in_the_wide_range_only() -> None:
    config = TrainingConfig(steps=200, batch=64, lengths=(3, 20), learning_rate=1e-2, label_smoothing=0.1)
    reached = []
    for eigenvalues in (EigenRange(0, 1), EigenRange(-1, 1)):
        model = small_model(eigenvalues)
        train(model, parity(), config)
        curve = length_curve(model, parity(), 100, sequences=128, seed=99)
        reached.append(scaled_accuracy(curve.accuracy[40:], 2).mean().item())
    assert abs(reached[0]) < 0.15
    assert reached[1] > 0.99


def test_streaming_in_pieces_changes_nothing() -> None:
    """A model that has learnt nothing still gives the same answers; the letters of a piece depend on its number."""
    task = word_problem("S3", begin_token=True, tokens_per_letter=2)
    model = SequenceModel(ModelConfig(vocab_size=task.vocab_size, d_model=16, layers=1, mixer="mamba"))
    curve = length_curve(model, task, 20, sequences=64, seed=1, piece=10)
    pieces = task.stream(64, 20, piece=10, seed=derived_seed(1, "test"))
    tokens, targets = (torch.cat(parts, 1) for parts in zip(*pieces, strict=True))
    with torch.no_grad():
        right = model(tokens)[0][..., : task.classes].argmax(-1) == targets
    assert torch.allclose(curve.accuracy, right.float().mean(0)[1:])
    assert torch.allclose(curve.sequence_accuracy, right.cumprod(1).float().mean(0)[1:])
    assert len(curve.accuracy) == 20


def test_accuracy_at_the_asked_positions() -> None:
    """The weight decides what is asked: on the last bit alone a model that always says 0 is right on even words."""
    model, task = small_model(), parity(last_weight=1.0)
    with torch.no_grad():
        model.head.weight.zero_()
    found = accuracy_between(model, task, (3, 9), sequences=300, seed=0)
    batch = task.sample(300, (3, 9), seed=derived_seed(0, "test"), step=0)
    assert found.answers == pytest.approx((batch.targets[batch.weight > 0] == 0).float().mean().item(), abs=1e-6)
    assert found.sequences == pytest.approx(found.answers, abs=1e-6)  # one answer a sequence
    every = accuracy_between(model, parity(last_weight=0.0), (3, 9), sequences=300, seed=0)
    assert 0 < every.sequences < every.answers < 1


def test_a_model_is_tested_without_noise_and_left_in_its_mode() -> None:
    model = small_model()
    model.norm = nn.Sequential(model.norm, nn.Dropout())
    found = [accuracy_between(model, parity(last_weight=0.0), (3, 9), sequences=300, seed=0) for _ in range(2)]
    assert found[0] == found[1]
    assert model.training
    length_curve(model.eval(), parity(), 4, sequences=2, seed=0)
    assert not model.training
    with pytest.raises(ValueError, match="sequences=0 must be a whole number of at least 1"):
        accuracy_between(model, parity(), (3, 9), sequences=0, seed=0)


def test_training_validation_and_test_never_share_their_numbers() -> None:
    seeds = {derived_seed(seed, purpose) for seed in range(50) for purpose in ("training", "validation", "test")}
    assert len(seeds) == 150
    assert derived_seed(3, "test") == derived_seed(3, "test")


def test_horizon_and_scaled_accuracy() -> None:
    assert horizon(torch.tensor([1.0, 0.995, 0.98, 1.0])) == 2
    assert horizon(torch.tensor([0.5, 1.0])) == 0
    assert horizon(torch.ones(7)) == 7
    unasked = torch.tensor([0.5, 0.9, 1.0, 1.0, 0.5, 1.0])
    assert [horizon(unasked, shortest=shortest) for shortest in (1, 2, 3, 4, 5, 6, 9)] == [0, 0, 4, 4, 0, 6, 6]
    assert scaled_accuracy(torch.tensor([0.5, 0.75, 1.0]), 2).tolist() == [0.0, 0.5, 1.0]


def test_bad_values_are_named() -> None:
    with pytest.raises(ValueError, match="steps=0 must be"):
        TrainingConfig(steps=0, batch=1, lengths=(1, 1))
    with pytest.raises(ValueError, match="warmup=20 must be between 0 and steps=5"):
        TrainingConfig(steps=5, batch=1, lengths=(1, 1))
    with pytest.raises(ValueError, match=r"lengths=\(1,\) must be two whole numbers"):
        TrainingConfig(steps=50, batch=1, lengths=(1,))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("learning_rate", 0.0),
        ("learning_rate", math.inf),
        ("final_rate", -3.0),
        ("weight_decay", -0.1),
        ("betas", (0.9, 1.0)),
        ("clip", -1.0),
        ("label_smoothing", 2.0),
        ("seed", "a"),
        ("learning_rate", "1e-3"),
        ("warmup", True),
        ("lengths", ("a", 3)),
        ("precision", "float16"),
    ],
)
def test_every_setting_is_checked(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{name}="):
        TrainingConfig(**{"steps": 50, "batch": 1, "lengths": (1, 1), name: value})
