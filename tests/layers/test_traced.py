"""torch.compile, torch.export, pytrees and the meta device, for every layer."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from eigentrack.layers import MIXERS, MixerState
from eigentrack.models import ModelConfig, SequenceModel
from eigentrack.models.sequence_model import ModelState
from tests.layers.layer_cases import D_MODEL, LINEAR, OTHERS, build, case_name, started

every_layer = pytest.mark.parametrize(("name", "options"), [*LINEAR, *OTHERS], ids=case_name)


def traced(*arguments: str) -> list[str]:
    """The names of the layers that were traced."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.layers.traced_layers", *arguments]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-4000:]
    return [line.split()[1] for line in run.stdout.splitlines() if line.startswith("traced ")]


def test_every_layer_compiles_in_one_graph_and_exports_for_any_length() -> None:
    assert sorted(traced("eager")) == sorted(MIXERS)


@pytest.mark.slow
def test_every_variant_compiles_and_exports_also_packed() -> None:
    assert len(traced("aot_eager", "--all", "--packed")) == len([*LINEAR, *OTHERS])


@pytest.mark.slow
def test_every_layer_compiles_to_code() -> None:
    assert sorted(traced("inductor", "--packed")) == sorted(MIXERS)


@every_layer
def test_a_state_is_a_pytree(name: str, options: dict[str, Any]) -> None:
    mixer = build(name, options)
    _, state = mixer(torch.randn(2, 5, D_MODEL, dtype=torch.float64))
    tensors = [*state.memory, *([] if state.window is None else [state.window])]
    leaves, form = pytree.tree_flatten(state)
    assert [id(leaf) for leaf in leaves] == [id(tensor) for tensor in tensors]
    again = pytree.tree_unflatten(leaves, form)
    assert isinstance(again, MixerState)
    assert again == MixerState(state.memory, state.window)
    rows: MixerState = pytree.tree_map(lambda part: part[:1], state)
    assert rows.sequences == 1
    assert pytree.treespec_loads(pytree.treespec_dumps(form)) == form  # as a file of torch.export holds it


@every_layer
def test_a_layer_without_numbers_gives_shapes(name: str, options: dict[str, Any]) -> None:
    with torch.device("meta"):
        mixer = started(name, D_MODEL, **options)
        x = torch.empty(2, 70, D_MODEL)
        y, state = mixer(x)
        token, after = mixer.step(x[:, 0], state)
    real, last = started(name, D_MODEL, **options)(torch.zeros(2, 70, D_MODEL))

    def form(tensors: Any) -> list[tuple[torch.Size, torch.dtype]]:
        return [(tensor.shape, tensor.dtype) for tensor in pytree.tree_leaves(tensors)]

    assert form((y, state)) == form((real, last))
    assert token.shape == (2, D_MODEL)
    assert all(tensor.is_meta for tensor in pytree.tree_leaves((y, token, state, after)))


@pytest.mark.parametrize("mixer", MIXERS)
def test_a_model_without_numbers_gives_shapes(mixer: str) -> None:
    with torch.device("meta"):
        model = SequenceModel(ModelConfig(vocab_size=7, d_model=16, layers=2, mixer=mixer))
        logits, state = model(torch.zeros(3, 9, dtype=torch.int64))
    assert logits.shape == (3, 9, 7)
    assert logits.is_meta
    assert isinstance(pytree.tree_map(Tensor.detach, state), ModelState)
    assert len(pytree.tree_leaves(state)) == sum(len(pytree.tree_leaves(layer)) for layer in state.layers) > 0
