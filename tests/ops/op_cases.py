"""Every op with random inputs that include its awkward values: b = 2 exactly, gates of exactly 0, 1 and the range's ends,
equal keys in a row, zero keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from eigentrack.ops.delta_rule.op import DELTA_RULE
from eigentrack.ops.dense_scan.op import DENSE_SCAN
from eigentrack.ops.gated_linear.op import GATED_LINEAR
from eigentrack.ops.low_rank.op import LOW_RANK
from eigentrack.ops.lstm.op import LSTM
from eigentrack.ops.mlstm.op import MLSTM
from eigentrack.ops.one_hot_scan.op import ONE_HOT_SCAN
from eigentrack.ops.s4d.op import S4D
from eigentrack.ops.selective_scan.op import SELECTIVE_SCAN
from eigentrack.ops.shared.dispatch import Op
from eigentrack.ops.shared.packing import Packing
from eigentrack.ops.slstm.op import SLSTM
from eigentrack.spectrum import EigenRange

RANGES = [EigenRange(0, 1), EigenRange(-1, 1), EigenRange(-0.5, 1)]


@dataclass(frozen=True)
class Inputs:
    """`sequences` are [B, T, ...], `state` has a row a sequence, `constants` have neither; None entries stay None."""

    sequences: tuple[Tensor | None, ...]
    state: tuple[Tensor, ...]
    constants: dict[str, Any] = field(default_factory=dict)

    def leaves(self) -> list[Tensor]:
        tensors = [*self.sequences, *self.state, *self.constants.values()]
        return [x for x in tensors if isinstance(x, Tensor) and x.is_floating_point()]

    def map(self, change: Callable[[Tensor], Tensor]) -> Inputs:
        def apply(x: Any) -> Any:
            return change(x) if isinstance(x, Tensor) and x.is_floating_point() else x

        return Inputs(
            tuple(apply(x) for x in self.sequences),
            tuple(apply(x) for x in self.state),
            {name: apply(value) for name, value in self.constants.items()},
        )


@dataclass(frozen=True)
class OpCase:
    name: str
    op: Op
    make: Callable[[EigenRange, int, int, int], Inputs]  # range, batch, time, sequences

    def run(
        self, backend: str, inputs: Inputs, cu_seqlens: Tensor | None = None, **options: Any
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """(y, last state); mLSTM's m is folded into its memory, since m only chooses units."""
        state = inputs.state if len(inputs.state) > 1 else inputs.state[0]
        first = next(x for x in inputs.sequences if x is not None)
        packing = Packing.of(first, cu_seqlens)
        y, last = self.op.backends[backend](
            *inputs.sequences, initial_state=state, packing=packing, **inputs.constants, **options
        )
        last = last if isinstance(last, tuple) else (last,)
        if self.name == "mlstm":
            memory, normaliser, m = last
            last = (memory * m.exp()[..., None, None], normaliser * m.exp()[..., None])
        return y, last


