# mypy: disable-error-code="no-untyped-def, import-untyped"
"""Cross-entropy of rows of logits, with their gradient written in place of the logits:

    loss = logsumexp(z) - z_target,    z ← softmax(z) - [v = target]

One program handles one row: it reads the row once for the sum, which it keeps relative to the largest logit so far, and once
for the gradient (the slope). A row whose target is `ignored` has loss 0 and slope 0. Sums are float32.

The logits [N, V] are contiguous and are overwritten if SLOPE; targets [N], losses [N].  N rows  V vocabulary
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK, NUM_WARPS = 4096, 8


@triton.jit
def rows_kernel(logits, targets, losses, vocabulary, ignored, SLOPE: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    target = tl.load(targets + row)
    is_asked = target != ignored
    p_row = logits + row * vocabulary
    o_v = tl.arange(0, BLOCK)
    largest, total, answer = float("-inf"), 0.0, 0.0
    for start in range(0, vocabulary, BLOCK):
        m_v = start + o_v < vocabulary
        b_z = tl.load(p_row + start + o_v, mask=m_v, other=float("-inf")).to(tl.float32)
        new_largest = tl.maximum(largest, tl.max(b_z, 0))
        total = total * tl.exp(largest - new_largest) + tl.sum(tl.exp(b_z - new_largest), 0)
        largest = new_largest
        answer += tl.sum(tl.where(start + o_v == target, b_z, 0.0), 0)
    log_sum = largest + tl.log(total)
    tl.store(losses + row, tl.where(is_asked, log_sum - answer, 0.0))
    if SLOPE:
        for start in range(0, vocabulary, BLOCK):
            m_v = start + o_v < vocabulary
            b_z = tl.load(p_row + start + o_v, mask=m_v, other=float("-inf")).to(tl.float32)
            b_slope = tl.exp(b_z - log_sum) - tl.where(start + o_v == target, 1.0, 0.0)
            b_slope = tl.where(is_asked, b_slope, 0.0)
            tl.store(p_row + start + o_v, b_slope.to(logits.dtype.element_ty), mask=m_v)


def losses_of_rows(logits: Tensor, targets: Tensor, ignored: int, *, slope: bool) -> Tensor:
    """Return the loss of every row, in float32; if `slope`, overwrite the logits with the gradient of the sum of losses."""
    rows, vocabulary = logits.shape
    losses = torch.empty(rows, dtype=torch.float32, device=logits.device)
    rows_kernel[(rows,)](logits, targets, losses, vocabulary, ignored, SLOPE=slope, BLOCK=BLOCK, num_warps=NUM_WARPS)
    return losses
