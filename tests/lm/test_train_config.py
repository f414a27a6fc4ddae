"""Run files: presets are filled in, tokens become steps, and every mistake is named."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from eigentrack.lm.config import LanguageRunConfig, LanguageTrainingConfig, load_language_run
from eigentrack.lm.presets import PRESETS
from eigentrack.models import SequenceModel
from eigentrack.spectrum import EigenRange

TRAINING = {"steps": 10, "batch": 8, "length": 64, "warmup": 2}


def parameters(preset: str, vocabulary: int) -> tuple[int, int]:
    """All, and those of the embedding."""
    config = LanguageRunConfig.from_json({"preset": preset, "corpus": "x"})
    with torch.device("meta"):
        model = SequenceModel(config.build_model_config(vocabulary))
    return sum(parameter.numel() for parameter in model.parameters()), model.embedding.weight.numel()


@pytest.mark.parametrize(("name", "size"), [("deltanet-340m", 340e6), ("deltanet-1.3b", 1.3e9)])
def test_deltanet_has_the_papers_size(name: str, size: float) -> None:
    total, embedding = parameters(name, 32_000)
    assert total - embedding == pytest.approx(size, rel=0.01)  # the name counts one matrix of the vocabulary


def test_mamba_has_the_papers_size_to_the_last_parameter() -> None:
    channels, state, rank, layers, width, vocabulary = 2048, 16, 64, 48, 1024, 50_280
    layer = width * 2 * channels + channels * (4 + 1) + channels * (rank + 2 * state) + rank * channels + channels
    layer += channels * state + channels + channels * width + width  # A, D, output, norm
    total, _ = parameters("mamba-370m", vocabulary)
    assert total == layers * layer + width + vocabulary * width
    assert total == pytest.approx(370e6, rel=0.01)


@pytest.mark.parametrize("name", [name for name in PRESETS if not name.endswith("-01")])
def test_twins_differ_in_nothing_but_the_range(name: str) -> None:
    wide, narrow = (LanguageRunConfig.from_json({"preset": twin, "corpus": "x"}) for twin in (name, f"{name}-01"))
    assert wide.build_model_config(5).eigenvalues == EigenRange(-1, 1)
    assert narrow.build_model_config(5).eigenvalues == EigenRange(0, 1)
    assert replace(narrow, model={**narrow.model, "eigenvalues": [-1, 1]}) == wide


def test_the_papers_presets_see_32_billion_tokens() -> None:
    for name in ("deltanet-340m", "mamba-370m"):
        training = LanguageRunConfig.from_json({"preset": name, "corpus": "x"}).training
        assert training.steps * training.tokens_per_step == pytest.approx(32e9, rel=0.03)
        assert training.rate(4999) == training.learning_rate
        assert training.rate(training.steps) == 0


def test_a_file_fills_in_what_the_preset_leaves_open_and_overrides_it(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(
        "preset: tiny\ncorpus: here\nmodel: {layers: 2}\ntraining: {learning_rate: 1e-4, tokens: 1e6, length: 100}\n"
    )
    config = load_language_run(path)
    assert config.corpus == "here"
    assert (config.model["layers"], config.model["d_model"]) == (2, PRESETS["tiny"]["model"]["d_model"])
    assert config.training.learning_rate == 1e-4
    assert config.training.steps == 1250  # 10^6 / (8 * 100)
    again = LanguageRunConfig.from_json(json.loads(json.dumps(config.to_json())))
    assert again == config
    assert again.to_json() == config.to_json() | {"training": again.to_json()["training"]}


def test_how_the_work_is_done_is_no_part_of_what_is_done() -> None:
    config = LanguageTrainingConfig.from_json(TRAINING)
    assert replace(config, accumulation=4, activation_checkpointing=True) == config
    assert replace(config, batch=16) != config


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"preset": "huge"}, "preset='huge' is not known; there are deltanet-340m"),
        ({"model": {"mixer": "lstmm"}}, "mixer='lstmm' is not known"),
        ({"model": {"d_modle": 3}}, "unknown configuration entry 'd_modle'"),
        ({"model": 3}, "model=3 must be an object"),
        ({"corpus": 3}, "corpus=3 must be the name of a folder"),
        ({"checkpoint_every": 0}, "checkpoint_every=0 must be a whole number of at least 1"),
        ({"validate_every": -1}, "validate_every=-1 must be a whole number, 0 for never"),
        ({"train": {}}, "unknown run entry 'train'; known are corpus, model, training"),
        ({"training": {**TRAINING, "tokens": 5}}, "tokens=5 and steps=10 say the same thing twice"),
        ({"training": {"batch": 8, "length": 64, "tokens": -1}}, "tokens=-1 must be a positive number"),
        ({"training": {"steps": 10, "batch": 8}}, "the training configuration needs 'length'"),
        ({"training": {**TRAINING, "length": 0}}, "length=0 must be a whole number of at least 1"),
        ({"training": {**TRAINING, "accumulation": 1.5}}, "accumulation=1.5 must be a whole number"),
        ({"training": {**TRAINING, "reset_documents": "yes"}}, "reset_documents='yes' must be true or false"),
        ({"training": {**TRAINING, "precision": "float8"}}, "precision='float8' is not known"),
        ({"training": {**TRAINING, "warmup": 11}}, "warmup=11 must be between 0 and steps=10"),
    ],
)
def test_mistakes_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LanguageRunConfig.from_json({"corpus": "x", "model": {}, "training": TRAINING, **changes})


def test_a_batch_that_cannot_be_shared_out_is_named() -> None:
    config = LanguageTrainingConfig.from_json({**TRAINING, "accumulation": 2})
    config.check_ranks(4)
    with pytest.raises(ValueError, match="batch=8 cannot be shared out equally over 3 processes and accumulation=2"):
        config.check_ranks(3)