def _float(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def _gates(eigenvalues: EigenRange, *shape: int) -> Tensor:
    """In the range, with runs of its ends and, where it holds 0, of exact zeros."""
    special = torch.tensor([eigenvalues.low, eigenvalues.high, max(eigenvalues.low, 0.0)], dtype=torch.float64)
    gates = eigenvalues.eigenvalue(torch.rand(*shape, dtype=torch.float64))
    chosen = special[torch.randint(3, shape)]
    return torch.where(torch.rand(*shape) < 0.3, chosen, gates)


def _turns(*shape: int) -> Tensor:
    """Whole numbers of 2⁻³² turns, so that nothing is rounded; with runs of none, of quarter and of half turns."""
    turns = torch.randint(-(2**33), 2**33, shape).double() / 2**32
    chosen = torch.tensor([0.0, 0.25, 0.5], dtype=torch.float64)[torch.randint(3, shape)]
    return torch.where(torch.rand(*shape) < 0.3, chosen, turns)


def _delta_rule(factors: int, gate: str, turning: bool = False) -> Callable[[EigenRange, int, int, int], Inputs]:
    def make(eigenvalues: EigenRange, batch: int, time: int, sequences: int) -> Inputs:
        heads, key, value = (1, 4, 2) if turning else (2, 4, 3)
        k = torch.nn.functional.normalize(_float(batch, time, heads, factors, key), dim=-1)
        k[:, 3:20] = k[:, 3:4]  # equal keys in a row
        k[:, 5:6] = 0.0
        beta = 1 - _gates(eigenvalues, batch, time, heads, factors)
        shape = {"none": None, "per head": (heads,), "per pair": (heads, key // 2), "per channel": (heads, key)}[gate]
        gates = None if shape is None else _gates(eigenvalues, batch, time, *shape)
        q, v = _float(batch, time, heads, key), _float(batch, time, heads, factors, value)
        turns = _turns(batch, time, heads, key // 2) if turning else None
        return Inputs((q, k, v, beta, gates, turns), (_float(sequences, heads, key, value),))

    return make


def _low_rank(eigenvalues: EigenRange, batch: int, time: int, sequences: int) -> Inputs:
    """Two factors, in some tokens as in RWKV-7: the first writes no value, the second reads nothing."""
    heads, key, value = 2, 4, 3
    read = torch.nn.functional.normalize(_float(batch, time, heads, 2, key), dim=-1)
    read[:, 3:20] = read[:, 3:4]  # equal keys in a row
    write = torch.rand(batch, time, heads, 2, key, dtype=torch.float64) * read / 2  # so that products stay bounded
    gates = _gates(eigenvalues, batch, time, heads, key)
    q, v = _float(batch, time, heads, key), _float(batch, time, heads, 2, value)
    v[:, ::2, :, 0] = 0.0
    read[:, ::2, :, 1] = 0.0
    return Inputs((q, read, write, v, gates), (_float(sequences, heads, key, value),))


def _gated_linear(per_channel: bool, turning: bool = False) -> Callable[[EigenRange, int, int, int], Inputs]:
    def make(eigenvalues: EigenRange, batch: int, time: int, sequences: int) -> Inputs:
        heads, key, value = (1, 4, 2) if turning else (2, 4, 3)
        gates = key // 2 if turning else key
        a = _gates(eigenvalues, batch, time, heads, *([gates] if per_channel else []))
        q, k, v = _float(batch, time, heads, key), _float(batch, time, heads, key), _float(batch, time, heads, value)
        turns = _turns(batch, time, heads, key // 2) if turning else None
        return Inputs((q, k, v, a, turns), (_float(sequences, heads, key, value),))

    return make


def _selective_scan(full: bool, turning: bool = False) -> Callable[[EigenRange, int, int, int], Inputs]:
    def make(eigenvalues: EigenRange, batch: int, time: int, sequences: int) -> Inputs:
        channels, size = (2, 4) if turning else (5, 3)
        longest = 2 if turning else 20  # from eigenvalues near high to (but for those that turn) near low
        dt = torch.rand(batch, time, channels, dtype=torch.float64) ** 3 * longest
        dt[:, 2:4] = 0.0
        z = _float(batch, time, channels) if full else None
        turns = _turns(batch, time, size // 2) if turning else None
        sequences_in = (_float(batch, time, channels), dt, _float(batch, time, size), _float(batch, time, size), z, turns)
        constants = {
            "log_decay": -torch.rand(channels, size // 2 if turning else size, dtype=torch.float64),
            "skip": _float(channels) if full else None,
            "eigenvalues": eigenvalues,
        }
        return Inputs(sequences_in, (_float(sequences, channels, size),), constants)

    return make


def _s4d(eigenvalues: EigenRange, batch: int, time: int, sequences: int) -> Inputs:
    channels, pairs = 3, 2
    constants = {
        "a": _gates(eigenvalues, channels, pairs),
        "turns": _turns(channels, pairs),
        "c": _float(channels, 2 * pairs),
    }
    return Inputs((_float(batch, time, channels),), (_float(sequences, channels, 2 * pairs),), constants)


def _dense_scan(with_input: bool) -> Callable[[EigenRange, int, int, int], Inputs]:
    def make(eigenvalues: EigenRange, batch: int, time: int, sequences: int) -> Inputs:
        heads, rows, columns = 2, 4, 3
        basis, _ = torch.linalg.qr(_float(batch, time, heads, rows, rows))
        a = basis * _gates(eigenvalues, batch, time, heads, 1, rows) @ basis.mT
        b = _float(batch, time, heads, rows, columns) if with_input else None
        return Inputs((a, b), (_float(sequences, heads, rows, columns),))

    return make


def _one_hot_scan(with_input: bool, turning: bool = False) -> Callable[[EigenRange, int, int, int], Inputs]:
    """Permutations, resets and anything between, with scales of exactly 0 and ±1 among them."""

    def make(eigenvalues: EigenRange, batch: int, time: int, sequences: int) -> Inputs:
        heads, entries = (1, 3) if turning else (2, 4)
        numbers = 2 * entries if turning else entries
        a = _gates(eigenvalues, batch, time, heads, entries)
        rows = torch.rand(batch, time, heads, entries).argsort(-1)
        rows[:, ::3] = torch.randint(entries, rows[:, ::3].shape)
        rows[:, 4:5] = 1
        b = _float(batch, time, heads, numbers) if with_input else None
        turns = _turns(batch, time, heads, entries) if turning else None
        return Inputs((a, b, rows, turns), (_float(sequences, heads, numbers),))

    return make


def _mlstm(eigenvalues: EigenRange, batch: int, time: int, sequences: int) -> Inputs:
    heads, key, value = 2, 4, 3
    q, k, v = _float(batch, time, heads, key), _float(batch, time, heads, key), _float(batch, time, heads, value)
    i, f = 3 * _float(batch, time, heads), _gates(eigenvalues, batch, time, heads)
    state = (_float(sequences, heads, key, value), _float(sequences, heads, key), _float(sequences, heads))
    return Inputs((q, k, v, i, f), state)


def _recurrent(parts: int) -> Callable[[EigenRange, int, int, int], Inputs]:
    def make(eigenvalues: EigenRange, batch: int, time: int, sequences: int) -> Inputs:
        heads, width = 2, 3
        state = tuple(_float(sequences, heads, width) for _ in range(parts))
        if parts == 4:  # sLSTM: the normaliser is positive
            state = (state[0], state[1].abs() + 0.5, state[2], state[3])
        return Inputs((_float(batch, time, heads, 4, width),), state, {"recurrent": _float(heads, 4, width, width)})

    return make


CASES = [
    OpCase("delta_rule", DELTA_RULE, _delta_rule(1, "none")),
    OpCase("delta_rule, gated", DELTA_RULE, _delta_rule(1, "per head")),
    OpCase("delta_rule, 3 factors, gated", DELTA_RULE, _delta_rule(3, "per head")),
    OpCase("delta_rule, 2 factors, gated per channel", DELTA_RULE, _delta_rule(2, "per channel")),
    OpCase("delta_rule, 2 factors, turning", DELTA_RULE, _delta_rule(2, "per head", turning=True)),
    OpCase("delta_rule, gated per pair, turning", DELTA_RULE, _delta_rule(1, "per pair", turning=True)),
    OpCase("low_rank, 2 factors, gated per channel", LOW_RANK, _low_rank),
    OpCase("gated_linear, per head", GATED_LINEAR, _gated_linear(False)),
    OpCase("gated_linear, per channel", GATED_LINEAR, _gated_linear(True)),
    OpCase("gated_linear, turning", GATED_LINEAR, _gated_linear(True, turning=True)),
    OpCase("selective_scan", SELECTIVE_SCAN, _selective_scan(True)),
    OpCase("selective_scan, bare", SELECTIVE_SCAN, _selective_scan(False)),
    OpCase("selective_scan, turning", SELECTIVE_SCAN, _selective_scan(False, turning=True)),
    OpCase("s4d, turning", S4D, _s4d),
    OpCase("dense_scan", DENSE_SCAN, _dense_scan(True)),
    OpCase("dense_scan, no input", DENSE_SCAN, _dense_scan(False)),
    OpCase("one_hot_scan", ONE_HOT_SCAN, _one_hot_scan(True)),
    OpCase("one_hot_scan, no input, turning", ONE_HOT_SCAN, _one_hot_scan(False, turning=True)),
    OpCase("mlstm", MLSTM, _mlstm),
]
SEQUENTIAL_CASES = [OpCase("slstm", SLSTM, _recurrent(4)), OpCase("lstm", LSTM, _recurrent(2))]
