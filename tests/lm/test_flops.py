"""FLOPs as torch counts them where it does, and as the recurrences' definitions have them where it does not."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from eigentrack.layers import LinearMixer
from eigentrack.lm.flops import matrix_product_rate, projection_flops, recurrence_flops, training_flops
from eigentrack.models import ModelConfig, SequenceModel
from eigentrack.spectrum import EigenDisk, EigenRange

TIME = 5
MIXERS: list[tuple[str, dict[str, Any]]] = [
    ("deltanet", {"heads": 2}),
    ("deltanet", {"heads": 2, "householders": 3, "gate": EigenRange(0, 1)}),
    ("mamba", {"state_size": 4}),
    ("mamba2", {}),
    ("gla", {}),
]


class StateWork(TorchDispatchMode):
    """Adds and multiplies of whole states: the part of a recurrence that is not a matrix product."""

    def __init__(self, entries: int) -> None:
        super().__init__()
        self.entries, self.flops = entries, 0

    def __torch_dispatch__(self, function: Any, types: Any, given: Any = (), named: Any = None) -> Any:
        result = function(*given, **(named or {}))
        if function.overloadpacket in (torch.ops.aten.mul, torch.ops.aten.add) and isinstance(result, Tensor):
            is_state = result.numel() == self.entries and result.ndim > 2
            self.flops += self.entries * is_state
        return result


def built(mixer: str, options: dict[str, Any], **changes: Any) -> SequenceModel:
    config = ModelConfig(vocab_size=11, d_model=32, layers=1, mixer=mixer, mixer_options=options, backend="reference")
    return SequenceModel(config)


@pytest.mark.parametrize(("mixer", "options"), MIXERS)
def test_matrix_products_are_what_torch_counts(mixer: str, options: dict[str, Any]) -> None:
    model = built(mixer, options)
    layer = model.blocks[0].mixer
    assert isinstance(layer, LinearMixer)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(torch.randint(11, (1, TIME)))
    filters = 0 if layer.convolution is None else 2 * layer.convolution.weight.numel()  # not a matrix product
    reads = 1 + getattr(layer, "householders", 0)  # of the whole state by one vector: those torch counts
    expected = projection_flops(model) - filters + 2 * reads * math.prod(layer.memory_shape)
    assert counter.get_total_flops() == TIME * expected


@pytest.mark.parametrize(("mixer", "options"), MIXERS)
def test_the_rest_of_the_recurrence_is_what_its_definition_does_to_the_state(mixer: str, options: dict[str, Any]) -> None:
    layer = built(mixer, options).blocks[0].mixer
    assert isinstance(layer, LinearMixer)
    state, reads = math.prod(layer.memory_shape), 1 + getattr(layer, "householders", 0)
    x = torch.randn(1, TIME, 32)
    with StateWork(state) as work, torch.no_grad():
        layer(x)
    found = recurrence_flops(layer)
    assert found is not None
    extra = 0
    if mixer == "deltanet" and layer.gate is None:
        extra = state  # the reference multiplies by a gate of 1
    if mixer == "mamba":
        extra = state  # Δ A before the exponential; the map to the range is one lerp
    assert work.flops / TIME == found - 2 * reads * state + extra


@pytest.mark.parametrize("mixer", ["gla", "mamba", "mamba2", "s4d"])
def test_a_rotation_adds_two_products_and_a_sum_an_entry(mixer: str) -> None:
    real, turning = (built(mixer, {"eigenvalues": chosen}).blocks[0].mixer for chosen in (EigenRange(-1, 1), EigenDisk()))
    assert isinstance(real, LinearMixer)
    before, after = recurrence_flops(real), recurrence_flops(turning)
    assert before == 5 * math.prod(real.memory_shape)
    assert after == 8 * math.prod(real.memory_shape)


def test_a_gate_that_turns_costs_deltanet_the_same() -> None:
    real, turning = (built("deltanet", {"heads": 2, "gate": gate}).blocks[0].mixer for gate in (EigenRange(0, 1), EigenDisk()))
    assert isinstance(real, LinearMixer)
    before, after = recurrence_flops(real), recurrence_flops(turning)
    assert before is not None
    assert after == before + 3 * math.prod(real.memory_shape)


def test_a_training_step_is_three_forward_passes() -> None:
    model = built("deltanet", {"heads": 2, "conv": 0})
    tokens = torch.randint(11, (1, TIME))
    with FlopCounterMode(display=False) as forward:
        logits, _ = model(tokens)
    with FlopCounterMode(display=False) as backward:
        logits.sum().backward()
    assert backward.get_total_flops() == pytest.approx(
        2 * forward.get_total_flops(), rel=0.02
    )  # the first layer's input has none
    total = training_flops(model)
    assert total == 3 * (projection_flops(model) + (recurrence_flops(model.blocks[0].mixer) or 0))  # type: ignore[arg-type]


def test_six_times_the_parameters_is_near(monkeypatch: pytest.MonkeyPatch) -> None:
    """The usual estimate, without the embedding, which is looked up; the state adds a few percent."""
    with torch.device("meta"):
        model = SequenceModel(ModelConfig(vocab_size=32000, d_model=1024, layers=24, mixer_options={"heads": 8}))
    weights = sum(parameter.numel() for parameter in model.parameters()) - model.embedding.weight.numel()
    assert training_flops(model) == pytest.approx(6 * weights, rel=0.1)
    assert training_flops(model) > 6 * (weights - 100_000)


def test_a_layer_without_a_count_has_none() -> None:
    assert training_flops(built("attention", {})) is None


def test_the_rate_of_a_device_is_positive() -> None:
    assert matrix_product_rate(torch.device("cpu"), torch.float32) > 1e6
