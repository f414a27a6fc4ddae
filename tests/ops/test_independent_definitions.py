"""The ops against definitions that share no code with them: torch's LSTM, the equations without stabiliser, plain sums."""

from __future__ import annotations

import torch
from torch import nn

from eigentrack.ops import delta_rule, dense_scan, gated_linear, low_rank, lstm, mlstm, selective_scan, slstm
from eigentrack.spectrum import EigenRange
from tests.closeness import assert_close


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def test_lstm_is_torchs_lstm() -> None:
    width, twin = 5, nn.LSTM(7, 5, batch_first=True).double()
    x, h, c = draw(3, 11, 7), draw(1, 3, width), draw(1, 3, width)
    expected, (last_h, last_c) = twin(x, (h, c))
    order = [2, 0, 1, 3]  # torch keeps the gates as i, f, z, o; ours are z, i, f, o

    def reorder(weight: torch.Tensor) -> torch.Tensor:
        return weight.unflatten(0, (4, width))[order]

    gates = torch.einsum("gij,btj->btgi", reorder(twin.weight_ih_l0), x) + reorder(twin.bias_ih_l0) + reorder(twin.bias_hh_l0)
    y, (our_c, our_h) = lstm(
        gates[:, :, None], recurrent=reorder(twin.weight_hh_l0)[None], initial_state=(c[0][:, None], h[0][:, None])
    )
    assert_close(y[:, :, 0], expected)
    assert_close(our_c[:, 0], last_c[0])
    assert_close(our_h[:, 0], last_h[0])


def test_mlstm_is_its_equation_without_stabiliser() -> None:
    q, k, v, i, f = draw(2, 9, 1, 4), draw(2, 9, 1, 4), draw(2, 9, 1, 3), draw(2, 9, 1), 2 * torch.rand(2, 9, 1).double() - 1
    for backend in ("reference", "chunked"):
        y, _ = mlstm(q, k, v, i, f, backend=backend)
        for row in range(2):
            memory, normaliser = torch.zeros(4, 3).double(), torch.zeros(4).double()
            for t in range(9):
                keep, write = f[row, t, 0], i[row, t, 0].exp()
                memory = keep * memory + write * torch.outer(k[row, t, 0], v[row, t, 0])
                normaliser = keep * normaliser + write * k[row, t, 0]
                weight = (normaliser @ q[row, t, 0]).abs().clamp_min(1.0)
                assert_close(y[row, t, 0], memory.T @ q[row, t, 0] / weight)


def test_slstm_is_its_equation_without_stabiliser() -> None:
    gates, recurrent = draw(1, 9, 2, 4, 3), draw(2, 4, 3, 3)
    y, _ = slstm(gates, recurrent=recurrent)
    c, n, h = (torch.zeros(2, 3).double() for _ in range(3))
    for t in range(9):
        z, i, f, o = ((gates[0, t, :, g] + (recurrent[:, g] @ h[..., None])[..., 0]) for g in range(4))
        c = f.sigmoid() * c + i.exp() * z.tanh()
        n = f.sigmoid() * n + i.exp()
        h = o.sigmoid() * c / n
        assert_close(y[0, t], h)


def test_gated_linear_is_a_sum_over_the_past() -> None:
    q, k, v, a = draw(1, 12, 1, 4), draw(1, 12, 1, 4), draw(1, 12, 1, 3), 2 * torch.rand(1, 12, 1, 4).double() - 1
    y, _ = gated_linear(q, k, v, a, backend="chunked")
    for t in range(12):
        expected = sum((q[0, t, 0] * a[0, s + 1 : t + 1, 0].prod(0) * k[0, s, 0]).sum() * v[0, s, 0] for s in range(t + 1))
        assert_close(y[0, t, 0], expected)


def test_delta_rule_and_low_rank_are_products_of_whole_matrices() -> None:
    """A gate per channel, then two factors, one after the other; or both at once, on the state ahead of the gate."""
    q, k, w, v = draw(1, 12, 1, 4), draw(1, 12, 1, 2, 4) / 2, draw(1, 12, 1, 2, 4) / 2, draw(1, 12, 1, 2, 3)
    beta, gate = 2 * torch.rand(1, 12, 1, 2).double(), (3 * torch.rand(1, 12, 1, 4).double()).floor() - 1  # -1, 0, 1
    one = torch.eye(4).double()
    delta, _ = delta_rule(q, k, v, beta, gate, backend="chunked")
    low, _ = low_rank(q, k, w, v, gate, backend="chunked")
    behind, ahead = torch.zeros(4, 3).double(), torch.zeros(4, 3).double()
    for t in range(12):
        behind = torch.diag(gate[0, t, 0]) @ behind
        for key, value, b in zip(k[0, t, 0], v[0, t, 0], beta[0, t, 0], strict=True):
            behind = (one - b * torch.outer(key, key)) @ behind + b * torch.outer(key, value)
        ahead = (torch.diag(gate[0, t, 0]) - w[0, t, 0].T @ k[0, t, 0]) @ ahead + w[0, t, 0].T @ v[0, t, 0]
        assert_close(delta[0, t, 0], behind.T @ q[0, t, 0])
        assert_close(low[0, t, 0], ahead.T @ q[0, t, 0])


def test_selective_scan_is_a_sum_over_the_past() -> None:
    x, dt, b, c = draw(1, 12, 2), torch.rand(1, 12, 2).double(), draw(1, 12, 3), draw(1, 12, 3)
    log_decay = -3 * torch.rand(2, 3).double()
    y, _ = selective_scan(x, dt, b, c, log_decay=log_decay, eigenvalues=EigenRange(-1, 1), backend="chunked")
    a = 2 * torch.exp(dt[0, :, :, None] * log_decay) - 1  # [T, D, N]
    for t in range(12):
        expected = torch.zeros(2).double()
        for s in range(t + 1):
            written = (dt[0, s] * x[0, s])[:, None] * b[0, s]
            expected += (a[s + 1 : t + 1].prod(0) * written * c[0, t]).sum(1)
        assert_close(y[0, t], expected)


def test_dense_scan_is_a_product() -> None:
    a, start = draw(1, 8, 1, 3, 3), draw(1, 1, 3, 2)
    states, _ = dense_scan(a, initial_state=start, backend="chunked")
    product = torch.linalg.multi_dot([*a[0, :, 0].flip(0), start[0, 0]])
    assert_close(states[0, -1, 0], product)


def test_a_float64_state_is_not_rounded() -> None:
    ones = torch.ones(1, 1, 1, 1)
    _, state = gated_linear(
        ones, 0 * ones, ones, torch.ones(1, 1, 1), initial_state=torch.full((1, 1, 1, 1), 1e300, dtype=torch.float64)
    )
    assert state.item() == 1e300
