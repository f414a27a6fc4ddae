"""Rotations: exact angles at every length, exact quarter turns, and the same answers as complex arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from eigentrack.layers.rotating_gates import gate_matrices
from eigentrack.ops import delta_rule, gated_linear, s4d, selective_scan
from eigentrack.ops.delta_rule.op import DELTA_RULE
from eigentrack.ops.shared.packing import Packing
from eigentrack.ops.shared.rotation import cosine_and_sine, delta_rule_in_frame, fixed_point, rotation, running_rotation
from eigentrack.spectrum import EigenRange
from tests.closeness import ONE_ROUNDING, ONE_ROUNDING_OF_ALL, TOLERANCE, assert_close, relative_error

BACKENDS = ["reference", "chunked"]
every_backend = pytest.mark.parametrize("backend", BACKENDS)


def on_the_circle(turns: Tensor) -> Tensor:
    """e^{2πi turn} in complex128."""
    return torch.polar(torch.ones_like(turns), 2 * math.pi * turns)


def grid_turns(*shape: int) -> Tensor:
    """Whole numbers of 2⁻³² turns: what every angle is rounded to."""
    return torch.randint(-(2**33), 2**33, shape).double() / 2**32


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_quarter_turns_are_exact(dtype: torch.dtype) -> None:
    turns = torch.tensor([0.0, 0.25, 0.5, 0.75, 1.0, -0.25, -0.5, 17.5, -3.75], dtype=dtype)
    cosine, sine = rotation(turns)
    assert cosine.tolist() == [1, 0, -1, 0, 1, 0, -1, -1, 0]
    assert sine.tolist() == [0, 1, 0, -1, 0, -1, 0, 0, 1]


@pytest.mark.parametrize(("dtype", "error"), [(torch.float32, 2e-7), (torch.float64, 1e-9)], ids=str)
def test_other_angles_are_those_of_their_cosine(dtype: torch.dtype, error: float) -> None:
    """In float64 the angle is off by up to 2⁻³³ turns, 7e-10."""
    turns = torch.linspace(-2, 2, 1001, dtype=dtype)
    cosine, sine = rotation(turns)
    exact = on_the_circle(turns.double())
    assert (cosine.double() - exact.real).abs().max() < error
    assert (sine.double() - exact.imag).abs().max() < error


@given(turns=st.lists(st.floats(-4, 4), min_size=1, max_size=30), seed=st.integers(0, 99))
@settings(max_examples=50, deadline=None)
def test_sums_are_exact_in_every_order(turns: list[float], seed: int) -> None:
    given = torch.tensor(turns, dtype=torch.float64)[None, :, None]
    whole = sum(round(turn * 2**32) for turn in turns) % 2**32  # Python's integers
    shuffled = given[:, torch.randperm(len(turns), generator=torch.Generator().manual_seed(seed))]
    expected = torch.stack(cosine_and_sine(torch.tensor([whole]), torch.float64))
    for order in (given, shuffled):
        assert torch.equal(torch.stack([part[0, -1] for part in running_rotation(order, None)]), expected)


def test_angles_do_not_drift() -> None:
    """A third of a turn is rounded once to 2⁻³² turns; 300,000 of them are off by that much each, and by nothing else."""
    third = torch.full((1, 300_000, 1), 1 / 3, dtype=torch.float64)
    rounded = int(fixed_point(third[0, 0, 0]))
    cosine, sine = running_rotation(third, None)
    for count in (3, 3000, 300_000):
        turn = (count * rounded % 2**32) / 2**32
        assert cosine[0, count - 1, 0].item() == pytest.approx(math.cos(2 * math.pi * turn), abs=1e-15)
        assert sine[0, count - 1, 0].item() == pytest.approx(math.sin(2 * math.pi * turn), abs=1e-15)
        assert abs(turn if turn < 0.5 else turn - 1) <= count / 2**33


@every_backend
def test_an_angle_that_is_no_number_is_seen(backend: str) -> None:
    """Otherwise weights that have overflowed would pass for an angle of 0, and a training that diverged for one that learns."""
    assert torch.stack(rotation(torch.tensor([torch.nan, torch.inf, -torch.inf]))).isnan().all()
    x, turns = torch.ones(1, 6, 1, 2), torch.tensor([0.1, 0.2, torch.nan, 0.3, 0.4, 0.5]).view(1, 6, 1, 1)
    y, last = gated_linear(x, x, x, torch.full((1, 6, 1), 0.5), turns, backend=backend)
    assert y[:, 2:].isnan().all()
    assert last.isnan().all()


def test_gradients_pass_straight_through_the_rounding() -> None:
    turns, bounds = grid_turns(1, 40, 3), [0, 7, 8, 40]
    weights = torch.randn(2, 1, 40, 3, dtype=torch.float64)

    def gradient(run: Callable[[Tensor], tuple[Tensor, Tensor]], at: Tensor) -> Tensor:
        leaf = at.clone().requires_grad_()
        cosine, sine = run(leaf)
        return torch.autograd.grad((weights[0] * cosine).sum() + (weights[1] * sine).sum(), leaf)[0]

    def by_floats(leaf: Tensor) -> tuple[Tensor, Tensor]:
        pieces = [leaf[:, first:last].cumsum(1) for first, last in pairwise(bounds)]
        angle = 2 * math.pi * torch.cat(pieces, 1)
        return angle.cos(), angle.sin()

    packed = Packing.of(turns, torch.tensor(bounds))
    expected = gradient(by_floats, turns)
    assert_close(gradient(lambda leaf: running_rotation(leaf, packed), turns), expected)
    off_the_grid = turns + 2.0**-35
    assert_close(gradient(lambda leaf: running_rotation(leaf, packed), off_the_grid), expected)


@every_backend
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_no_turn_is_the_real_gate_and_half_a_turn_its_negative(backend: str, dtype: torch.dtype) -> None:
    q, k, v = (torch.randn(2, 100, 2, 6, dtype=dtype) for _ in range(3))
    a, start = torch.rand(2, 100, 2, 3, dtype=dtype), torch.randn(2, 2, 6, 6, dtype=dtype)
    half = torch.randint(2, (2, 100, 2, 3)) / 2
    real = gated_linear(q, k, v, (a * (1 - 4 * half)).repeat_interleave(2, -1), initial_state=start, backend=backend)
    turned = gated_linear(q, k, v, a, half.to(dtype), initial_state=start, backend=backend)
    assert torch.equal(turned[0], real[0])
    assert torch.equal(turned[1], real[1])


@every_backend
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_no_turn_and_half_a_turn_of_a_selective_scan(backend: str, dtype: torch.dtype) -> None:
    """At half a turn a token, h_t is the real scan's of (-1)^t x_t, with the sign of its place."""
    x, dt, b, c = (torch.randn(2, 100, width, dtype=dtype) for width in (3, 3, 4, 4))
    decay = -torch.rand(3, 2, dtype=dtype)
    signs = (1 - 2 * (torch.arange(100) % 2)).to(dtype)[:, None]
    options = {"eigenvalues": EigenRange(0, 1), "backend": backend}
    for turn, sign in ((0.0, torch.ones_like(signs)), (0.5, signs)):
        turns = torch.full((2, 100, 2), turn, dtype=dtype)
        turned, _ = selective_scan(x, dt.abs(), b, c, None, turns, log_decay=decay, **options)
        real, _ = selective_scan(x * sign, dt.abs(), b, c, log_decay=decay.repeat_interleave(2, -1), **options)
        assert torch.equal(turned, real * sign)


