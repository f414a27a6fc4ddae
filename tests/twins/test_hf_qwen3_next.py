"""Qwen3-Next: its gated delta rule is our `delta_rule` op, its gated DeltaNet our DeltaNet with range [0, 1].

B batch  T time  H heads  K key dim  V value dim
"""

from __future__ import annotations

import inspect

import pytest
import torch
from torch import Tensor
from transformers import Qwen3NextConfig
from transformers.models.qwen3_next import modeling_qwen3_next

from eigentrack.layers import DeltaNet
from eigentrack.ops import delta_rule
from eigentrack.spectrum import EigenRange

BATCH, HEADS, KEY, VALUE, WIDTH = 2, 3, 16, 5, 12
THEIR_FORMS = ["torch_chunk_gated_delta_rule", "torch_recurrent_gated_delta_rule"]
# their chunks subtract running sums of log gates, which in float32 costs up to 1.4e-5 where gates are strong;
# in float32 their loop is the twin, and their chunks are so in the layer below, whose gates are mild
FORM_AND_DTYPE = [(THEIR_FORMS[0], torch.float64), (THEIR_FORMS[1], torch.float64), (THEIR_FORMS[1], torch.float32)]
# of u, uniform in [0, 1)
BETA = {
    "beta in [0, 1)": lambda u: u,
    "beta in [1, 2)": lambda u: 1 + u,
    "beta = 2": lambda u: torch.full_like(u, 2),
}
LOG_GATE = {
    "gate = 1": torch.zeros_like,
    "gate in (1/e, 1], often 1": lambda u: -u * (u > 0.5),
    "gate down to e^-20": lambda u: -20 * u**4,
}


def draw(time: int, dtype: torch.dtype, beta: str, log_gate: str) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(time)
    q, k, v = (torch.randn(BATCH, time, HEADS, size, generator=generator, dtype=dtype) for size in (KEY, KEY, VALUE))
    u_gate, u_beta = (torch.rand(BATCH, time, HEADS, generator=generator, dtype=dtype) for _ in range(2))
    return {
        "query": q,
        "key": torch.nn.functional.normalize(k, dim=-1),
        "value": v,
        "g": LOG_GATE[log_gate](u_gate),
        "beta": BETA[beta](u_beta),
        "initial_state": torch.randn(BATCH, HEADS, KEY, VALUE, generator=generator, dtype=dtype),
    }


def run_ours(query, key, value, g, beta, initial_state=None, backend: str = "auto") -> tuple[Tensor, Tensor]:
    q = query * KEY**-0.5  # theirs does so inside
    k, v, b = key.unsqueeze(3), value.unsqueeze(3), beta.unsqueeze(3)  # one factor per token
    return delta_rule(q, k, v, b, g.exp(), initial_state=initial_state, backend=backend)


def run_theirs(form: str, **inputs: Tensor) -> tuple[Tensor, Tensor]:
    # unwrapped: the wrapper prefers another package's kernels where they are installed
    return inspect.unwrap(getattr(modeling_qwen3_next, form))(**inputs, output_final_state=True)


@pytest.mark.parametrize("time", [1, 63, 64, 65, 130])
@pytest.mark.parametrize("beta", BETA)
@pytest.mark.parametrize("log_gate", LOG_GATE)
@pytest.mark.parametrize(("form", "dtype"), FORM_AND_DTYPE)
@pytest.mark.parametrize("backend", ["reference", "chunked"])
def test_outputs_and_final_state_match(time, beta, log_gate, form, dtype, backend, peer_in, assert_same):
    inputs = draw(time, dtype, beta, log_gate)
    with peer_in(dtype):
        expected, expected_state = run_theirs(form, **inputs)
    y, state = run_ours(**inputs, backend=backend)
    assert_same(y, expected, "output")
    assert_same(state, expected_state, "final state")


@pytest.mark.parametrize("form", THEIR_FORMS)
@pytest.mark.parametrize("backend", ["reference", "chunked"])
def test_a_state_carried_from_theirs_to_ours_and_back_matches(form, backend, dtype, peer_in, assert_same):
    inputs = draw(150, dtype, "beta in [1, 2)", "gate in (1/e, 1], often 1")
    state = inputs.pop("initial_state")
    first, second, third = ({name: x[:, a:b] for name, x in inputs.items()} for a, b in [(0, 40), (40, 110), (110, 150)])
    with peer_in(dtype):
        expected, _ = run_theirs(form, **inputs, initial_state=state)
        y_1, state = run_theirs(form, **first, initial_state=state)
    y_2, state = run_ours(**second, initial_state=state, backend=backend)
    with peer_in(dtype):
        y_3, _ = run_theirs(form, **third, initial_state=state)
    assert_same(torch.cat([y_1, y_2, y_3], dim=1), expected, "output")


