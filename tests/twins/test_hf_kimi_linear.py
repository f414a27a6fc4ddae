"""Kimi Linear: its delta attention is our `delta_rule` with a gate per channel, its forget gate that of our DeltaNet.

(Its layer as a whole is not ours: it gates the output by a sigmoid of low rank, we by a silu.)

B batch  T time  H heads  K key dim
"""

from __future__ import annotations

import inspect

import pytest
import torch
from torch import Tensor
from transformers import KimiLinearConfig
from transformers.models.kimi_linear import modeling_kimi_linear

from eigentrack.layers import DeltaNet
from eigentrack.ops import delta_rule
from eigentrack.spectrum import EigenRange

BATCH, HEADS, KEY, VALUE, WIDTH = 2, 3, 8, 5, 12
THEIR_FORMS = ["recurrent_kimi_delta_attention", "chunk_kimi_delta_attention"]
# of u, uniform in [0, 1)
BETA = {"beta in [0, 1)": lambda u: u, "beta in [1, 2)": lambda u: 1 + u, "beta = 2": lambda u: torch.full_like(u, 2)}


def draw(time: int, beta: str) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(time)
    q, k, v = (torch.randn(BATCH, time, HEADS, size, generator=generator, dtype=torch.float64) for size in (KEY, KEY, VALUE))
    u_gate, u_beta = (torch.rand(x.shape, generator=generator, dtype=torch.float64) for x in (k, k[..., 0]))
    return {
        "query": q,
        "key": torch.nn.functional.normalize(k, dim=-1),
        "value": v,
        "g": -3 * u_gate * (u_gate > 0.5),  # every second gate or so is exactly 1
        "beta": BETA[beta](u_beta),
        "initial_state": torch.randn(BATCH, HEADS, KEY, VALUE, generator=generator, dtype=torch.float64),
    }


@pytest.mark.parametrize("time", [1, 65])
@pytest.mark.parametrize("beta", BETA)
@pytest.mark.parametrize("form", THEIR_FORMS)
@pytest.mark.parametrize("backend", ["reference", "chunked"])
def test_outputs_states_and_gradients_match(time, beta, form, backend, peer_in, assert_same):
    inputs = {name: x.requires_grad_() for name, x in draw(time, beta).items()}
    with peer_in(torch.float64):
        # unwrapped: the wrapper prefers another package's kernels where they are installed
        expected = inspect.unwrap(getattr(modeling_kimi_linear, form))(**inputs, output_final_state=True)
    q, k, v, g, b, state = inputs.values()
    factor = (x.unsqueeze(3) for x in (k, v, b))
    ours = delta_rule(q * KEY**-0.5, *factor, g.exp(), initial_state=state, backend=backend)
    weights = [torch.randn(x.shape, generator=torch.Generator().manual_seed(0), dtype=x.dtype) for x in expected]
    gradients, expected_gradients = (
        torch.autograd.grad(sum((w * x).sum() for w, x in zip(weights, out, strict=True)), list(inputs.values()))
        for out in (ours, expected)
    )
    names = ["output", "final state", *(f"gradient of {name}" for name in inputs)]
    for name, found, theirs in zip(names, [*ours, *gradients], [*expected, *expected_gradients], strict=True):
        assert_same(found, theirs, name)


def test_the_forget_gate_matches(dtype, randomise, peer_in, assert_same):
    config = KimiLinearConfig(hidden_size=WIDTH, linear_num_heads=HEADS, linear_head_dim=KEY)
    theirs = modeling_kimi_linear.KimiLinearForgetGate(config).to(dtype)
    randomise(theirs)
    ours = DeltaNet(WIDTH, heads=HEADS, key_dim=KEY, gate=EigenRange(0, 1), gate_per_channel=True).to(dtype)
    weights = {
        "gate_down_proj.weight": theirs.f_a_proj.weight,
        "gate_proj.weight": theirs.f_b_proj.weight,
        "gate_bias": theirs.dt_bias,
        "gate_log_rate": theirs.A_log.flatten(),
    }
    assert not ours.load_state_dict(weights, strict=False).unexpected_keys
    x = torch.randn(BATCH, 9, WIDTH, generator=torch.Generator().manual_seed(1), dtype=dtype)
    with torch.no_grad(), peer_in(dtype):
        expected = theirs(x).exp()
    assert expected.std() > 0.1
    assert_same(ours.gates(x)["gate"], expected, "gate")
