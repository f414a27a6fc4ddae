"""The delta rule for a few long sequences, cut into segments that the kernels walk at once. With T_g the transition of one,

    S_{g+1} = T_g S_g + E_g:    T_g from the state I and no values, E_g from the state 0, both in one call with V + K columns;
    then all segments again, each from its true start S_g.

Every part is differentiable, so there is no code for gradients. This is three times the work: it pays where a handful of
programs would walk through thousands of chunks. The tokens after the last whole segment are walked at the end.

B batch  T time  H heads  n factors  K key dim  V value dim  G segments  L tokens per segment
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

Run = Callable[..., tuple[Tensor, Tensor]]
WALKERS = 16  # sequences are cut only if they would keep at most so many programs busy
WALKERS_WANTED = 128  # programs, about one per multiprocessor
COLUMNS = 16  # columns of V per program
CHUNK = 64  # tokens; the length of a segment is a multiple of it
SHORTEST_SEGMENT = 2048  # factors


def segment_length(k: Tensor, v: Tensor) -> int:
    """Return L, the length of a segment, or 0 if cutting does not pay."""
    batch, time, heads, factors, _ = k.shape
    walkers = batch * heads * -(-v.shape[-1] // COLUMNS)
    if walkers > WALKERS:
        return 0
    wanted = -(-time // (WALKERS_WANTED // walkers))
    length = -(-max(wanted, SHORTEST_SEGMENT // factors) // CHUNK) * CHUNK
    return length if time >= 4 * length else 0


def delta_rule_in_segments(
    run: Run, length: int, q: Tensor, k: Tensor, v: Tensor, beta: Tensor, gate: Tensor | None, initial_state: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Run the delta rule in segments of `length` tokens, and return the outputs and the last state.

    `run` is the delta rule with one initial state per row of the batch; the other arguments are its inputs.
    """
    batch, time, heads, key_dim = q.shape
    count = time // length
    inputs = (q, k, v, beta, gate)

    def segments(segments: int) -> list[Tensor | None]:
        """Return the first `segments` segments of every sequence, as rows of a batch."""
        return [None if x is None else x[:, : segments * length].reshape(-1, length, *x.shape[2:]) for x in inputs]

    first_q, first_k, first_v, first_beta, first_gate = segments(count - 1)
    assert first_v is not None
    eye = torch.eye(key_dim, device=q.device).expand(batch * (count - 1), heads, -1, -1)
    both = F.pad(eye, (v.shape[-1], 0))  # [0 | I]
    _, reached = run(first_q, first_k, F.pad(first_v, (0, key_dim)), first_beta, first_gate, initial_state=both)
    ends, transitions = reached.unflatten(0, (batch, count - 1)).split([v.shape[-1], key_dim], dim=-1)

    state = torch.zeros_like(ends[:, 0]) if initial_state is None else initial_state.float()
    starts = [state]
    for segment in range(count - 1):
        # in float64, which neither autocast nor TF32 rounds; the matrices are small
        state = (transitions[:, segment].double() @ state.double()).float() + ends[:, segment]
        starts.append(state)
    y, last = run(*segments(count), initial_state=torch.stack(starts, 1).flatten(0, 1))
    y, last = y.reshape(batch, count * length, heads, -1), last.unflatten(0, (batch, count))[:, -1]
    if count * length == time:
        return y, last
    rest, last = run(*(None if x is None else x[:, count * length :] for x in inputs), initial_state=last)
    return torch.cat([y, rest], dim=1), last