@pytest.mark.parametrize("beta", BETA)
@pytest.mark.parametrize("log_gate", LOG_GATE)
@pytest.mark.parametrize("form", THEIR_FORMS)
@pytest.mark.parametrize("backend", ["reference", "chunked"])
def test_gradients_match(beta, log_gate, form, backend, peer_in, assert_same):
    inputs = {name: x.requires_grad_() for name, x in draw(70, torch.float64, beta, log_gate).items()}
    with peer_in(torch.float64):
        expected = run_theirs(form, **inputs)
    weights = [torch.randn(x.shape, generator=torch.Generator().manual_seed(0), dtype=x.dtype) for x in expected]
    gradients, expected_gradients = (
        torch.autograd.grad(sum((w * x).sum() for w, x in zip(weights, outputs, strict=True)), list(inputs.values()))
        for outputs in (run_ours(**inputs, backend=backend), expected)
    )
    for name, gradient, expected_gradient in zip(inputs, gradients, expected_gradients, strict=True):
        assert_same(gradient, expected_gradient, f"gradient of {name}")


def copy_qwen_weights(ours: DeltaNet, theirs: torch.nn.Module, shared: int) -> None:
    """They fuse projections key head by key head, and let `shared` value heads read one key head: we hold it `shared` times."""
    key_heads = HEADS // shared
    qkvz = theirs.in_proj_qkvz.weight.unflatten(0, (key_heads, -1))
    q, k, v, z = qkvz.split([KEY, KEY, shared * VALUE, shared * VALUE], dim=1)
    b, a = theirs.in_proj_ba.weight.unflatten(0, (key_heads, -1)).split([shared, shared], dim=1)
    q_filter, k_filter, v_filter = theirs.conv1d.weight.squeeze(1).split([key_heads * KEY, key_heads * KEY, HEADS * VALUE])
    q, k, q_filter, k_filter = (
        part.reshape(key_heads, KEY, -1).repeat_interleave(shared, dim=0).flatten(0, 1) for part in (q, k, q_filter, k_filter)
    )
    ours.load_state_dict(
        {
            "q_proj.weight": q,
            "k_proj.weight": k,
            "v_proj.weight": v.flatten(0, 1),
            "convolution.weight": torch.cat([q_filter, k_filter, v_filter]),
            "beta_proj.weight": b.flatten(0, 1),
            "gate_proj.weight": a.flatten(0, 1),
            "gate_log_rate": theirs.A_log,
            "gate_bias": theirs.dt_bias,
            "output_gate_proj.weight": z.flatten(0, 1),
            "norm.weight": theirs.norm.weight,
            "out_proj.weight": theirs.out_proj.weight,
        }
    )


@pytest.mark.parametrize("shared", [1, 3], ids=["a key head each", "one key head for three"])
def test_layer_matches(shared, dtype, randomise, on_torch_path, peer_in, assert_same):
    on_torch_path(modeling_qwen3_next)
    config = Qwen3NextConfig(
        hidden_size=WIDTH,
        num_hidden_layers=1,
        linear_num_key_heads=HEADS // shared,
        linear_num_value_heads=HEADS,
        linear_key_head_dim=KEY,
        linear_value_head_dim=VALUE,
        rms_norm_eps=1e-4,  # large, so that the wrong one would show
    )
    theirs = modeling_qwen3_next.Qwen3NextGatedDeltaNet(config, layer_idx=0).to(dtype)
    randomise(theirs)
    with torch.no_grad():
        # they put 1e-6 under the root of |q| and |k|, we do not: with |k|² > 1e5 nothing of it is left
        theirs.conv1d.weight[: 2 * HEADS // shared * KEY] *= 3000
    ours = DeltaNet(
        WIDTH,
        heads=HEADS,
        key_dim=KEY,
        value_dim=VALUE,
        eigenvalues=EigenRange(0, 1),
        gate=EigenRange(0, 1),
        output_gate=True,
        norm_eps=1e-4,
    ).to(dtype)
    copy_qwen_weights(ours, theirs, shared)
    x = torch.randn(BATCH, 70, WIDTH, generator=torch.Generator().manual_seed(1), dtype=dtype)
    with torch.no_grad(), peer_in(dtype):
        expected = theirs(x)
    assert expected.std() > 0.1
    assert_same(ours(x)[0], expected, "output")
    steps, state = [], None
    for x_t in x.unbind(1):
        y_t, state = ours.step(x_t, state)
        steps.append(y_t)
    assert_same(torch.stack(steps, dim=1), expected, "output of steps")
