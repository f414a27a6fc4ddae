"""On a GPU, a captured step is the step."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from eigentrack.lm.batches import PackedBatches
from eigentrack.lm.config import LanguageTrainingConfig
from eigentrack.lm.corpus import Corpus
from eigentrack.lm.distributed import World
from eigentrack.lm.step import LanguageStep
from eigentrack.models import ModelConfig, SequenceModel
from eigentrack.training.captured_step import CapturedStep
from tests.lm.runs import VOCAB, write_learnable_corpus


def make_step(folder: Path, device: str, **training: object) -> LanguageStep:
    torch.manual_seed(0)
    values = {"steps": 20, "batch": 4, "length": 64, "warmup": 4, "reset_documents": False, **training}
    config = LanguageTrainingConfig.from_json(values)
    with torch.device("cpu"):
        model = SequenceModel(ModelConfig(vocab_size=VOCAB, d_model=32, layers=2, mixer=("deltanet", "mamba")))
        batches = PackedBatches(Corpus.open(folder), batch=4, length=64, seed=0, reset_documents=config.reset_documents)
    return LanguageStep(model, batches, config, World(torch.device(device)))


def test_only_rows_of_one_shape_on_a_gpu_are_captured(tmp_path: Path) -> None:
    assert not make_step(write_learnable_corpus(tmp_path), "cpu").can_be_captured


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize(("precision", "checkpointing"), [("float32", False), ("bfloat16", False), ("bfloat16", True)])
def test_a_captured_step_is_the_step(tmp_path: Path, precision: str, checkpointing: bool) -> None:
    folder = write_learnable_corpus(tmp_path)
    training = {"precision": precision, "accumulation": 2, "activation_checkpointing": checkpointing}
    eager, twin = (make_step(folder, "cuda", **training) for _ in range(2))
    assert twin.can_be_captured
    assert not make_step(folder, "cuda", reset_documents=True).can_be_captured
    captured = CapturedStep(twin)
    for number in (*range(8), 12, 3):  # any step may follow any other
        torch.testing.assert_close(captured(number), eager(number), rtol=1e-4, atol=1e-5)
