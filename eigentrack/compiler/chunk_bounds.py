"""Bounds which prove that the chunked backends of a layer, whose intermediate values differ from the step's, do not round.

They work on F factors at once. If keys, betas, values, queries, gates and states are whole numbers, then so are all values that
they compute: sums of products, and the inverse of a unit triangular matrix of whole numbers. If every factor I - b k kᵀ has a
norm of at most 1, an entry of that inverse is at most I = max b|k| max|k|. A chunk starts from a state made of -1, 0 and 1, or,
in a segment that starts from 0, from the difference of such a state and what the factors make of another: its columns are not
longer than 2√K, its entries not larger than 1 + √K. So the state stays below s = 2√K + n max b|k||v|. With
G = max |b k·k'|, U = b|v| + b Σ|k| s and the right-hand side R = U + F G U, no partial sum exceeds F max(1, I) R, s + F |k| U
or Σ|q| s + F |q·k| U; whole numbers below 2²⁴ are floats.

The operands of tensor cores are narrower than their sums: 8 bits in bfloat16, 11 in TF32. The values that the kernels multiply
again (keys, queries, the inverse, S and v - Sᵀk at a chunk's start, u, q·k) must fit these, too.
Derivation: docs/derivations/certificates.md.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn

from eigentrack.compiler.assumptions import Assumption, Fault
from eigentrack.compiler.exactness import MANTISSA_BITS, TF32_BITS
from eigentrack.layers import GLA, Convolution, DeltaNet, Dense
from eigentrack.models import SequenceModel
from eigentrack.ops.shared.dispatch import state_dtype

FACTORS = 64  # the most factors in a chunk of any backend, unless a single token has more
OPERAND_BITS = {torch.bfloat16: 8, torch.float16: 11, torch.float32: TF32_BITS, torch.float64: 53}


class InputRecord:
    """A context that records the distinct inputs of each linear mixer while a model runs."""

    def __init__(self, model: SequenceModel) -> None:
        self._model = model
        self.seen: dict[int, Tensor] = {}  # layer → [inputs, d]
        self._hooks: list[Any] = []

    def __enter__(self) -> InputRecord:
        for layer, block in enumerate(self._model.blocks):
            if isinstance(block.mixer, (DeltaNet, GLA, Dense)):
                first: Any = block.mixer.matrix_proj if isinstance(block.mixer, Dense) else block.mixer.q_proj
                self._hooks.append(first.register_forward_hook(self._keeper(layer)))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        while self._hooks:
            self._hooks.pop().remove()

    def _keeper(self, layer: int) -> Any:
        def keep(module: nn.Module, inputs: tuple[Tensor], output: Tensor) -> None:
            with torch.utils._python_dispatch._disable_current_modes():
                rows = inputs[0].detach().flatten(0, -2).unique(dim=0)
                before = self.seen.get(layer)
                self.seen[layer] = rows if before is None else torch.cat([before, rows]).unique(dim=0)

        return keep


def chunk_fault(model: SequenceModel, record: InputRecord) -> Fault | None:
    """Return why a layer's chunked form might round, or None if it cannot.

    The bounds assume that before the first token and after every token all states are made of -1, 0 and 1.
    """
    for layer, block in enumerate(model.blocks):
        if isinstance(block.mixer, Convolution):
            continue  # a convolution has no chunked form
        with torch.no_grad():
            fault = _layer_fault(block.mixer, record.seen.get(layer))
        if fault:
            return Fault(fault.assumption, f"chunked: layer {layer + 1}: {fault.text}")
    return None


def _layer_fault(mixer: Any, x: Tensor | None) -> Fault | None:
    rule = _RULES.get(type(mixer))
    if x is None or rule is None:
        return Fault(Assumption.KNOWN_LAYERS, f"there is no bound for {type(mixer).__name__}")
    if not mixer.bare or mixer.convolution is not None:
        return Fault(Assumption.KNOWN_LAYERS, "there is no bound for norms, activations and convolutions inside a layer")
    return rule(mixer, x)


def _products_fault(mixer: DeltaNet, x: Tensor) -> Fault | None:
    """Return why the chunked form of a DeltaNet layer might round on the recorded inputs, or None.

    X inputs  H heads  n factors  K key dim  V value dim
    """
    keys = mixer.k_proj(x).double().unflatten(-1, (mixer.heads, -1, mixer.key_dim))  # [X, H, n, K]
    beta = mixer.eigenvalues.beta(mixer.beta_proj(x).double()).unflatten(-1, (mixer.heads, -1))  # [X, H, n]
    q = mixer.q_proj(x).double().unflatten(-1, (mixer.heads, -1))  # [X, H, K]
    v = mixer.v_proj(x).double().unflatten(-1, (mixer.heads, -1, mixer.value_dim))  # [X, H, n, V]
    if not all(_whole(part) for part in (keys, beta, q, v)):
        return Fault(Assumption.WHOLE_NUMBERS, "keys, betas, values or queries are not whole numbers")
    if mixer.turn_proj is not None:
        return Fault(Assumption.KNOWN_LAYERS, "there is no bound for gates that turn")
    if mixer.gate is not None and not _whole(mixer.gates(x[None])["gate"]):
        return Fault(Assumption.WHOLE_NUMBERS, "a gate is neither 0 nor 1")
    lengths = keys.square().sum(-1)
    if (beta * lengths).max() > 2:
        return Fault(Assumption.NORM, "a factor has norm above 1")
    inverse = float((beta * lengths.sqrt()).max() * lengths.sqrt().max())
    # the bound on the state also holds between the factors of a token: their norm is at most 1, and each writes b k v
    written = float((beta * lengths.sqrt() * v.abs().amax(-1)).max())
    largest = 1 + mixer.key_dim**0.5  # the largest entry of what a chunk starts from
    state = 2 * mixer.key_dim**0.5 + mixer.householders * written
    factors = max(FACTORS, mixer.householders)
    by_head = [part.flatten(0, 1) for part in keys.unbind(1)]  # [X n, K]
    scaled = [part.flatten(0, 1) for part in (beta[..., None] * keys).unbind(1)]
    meeting = max(float((b @ k.mT).abs().max()) for b, k in zip(scaled, by_head, strict=True))
    reading = max(float((part @ k.mT).abs().max()) for part, k in zip(q.unbind(1), by_head, strict=True))
    u = float((beta * v.abs().amax(-1)).max()) + float((beta[..., None] * keys).abs().sum(-1).max()) * state
    sums = [
        factors * max(1.0, inverse) * (u + factors * meeting * u),
        state + factors * float(keys.abs().max()) * u,
        float(q.abs().sum(-1).max()) * state + factors * reading * u,
    ]
    operands = [
        *(float(keys.abs().max()), float(q.abs().max()), float(v.abs().max()), inverse, u, reading),
        *(largest, float(v.abs().max()) + float(keys.abs().sum(-1).max()) * largest),
    ]
    joined = FACTORS // 2 * max(1.0, inverse) * meeting  # products of inverse blocks and the blocks between them, in TF32
    return _too_large(max(sums), mixer) or _too_wide(max(operands), joined, mixer)


def _gates_fault(mixer: GLA, x: Tensor) -> Fault | None:
    if mixer.eigenvalues.turns:
        return Fault(Assumption.KNOWN_LAYERS, "there is no bound for gates that turn")
    if mixer.k_proj is None or mixer.v_proj is None:
        return Fault(Assumption.KNOWN_LAYERS, "there is no bound for a memory without writes")
    parts = [mixer.gates(x[None])["eigenvalue"].double()]
    parts += [projection(x).double() for projection in (mixer.q_proj, mixer.k_proj, mixer.v_proj)]
    if not all(_whole(part) for part in parts):
        return Fault(Assumption.WHOLE_NUMBERS, "keys, values, queries or gates are not whole numbers")
    gate, q, k, v = (float(part.abs().max()) for part in parts)
    if gate > 1:
        return Fault(Assumption.NORM, "a gate is larger than 1")
    queries, keys = (part.abs().unflatten(-1, (mixer.heads, -1)).unbind(1) for part in parts[1:3])  # by head, [X, K]
    reading = max(float((query @ key.mT).max()) for query, key in zip(queries, keys, strict=True))
    sums = mixer.memory_shape[1] * q * (2 + FACTORS * k * v)  # a segment that starts from 0 has entries of at most 2
    return _too_large(sums, mixer) or _too_wide(max(q, k, v, reading), 0.0, mixer)


def _matrices_fault(mixer: Dense, x: Tensor) -> Fault | None:
    matrices = mixer.matrix_proj(x).double().unflatten(-1, mixer.memory_shape)
    if not _whole(matrices):
        return Fault(Assumption.WHOLE_NUMBERS, "a matrix has entries that are not whole numbers")
    if matrices.abs().sum(-2).max() > 1:
        return Fault(Assumption.NORM, "a matrix is not a map of states")
    return None


def _too_large(bound: float, mixer: nn.Module) -> Fault | None:
    limit = 2.0 ** MANTISSA_BITS[state_dtype(next(mixer.parameters()))]
    return None if bound < limit else Fault(Assumption.SUMS, f"sums may reach {bound:g}, beyond {limit:g}")


def _too_wide(bound: float, in_tf32: float, mixer: nn.Module) -> Fault | None:
    """Return a fault if operands exceed the whole numbers up to 2^bits, which are exact, or None.

    `bound` is the largest operand in the type of the weights, `in_tf32` the largest that is multiplied in TF32.
    """
    dtype = next(mixer.parameters()).dtype
    for largest, bits in ((bound, OPERAND_BITS[dtype]), (in_tf32, max(TF32_BITS, OPERAND_BITS[dtype]))):
        if largest > 2.0**bits:
            text = f"factors of products may reach {largest:g}, and tensor cores keep {bits} bits of them"
            return Fault(Assumption.OPERANDS, text)
    return None


def _whole(x: Tensor) -> bool:
    return bool((x == x.round()).all())


_RULES: dict[type, Callable[[Any, Tensor], Fault | None]] = {
    DeltaNet: _products_fault,
    GLA: _gates_fault,
    Dense: _matrices_fault,
}
