"""Bad input gets one line that names the value."""

from __future__ import annotations

import pytest
import torch

from eigentrack.layers import TTT
from eigentrack.ops import delta_rule, dense_scan, gated_linear, one_hot_scan, selective_scan
from eigentrack.ops.shared.packing import Packing
from eigentrack.ops.shared.shapes import check_shapes
from eigentrack.spectrum import EigenRange


def inputs(time: int = 6) -> tuple[torch.Tensor, ...]:
    return torch.randn(1, time, 2, 4), torch.randn(1, time, 2, 1, 4), torch.randn(1, time, 2, 1, 3), torch.rand(1, time, 2, 1)


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ([0, 3], r"cu_seqlens=\[0, 3\] must start at 0 and end at the number of tokens, 6"),
        ([1, 6], r"cu_seqlens=\[1, 6\] must start at 0"),
        ([0, 3, 3, 6], r"must grow: no sequence may be empty"),
        ([0], r"cu_seqlens=\[0\] must start at 0"),
        ([], r"cu_seqlens=tensor\(\[\]\) must be a vector of whole numbers"),
        ([0.0, 6.0], r"cu_seqlens=tensor\(\[0\., 6\.\]\) must be a vector of whole numbers"),
    ],
)
def test_bad_bounds(bounds: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        delta_rule(*inputs(), cu_seqlens=torch.tensor(bounds))


@pytest.mark.parametrize("bounds", [[0, 3], [0, 9], [1, 6], [0, 3, 3, 6], [0, 4, 2, 6], [0]], ids=str)
def test_bad_bounds_where_angles_are_summed_between_them(bounds: list[int]) -> None:
    """The error is that of all ops, and on a GPU nothing is read outside of a tensor before it."""
    packed, x, turns = torch.tensor(bounds), torch.randn(1, 6, 4), torch.rand(1, 6, 2)
    constants = {"log_decay": -torch.ones(4, 2), "eigenvalues": EigenRange(0, 1)}
    with pytest.raises(ValueError, match="cu_seqlens="):
        gated_linear(x[:, :, None], x[:, :, None], x[:, :, None], turns[..., :1], turns[:, :, None], cu_seqlens=packed)
    with pytest.raises(ValueError, match="cu_seqlens="):
        selective_scan(x, x.abs(), x, x, None, turns, **constants, cu_seqlens=packed)


def test_packing_needs_one_row() -> None:
    q, k, v, beta = (x.expand(2, *x.shape[1:]) for x in inputs())
    with pytest.raises(ValueError, match="packed sequences need batch=1, got batch=2"):
        delta_rule(q, k, v, beta, cu_seqlens=torch.tensor([0, 6]))


def test_an_empty_sequence() -> None:
    with pytest.raises(ValueError, match="time=0"):
        delta_rule(*inputs(0))


def test_an_unknown_backend() -> None:
    with pytest.raises(ValueError, match="delta_rule has no backend 'cuda'; it has auto, reference, chunked"):
        delta_rule(*inputs(), backend="cuda")


def test_a_wrong_number_of_states() -> None:
    q, k, v, beta = inputs()
    with pytest.raises(ValueError, match=r"initial_state has shape \[2, 2, 4, 3\], expected \[B, H, K, V\] with B=1"):
        delta_rule(q, k, v, beta, initial_state=torch.zeros(2, 2, 4, 3))


def test_integers_are_refused() -> None:
    with pytest.raises(ValueError, match=r"op: q has dtype torch.int64, expected a floating-point tensor"):
        check_shapes("op", q=(torch.arange(3), "T"))


def test_shapes_that_do_not_fit_together() -> None:
    with pytest.raises(ValueError, match=r"op: k has shape \[4, 5\], expected \[T, K\] with T=3"):
        check_shapes("op", q=(torch.ones(3), "T"), k=(torch.ones(4, 5), "T K"))
    with pytest.raises(ValueError, match=r"op: m has shape \[2, 3\], expected \[n, n\]"):
        check_shapes("op", m=(torch.ones(2, 3), "n n"))


@pytest.mark.parametrize(("limit", "with_input"), [(0.0, False), (-1.0, False), (8.0, True)])
def test_dense_scan_limits_products_alone(limit: float, with_input: bool) -> None:
    a = torch.randn(1, 3, 1, 2, 2)
    with pytest.raises(ValueError, match=f"dense_scan: limit={limit} must be positive, and has a meaning only without b"):
        dense_scan(a, a if with_input else None, initial_state=a[:, 0], limit=limit)


def test_dense_scan_needs_something_to_carry() -> None:
    with pytest.raises(ValueError, match="give one of them"):
        dense_scan(torch.randn(1, 3, 1, 2, 2))


def test_bounds_that_lie_apart_are_read_as_they_are() -> None:
    """A kernel reads them one after the other, whatever their stride is."""
    apart = torch.tensor([[0, 4], [2, 6], [6, 6]])[:, 0]
    packing = Packing.of(torch.rand(1, 6, 2), apart)
    assert packing is not None
    assert packing.bounds.is_contiguous()
    assert packing.lengths == (2, 4)


def test_an_input_without_time_is_named() -> None:
    with pytest.raises(ValueError, match=r"the input has shape \[3\], expected \[batch, time, ...\]"):
        Packing.of(torch.rand(3), None)


def test_a_step_of_an_empty_batch_is_named() -> None:
    with pytest.raises(ValueError, match="the input has batch=0 and time=1: both must be at least 1"):
        TTT(16).step(torch.rand(0, 16))


def test_one_hot_scan_needs_something_to_carry() -> None:
    a, rows = torch.ones(1, 3, 1, 2), torch.zeros(1, 3, 1, 2, dtype=torch.long)
    with pytest.raises(ValueError, match="one_hot_scan: without b and without initial_state every state is zero"):
        one_hot_scan(a, None, rows)


def test_one_hot_scan_takes_whole_numbers_as_an_index() -> None:
    a, rows = torch.ones(1, 3, 1, 2), torch.zeros(1, 3, 1, 2, dtype=torch.int32)
    with pytest.raises(
        ValueError, match=r"rows is torch.int32 of shape \[1, 3, 1, 2\], expected int64 of shape \[1, 3, 1, 2\]"
    ):
        one_hot_scan(a, a, rows)


def test_one_hot_scan_takes_one_angle_per_pair() -> None:
    a, rows = torch.ones(1, 3, 1, 2), torch.zeros(1, 3, 1, 2, dtype=torch.long)
    with pytest.raises(ValueError, match="one_hot_scan: turns has 2 angles a token, and M=3"):
        one_hot_scan(a, torch.ones(1, 3, 1, 3), rows, turns=a)
