"""The test by length against direct counts of right answers."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from eigentrack.experiments.running import length_test
from eigentrack.experiments.running.length_test import LengthTest, first_tested, length_scores, run_length_test
from eigentrack.models import ModelConfig, SequenceModel
from eigentrack.tasks.counter_random import derived_seed
from eigentrack.tasks.modular_arithmetic import ModularArithmetic
from eigentrack.tasks.tracking import TrackingTask, parity
from eigentrack.training import LengthCurve


def model(vocab: int, mixer: str = "deltanet") -> SequenceModel:
    options = {"heads": 2} if mixer != "mamba" else {}
    return SequenceModel(ModelConfig(vocab_size=vocab, d_model=8, layers=1, mixer=mixer, mixer_options=options))


def test_groups_of_sequences_are_averaged_by_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(length_test, "AT_ONCE", 8)
    task, tested = parity(), model(3)
    curve = run_length_test(tested, task, LengthTest((5, 20), 20), (3, 9), seed=3)
    rights = []
    for first, size in ((0, 8), (8, 8), (16, 4)):
        seed = derived_seed(derived_seed(3, f"from {first}"), "test")
        ((tokens, targets),) = task.stream(size, 20, piece=256, seed=seed)
        with torch.no_grad():
            rights.append(tested(tokens)[0][..., :2].argmax(-1) == targets)
    right = torch.cat(rights).float()
    assert torch.allclose(curve.accuracy, right.mean(0))
    assert torch.allclose(curve.sequence_accuracy, right.cumprod(1).mean(0))


def test_far_lengths_are_added_while_all_is_right_but_not_for_attention() -> None:
    test = LengthTest((5, 20), 4, far=50)
    one_answer = TrackingTask(((0, 0),), (0,))  # whoever is asked is right
    assert run_length_test(model(3), one_answer, test, (3, 9), seed=0).accuracy.tolist() == [1.0] * 50
    assert len(run_length_test(model(3, "attention"), one_answer, test, (3, 9), seed=0).accuracy) == 20
    untrained = run_length_test(model(3), parity(), test, (3, 9), seed=0)
    assert len(untrained.accuracy) == 20  # dead before: no greater length changes a score


@pytest.mark.parametrize(
    ("accuracy", "sequence_accuracy", "settled"),
    [
        (0.5, 0.05, True),
        (0.5, 0.5, False),  # when it dies is not known yet
        (0.995, 0.05, False),  # its horizon is not known yet
        (1.0, 1.0, False),
    ],
)
def test_a_test_is_settled_once_no_length_can_change_a_score(accuracy: float, sequence_accuracy: float, settled: bool) -> None:
    near = LengthCurve(torch.full((20,), accuracy), torch.full((20,), sequence_accuracy))
    assert length_test._is_settled(near, 1) == settled
    if settled:
        for far in (0.0, 1.0):  # whatever would come
            tail = torch.full((30,), far)
            longer = LengthCurve(
                torch.cat([near.accuracy, tail]), torch.cat([near.sequence_accuracy, tail * sequence_accuracy])
            )
            scores = [length_scores(curve, LengthTest((5, 20), 1), classes=2) for curve in (near, longer)]
            first, second = (replace(found, longest=0, curve=()) for found in scores)
            assert first == second
            assert scores[1].curve[: len(scores[0].curve)] == scores[0].curve


def test_stretches_cover_every_length() -> None:
    task = ModularArithmetic()
    tested = model(task.model_vocab_size)
    with torch.no_grad():
        tested.head.weight.zero_()  # always answers 0
    curve = run_length_test(tested, task, LengthTest((40, 65), 500), (3, 40), seed=0)
    assert len(curve.accuracy) == 65  # 3–40, 41–52, 53–65
    assert len(set(curve.accuracy.tolist())) == 3
    assert curve.accuracy[0] == curve.accuracy[39] != curve.accuracy[40]
    assert torch.equal(curve.accuracy, curve.sequence_accuracy)
    assert 0.1 < curve.accuracy.mean() < 0.5  # products are 0 more often than one time in five


def test_scores_by_their_definition() -> None:
    accuracy = torch.tensor([1.0] * 30 + [0.75] * 70)
    sequence = torch.tensor([1.0] * 30 + [0.5] * 20 + [0.05] * 50)
    scores = length_scores(LengthCurve(accuracy, sequence), LengthTest((21, 40), 1), classes=2)
    assert scores.accuracy == pytest.approx((10 * 1 + 10 * 0.75) / 20)
    assert scores.scaled_accuracy == pytest.approx(0.75)
    assert scores.sequence_accuracy == 0.5
    assert (scores.horizon, scores.right_to, scores.dead_by, scores.longest) == (30, 30, 51, 100)
    alive = length_scores(LengthCurve(accuracy, torch.ones(100)), LengthTest((1, 100), 1), classes=2)
    assert (alive.right_to, alive.dead_by) == (100, None)


def test_lengths_that_training_does_not_ask_for_end_no_horizon() -> None:
    accuracy = torch.tensor([1.0, 0.75] + [1.0] * 28 + [0.75] * 10)
    curve, test = LengthCurve(accuracy, accuracy), LengthTest((21, 40), 1)
    assert length_scores(curve, test, classes=2).horizon == 1
    assert length_scores(curve, test, classes=2, asked_from=3).horizon == 30
    assert not length_test._is_settled(LengthCurve(accuracy[:30], 0 * accuracy[:30]), 3)
    only_last, every = parity(last_weight=1.0), parity(last_weight=0.5)
    assert [first_tested(task, (3, 40)) for task in (only_last, every, ModularArithmetic())] == [3, 1, 40]


@pytest.mark.parametrize(("first_wrong", "unasked"), [(30, 0.75), (30, 1.0), (150, 0.75), (150, 1.0), (3, 0.75), (401, 0.75)])
def test_a_stored_horizon_is_counted_again_from_the_curve(first_wrong: int, unasked: float) -> None:
    accuracy = torch.ones(400)
    accuracy[1], accuracy[first_wrong - 1 :] = unasked, 0.5
    curve, test = LengthCurve(accuracy, accuracy), LengthTest((21, 256), 1)
    right = length_scores(curve, test, classes=2, asked_from=3)
    again = length_scores(curve, test, classes=2).counted_from(3)
    assert right.horizon == (0 if first_wrong == 3 else first_wrong - 1)
    assert replace(again, horizon=0) == replace(right, horizon=0)
    if unasked == 1.0 or first_wrong != 150:
        assert again.horizon == right.horizon
    else:  # between two points of the curve
        assert 0.95 * right.horizon <= again.horizon <= right.horizon
    assert right.counted_from(3) == right
    assert length_test.NO_SCORES.counted_from(3) == length_test.NO_SCORES


def test_a_test_is_said_in_words() -> None:
    assert LengthTest((33, 500), 4096).words == "lengths 33–500, 4,096 sequences"
    assert LengthTest((64, 64), 10).words == "length 64, 10 sequences"
    far = LengthTest((40, 256), 8192, far=100_000).far_words
    assert "on to 100,000, 256 sequences, unless the horizon is known and fewer than 10 % of the sequences are right" in far


def test_points_are_means_of_all_lengths() -> None:
    accuracy = torch.rand(1000)
    scores = length_scores(LengthCurve(accuracy, accuracy), LengthTest((1, 1000), 1), classes=2)
    lengths = [0, *(point.length for point in scores.curve)]
    assert lengths[:21] == list(range(21))
    assert lengths[-1] == 1000
    assert len(lengths) < 120
    for first, point in zip(lengths, scores.curve, strict=False):
        assert point.accuracy == pytest.approx(accuracy[first : point.length].mean().item(), abs=1e-4)
        assert point.sequence_accuracy == pytest.approx(accuracy[point.length - 1].item(), abs=1e-4)


def test_bad_plans_are_named() -> None:
    with pytest.raises(ValueError, match="lengths"):
        LengthTest((5, 4), 1)
    with pytest.raises(ValueError, match="sequences=0 must be at least 1"):
        LengthTest((1, 4), 0)
