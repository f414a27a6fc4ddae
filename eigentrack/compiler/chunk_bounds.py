"""Chunk bounds: the chunked backends of a layer compute other intermediate values than the step. Are those exact, too?

They work on F factors at once. If keys, betas, values, queries, gates and states are whole numbers, then so is all that they
compute: sums of products, and the inverse of a unit triangular matrix of whole numbers. If every factor I - b k kᵀ has norm at
most 1, an entry of that inverse is at most I = max b|k| max|k|, and the state stays below s = √K + n max b|k||v|. With
G = max |b k·k'|, U = b|v| + b Σ|k| s and the right-hand side R = U + F G U, no partial sum exceeds F max(1, I) R, s + F |k| U
or Σ|q| s + F |q·k| U; below 2²⁴ all are floats.

Tensor cores take narrower operands than sums: 8 bits of bfloat16, 11 of TF32. What the kernels multiply again (keys, queries,
the inverse, v - Sᵀk at a chunk's start, u, q·k) must fit these, too.
Derivation: docs/derivations/certificates.md.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn

from eigentrack.compiler.exactness import MANTISSA_BITS
from eigentrack.layers import GLA, Convolution, DeltaNet, Dense
from eigentrack.models import SequenceModel
from eigentrack.ops.shared.dispatch import state_dtype

FACTORS = 64  # in a chunk of any backend, or those of one token, if they are more
TF32_BITS = 11
OPERAND_BITS = {torch.bfloat16: 8, torch.float16: 11, torch.float32: TF32_BITS, torch.float64: 53}


class InputRecord:
    """Watches a model run and keeps the different inputs of each linear mixer."""

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


def chunk_fault(model: SequenceModel, record: InputRecord) -> str | None:
    """Why a layer's chunked form might round, or None: it cannot. After every token, states hold -1, 0 and 1 only."""
    for layer, block in enumerate(model.blocks):
        if isinstance(block.mixer, Convolution):
            continue  # it has one form only
        with torch.no_grad():
            fault = _layer_fault(block.mixer, record.seen.get(layer))
        if fault:
            return f"layer {layer + 1}: {fault}"
    return None


def _layer_fault(mixer: Any, x: Tensor | None) -> str | None:
    if x is None or not isinstance(mixer, (DeltaNet, GLA, Dense)):
        return f"there is no bound for {type(mixer).__name__}"
    if not mixer.bare or mixer.convolution is not None:
        return "there is no bound for norms, activations and convolutions inside a layer"
    return _RULES[type(mixer)](mixer, x)


def _products_fault(mixer: DeltaNet, x: Tensor) -> str | None:
    """X inputs  H heads  n factors  K key dim  V value dim"""
    keys = mixer.k_proj(x).double().unflatten(-1, (mixer.heads, -1, mixer.key_dim))  # [X, H, n, K]
    beta = mixer.eigenvalues.beta(mixer.beta_proj(x).double()).unflatten(-1, (mixer.heads, -1))  # [X, H, n]
    q = mixer.q_proj(x).double().unflatten(-1, (mixer.heads, -1))  # [X, H, K]
    v = mixer.v_proj(x).double().unflatten(-1, (mixer.heads, -1, mixer.value_dim))  # [X, H, n, V]
    if not all(_whole(part) for part in (keys, beta, q, v)):
        return "keys, betas, values or queries are not whole numbers"
    if mixer.turn_proj is not None:
        return "there is no bound for gates that turn"
    if mixer.gate is not None and not _whole(mixer.gates(x[None])["gate"]):
        return "a gate is neither 0 nor 1"
    lengths = keys.square().sum(-1)
    if (beta * lengths).max() > 2:
        return "a factor has norm above 1"
    inverse = float((beta * lengths.sqrt()).max() * lengths.sqrt().max())
    # between the factors of a token: their norm is at most 1, and each writes b k v
    written = float((beta * lengths.sqrt() * v.abs().amax(-1)).max())
    state = mixer.key_dim**0.5 + mixer.householders * written
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
        float(v.abs().max() + keys.abs().sum(-1).max()),  # at the start of a chunk the state holds -1, 0 and 1
    ]
    joined = FACTORS // 2 * max(1.0, inverse) * meeting  # blocks of the inverse times what lies between them, always in TF32
    return _too_large(max(sums), mixer) or _too_wide(max(operands), joined, mixer)


def _gates_fault(mixer: GLA, x: Tensor) -> str | None:
    if mixer.eigenvalues.turns:
        return "there is no bound for gates that turn"
    if mixer.k_proj is None or mixer.v_proj is None:
        return "there is no bound for a memory without writes"
    parts = [mixer.gates(x[None])["eigenvalue"].double()]
    parts += [projection(x).double() for projection in (mixer.q_proj, mixer.k_proj, mixer.v_proj)]
    if not all(_whole(part) for part in parts):
        return "keys, values, queries or gates are not whole numbers"
    _, q, k, v = (float(part.abs().max()) for part in parts)
    queries, keys = (part.abs().unflatten(-1, (mixer.heads, -1)).unbind(1) for part in parts[1:3])  # by head, [X, K]
    reading = max(float((query @ key.mT).max()) for query, key in zip(queries, keys, strict=True))
    sums = mixer.memory_shape[1] * q * (1 + FACTORS * k * v)
    return _too_large(sums, mixer) or _too_wide(max(q, k, v, reading), 0.0, mixer)


def _matrices_fault(mixer: Dense, x: Tensor) -> str | None:
    matrices = mixer.matrix_proj(x).double().unflatten(-1, mixer.memory_shape)
    if not _whole(matrices) or matrices.abs().sum(-2).max() > 1:
        return "a matrix is not a map of states"
    return None


def _too_large(bound: float, mixer: nn.Module) -> str | None:
    limit = 2.0 ** MANTISSA_BITS[state_dtype(next(mixer.parameters()))]
    return None if bound < limit else f"sums may reach {bound:g}, beyond {limit:g}"


def _too_wide(bound: float, in_tf32: float, mixer: nn.Module) -> str | None:
    """Whole numbers up to 2^bits are exact."""
    dtype = next(mixer.parameters()).dtype
    for largest, bits in ((bound, OPERAND_BITS[dtype]), (in_tf32, max(TF32_BITS, OPERAND_BITS[dtype]))):
        if largest > 2.0**bits:
            return f"factors of products may reach {largest:g}, and tensor cores keep {bits} bits of them"
    return None


def _whole(x: Tensor) -> bool:
    return bool((x == x.round()).all())


_RULES: dict[type, Callable[[Any, Tensor], str | None]] = {DeltaNet: _products_fault, GLA: _gates_fault, Dense: _matrices_fault}
