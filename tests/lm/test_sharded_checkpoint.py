"""A checkpoint holds what was there when it was asked for, in safetensors alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from eigentrack.lm.corpus import Corpus
from eigentrack.lm.sharded_checkpoint import KEPT, ShardedCheckpoints, complete_checkpoints
from eigentrack.lm.step import LanguageStep
from tests.lm.runs import write_learnable_corpus
from tests.lm.test_train_step import make_step


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return Corpus.open(write_learnable_corpus(tmp_path_factory.mktemp("corpus")))


def fail(text: str) -> None:
    raise AssertionError(text)


def everything(step: LanguageStep) -> list[torch.Tensor]:
    weights = list(step.parameters.values())
    adam = [value for weight in weights for _, value in sorted(step.optimizer.state[weight].items())]
    return [tensor.detach().clone() for tensor in (*weights, *step.model.parameters(), *adam)]


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_training_may_go_on_while_it_is_written(corpus: Corpus, tmp_path: Path, precision: str) -> None:
    step = make_step(corpus, tie=True, precision=precision)
    step(0)
    before = everything(step)
    checkpoints = ShardedCheckpoints(tmp_path, step, fail)
    checkpoints.save(1)
    following = [step(number).tolist() for number in (1, 2)]
    checkpoints.finish()

    fresh = make_step(corpus, tie=True, precision=precision)
    assert ShardedCheckpoints(tmp_path, fresh, fail).load() == 1
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(before, everything(fresh), strict=True))
    assert [fresh(number).tolist() for number in (1, 2)] == following


def test_the_last_ones_are_kept_and_none_is_a_pickle(corpus: Corpus, tmp_path: Path) -> None:
    step = make_step(corpus)
    checkpoints = ShardedCheckpoints(tmp_path, step, fail)
    for number in range(4):
        step(number)
        checkpoints.save(number + 1)
    checkpoints.finish()
    found = complete_checkpoints(tmp_path)
    assert [path.name for path in found] == ["step-000000003", "step-000000004"]
    assert len(found) == KEPT
    assert sorted(tmp_path.iterdir()) == found
    (file,) = found[-1].glob("*.safetensors")
    tensors = load_file(file)  # would not take anything else
    for name, weight in step.parameters.items():
        assert torch.equal(tensors[f"weights.{name}"], weight)
        assert torch.equal(tensors[f"exp_avg.{name}"], step.optimizer.state[weight]["exp_avg"])
        assert torch.equal(tensors[f"exp_avg_sq.{name}"], step.optimizer.state[weight]["exp_avg_sq"])
    assert len(tensors) == 3 * len(step.parameters)


def test_without_a_checkpoint_nothing_was_done(corpus: Corpus, tmp_path: Path) -> None:
    assert ShardedCheckpoints(tmp_path / "none", make_step(corpus), fail).load() == 0


def test_a_checkpoint_of_another_model_is_passed_over(corpus: Corpus, tmp_path: Path) -> None:
    step = make_step(corpus, tie=True)
    checkpoints = ShardedCheckpoints(tmp_path, step, fail)
    checkpoints.save(1)
    checkpoints.finish()
    said: list[str] = []
    with pytest.raises(ValueError, match="can be read: start again"):
        ShardedCheckpoints(tmp_path, make_step(corpus, tie=False), said.append).load()
    assert "head.weight" in said[0]
