"""flash-linear-attention's naive references are our ops, at β in (0, 1], in (1, 2], and at β = 2 exactly.

All inputs are in our layout; each peer below says how it differs.  B batch  T time  H heads  n factors  K key dim  V value dim
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import fla
import pytest
import torch
from torch import Tensor

from eigentrack.layers import TTT
from eigentrack.ops import delta_rule, gated_linear, low_rank

BATCH, TIME, HEADS, KEY, VALUE = 2, 128, 3, 16, 5
SCALE = KEY**-0.5  # they scale q inside
BACKENDS = ["reference", "chunked"]
# of u, uniform in [0, 1)
BETA = {
    "beta in (0, 1]": lambda u: 1 - u,
    "beta in (1, 2]": lambda u: 2 - u,
    "beta = 2": lambda u: torch.full_like(u, 2),
}


def naive(op: str, function: str) -> Callable:
    """By its file: the package around it imports every Triton kernel, and warns where there is no GPU."""
    spec = importlib.util.spec_from_file_location(
        f"fla_naive_{Path(op).name}", Path(fla.__file__).parent / "ops" / op / "naive.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, function)


def heads_first(*tensors: Tensor) -> list[Tensor]:
    return [x.transpose(1, 2) for x in tensors]


# one factor per token; (q, k, v, beta, log gate, initial state) -> (y, last state or None)
def delta_rule_recurrence(q, k, v, beta, g, state):
    y, last = naive("delta_rule", "delta_rule_recurrence")(*heads_first(q, k, v, beta), initial_state=state)
    return y.transpose(1, 2), last


def delta_rule_chunkwise(q, k, v, beta, g, state):
    y, last = naive("delta_rule", "delta_rule_chunkwise")(*heads_first(q, k, v, beta))
    return y.transpose(1, 2), last


def delta_rule_parallel(q, k, v, beta, g, state):
    y, _ = naive("delta_rule", "delta_rule_parallel")(*heads_first(q, k, v, beta))
    return y.transpose(1, 2), None


def gated_delta_rule_recurrent(q, k, v, beta, g, state):
    rule = naive("gated_delta_rule", "naive_recurrent_gated_delta_rule")
    return rule(q, k, v, beta=beta, g=g, initial_state=state, output_final_state=True)


def gated_delta_rule_chunk(q, k, v, beta, g, state):
    rule = naive("gated_delta_rule", "naive_chunk_gated_delta_rule")
    return rule(q, k, v, beta=beta, g=g, initial_state=state, output_final_state=True)


def gated_delta_product(q, k, v, beta, g, state, factors=1, cu_seqlens=None):
    # k, v, beta: the factors of a token follow one another in time
    product = naive("gated_delta_product", "naive_recurrent_gated_delta_product")
    options = {"initial_state": state, "output_final_state": True, "num_householder": factors, "cu_seqlens": cu_seqlens}
    return product(q, k, v, g=g, beta=beta, scale=SCALE, **options)


def kda_recurrent(q, k, v, beta, g, state):
    return naive("kda", "naive_recurrent_kda")(q, k, v, g, beta, initial_state=state, output_final_state=True)


def kda_chunk(q, k, v, beta, g, state):
    return naive("kda", "naive_chunk_kda")(q, k, v, g, beta, initial_state=state, output_final_state=True)


def gla_recurrent(q, k, v, g, state):
    return naive("gla", "naive_recurrent_gla")(q, k, v, g, initial_state=state, output_final_state=True)


def simple_gla_recurrent(q, k, v, g, state):
    return naive("simple_gla", "naive_recurrent_simple_gla")(q, k, v, g, initial_state=state)


def simple_gla_chunk(q, k, v, g, state):
    return naive("simple_gla", "naive_chunk_simple_gla")(q, k, v, g, initial_state=state, output_final_state=True)


def simple_gla_parallel(q, k, v, g, state):
    y, _ = naive("simple_gla", "naive_parallel_simple_gla")(q, k, v, g)
    return y, None


UNGATED = [delta_rule_recurrence, delta_rule_chunkwise, delta_rule_parallel]
STATELESS = [delta_rule_chunkwise, delta_rule_parallel, simple_gla_parallel]  # they always start from zero


def draw(dtype: torch.dtype, beta: str, factors: int = 1, time: int = TIME) -> list[Tensor]:
    """q, k, v, beta, log gate, state; every second gate or so is exactly 1."""
    generator = torch.Generator().manual_seed(factors)
    shapes = [(KEY,), (factors, KEY), (factors, VALUE)]
    q, k, v = (torch.randn(BATCH, time, HEADS, *shape, generator=generator, dtype=dtype) for shape in shapes)
    u, g = (torch.rand(BATCH, time, HEADS, *shape, generator=generator, dtype=dtype) for shape in [(factors,), ()])
    state = torch.randn(BATCH, HEADS, KEY, VALUE, generator=generator, dtype=dtype)
    return [q, torch.nn.functional.normalize(k, dim=-1), v, BETA[beta](u), -g * (g > 0.5), state]


def in_time(x: Tensor) -> Tensor:
    """[B, T, H, n, ...] -> [B, T n, H, ...]"""
    return x.movedim(3, 2).flatten(1, 2)


@pytest.mark.parametrize("peer", [*UNGATED, gated_delta_rule_recurrent, gated_delta_rule_chunk, gated_delta_product])
@pytest.mark.parametrize("beta", BETA)
@pytest.mark.parametrize("backend", BACKENDS)
def test_delta_rules_match(peer, beta, backend, dtype, peer_in, assert_same):
    q, k, v, b, g, state = draw(dtype, beta)
    with peer_in(dtype):
        expected, expected_last = peer(q, k[..., 0, :], v[..., 0, :], b[..., 0], g, state)
    gate = None if peer in UNGATED else g.exp()
    y, last = delta_rule(q * SCALE, k, v, b, gate, initial_state=None if peer in STATELESS else state, backend=backend)
    assert_same(y, expected, "output")
    if expected_last is not None:
        assert_same(last, expected_last, "last state")


@pytest.mark.parametrize("factors", [2, 3])
@pytest.mark.parametrize("gated", [True, False])
@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("beta", BETA)
@pytest.mark.parametrize("backend", BACKENDS)
def test_delta_products_match(factors, gated, packed, beta, backend, dtype, peer_in, assert_same):
    q, k, v, b, g, state = draw(dtype, beta, factors)
    g, cu_seqlens = g if gated else None, None
    if packed:
        q, k, v, b = q[:1], k[:1], v[:1], b[:1]
        g, cu_seqlens = None if g is None else g[:1], torch.tensor([0, 41, TIME])
    with peer_in(dtype):
        expected, expected_last = gated_delta_product(q, *map(in_time, (k, v, b)), g, state, factors, cu_seqlens)
    gate = None if g is None else g.exp()
    y, last = delta_rule(q * SCALE, k, v, b, gate, initial_state=state, cu_seqlens=cu_seqlens, backend=backend)
    assert_same(y, expected, "output")
    assert_same(last, expected_last, "last state")


@pytest.mark.parametrize("beta", BETA)
@pytest.mark.parametrize("factors", [1, 3])
@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_of_delta_products_match(beta, factors, backend, peer_in, assert_same):
    inputs = [x.requires_grad_() for x in draw(torch.float64, beta, factors, time=40)]
    q, k, v, b, g, state = inputs
    with peer_in(torch.float64):
        expected = gated_delta_product(q, *map(in_time, (k, v, b)), g, state, factors)
    ours = delta_rule(q * SCALE, k, v, b, g.exp(), initial_state=state, backend=backend)
    weights = [torch.randn(x.shape, generator=torch.Generator().manual_seed(0), dtype=x.dtype) for x in expected]
    gradients, expected_gradients = (
        torch.autograd.grad(sum((w * x).sum() for w, x in zip(weights, outputs, strict=True)), inputs)
        for outputs in (ours, expected)
    )
    for name, gradient, theirs in zip(["q", "k", "v", "beta", "log gate", "state"], gradients, expected_gradients, strict=True):
        assert_same(gradient, theirs, f"gradient of {name}")


@pytest.mark.parametrize("peer", [gla_recurrent, simple_gla_recurrent, simple_gla_chunk, simple_gla_parallel])
@pytest.mark.parametrize("backend", BACKENDS)
def test_gated_linear_attention_matches(peer, backend, dtype, peer_in, assert_same):
    q, k, v, _, g, state = draw(dtype, "beta = 2")
    k, v = k[..., 0, :], v[..., 0, :]
    if peer is gla_recurrent:
        g = g[..., None] * k.abs()  # one gate for each key channel
    with peer_in(dtype):
        expected, expected_last = peer(q, k, v, g, state)
    y, last = gated_linear(q * SCALE, k, v, g.exp(), initial_state=None if peer in STATELESS else state, backend=backend)
    assert_same(y, expected, "output")
    if expected_last is not None:
        assert_same(last, expected_last, "last state")


@pytest.mark.parametrize("peer", [kda_recurrent, kda_chunk])
@pytest.mark.parametrize("beta", BETA)
@pytest.mark.parametrize("backend", BACKENDS)
def test_delta_rules_with_a_gate_per_channel_match(peer, beta, backend, dtype, peer_in, assert_same):
    q, k, v, b, g, state = draw(dtype, beta)
    g = g[..., None] * k[..., 0, :].abs()
    with peer_in(dtype):
        expected, expected_last = peer(q, k[..., 0, :], v[..., 0, :], b[..., 0], g, state)
    y, last = delta_rule(q * SCALE, k, v, b, g.exp(), initial_state=state, backend=backend)
    assert_same(y, expected, "output")
    assert_same(last, expected_last, "last state")


@pytest.mark.parametrize(
    ("form", "dtype"),
    # their chunks are filled into float32, whatever the inputs are
    [("dplr_recurrence", torch.float64), ("dplr_recurrence", torch.float32), ("dplr_chunkwise", torch.float32)],
)
@pytest.mark.parametrize("backend", BACKENDS)
def test_diagonal_plus_rank_one_as_in_rwkv_7_matches(form, backend, dtype, peer_in, assert_same):
    """Theirs adds (αᵀS) along β ahead of the gate, and k vᵀ: our two factors."""
    ours, theirs = rwkv_7(form, backend, draw(dtype, "beta in (0, 1]"), peer_in)
    assert_same(ours[0], theirs[0], "output")
    assert_same(ours[1], theirs[1], "last state")


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_of_diagonal_plus_rank_one_match(backend, peer_in, assert_same):
    inputs = [x.requires_grad_() for x in draw(torch.float64, "beta in (0, 1]", time=40)]
    weights = [torch.randn(shape, dtype=torch.float64) for shape in ((BATCH, 40, HEADS, VALUE), (BATCH, HEADS, KEY, VALUE))]
    gradients, expected = (
        torch.autograd.grad(sum((w * x).sum() for w, x in zip(weights, outputs, strict=True)), inputs, retain_graph=True)
        for outputs in rwkv_7("dplr_recurrence", backend, inputs, peer_in)
    )
    for name, gradient, theirs in zip(["q", "unit key", "v", "rate", "log gate", "state"], gradients, expected, strict=True):
        assert_same(gradient, theirs, f"gradient of {name}")


def rwkv_7(form, backend, inputs, peer_in):
    """(y, last state) of ours and theirs."""
    q, unit, v, rate, g, state = inputs
    unit, v, k = unit[..., 0, :], v[..., 0, :], q.flip(1)
    erase, log_gate = rate * unit * unit.flip(-1).abs(), g[..., None] * unit.abs()
    zero = torch.zeros_like(unit)
    with peer_in(q.dtype):
        rule = naive("generalized_delta_rule/dplr", form)
        expected, expected_last = rule(*heads_first(q, k, v, unit, -erase, log_gate), initial_state=state)
    read, write = torch.stack([unit, zero], 3), torch.stack([erase, k], 3)
    values = torch.stack([torch.zeros_like(v), v], 3)
    ours = low_rank(q * SCALE, read, write, values, log_gate.exp(), initial_state=state, backend=backend)
    return ours, (expected.transpose(1, 2), expected_last)


def test_ttt_matches():
    """Theirs answers z + norm(z) where ours has q + norm(z), takes the last rate of a mini-batch for its state, fills up
    the last one, and computes in float32: at one rate for all tokens and in whole mini-batches memory and norm(z) agree."""
    torch.manual_seed(0)
    rate_logit, time = 0.3, 32
    layer = TTT(12, heads=HEADS, mini_batch=8)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        layer.rate_proj.weight.zero_()
        layer.rate_proj.bias.fill_(rate_logit)
        layer.norm = layer.out_proj = torch.nn.Identity()
        x, start = torch.randn(BATCH, time, 12), layer.initial_state(BATCH)
        q, k, v = (project(x).unflatten(-1, (HEADS, -1)) for project in (layer.q_proj, layer.k_proj, layer.v_proj))
        q, k = (torch.nn.functional.normalize(y, dim=-1) for y in (q, k))
        rates = torch.full((BATCH, time, HEADS, 1), rate_logit).sigmoid()
        expected, weight, bias = naive("ttt", "chunk_ttt_linear_ref")(
            *(q, k, v, layer.scale[:, 0], layer.offset[:, 0], rates),
            **{"scale": 1.0, "eps": layer.eps, "mini_batch_size": 8, "output_final_state": True},
            **{"initial_state": start.memory[0], "initial_state_bias": start.memory[1]},
        )
        y, state = layer(x)
    normalised = y.unflatten(-1, (HEADS, -1)) - q
    z = expected - normalised
    again = torch.nn.functional.layer_norm(z, z.shape[-1:], eps=layer.eps) * layer.scale[:, 0] + layer.offset[:, 0]
    torch.testing.assert_close(again, normalised, rtol=0, atol=1e-5)
    torch.testing.assert_close(state.memory[0], weight, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(state.memory[1], bias, rtol=1e-5, atol=1e-5)
