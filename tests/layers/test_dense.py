"""Full matrices without a bound: they start near the identity, and their products may outgrow every float."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from torch import Tensor

from eigentrack.layers import Dense
from eigentrack.layers.dense import LIMIT
from eigentrack.models import ModelConfig, SequenceModel
from tests.closeness import assert_close

D_MODEL, STATE = 12, 3
BACKENDS = ["reference", "chunked"]


def growing(growth: float, backend: str = "auto", dtype: torch.dtype = torch.float64) -> Dense:
    """Rotations, about, times `growth`."""
    torch.manual_seed(5)
    mixer = Dense(D_MODEL, state_size=STATE, backend=backend).to(dtype)
    with torch.no_grad():
        turn, _ = torch.linalg.qr(torch.randn(STATE, STATE, dtype=dtype))
        mixer.matrix_proj.bias.copy_(growth * turn.flatten())
        mixer.matrix_proj.weight.mul_(growth)
    return mixer


def by_definition(mixer: Dense, x: Tensor) -> Tensor:
    """S_t = A_t S_{t-1} as it stands, S_t / max(1, |S_t|) read out; in float64, which holds what float32 does not."""
    state, outputs = torch.eye(STATE, dtype=x.dtype).expand(len(x), 1, STATE, STATE), []
    for matrix in mixer.transitions(x).unbind(1):
        state = matrix @ state
        outputs.append((state / state.norm(dim=(-2, -1), keepdim=True).clamp_min(1)).flatten(1) @ mixer.out_proj.weight.mT)
    return torch.stack(outputs, 1)


@torch.no_grad()
def test_a_fresh_layer_of_the_papers_shape_starts_near_the_identity() -> None:
    for seed in range(3):
        torch.manual_seed(seed)
        options = {"state_size": 32, "eigenvalues": None}
        config = ModelConfig(vocab_size=122, d_model=128, layers=1, mixer="dense", mixer_options=options, mlp_width=0)
        model = SequenceModel(config)
        block = model.blocks[0]
        inputs = block.mixer_norm(model.embedding(torch.randint(122, (1, 600))))  # type: ignore[operator]
        mixer = block.mixer
        assert isinstance(mixer, Dense)
        distance = torch.linalg.matrix_norm(mixer.transitions(inputs) - torch.eye(32), ord=2)
        assert 0.07 < distance.mean() < 0.12
        y, state = mixer(inputs)
        assert 1 < state.memory[0].norm() < 1000  # 32 orthogonal columns have 5.7
        assert y[:, 500:].std() > 0.3 * y[:, :100].std()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("growth", [0.9, 1.0, 3.0])
def test_values_and_gradients_are_those_of_the_definition(growth: float, backend: str) -> None:
    mixer, x = growing(growth, backend), torch.randn(2, 100, D_MODEL, dtype=torch.float64)
    results = []
    for read in (lambda x: mixer(x)[0], lambda x: by_definition(mixer, x)):
        leaf = x.clone().requires_grad_()
        y = read(leaf)
        weight = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)
        results.append([y, *torch.autograd.grad((y * weight).sum(), [leaf, *mixer.parameters()])])
    for ours, expected in zip(*results, strict=True):
        assert_close(ours, expected)


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_beyond_the_limit_are_those_of_finite_differences(backend: str) -> None:
    mixer, x = growing(3.0, backend), torch.randn(1, 6, D_MODEL, dtype=torch.float64, requires_grad=True)
    state = mixer.initial_state(1)
    large = type(state)((0.9 * LIMIT * state.memory[0],))
    assert float(mixer(x, large)[1].memory[0].detach().abs().max()) == pytest.approx(LIMIT)
    assert torch.autograd.gradcheck(lambda x: mixer(x, large)[0], [x], eps=2**-20)


@torch.no_grad()
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("growth", "time"), [(3.0, 300), (300.0, 50)])
def test_products_beyond_every_float_are_still_read(growth: float, time: int, backend: str) -> None:
    """300 tokens of growth 3: S reaches 10^143, and float32 ends at 10^38. With growth 300 a chunk alone takes it there."""
    mixer, x = growing(growth, backend, torch.float32), torch.randn(1, time, D_MODEL)
    whole, last = mixer(x)
    packed, _ = mixer(x, cu_seqlens=torch.tensor([0, 1, time]))
    state, pieces, steps = None, [], []
    for first, end in pairwise([0, 1, 20, 43, time]):
        y, state = mixer(x[:, first:end], state)
        pieces.append(y)
    token_state = None
    for token in x.unbind(1):
        y, token_state = mixer.step(token, token_state)
        steps.append(y)
    expected = by_definition(growing(growth, dtype=torch.float32).double(), x.double()).float()
    for ours in (whole, torch.cat(pieces, 1), torch.stack(steps, 1)):
        assert (ours - expected).abs().max() < 1e-3 * expected.abs().max()
    assert (packed[:, 1:] - mixer(x[:, 1:])[0]).abs().max() < 1e-3 * expected.abs().max()
    assert last.memory[0].abs().max() <= 1.001 * LIMIT


@torch.no_grad()
def test_a_bare_layer_reads_the_state_as_it_is() -> None:
    mixer, x = growing(3.0), torch.randn(1, 60, D_MODEL, dtype=torch.float64)
    mixer.bare = True
    _, state = mixer(x)
    assert state.memory[0].norm() == pytest.approx(
        float(torch.linalg.multi_dot([*mixer.transitions(x)[0, :, 0].flip(0)]).norm())
    )
    assert state.memory[0].abs().max() > 100 * LIMIT
