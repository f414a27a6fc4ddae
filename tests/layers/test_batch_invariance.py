"""In the batch-invariant mode a sequence has the same bits alone, in any batch, and packed beside any others, for every layer.

EIGENTRACK_TEST_DEVICE=cuda runs this file on a GPU, with the kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from eigentrack import EigenRange, ModelConfig, SequenceModel, batch_invariant
from eigentrack.layers import MIXERS, MixerState
from eigentrack.models.sequence_model import ModelState
from tests.layers.layer_cases import D_MODEL, LINEAR, OTHERS, build, case_name
from tests.random_batches import LENGTHS, SEQUENCES, assert_forward_is_invariant, assert_step_is_invariant, laid_out

FIRST = [next((case, options) for case, options in [*LINEAR, *OTHERS] if case == name) for name in MIXERS]
TURNING = [next(case for case in LINEAR if kind in str(case)) for kind in ("EigenPolygon", "'s4d', {'state_size': 4")]
ON_A_GPU = torch.empty(0).is_cuda
DTYPES = (torch.float32, torch.bfloat16) if ON_A_GPU else (torch.float32,)
slow_on_a_cpu = () if ON_A_GPU else pytest.mark.slow


def assert_layer_is_invariant(name: str, options: dict[str, Any], dtype: torch.dtype) -> None:
    mixer = build(name, options, dtype)
    pool = torch.randn(SEQUENCES, max(LENGTHS), D_MODEL, dtype=dtype)

    def run(chosen: Sequence[int], spans: Sequence[int], bounds: Tensor | None) -> tuple[Tensor, MixerState]:
        return mixer(laid_out(pool, chosen, spans, bounds), None, bounds)

    with batch_invariant():
        # the cache of attention has as many slots as the longest sequence of the batch
        assert_forward_is_invariant(run, states=name != "attention")
        assert_step_is_invariant(mixer.step, pool, MixerState.stack)


def test_the_cases_cover_every_layer() -> None:
    assert {name for name, _ in FIRST} == set(MIXERS)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("name", "options"), [*FIRST, *TURNING], ids=case_name)
@torch.no_grad()
def test_every_layer_is_batch_invariant(name: str, options: dict[str, Any], dtype: torch.dtype) -> None:
    assert_layer_is_invariant(name, options, dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("name", "options"), [*LINEAR, *OTHERS], ids=case_name)
@torch.no_grad()
def test_every_variant_is_batch_invariant_in_every_float_type(name: str, options: dict[str, Any], dtype: torch.dtype) -> None:
    assert_layer_is_invariant(name, options, dtype)


LARGER = [pytest.param(name, dtype, marks=slow_on_a_cpu) for name in MIXERS for dtype in (torch.float32, torch.bfloat16)]


@pytest.mark.parametrize(("name", "dtype"), LARGER)
@torch.no_grad()
def test_a_model_of_every_layer_is_batch_invariant_at_larger_sizes(name: str, dtype: torch.dtype) -> None:
    assert_model_is_invariant(ModelConfig(vocab_size=50, d_model=128, layers=1, mixer=name), dtype, (1, 7, 65, 300))


@torch.no_grad()
def test_a_hybrid_model_is_batch_invariant() -> None:
    mixers = ("deltanet", "mamba")
    config = ModelConfig(vocab_size=11, d_model=24, layers=2, mixer=mixers, eigenvalues=EigenRange(-1, 1))
    assert_model_is_invariant(config, torch.float32, LENGTHS)


def assert_model_is_invariant(config: ModelConfig, dtype: torch.dtype, lengths: Sequence[int]) -> None:
    model = SequenceModel(config).to(dtype).eval()
    pool = torch.randint(config.vocab_size, (SEQUENCES, max(lengths)))

    def run(chosen: Sequence[int], spans: Sequence[int], bounds: Tensor | None) -> tuple[Tensor, ModelState]:
        return model(laid_out(pool, chosen, spans, bounds), None, bounds)

    with batch_invariant():
        assert_forward_is_invariant(run, lengths, states="attention" not in config.mixers)
        assert_step_is_invariant(model.step, pool, ModelState.stack)


@torch.no_grad()
def test_states_of_different_ages_share_a_step() -> None:
    """Attention's caches then have empty slots."""
    mixer = build("attention", {"heads": 3}, torch.float32)
    x = torch.randn(2, 6, D_MODEL)
    with batch_invariant():
        states = [mixer(x[:1, :2])[1], mixer(x[1:, :5])[1]]
        alone = [mixer.step(x[row : row + 1, 5], state)[0] for row, state in enumerate(states)]
        together, _ = mixer.step(x[:, 5], MixerState.stack(states))
    assert torch.equal(together, torch.cat(alone))


@torch.no_grad()
def test_inference_mode_gives_the_same_bits() -> None:
    mixer, x = build("deltanet", {"heads": 3, "eigenvalues": EigenRange(-1, 1)}, torch.float32), torch.randn(3, 20, D_MODEL)
    with batch_invariant():
        expected, _ = mixer(x)
        with torch.inference_mode():
            found, _ = mixer(x[1:2])
    assert torch.equal(found[0], expected[1])


def test_gradients_flow_and_are_right() -> None:
    mixer = build("gla", {"heads": 3, "eigenvalues": EigenRange(-1, 1)})
    x = torch.randn(2, 5, D_MODEL, dtype=torch.float64, requires_grad=True)
    expected = torch.autograd.grad(mixer(x)[0].square().sum(), x)[0]
    with batch_invariant():
        found = torch.autograd.grad(mixer(x)[0].square().sum(), x)[0]
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
