"""Segments joined by their transitions, with the reference in place of the kernels."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch.nn import functional as F

from eigentrack.ops import delta_rule
from eigentrack.ops.delta_rule.segments import CHUNK, delta_rule_in_segments, segment_length
from tests.closeness import relative_error


@pytest.mark.parametrize("autocast", [False, True])
def test_segments_are_joined_in_full_precision(autocast: bool) -> None:
    """Also under autocast, which rounds what a product of matrices is given."""
    torch.manual_seed(0)
    time, heads, dim = 260, 2, 4  # 16 segments of 16 tokens, and 4 tokens more
    q, v = torch.randn(1, time, heads, dim), torch.randn(1, time, heads, 1, dim)
    k, beta = F.normalize(torch.randn(1, time, heads, 1, dim), dim=-1), torch.full((1, time, heads, 1), 2.0)
    state = torch.randn(1, heads, dim, dim)
    run = partial(delta_rule, backend="reference")
    wanted = run(*(x.double() for x in (q, k, v, beta)), None, initial_state=state.double())
    with torch.autocast(q.device.type, torch.bfloat16, enabled=autocast):
        found = delta_rule_in_segments(run, 16, q, k, v, beta, None, state)
    for ours, expected in zip(found, wanted, strict=True):
        assert relative_error(ours, expected) < 2e-6


@pytest.mark.parametrize("factors", [1, 2, 3, 7])
def test_a_segment_has_whole_chunks(factors: int) -> None:
    k = torch.empty(1, 2**16, 1, factors, 64, device="meta")
    length = segment_length(k, k)
    assert length > 0
    assert length % CHUNK == 0