@every_backend
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_no_turn_and_half_a_turn_of_s4d(backend: str, dtype: torch.dtype) -> None:
    """The input drives the first number of each pair; at angles that keep to it, the second stays 0."""
    x, a, c = torch.randn(2, 100, 3, dtype=dtype), torch.rand(3, 2, dtype=dtype), torch.randn(3, 4, dtype=dtype)
    first = torch.tensor([1.0, 0.0], dtype=dtype).repeat(2)
    for turn, sign in ((0.0, 1), (0.5, -1)):
        turned, _ = s4d(x, a=a, turns=torch.full_like(a, turn), c=c, backend=backend)
        real, _ = s4d(x, a=sign * a.repeat_interleave(2, -1), c=c * first, backend=backend)
        assert torch.equal(turned, real)


@every_backend
def test_counting_modulo_four_is_exact_at_every_length(backend: str) -> None:
    time = 40_001 if backend == "chunked" else 401
    nothing, start = torch.zeros(1, time, 1, 2), torch.tensor([[[[3.0], [5.0]]]])
    read = torch.tensor([1.0, 0.0]).expand(1, time, 1, 2)
    y, last = gated_linear(
        read,
        nothing,
        nothing[..., :1],
        torch.ones(1, time, 1),
        torch.full((1, time, 1, 1), 0.25),
        initial_state=start,
        backend=backend,
    )
    assert torch.equal(y.flatten()[:-1], torch.tensor([-5.0, -3.0, 5.0, 3.0]).repeat(time // 4))
    assert last.flatten().tolist() == [-5, 3]  # one quarter turn more than whole turns


@every_backend
@pytest.mark.parametrize("gates", ["per head", "per pair"])
def test_gated_linear_is_complex_arithmetic(backend: str, gates: str) -> None:
    batch, time, heads, pairs, value = 2, 75, 2, 3, 2
    q, k = (torch.randn(batch, time, heads, 2 * pairs, dtype=torch.float64) for _ in range(2))
    v, turns = torch.randn(batch, time, heads, value, dtype=torch.float64), grid_turns(batch, time, heads, pairs)
    a = torch.rand(batch, time, heads, *([pairs] if gates == "per pair" else []), dtype=torch.float64)
    start = torch.randn(batch, heads, 2 * pairs, value, dtype=torch.float64)

    def as_complex(x: Tensor) -> Tensor:
        return torch.complex(x[..., ::2], x[..., 1::2])

    state, expected = as_complex(start.mT), []  # [B, H, V, P]
    eigenvalue = (a if gates == "per pair" else a[..., None]) * on_the_circle(turns)
    for t in range(time):
        state = eigenvalue[:, t, :, None] * state + as_complex(k[:, t])[:, :, None] * v[:, t, ..., None]
        expected.append((as_complex(q[:, t]).conj()[:, :, None] * state).real.sum(-1))
    y, last = gated_linear(q, k, v, a, turns, initial_state=start, backend=backend)
    assert_close(y, torch.stack(expected, 1))
    assert_close(last, torch.view_as_real(state).flatten(-2).mT)


@every_backend
@pytest.mark.parametrize("gates", ["none", "per head", "per pair"])
def test_delta_rule_turns_before_its_factors(backend: str, gates: str) -> None:
    """By matrices: S ← (I - b₂ k₂ k₂ᵀ)(I - b₁ k₁ k₁ᵀ) g R S, and what the factors write; some b are 2 exactly."""
    batch, time, heads, factors, pairs, value = 2, 75, 2, 2, 3, 2
    shape, key = (batch, time, heads), 2 * pairs
    q, v = torch.randn(*shape, key, dtype=torch.float64), torch.randn(*shape, factors, value, dtype=torch.float64)
    k = torch.nn.functional.normalize(torch.randn(*shape, factors, key, dtype=torch.float64), dim=-1)
    beta, turns = 2 * torch.rand(*shape, factors, dtype=torch.float64).mul(2).clamp_max(1), grid_turns(*shape, pairs)
    sizes = {"none": None, "per head": (), "per pair": (pairs,)}[gates]
    gate = None if sizes is None else torch.rand(*shape, *sizes, dtype=torch.float64)
    start = torch.randn(batch, heads, key, value, dtype=torch.float64)

    state, expected, identity = start, [], torch.eye(key, dtype=torch.float64)
    radii = torch.ones_like(turns) if gate is None else gate if gates == "per pair" else gate[..., None].expand_as(turns)
    for t, turning in enumerate(gate_matrices(radii, turns).unbind(1)):
        state = turning @ state
        for j in range(factors):
            k_j, b_j = k[:, t, :, j, :, None], beta[:, t, :, j, None, None]
            state = (identity - b_j * k_j @ k_j.mT) @ state + b_j * k_j @ v[:, t, :, j, None]
        expected.append((q[:, t, :, None] @ state)[..., 0, :])
    y, last = delta_rule(q, k, v, beta, gate, turns, initial_state=start, backend=backend)
    assert_close(y, torch.stack(expected, 1))
    assert_close(last, state)


@delta_rule_in_frame
def delta_rule_of_a_kernel(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, gate: Tensor | None, **options: Any
) -> tuple[Tensor, Tensor]:
    """As a kernel does, it takes keys in the dtype in which they come, and hands y back in it."""
    y, last = DELTA_RULE.backends["chunked"](q.float(), k.float(), v.float(), beta, gate, **options)
    return y.to(q.dtype), last


def bfloat16_keys_that_turn(time: int, beta: float | None = None) -> tuple[list[Tensor], Tensor]:
    """q, k, v in bfloat16, b, gates and angles in float32, for two heads of two factors; and a state."""
    heads, factors, key, value = 2, 2, 16, 4
    size = (1, time, heads)
    k = torch.nn.functional.normalize(torch.randn(*size, factors, key), dim=-1).bfloat16()
    b = 2 * torch.rand(*size, factors) if beta is None else torch.full((*size, factors), beta)
    gate = 0.9 + 0.1 * torch.rand(size) if beta is None else torch.ones(size)
    v = (torch.randn(*size, factors, value) * (beta is None)).bfloat16()
    sequences = [torch.randn(*size, key).bfloat16(), k, v, b / k.float().square().sum(-1), gate, torch.rand(*size, key // 2)]
    return sequences, torch.randn(1, heads, key, value)


def test_a_turned_key_keeps_its_eigenvalue() -> None:
    """A turned unit key that were rounded to bfloat16 would have |k|² off by up to 0.8 %; 4,000 reflections must not grow."""
    sequences, start = bfloat16_keys_that_turn(2000, beta=2.0)
    _, last = delta_rule_of_a_kernel(*sequences, initial_state=start, packing=None)
    assert (last.norm() / start.norm() - 1).abs() < 1e-4


def test_turned_keys_are_not_rounded_again() -> None:
    """Token by token they turn by other angles than all at once, and would be rounded to other bits."""
    sequences, start = bfloat16_keys_that_turn(40)
    y, whole = delta_rule_of_a_kernel(*sequences, initial_state=start, packing=None)
    state, outputs = start, []
    for token in zip(*(x.split(1, 1) for x in sequences), strict=True):
        y_t, state = delta_rule_of_a_kernel(*token, initial_state=state, packing=None)
        outputs.append(y_t)
    exact, expected = delta_rule(*(x.double() for x in sequences), initial_state=start.double(), backend="reference")
    assert y.dtype == torch.bfloat16
    for ours in (whole, state):
        assert_close(ours, expected, "state")
    for found in (y, torch.cat(outputs, 1)):
        assert torch.allclose(found.double(), exact, rtol=ONE_ROUNDING, atol=1e-5)


def test_turned_keys_of_packed_sequences_are_not_rounded_again() -> None:
    sequences, start = bfloat16_keys_that_turn(40)
    bounds, starts = torch.tensor([0, 1, 18, 40]), torch.cat([start, -start, 2 * start])
    _, packed = delta_rule_of_a_kernel(*sequences, initial_state=starts, packing=Packing.of(sequences[0], bounds))
    for n, (first, last) in enumerate(pairwise(bounds.tolist())):
        alone = (x[:, first:last].double() for x in sequences)
        _, expected = delta_rule(*alone, initial_state=starts[n : n + 1].double(), backend="reference")
        assert_close(packed[n : n + 1], expected, f"sequence {n}")


def test_gradients_of_turned_keys_are_rounded_once() -> None:
    sequences, start = bfloat16_keys_that_turn(40)
    weight = torch.randn(start.shape)

    def gradients(run: Callable[..., tuple[Tensor, Tensor]], inputs: list[Tensor], **options: Any) -> list[Tensor]:
        leaves = [x.detach().clone().requires_grad_() for x in inputs]
        _, last = run(*leaves[:-1], initial_state=leaves[-1], **options)
        return list(torch.autograd.grad((last * weight).sum(), leaves[1:]))

    found = gradients(delta_rule_of_a_kernel, [*sequences, start], packing=None)
    expected = gradients(delta_rule, [*(x.double() for x in sequences), start.double()], backend="reference")
    for name, ours, exact in zip(["k", "v", "beta", "gate", "turns", "start"], found, expected, strict=True):
        allowed = TOLERANCE[torch.float32] if ours.dtype == torch.float32 else ONE_ROUNDING_OF_ALL
        assert relative_error(ours, exact) <= allowed, name


@every_backend
def test_selective_scan_is_complex_arithmetic(backend: str) -> None:
    batch, time, channels, pairs = 2, 75, 3, 2
    x, dt = torch.randn(batch, time, channels, dtype=torch.float64), torch.rand(batch, time, channels, dtype=torch.float64)
    b, c = (torch.randn(batch, time, 2 * pairs, dtype=torch.float64) for _ in range(2))
    log_decay, turns = -torch.rand(channels, pairs, dtype=torch.float64), grid_turns(batch, time, pairs)
    b_complex, c_complex = (torch.view_as_complex(part.unflatten(-1, (-1, 2)).contiguous()) for part in (b, c))
    state, expected = torch.zeros(batch, channels, pairs, dtype=torch.complex128), []
    for t in range(time):
        eigenvalue = torch.exp(dt[:, t, :, None] * log_decay) * on_the_circle(turns[:, t])[:, None]
        state = eigenvalue * state + (dt[:, t] * x[:, t])[..., None] * b_complex[:, t, None]
        expected.append((c_complex[:, t, None].conj() * state).real.sum(-1))
    y, last = selective_scan(x, dt, b, c, None, turns, log_decay=log_decay, eigenvalues=EigenRange(0, 1), backend=backend)
    assert_close(y, torch.stack(expected, 1))
    assert_close(last, torch.view_as_real(state).flatten(-2))


@every_backend
@pytest.mark.parametrize("turning", [False, True], ids=["real", "complex"])
def test_s4d_is_a_convolution_with_its_kernel(backend: str, turning: bool) -> None:
    """K_l = Re Σ_n c̄ λ^l, by a Fourier transform over the whole length."""
    time, channels, size = 150, 3, 4
    x, c = torch.randn(1, time, channels, dtype=torch.float64), torch.randn(channels, size, dtype=torch.float64)
    a = torch.rand(channels, size // 2 if turning else size, dtype=torch.float64) * 2 - 1
    turns = grid_turns(channels, size // 2) if turning else None
    eigenvalue = a.to(torch.complex128) if turns is None else a * on_the_circle(turns)
    weights = torch.view_as_complex(c.unflatten(-1, (-1, 2)).contiguous()).conj() if turning else c
    kernel = (weights[..., None] * eigenvalue[..., None] ** torch.arange(time)).sum(1).real  # [D, T]
    y, _ = s4d(x, a=a, turns=turns, c=c, backend=backend)
    padded = torch.fft.rfft(x[0].mT, 2 * time) * torch.fft.rfft(kernel, 2 * time)
    assert_close(y[0].mT, torch.fft.irfft(padded, 2 * time)[:, :time])


def test_angles_that_do_not_fit_are_named() -> None:
    x = torch.zeros(1, 3, 2, 5)
    with pytest.raises(ValueError, match="turns has 2 angles a token, and K=5: one a pair is needed"):
        gated_linear(x, x, x, x[..., :2], x[..., :2])
    with pytest.raises(ValueError, match="delta_rule: turns has 2 angles a token, and K=5: one a pair is needed"):
        delta_rule(x, x[..., None, :], x[..., None, :], x[..., :1], None, x[..., :2])
    with pytest.raises(ValueError, match="turns has 1 angles a token, and N=4"):
        s4d(torch.zeros(1, 3, 2), a=torch.zeros(2, 1), turns=torch.zeros(2, 1), c=torch.zeros(2, 4))
