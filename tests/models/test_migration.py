"""Configurations of older versions become those of this one, and models that older versions saved compute what they did.

`saved_before/` holds small models as the version before wrote them, each with tokens and the logits that it gave for them.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from eigentrack.models import ModelConfig, load_model
from eigentrack.models.migration import current_form
from eigentrack.training.run import RunConfig
from tests.closeness import TOLERANCE

SAVED = sorted(path for path in (Path(__file__).parent / "saved_before").iterdir())


@pytest.mark.parametrize("folder", SAVED, ids=lambda folder: folder.name)
def test_a_model_that_was_saved_before_gives_the_same_logits(folder: Path) -> None:
    expected = load_file(folder / "expected.safetensors", device=str(torch.get_default_device()))
    model = load_model(folder, torch.get_default_device())
    with torch.no_grad():
        logits, _ = model(expected["tokens"])
    torch.testing.assert_close(logits, expected["logits"], rtol=0, atol=TOLERANCE[torch.float32])


@pytest.mark.parametrize("folder", SAVED, ids=lambda folder: folder.name)
def test_what_is_written_again_is_the_current_form(folder: Path) -> None:
    """So whatever compares configurations as JSON can migrate what it has stored."""
    old = json.loads((folder / "config.json").read_text())
    before = copy.deepcopy(old)
    new = current_form(old)
    assert old == before
    assert ModelConfig.from_json(old).to_json() == new == current_form(new)


def test_every_folder_is_there() -> None:
    assert {folder.name for folder in SAVED} == {"deltanet", "gla", "gla_polygon", "hybrid", "mamba_disk"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({}, {}),
        ({"mixer_options": {"heads": 2}}, {"mixer_options": {"heads": 2}}),
        ({"mixer_options": {"write_noise": 1.0, "key_norm": True}}, {"mixer_options": {}}),
        ({"mixer_options": {"overshoot": 0.0, "first_gates": None, "first_eigenvalue": None}}, {"mixer_options": {}}),
        ({"mixer_options": {"bare": True, "key_norm": False}}, {"mixer_options": {"bare": True}}),
        (  # one entry for layers of which only one has changed
            {"mixer": ["deltanet", "gla"], "mixer_options": {"key_norm": True}},
            {"mixer": ["deltanet", "gla"], "mixer_options": [{}, {"key_norm": True}]},
        ),
        (
            {"mixer_options": {"overshoot": 0.05}},
            {"mixer_options": {"eigenvalues": {"range": [-1.0, 1.0], "overshoot": 0.05}}},
        ),
        (
            {"eigenvalues": [0.0, 1.0], "mixer_options": {"overshoot": 0.05}},
            {"eigenvalues": [0.0, 1.0], "mixer_options": {"eigenvalues": {"range": [0.0, 1.0], "overshoot": 0.05}}},
        ),
        (
            {"mixer_options": {"overshoot": 2.0, "widened_from": [0.0, 1.0]}},
            {"mixer_options": {"widened_from": {"range": [0.0, 1.0], "overshoot": 2.0}}},
        ),
        (
            {"mixer": ["deltanet", "gla"], "mixer_options": {"heads": 2, "gate": [0, 1], "first_gates": [0.9, 0.99]}},
            {"mixer": ["deltanet", "gla"], "mixer_options": {"heads": 2, "gate": [0, 1]}, "initial": {"gates": [0.9, 0.99]}},
        ),
        (
            {"mixer": "gla", "mixer_options": [{"first_gates": [0.9, 0.99]}, {"heads": 2}]},
            {"mixer": "gla", "mixer_options": [{}, {"heads": 2}], "initial": [{"gates": [0.9, 0.99]}, {}]},
        ),
        (
            {"mixer": "gla", "eigenvalues": {"polygon": 5}, "mixer_options": {"sharp_after": 9}},
            {
                "mixer": "gla",
                "eigenvalues": {"polygon": 5},
                "mixer_options": {"eigenvalues": {"polygon": 5, "sharp_after": 9}},
            },
        ),
    ],
)
def test_old_options_of_mixers_are_written_where_they_are_now(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert current_form(old) == new
    assert current_form(new) == new


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"mixer_options": {"sharp_after": 9}}, "mixer 'deltanet' has no option 'sharp_after'"),
        ({"mixer": "gla", "mixer_options": {"sharp_after": 9}}, "mixer 'gla' has no option 'sharp_after'"),
        ({"mixer": "mamba", "mixer_options": {"overshoot": 0.1}}, "mixer 'mamba' has no option 'overshoot'"),
        ({"mixer_options": {"key_norm": False}}, "mixer 'deltanet' has no option 'key_norm'"),
        ({"mixer_options": {"overshoot": "a"}}, "EigenRange overshoot='a' must be a number from 0 to 10"),
        ({"mixer_options": {"overshoot": 0.1}, "eigenvalues": {"disk": [0, 1]}}, r"eigenvalues are written \[low, high\]"),
        ({"mixer_options": {"first_gates": [0.5, 0.5]}, "initial": {"gates": [0.9, 0.9]}}, "no option 'first_gates'"),
        ({"mixer_options": [{"first_eigenvalue": 0.5}]}, "mixer_options lists 1 entries for layers=2"),
        ({"mixer": [], "mixer_options": {"first_eigenvalue": 0.5}}, "mixer lists 0 entries for layers=2"),
        ({"mixer": 3, "mixer_options": {"first_eigenvalue": 0.5}}, "mixer=3 must be a name"),
    ],
)
def test_what_was_wrong_before_is_named_still(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ModelConfig.from_json({"vocab_size": 5, **values})


def test_a_run_that_was_written_before_is_read() -> None:
    values = {
        "task": "parity",
        "model": {"d_model": 8, "layers": 1, "mixer_options": {"heads": 2, "overshoot": 0.05, "write_noise": 1.0}},
        "training": {"steps": 2, "batch": 2, "lengths": [3, 4]},
    }
    (mixer,) = RunConfig.from_json(values).build_model_config().options
    assert str(mixer["eigenvalues"]) == "[-1, 1] overshoot 0.05"
