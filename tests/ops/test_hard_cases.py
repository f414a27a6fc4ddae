"""The corners where linear recurrences break elsewhere: b = 2 on equal keys, gates of zero, huge memory, autocast."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from eigentrack.ops import delta_rule, gated_linear, low_rank, mlstm, selective_scan, slstm
from eigentrack.ops.delta_rule.op import DELTA_RULE
from eigentrack.ops.gated_linear.op import GATED_LINEAR
from eigentrack.ops.low_rank.op import LOW_RANK
from eigentrack.ops.shared.chunk_decay import channel_decay_scores, pairwise_decay
from eigentrack.ops.shared.packing import Packing
from eigentrack.spectrum import EigenRange
from tests.closeness import assert_close

BACKENDS = ["reference", "chunked"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equal_keys_at_beta_two_are_exact(dtype: torch.dtype) -> None:
    """64 reflections along one key: a Neumann doubling has error 3e20 here; forward substitution has none."""
    time = 192
    key = torch.zeros(1, time, 1, 1, 4, dtype=dtype)
    key[..., 0] = 1.0
    start = torch.tensor([[[[3.0], [5.0], [7.0], [11.0]]]], dtype=dtype)
    y, state = delta_rule(
        torch.ones(1, time, 1, 4, dtype=dtype),
        key,
        torch.zeros(1, time, 1, 1, 1, dtype=dtype),
        torch.full((1, time, 1, 1), 2.0, dtype=dtype),
        initial_state=start,
        backend="chunked",
    )
    assert torch.equal(state, start)  # an even number of reflections
    expected = torch.tensor([20.0, 26.0], dtype=dtype).repeat(time // 2)
    assert torch.equal(y.flatten(), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_signed_channel_gate_and_one_reflection_turn_a_plane_exactly(dtype: torch.dtype) -> None:
    """diag(1, -1), then the swap of the two axes: a quarter turn; 100 of them are 25 whole turns."""
    time = 100
    key = torch.tensor([1.0, -1.0], dtype=dtype).expand(1, time, 1, 1, 2)
    start = torch.tensor([[[[3.0], [5.0]]]], dtype=dtype)
    y, state = delta_rule(
        torch.tensor([1.0, 0.0], dtype=dtype).expand(1, time, 1, 2),
        key,
        torch.zeros(1, time, 1, 1, 1, dtype=dtype),
        torch.ones(1, time, 1, 1, dtype=dtype),  # |k|² = 2: the eigenvalue along k is -1
        torch.tensor([1.0, -1.0], dtype=dtype).expand(1, time, 1, 2),
        initial_state=start,
        backend="chunked",
    )
    assert torch.equal(state, start)
    assert torch.equal(y.flatten(), torch.tensor([-5.0, -3.0, 5.0, 3.0], dtype=dtype).repeat(time // 4))


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_a_low_rank_factor_reads_ahead_of_a_zero_gate_is_all_that_is_left(backend: str) -> None:
    """S = -w (rᵀ S_before): behind the gate there would be nothing to read."""
    time = 70
    read, write, start = (torch.randn(*shape, dtype=torch.float64) for shape in [(4,), (4,), (1, 1, 4, 3)])
    one = torch.ones(1, time, 1, 1, dtype=torch.float64)
    v, gate = torch.zeros(1, time, 1, 1, 3, dtype=torch.float64), torch.zeros(1, time, 1, 4, dtype=torch.float64)
    write = write / (read @ write)  # so that what is left is read again
    _, state = low_rank(
        one.expand(-1, -1, -1, 4), read * one[..., None], write * one[..., None], v, gate, initial_state=start, backend=backend
    )
    assert_close(state[0, 0], torch.outer(write, read @ start[0, 0]))  # an even number of signs


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_gate_of_zero_forgets_everything(backend: str) -> None:
    time, reset = 100, 70
    q, k, v = (torch.randn(1, time, 1, 4, dtype=torch.float64) for _ in range(3))
    a = torch.full((1, time, 1), -0.9, dtype=torch.float64)
    a[:, reset] = 0.0
    y, state = gated_linear(q, k, v, a, initial_state=torch.full((1, 1, 4, 4), 1e30, dtype=torch.float64), backend=backend)
    tail, tail_state = gated_linear(q[:, reset:], k[:, reset:], v[:, reset:], a[:, reset:], backend="reference")
    assert_close(y[:, reset:], tail)
    assert_close(state, tail_state)


def test_the_gradient_at_a_zero_gate_is_the_product_of_the_others() -> None:
    a = torch.tensor([0.5, 0.0, -0.7, 1.0, -1.0], dtype=torch.float64, requires_grad=True)
    decay = pairwise_decay(a)
    (gradient,) = torch.autograd.grad(decay[-1, 0], a)
    others = [torch.cat([a[:t], a[t + 1 :]]).prod() for t in range(len(a))]
    assert torch.allclose(gradient, torch.stack(others), rtol=0, atol=1e-15)
    assert gradient[1].item() == pytest.approx(0.5 * -0.7 * 1.0 * -1.0)


def test_products_of_ones_and_minus_ones_are_exact_in_every_precision() -> None:
    a = torch.tensor([1.0, -1.0, -1.0, 0.0, 1.0, -1.0, 1.0, -1.0] * 16)
    for dtype in (torch.float32, torch.float64):
        decay = pairwise_decay(a.to(dtype))
        for start in (0, 5, 100):
            exact = torch.cat([torch.ones(1), a[start:]]).cumprod(0).to(dtype)
            assert torch.equal(decay[start:, start], exact)
        ones = torch.ones(len(a), 1, dtype=dtype)
        scores, from_start, to_end = channel_decay_scores(ones, ones, a.to(dtype)[:, None])
        assert torch.equal(scores, decay[1:, 1:])
        assert torch.equal(from_start[:, 0], decay[1:, 0])
        assert torch.equal(to_end[:, 0], decay[-1, 1:])


@given(
    batch=st.integers(1, 3),
    time=st.integers(1, 40),
    heads=st.integers(1, 3),
    factors=st.integers(1, 4),
    key=st.integers(1, 5),
    value=st.integers(1, 5),
    chunk=st.integers(1, 17),
    form=st.sampled_from(["no gate", "gate per head", "gate per channel", "low rank per head", "low rank per channel"]),
    seed=st.integers(0, 2**20),
)
@settings(max_examples=100, deadline=None)
def test_delta_rule_and_low_rank_agree_at_every_shape(
    batch: int, time: int, heads: int, factors: int, key: int, value: int, chunk: int, form: str, seed: int
) -> None:
    generator = torch.Generator(torch.get_default_device()).manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=generator)

    k = torch.nn.functional.normalize(draw(batch, time, heads, factors, key), dim=-1)
    beta = draw(batch, time, heads, factors).sigmoid() * 2
    gate = draw(batch, time, heads, *([key] if "channel" in form else [])).tanh()
    q, v, state = draw(batch, time, heads, key), draw(batch, time, heads, factors, value), draw(batch, heads, key, value)
    if "low rank" in form:
        backends, inputs = LOW_RANK.backends, (q, k, 0.3 * draw(*k.shape) / factors, v, gate)
    else:
        backends, inputs = DELTA_RULE.backends, (q, k, v, beta, None if form == "no gate" else gate)
    expected = backends["reference"](*inputs, initial_state=state, packing=None)
    found = backends["chunked"](*inputs, initial_state=state, packing=None, chunk_size=chunk)
    for ours, reference in zip(found, expected, strict=True):
        assert_close(ours, reference)


@given(
    lengths=st.lists(st.integers(1, 30), min_size=1, max_size=8),
    heads=st.integers(1, 3),
    key=st.integers(1, 5),
    chunk=st.integers(1, 17),
    per_channel=st.booleans(),
    seed=st.integers(0, 2**20),
)
@settings(max_examples=60, deadline=None)
def test_gated_linear_agrees_on_every_packing(
    lengths: list[int], heads: int, key: int, chunk: int, per_channel: bool, seed: int
) -> None:
    generator = torch.Generator(torch.get_default_device()).manual_seed(seed)
    time = sum(lengths)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=generator)

    gates = draw(1, time, heads, *([key] if per_channel else [])).tanh()
    inputs = (draw(1, time, heads, key), draw(1, time, heads, key), draw(1, time, heads, 2), gates)
    state = draw(len(lengths), heads, key, 2)
    packing = Packing.of(inputs[0], torch.tensor([0, *lengths]).cumsum(0))
    expected = GATED_LINEAR.backends["reference"](*inputs, initial_state=state, packing=packing)
    found = GATED_LINEAR.backends["chunked"](*inputs, initial_state=state, packing=packing, chunk_size=chunk)
    for ours, reference in zip(found, expected, strict=True):
        assert_close(ours, reference)


class LargestTensor(TorchDispatchMode):
    """Remembers the size of the largest tensor that any operation made."""

    numel = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for item in out if isinstance(out, (tuple, list)) else [out]:
            if isinstance(item, Tensor):
                self.numel = max(self.numel, item.numel())
        return out


def test_selective_scan_never_holds_every_state() -> None:
    batch, time, channels, size = 2, 1024, 16, 16
    x, dt = (torch.rand(batch, time, channels, requires_grad=True) for _ in range(2))
    b, c = (torch.randn(batch, time, size, requires_grad=True) for _ in range(2))
    log_decay = -torch.rand(channels, size)
    with LargestTensor() as largest:
        y, _ = selective_scan(x, dt, b, c, log_decay=log_decay, eigenvalues=EigenRange(-1, 1), backend="chunked")
        torch.autograd.grad(y.sum(), [x, dt, b, c])
    assert largest.numel >= batch * time * channels  # the inputs themselves were seen
    assert largest.numel <= batch * time * channels * size // 8


def test_autocast_leaves_the_state_in_full_precision() -> None:
    q, v = torch.randn(1, 100, 2, 8), torch.randn(1, 100, 2, 1, 8)
    k = torch.nn.functional.normalize(torch.randn(1, 100, 2, 1, 8), dim=-1)
    beta = torch.full((1, 100, 2, 1), 2.0)
    expected, _ = delta_rule(q, k, v, beta)
    with torch.autocast(q.device.type, dtype=torch.bfloat16):
        found, _ = delta_rule(q, k, v, beta)
    assert torch.equal(found, expected)


def test_exponential_gates_neither_overflow_nor_vanish() -> None:
    time = 70
    i = torch.linspace(-300, 300, time).view(1, time, 1)
    ones = torch.ones(1, time, 1, 2)
    for backend in BACKENDS:
        y, state = mlstm(ones, ones, ones, i, torch.full((1, time, 1), -0.5), backend=backend)
        assert torch.isfinite(y).all()
        assert all(torch.isfinite(part).all() for part in state)
        assert torch.allclose(y[0, -1, 0], torch.ones(2))
    gates = torch.zeros(1, time, 1, 4, 2)
    gates[..., 1, :] = i[..., None]
    y, _ = slstm(gates, recurrent=torch.zeros(1, 4, 2, 2))
    assert torch.isfinite(y).all()
