"""Models of different mixers with equally many parameters."""

from __future__ import annotations

import pytest

from eigentrack.experiments.design.models import matched
from eigentrack.experiments.questions import hybrids
from eigentrack.models import ModelConfig, SequenceModel


def parameters(model: dict[str, object], d_model: int) -> int:
    built = SequenceModel(ModelConfig.from_json({**model, "d_model": d_model, "vocab_size": 7}))
    return sum(parameter.numel() for parameter in built.parameters())


@pytest.mark.parametrize("layers", [1, 3])
def test_a_smaller_mixer_gets_a_wider_mlp(layers: int) -> None:
    models = {
        str(factors): {"mixer": "deltanet", "mixer_options": {"heads": 2, "householders": factors}, "layers": layers}
        for factors in (1, 2, 3)
    }
    found = matched(models, 32, mlp_width=20)
    assert found["3"]["mlp_width"] == 20
    assert found["1"]["mlp_width"] > found["2"]["mlp_width"] > 20
    column = 3 * 32 * layers  # of all MLPs: less than one decides nothing
    assert max(abs(parameters(found["3"], 32) - parameters(model, 32)) for model in found.values()) <= column / 2
    assert "mlp_width" not in models["1"]  # what was handed in stays as it is


def test_all_hybrids_are_equally_large() -> None:
    cells = hybrids.EXPERIMENT.cells(hybrids.EXPERIMENT.settings["short"], (0,))
    sizes = [parameters(cell.run.model, cell.run.model["d_model"]) for cell in cells]
    assert max(sizes) <= 1.005 * min(sizes)
