"""mLSTM in chunks: gated linear attention once the gates are in stable units.

With m_t = max(log|f_t| + m_{t-1}, i_t), memory and normaliser follow

    S_t = f_t e^{m_{t-1} - m_t} S_{t-1} + e^{i_t - m_t} k_t [v_t, 1]ᵀ,

one gated linear recurrence whose last value column is the normaliser.

B batch  T time  H heads  K key dim  V value dim  R chunks of a group  L tokens per chunk
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from eigentrack.ops.gated_linear.chunked import gated_linear
from eigentrack.ops.mlstm.reference import log_magnitude
from eigentrack.ops.shared.chunks import Carry, chunk_layout
from eigentrack.ops.shared.packing import Packing

MLSTMState = tuple[Float[Tensor, "S H K V"], Float[Tensor, "S H K"], Float[Tensor, "S H"]]


def mlstm(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H K"],
    v: Float[Tensor, "B T H V"],
    i: Float[Tensor, "B T H"],
    f: Float[Tensor, "B T H"],
    *,
    initial_state: MLSTMState,
    packing: Packing | None,
    chunk_size: int = 64,
) -> tuple[Float[Tensor, "B T H V"], MLSTMState]:
    memory, normaliser, m_start = initial_state
    m_before, m, m_last = _stabiliser(log_magnitude(f), i.detach(), m_start.detach(), packing, chunk_size)
    values = torch.cat([v, torch.ones_like(v[..., :1])], dim=-1)
    read, last = gated_linear(
        q,
        torch.exp(i - m)[..., None] * k,
        values,
        f * torch.exp(m_before - m),
        initial_state=torch.cat([memory, normaliser[..., None]], dim=-1),
        packing=packing,
        chunk_size=chunk_size,
    )
    y = read[..., :-1] / torch.maximum(read[..., -1:].abs(), torch.exp(-m)[..., None])
    return y, (last[..., :-1], last[..., -1], m_last)


def _stabiliser(
    log_f: Float[Tensor, "B T H"],
    i: Float[Tensor, "B T H"],
    start: Float[Tensor, "S H"],
    packing: Packing | None,
    chunk_size: int,
) -> tuple[Float[Tensor, "B T H"], Float[Tensor, "B T H"], Float[Tensor, "S H"]]:
    """Return m_t = max(log_f_t + m_{t-1}, i_t) before and after each token, and at the end of each sequence."""
    layout = chunk_layout(i, packing, chunk_size, floats_per_chunk=chunk_size * i.shape[-1])
    carry = Carry(layout, start)
    # slots without a token keep m
    pieces = zip(layout.groups, layout.split(log_f), layout.split(i, fill=-torch.inf), strict=True)
    m_before, m = layout.join([_stabilise_group(carry, *piece) for piece in pieces]).unbind(-1)
    return m_before, m, carry.last_state()


def _stabilise_group(
    carry: Carry, steps: tuple[int, ...], shift: Float[Tensor, "R L H"], peak: Float[Tensor, "R L H"]
) -> Float[Tensor, "R L H 2"]:
    """Return m before and after each token of a group of chunks.

    Maps m ↦ max(m + shift, peak) compose to maps of the same form, so their reach is doubled until it spans the chunk.
    """
    reach = 1
    while reach < shift.shape[1]:
        peak = torch.maximum(peak, F.pad(peak[:, :-reach], (0, 0, reach, 0), value=-torch.inf) + shift)
        shift = shift + F.pad(shift[:, :-reach], (0, 0, reach, 0))
        reach *= 2

    def advance(m: Tensor, shift: Tensor, peak: Tensor) -> tuple[Tensor, Tensor]:
        after = torch.maximum(m[:, None] + shift, peak)
        before = torch.cat([m[:, None], after[:, :-1]], dim=1)
        return after[:, -1], torch.stack([before, after], dim=-1)

    return carry.run(steps, advance, shift, peak)
