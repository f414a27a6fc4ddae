"""ModelConfig: bad values are named, JSON brings back the same value."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import torch

from eigentrack.layers import Attention, DeltaNet, Dense, Mamba
from eigentrack.models import ModelConfig, SequenceModel
from eigentrack.spectrum import EigenDisk, EigenPolygon, EigenRange


@pytest.mark.parametrize(
    "config",
    [
        ModelConfig(vocab_size=5),
        ModelConfig(vocab_size=5, mixer=("mamba", "attention"), eigenvalues=EigenRange(-0.5, 1), mlp_width=0),
        ModelConfig(vocab_size=5, norm_place=("after", "before"), mixer_options={"widened_from": EigenRange(0, 1)}),
        ModelConfig(vocab_size=5, mixer_options={"gate": EigenRange(-1, 1), "householders": 2}, tie_embeddings=True),
        ModelConfig(vocab_size=5, mixer="gla", eigenvalues=EigenDisk(0.5, 1), mixer_options={"eigenvalues": EigenDisk()}),
        ModelConfig(vocab_size=5, mixer=("deltanet", "dense"), mixer_options=({"gate": None}, {"eigenvalues": None})),
        ModelConfig(vocab_size=5, eigenvalues=EigenRange(-1, 1, overshoot=0.05), initial={"eigenvalue": 0.5}),
        ModelConfig(vocab_size=5, mixer="gla", eigenvalues=EigenPolygon(5, sharp_after=9)),
        ModelConfig(vocab_size=5, mixer=("gla", "attention"), initial=({"gates": [0.5, 0.9]}, {})),
    ],
)
def test_json_brings_back_the_same_configuration(config: ModelConfig) -> None:
    assert ModelConfig.from_json(json.loads(json.dumps(config.to_json()))) == config


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"vocab_size": 0}, "vocab_size=0 must be a whole number of at least 1"),
        ({"vocab_size": 5, "layers": "2"}, "layers='2' must be a whole number"),
        ({"vocab_size": 5, "mixer": "transformer"}, "mixer='transformer' is not known; there are mamba, mamba2"),
        ({"vocab_size": 5, "mixer": ["mamba"]}, "mixer lists 1 entries for layers=2"),
        ({"vocab_size": 5, "mixer": 3}, "mixer=3 must be a name"),
        ({"vocab_size": 5, "mixer_options": {"haeds": 2}}, "mixer 'deltanet' has no option 'haeds'; it takes heads, key_dim"),
        ({"vocab_size": 5, "mixer_options": [{}]}, "mixer_options lists 1 entries for layers=2"),
        ({"vocab_size": 5, "mixer_options": 1}, "mixer_options=1 must be a mapping"),
        ({"vocab_size": 5, "backend": "cuda"}, "backend='cuda' is not known; there are auto, reference, chunked"),
        ({"vocab_size": 5, "mixer_options": {"heads": "2"}}, "mixer 'deltanet': option heads='2' must be of type int"),
        ({"vocab_size": 5, "mlp_width": True}, "mlp_width=True must be a whole number"),
        ({"vocab_size": 5, "tie_embeddings": "false"}, "tie_embeddings='false' must be true or false"),
        ({"vocab_size": 5, "norm_eps": -1.0}, "norm_eps=-1.0 must be a positive number"),
        ({"vocab_size": 5, "norm_eps": "1e-5"}, "norm_eps='1e-5' must be a positive number"),
        ({"vocab_size": 5, "mlp_width": -1}, "mlp_width=-1 must be a whole number"),
        ({"vocab_size": 5, "norm_place": "around"}, "norm_place='around' must be before or after, or one a layer"),
        ({"vocab_size": 5, "initial": {"gate": 1}}, "initial value 'gate' is not known; there are gates, eigenvalue"),
        ({"vocab_size": 5, "initial": [{"eigenvalue": 0.5}]}, "initial lists 1 entries for layers=2"),
        ({"vocab_size": 5, "initial": 0.5}, "initial=0.5 must be a mapping, or one a layer"),
        ({"vocab_size": 5, "norm_place": ["before"]}, "norm_place lists 1 entries for layers=2"),
        ({"vocab_size": 5, "eigenvalues": [-2, 1]}, "low=-2 lies outside"),
        ({"vocab_size": 5, "eigenvalues": "wide"}, r"written \[low, high\], \{.*\}, got 'wide'"),
        ({"vocab_size": 5, "depth": 2}, "unknown configuration entry 'depth'; known are backend, correction, d_model"),
        ({}, "with at least vocab_size"),
        ([], "must be a JSON object"),
    ],
)
def test_bad_entries_are_named(values: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ModelConfig.from_json(values)


def test_hybrids_take_one_mixer_a_layer() -> None:
    config = ModelConfig(
        vocab_size=5,
        d_model=8,
        layers=4,
        mixer=("mamba", "deltanet", "attention", "dense"),
        mixer_options=({}, {"householders": 2, "heads": 2}, {"heads": 2}, {"state_size": 3, "eigenvalues": None}),
        eigenvalues=EigenRange(-0.5, 1),
    )
    mamba, delta_net, attention, dense = (block.mixer for block in SequenceModel(config).blocks)
    assert isinstance(mamba, Mamba)
    assert mamba.eigenvalues == EigenRange(-0.5, 1)
    assert isinstance(delta_net, DeltaNet)
    assert delta_net.householders == 2
    assert isinstance(attention, Attention)
    assert isinstance(dense, Dense)
    assert dense.eigenvalues is None  # the layer's own option comes first


def test_initial_values_move_no_other_weights() -> None:
    plain = ModelConfig(vocab_size=5, d_model=8, mixer_options={"heads": 2, "gate": EigenRange(0, 1)})
    models = []
    for config in (plain, replace(plain, initial={"eigenvalue": 0.5, "gates": [0.9, 0.99]})):
        torch.manual_seed(0)
        models.append(SequenceModel(config).state_dict())
    before, after = models
    changed = {
        name.rpartition("mixer.")[2] for name in after if name not in before or not torch.equal(after[name], before[name])
    }
    assert changed == {"beta_proj.bias", "gate_bias", "gate_log_rate"}


def test_no_initial_values_are_not_written() -> None:
    assert "initial" not in ModelConfig(vocab_size=5).to_json()


def test_an_experiment_shows_only_its_difference() -> None:
    base = ModelConfig(vocab_size=5, eigenvalues=EigenRange(0, 1))
    twin = replace(base, eigenvalues=EigenRange(-1, 1))
    assert twin != base
    assert replace(twin, eigenvalues=EigenRange(0, 1)) == base
