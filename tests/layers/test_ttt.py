"""TTT-Linear against its definition: a loop over tokens, and autograd for the gradient of the inner loss."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from eigentrack.layers import TTT
from tests.closeness import assert_close
from tests.layers.layer_cases import D_MODEL, build


def inner_model(mixer: TTT, head: int, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    normalised = F.layer_norm(x @ weight + bias, (mixer.width,), mixer.scale[head, 0], mixer.offset[head, 0], mixer.eps)
    return x + normalised


@pytest.mark.parametrize("mini_batch", [1, 3, 16])
def test_it_is_gradient_descent_on_the_inner_loss(mini_batch: int) -> None:
    mixer = build("ttt", {"heads": 2, "mini_batch": mini_batch})
    assert isinstance(mixer, TTT)
    x = torch.randn(1, 20, D_MODEL, dtype=torch.float64)
    q, k, v = (project(x)[0].unflatten(-1, (2, -1)) for project in (mixer.q_proj, mixer.k_proj, mixer.v_proj))
    q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
    rate = mixer.rate_proj(x)[0].sigmoid()
    answers = torch.zeros(20, 2, mixer.width, dtype=torch.float64)
    for head in range(2):
        weight, bias = mixer.initial_weight[head].detach(), mixer.initial_bias[head, 0].detach()
        for t in range(20):
            if t % mini_batch == 0:
                base = [weight.clone().requires_grad_(), bias.clone().requires_grad_()]
            loss = (inner_model(mixer, head, k[t, head], *base) - v[t, head]).square().sum() / 2
            gradients = torch.autograd.grad(loss, base, retain_graph=True)
            weight, bias = (part - rate[t, head] * g for part, g in zip((weight, bias), gradients, strict=True))
            answers[t, head] = inner_model(mixer, head, q[t, head], weight, bias)
    expected = mixer.out_proj(mixer.norm(answers).flatten(-2))
    y, state = mixer(x)
    assert_close(y[0], expected)
    assert_close(state.memory[0][0, 1], weight, "weight of the last head")
    assert_close(state.memory[2][0, 1], base[0] if 20 % mini_batch else weight, "its base")
    assert state.memory[4].tolist() == [[20 % mini_batch]]


def test_sequences_in_different_places_of_their_mini_batches_step_together() -> None:
    mixer, x = build("ttt", {"heads": 3, "mini_batch": 4}), torch.randn(1, 12, D_MODEL, dtype=torch.float64)
    _, state = mixer(x, cu_seqlens=torch.tensor([0, 1, 4, 12]))
    assert state.memory[4].tolist() == [[1], [3], [0]]
    more = torch.randn(3, 7, D_MODEL, dtype=torch.float64)
    together, _ = mixer(more, state)
    for row in range(3):
        alone, _ = mixer(more[row : row + 1], state.select(torch.tensor([row])))
        assert_close(together[row : row + 1], alone)


def test_a_count_that_noise_has_moved_is_still_one() -> None:
    """Studies of robustness move every number of a state."""
    mixer, x = build("ttt", {"heads": 3, "mini_batch": 4}), torch.randn(3, 3, D_MODEL, dtype=torch.float64)
    _, state = mixer(x)
    moved = [replace(state, memory=(*state.memory[:4], state.memory[4] + by)) for by in (0.0, 0.4, -0.4, 9.0, -9.0)]
    exact, nearly, also, above, below = (mixer(x, start)[0] for start in moved)
    assert torch.equal(nearly, exact)
    assert torch.equal(also, exact)
    assert above.isfinite().all()
    assert below.isfinite().all()


@pytest.mark.parametrize(("name", "value"), [("rate", 0.0), ("rate", float("nan")), ("rate", float("inf")), ("eps", -1.0)])
def test_numbers_that_are_not_positive_are_named(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name}={value} must be a positive number"):
        TTT(D_MODEL, heads=3, **{name: value})
