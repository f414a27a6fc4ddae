"""The public ops: shapes checked, backend chosen. Each returns (y, last state), differentiable in all that it is given.

The equations stand in `recurrence/reference/`, one file an op. Arguments that all share:
  initial_state  one row for each sequence; zeros when left out
  cu_seqlens     [0, ..., T]: packed sequences in one row (B = 1), each with its own state
  backend        "auto", or a name from the op's table

B batch  T time  H heads  K key dim  V value dim  S sequences: B, or len(cu_seqlens) - 1 when packed
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from eigentrack.recurrence.chunked.dense_scan import dense_scan as dense_scan_chunked
from eigentrack.recurrence.chunked.gated_linear import gated_linear as gated_linear_chunked
from eigentrack.recurrence.chunked.low_rank import delta_rule as delta_rule_chunked
from eigentrack.recurrence.chunked.low_rank import low_rank as low_rank_chunked
from eigentrack.recurrence.chunked.mlstm import mlstm as mlstm_chunked
from eigentrack.recurrence.chunked.s4d import s4d as s4d_chunked
from eigentrack.recurrence.chunked.selective_scan import selective_scan as selective_scan_chunked
from eigentrack.recurrence.dispatch import execute
from eigentrack.recurrence.packing import check_bounds_type, sequence_lengths
from eigentrack.recurrence.reference.delta_rule import delta_rule as delta_rule_reference
from eigentrack.recurrence.reference.dense_scan import dense_scan as dense_scan_reference
from eigentrack.recurrence.reference.gated_linear import gated_linear as gated_linear_reference
from eigentrack.recurrence.reference.low_rank import low_rank as low_rank_reference
from eigentrack.recurrence.reference.lstm import lstm as lstm_reference
from eigentrack.recurrence.reference.mlstm import mlstm as mlstm_reference
from eigentrack.recurrence.reference.s4d import s4d as s4d_reference
from eigentrack.recurrence.reference.selective_scan import selective_scan as selective_scan_reference
from eigentrack.recurrence.reference.slstm import slstm as slstm_reference
from eigentrack.recurrence.shapes import check_shapes
from eigentrack.recurrence.triton.delta_rule_cases import DELTA_RULE_KERNEL
from eigentrack.recurrence.triton.gated_linear_cases import GATED_LINEAR_KERNEL
from eigentrack.recurrence.triton.selective_scan_cases import SELECTIVE_SCAN_KERNEL
from eigentrack.recurrence.triton.slstm_cases import SLSTM_KERNEL
from eigentrack.spectrum import EigenRange

DELTA_RULE = {"reference": delta_rule_reference, "chunked": delta_rule_chunked}
LOW_RANK = {"reference": low_rank_reference, "chunked": low_rank_chunked}
GATED_LINEAR = {"reference": gated_linear_reference, "chunked": gated_linear_chunked}
SELECTIVE_SCAN = {"reference": selective_scan_reference, "chunked": selective_scan_chunked}
S4D = {"reference": s4d_reference, "chunked": s4d_chunked}
DENSE_SCAN = {"reference": dense_scan_reference, "chunked": dense_scan_chunked}
MLSTM = {"reference": mlstm_reference, "chunked": mlstm_chunked}
# a non-linear recurrence has no parallel form
SLSTM = {"reference": slstm_reference}
LSTM = {"reference": lstm_reference}


def delta_rule(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H n K"],
    v: Float[Tensor, "B T H n V"],
    beta: Float[Tensor, "B T H n"],
    gate: Float[Tensor, "B T H"] | Float[Tensor, "B T H K"] | Float[Tensor, "B T H P"] | None = None,
    turns: Float[Tensor, "B T H P"] | None = None,
    *,
    initial_state: Float[Tensor, "S H K V"] | None = None,
    cu_seqlens: Tensor | None = None,
    backend: str = "auto",
) -> tuple[Float[Tensor, "B T H V"], Float[Tensor, "S H K V"]]:
    """n generalized Householder factors a token, after an optional signed gate, per head (gated DeltaNet) or per key channel
    (KDA). Unit keys and 0 ≤ beta ≤ 2: norm ≤ 1.

    With `turns` the gate is complex: P = K/2 pairs of channels turn by so much of a turn before the first factor, and gate has
    one entry a pair or a head. q, k and v in bfloat16 are multiplied as float32 then.
    """
    _check_pairs("delta_rule", "K", k, turns)
    size = check_shapes(
        "delta_rule",
        q=(q, "B T H K"),
        k=(k, "B T H n K"),
        v=(v, "B T H n V"),
        beta=(beta, "B T H n"),
        turns=(turns, "B T H P"),
        gate=(gate, _gate_pattern(gate, turns)),
        initial_state=(initial_state, f"{_sequences(q, cu_seqlens)} H K V"),
    )
    return execute(
        "delta_rule",
        DELTA_RULE,
        backend,
        *(q, k, v, beta, gate, turns),
        initial_state=initial_state,
        zero_state=lambda: _or_zeros(None, q, cu_seqlens, size["H"], size["K"], size["V"]),
        cu_seqlens=cu_seqlens,
        kernel=DELTA_RULE_KERNEL,
    )


def low_rank(
    q: Float[Tensor, "B T H K"],
    read: Float[Tensor, "B T H n K"],
    write: Float[Tensor, "B T H n K"],
    v: Float[Tensor, "B T H n V"],
    gate: Float[Tensor, "B T H"] | Float[Tensor, "B T H K"],
    *,
    initial_state: Float[Tensor, "S H K V"] | None = None,
    cu_seqlens: Tensor | None = None,
    backend: str = "auto",
) -> tuple[Float[Tensor, "B T H V"], Float[Tensor, "S H K V"]]:
    """Diagonal plus rank n, diag(gate) - Σ write readᵀ: all n factors read the state ahead of the gate (RWKV-7: n = 2)."""
    size = check_shapes(
        "low_rank",
        q=(q, "B T H K"),
        read=(read, "B T H n K"),
        write=(write, "B T H n K"),
        v=(v, "B T H n V"),
        gate=(gate, _gate_pattern(gate)),
        initial_state=(initial_state, f"{_sequences(q, cu_seqlens)} H K V"),
    )
    state = _or_zeros(initial_state, q, cu_seqlens, size["H"], size["K"], size["V"])
    return execute("low_rank", LOW_RANK, backend, q, read, write, v, gate, initial_state=state, cu_seqlens=cu_seqlens)


def gated_linear(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H K"],
    v: Float[Tensor, "B T H V"],
    a: Float[Tensor, "B T H"] | Float[Tensor, "B T H K"] | Float[Tensor, "B T H P"],
    turns: Float[Tensor, "B T H P"] | None = None,
    *,
    initial_state: Float[Tensor, "S H K V"] | None = None,
    cu_seqlens: Tensor | None = None,
    backend: str = "auto",
) -> tuple[Float[Tensor, "B T H V"], Float[Tensor, "S H K V"]]:
    """Diagonal gate a in [-1, 1], per head (Mamba-2, RetNet) or per key channel (GLA); a = 0 resets, a < 0 flips.

    With `turns` the gate is complex: P = K/2 pairs of channels turn by so much of a turn, and a has one entry a pair or a head.
    """
    _check_pairs("gated_linear", "K", k, turns)
    size = check_shapes(
        "gated_linear",
        q=(q, "B T H K"),
        k=(k, "B T H K"),
        v=(v, "B T H V"),
        turns=(turns, "B T H P"),
        a=(a, _gate_pattern(a, turns)),
        initial_state=(initial_state, f"{_sequences(q, cu_seqlens)} H K V"),
    )
    return execute(
        "gated_linear",
        GATED_LINEAR,
        backend,
        *(q, k, v, a, turns),
        initial_state=initial_state,
        zero_state=lambda: _or_zeros(None, q, cu_seqlens, size["H"], size["K"], size["V"]),
        cu_seqlens=cu_seqlens,
        kernel=GATED_LINEAR_KERNEL,
    )


def selective_scan(
    x: Float[Tensor, "B T D"],
    dt: Float[Tensor, "B T D"],
    b: Float[Tensor, "B T N"],
    c: Float[Tensor, "B T N"],
    z: Float[Tensor, "B T D"] | None = None,
    turns: Float[Tensor, "B T P"] | None = None,
    *,
    log_decay: Float[Tensor, "D N"] | Float[Tensor, "D P"],
    skip: Float[Tensor, " D"] | None = None,
    eigenvalues: EigenRange,
    initial_state: Float[Tensor, "S D N"] | None = None,
    cu_seqlens: Tensor | None = None,
    backend: str = "auto",
) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "S D N"]]:
    """Mamba's recurrence: step sizes dt ≥ 0, log_decay A ≤ 0, input matrix b, read-out c, skip D, output gate z.

    With `turns` the eigenvalues are complex: P = N/2 pairs turn by so much of a turn, and log_decay has one entry a pair.
    """
    _check_pairs("selective_scan", "N", b, turns)
    size = check_shapes(
        "selective_scan",
        x=(x, "B T D"),
        dt=(dt, "B T D"),
        b=(b, "B T N"),
        c=(c, "B T N"),
        z=(z, "B T D"),
        turns=(turns, "B T P"),
        log_decay=(log_decay, "D N" if turns is None else "D P"),
        skip=(skip, "D"),
        initial_state=(initial_state, f"{_sequences(x, cu_seqlens)} D N"),
    )
    return execute(
        "selective_scan",
        SELECTIVE_SCAN,
        backend,
        *(x, dt, b, c, z, turns),
        log_decay=log_decay,
        skip=skip,
        eigenvalues=eigenvalues,
        initial_state=initial_state,
        zero_state=lambda: _or_zeros(None, x, cu_seqlens, size["D"], size["N"]),
        cu_seqlens=cu_seqlens,
        kernel=SELECTIVE_SCAN_KERNEL,
    )


def s4d(
    x: Float[Tensor, "B T D"],
    *,
    a: Float[Tensor, "D n"],
    turns: Float[Tensor, "D n"] | None = None,
    c: Float[Tensor, "D N"],
    initial_state: Float[Tensor, "S D N"] | None = None,
    cu_seqlens: Tensor | None = None,
    backend: str = "auto",
) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "S D N"]]:
    """Eigenvalues a in [-1, 1] that do not depend on the input, n = N; with `turns` complex, one for each of n = N/2 pairs."""
    _check_pairs("s4d", "N", c, turns)
    size = check_shapes(
        "s4d",
        x=(x, "B T D"),
        c=(c, "D N"),
        a=(a, "D N" if turns is None else "D n"),
        turns=(turns, "D n"),
        initial_state=(initial_state, f"{_sequences(x, cu_seqlens)} D N"),
    )
    state = _or_zeros(initial_state, x, cu_seqlens, size["D"], size["N"])
    return execute("s4d", S4D, backend, x, a=a, turns=turns, c=c, initial_state=state, cu_seqlens=cu_seqlens)


def dense_scan(
    a: Float[Tensor, "B T H n n"],
    b: Float[Tensor, "B T H n m"] | None = None,
    *,
    initial_state: Float[Tensor, "S H n m"] | None = None,
    cu_seqlens: Tensor | None = None,
    limit: float | None = None,
    backend: str = "auto",
) -> tuple[Float[Tensor, "B T H n m"], Float[Tensor, "S H n m"]]:
    """Full matrices: returns every state S_t = A_t S_{t-1} + B_t. Needs b or an initial state (the identity, say).

    `limit`, for products alone (without b), whose scale does not matter once it is large: a state with a larger entry is
    scaled down to it before it is carried on, so that long products stay finite. After every token or after every chunk:
    that is the backend's choice, and beyond the limit states are the same up to a positive factor only.
    """
    if b is None and initial_state is None:
        raise ValueError("dense_scan: without b and without initial_state every state is zero; give one of them")
    if limit is not None and (b is not None or not limit > 0):
        raise ValueError(f"dense_scan: limit={limit} must be positive, and has a meaning only without b: leave one of them out")
    size = check_shapes(
        "dense_scan",
        a=(a, "B T H n n"),
        b=(b, "B T H n m"),
        initial_state=(initial_state, f"{_sequences(a, cu_seqlens)} H n m"),
    )
    state = _or_zeros(initial_state, a, cu_seqlens, size["H"], size["n"], size["m"])
    return execute("dense_scan", DENSE_SCAN, backend, a, b, initial_state=state, cu_seqlens=cu_seqlens, limit=limit)


def mlstm(
    q: Float[Tensor, "B T H K"],
    k: Float[Tensor, "B T H K"],
    v: Float[Tensor, "B T H V"],
    i: Float[Tensor, "B T H"],
    f: Float[Tensor, "B T H"],
    *,
    initial_state: tuple[Tensor, Tensor, Tensor] | None = None,
    cu_seqlens: Tensor | None = None,
    backend: str = "auto",
) -> tuple[Float[Tensor, "B T H V"], tuple[Tensor, Tensor, Tensor]]:
    """Matrix memory with a normaliser: i is the log of the input gate, f the forget gate in [-1, 1].

    The state is (memory [S, H, K, V], normaliser [S, H, K], m [S, H]); the first two are in units of e^m.
    """
    memory, normaliser, m = initial_state if initial_state is not None else (None, None, None)
    rows = _sequences(q, cu_seqlens)
    size = check_shapes(
        "mlstm",
        q=(q, "B T H K"),
        k=(k, "B T H K"),
        v=(v, "B T H V"),
        i=(i, "B T H"),
        f=(f, "B T H"),
        memory=(memory, f"{rows} H K V"),
        normaliser=(normaliser, f"{rows} H K"),
        m=(m, f"{rows} H"),
    )
    state = (
        _or_zeros(memory, q, cu_seqlens, size["H"], size["K"], size["V"]),
        _or_zeros(normaliser, q, cu_seqlens, size["H"], size["K"]),
        _or_zeros(m, q, cu_seqlens, size["H"]),
    )
    return execute("mlstm", MLSTM, backend, q, k, v, i, f, initial_state=state, cu_seqlens=cu_seqlens)


def slstm(
    gates: Float[Tensor, "B T H 4 D"],
    *,
    recurrent: Float[Tensor, "H 4 D D"],
    initial_state: tuple[Tensor, Tensor, Tensor, Tensor] | None = None,
    cu_seqlens: Tensor | None = None,
    backend: str = "auto",
) -> tuple[Float[Tensor, "B T H D"], tuple[Tensor, Tensor, Tensor, Tensor]]:
    """sLSTM on the gate pre-activations (z, i, f, o) of the input. The state is (c, n, h, m), each [S, H, D]."""
    c, n, h, m = initial_state if initial_state is not None else (None, None, None, None)
    shape = f"{_sequences(gates, cu_seqlens)} H D"
    size = check_shapes(
        "slstm",
        gates=(gates, "B T H 4 D"),
        recurrent=(recurrent, "H 4 D D"),
        **{"c": (c, shape), "n": (n, shape), "h": (h, shape), "m": (m, shape)},
    )
    c, n, h = (_or_zeros(part, gates, cu_seqlens, size["H"], size["D"]) for part in (c, n, h))
    # an empty memory has no scale yet: m = -inf lets the first input set it
    m = torch.full_like(c, -torch.inf) if m is None else m
    return execute(
        "slstm",
        SLSTM,
        backend,
        gates,
        recurrent=recurrent,
        initial_state=(c, n, h, m),
        cu_seqlens=cu_seqlens,
        kernel=SLSTM_KERNEL,
    )


def lstm(
    gates: Float[Tensor, "B T H 4 D"],
    *,
    recurrent: Float[Tensor, "H 4 D D"],
    initial_state: tuple[Tensor, Tensor] | None = None,
    cu_seqlens: Tensor | None = None,
    backend: str = "auto",
) -> tuple[Float[Tensor, "B T H D"], tuple[Tensor, Tensor]]:
    """LSTM on the gate pre-activations (z, i, f, o) of the input. The state is (c, h), each [S, H, D]."""
    c, h = initial_state if initial_state is not None else (None, None)
    shape = f"{_sequences(gates, cu_seqlens)} H D"
    size = check_shapes("lstm", gates=(gates, "B T H 4 D"), recurrent=(recurrent, "H 4 D D"), c=(c, shape), h=(h, shape))
    state = tuple(_or_zeros(part, gates, cu_seqlens, size["H"], size["D"]) for part in (c, h))
    return execute("lstm", LSTM, backend, gates, recurrent=recurrent, initial_state=state, cu_seqlens=cu_seqlens)


def _check_pairs(op: str, name: str, x: Tensor, turns: Tensor | None) -> None:
    if turns is not None and 2 * turns.shape[-1] != x.shape[-1]:
        raise ValueError(f"{op}: turns has {turns.shape[-1]} angles a token, and {name}={x.shape[-1]}: one a pair is needed")


def _gate_pattern(gate: Tensor | None, turns: Tensor | None = None) -> str:
    if gate is None or gate.ndim == 3:
        return "B T H"
    return "B T H K" if turns is None else "B T H P"


def _sequences(x: Tensor, cu_seqlens: Tensor | None) -> int:
    if cu_seqlens is None:
        return x.shape[0]
    check_bounds_type(cu_seqlens)
    if len(cu_seqlens) < 2:
        sequence_lengths(x.shape[0], x.shape[1], cu_seqlens)  # says what is wrong
    return len(cu_seqlens) - 1


def _or_zeros(state: Tensor | None, like: Tensor, cu_seqlens: Tensor | None, *shape: int) -> Tensor:
    return like.new_zeros(_sequences(like, cu_seqlens), *shape) if state is None else state
