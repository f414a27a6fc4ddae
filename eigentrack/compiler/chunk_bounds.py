"""Chunk bounds: the chunked backends of a layer compute other intermediate values than the step. Are those exact, too?

They work on F factors at once. If keys, betas, values, queries, gates and states are whole numbers, then so is all that they
compute: sums of products, and the inverse of a unit triangular matrix of whole numbers. If every factor I - b k kᵀ has norm at
most 1, an entry of that inverse is at most I = max b|k|². With G = max |b k·k'|, |S| ≤ 1, |u| ≤ U = b|v| + b Σ|k| and the
right-hand side R = U + F G U, no partial sum exceeds F max(1, I) R, 1 + F |k| U or Σ|q| + F |q·k| U; below 2²⁴ all are floats.
Derivation: docs/derivations/certificates.md.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn

from eigentrack.compiler.exactness import MANTISSA_BITS, SATURATED
from eigentrack.layers import GLA, DeltaNet, Dense, LinearMixer
from eigentrack.models import SequenceModel
from eigentrack.recurrence.dispatch import state_dtype

FACTORS = 64  # the most that any backend puts into one chunk


class InputRecord:
    """Watches a model run and keeps the different inputs of each linear mixer."""

    def __init__(self, model: SequenceModel) -> None:
        self._model = model
        self.seen: dict[int, Tensor] = {}  # layer → [inputs, d]
        self._hooks: list[Any] = []

    def __enter__(self) -> InputRecord:
        for layer, block in enumerate(self._model.blocks):
            if isinstance(block.mixer, LinearMixer):
                first: Any = block.mixer.matrix_proj if isinstance(block.mixer, Dense) else block.mixer.k_proj
                self._hooks.append(first.register_forward_hook(self._keeper(layer)))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for hook in self._hooks:
            hook.remove()

    def _keeper(self, layer: int) -> Any:
        def keep(module: nn.Module, inputs: tuple[Tensor], output: Tensor) -> None:
            with torch.utils._python_dispatch._disable_current_modes():
                rows = inputs[0].detach().flatten(0, -2).unique(dim=0)
                before = self.seen.get(layer)
                self.seen[layer] = rows if before is None else torch.cat([before, rows]).unique(dim=0)

        return keep


def chunk_fault(model: SequenceModel, record: InputRecord) -> str | None:
    """Why a layer's chunked form might round, or None: it cannot. States are whole numbers of modulus at most 1."""
    for layer, x in record.seen.items():
        mixer = model.blocks[layer].mixer
        with torch.no_grad():
            fault = _RULES[type(mixer)](mixer, x)
        if fault:
            return f"layer {layer + 1}: {fault}"
    return None


def _products_fault(mixer: DeltaNet, x: Tensor) -> str | None:
    """X inputs  H heads  n factors  K key dim"""
    keys = mixer.k_proj(x).double().unflatten(-1, (mixer.heads, -1, mixer.key_dim))  # [X, H, n, K]
    beta = mixer.eigenvalues.beta(mixer.beta_proj(x).double()).unflatten(-1, (mixer.heads, -1))  # [X, H, n]
    q = mixer.q_proj(x).double().unflatten(-1, (mixer.heads, -1))  # [X, H, K]
    v = mixer.v_proj(x).double()
    if not all(_whole(part) for part in (keys, beta, q, v)):
        return "keys, betas, values or queries are not whole numbers"
    if mixer.gate is not None and (mixer.gate_proj(x).abs() < SATURATED).any():
        return "a gate is neither 0 nor 1"
    inverse = float((beta * keys.square().sum(-1)).max())
    if inverse > 2:
        return "a factor has norm above 1"
    by_head = [part.flatten(0, 1) for part in keys.unbind(1)]  # [X n, K]
    scaled = [part.flatten(0, 1) for part in (beta[..., None] * keys).unbind(1)]
    meeting = max(float((b @ k.mT).abs().max()) for b, k in zip(scaled, by_head, strict=True))
    reading = max(float((part @ k.mT).abs().max()) for part, k in zip(q.unbind(1), by_head, strict=True))
    u = float(beta.max()) * float(v.abs().max()) + float((beta[..., None] * keys).abs().sum(-1).max())
    sums = [
        FACTORS * max(1.0, inverse) * (u + FACTORS * meeting * u),
        1 + FACTORS * float(keys.abs().max()) * u,
        float(q.abs().sum(-1).max()) + FACTORS * reading * u,
    ]
    return _too_large(max(sums), mixer)


def _gates_fault(mixer: GLA, x: Tensor) -> str | None:
    parts = [mixer.eigenvalues.eigenvalue(torch.sigmoid(mixer.gate_proj(x).double()))]
    parts += [projection(x).double() for projection in (mixer.q_proj, mixer.k_proj, mixer.v_proj)]
    if not all(_whole(part) for part in parts):
        return "keys, values, queries or gates are not whole numbers"
    _, q, k, v = (float(part.abs().max()) for part in parts)
    return _too_large(mixer.memory_shape[1] * q * (1 + FACTORS * k * v), mixer)


def _matrices_fault(mixer: Dense, x: Tensor) -> str | None:
    matrices = mixer.matrix_proj(x).double().unflatten(-1, mixer.memory_shape)
    if not _whole(matrices) or matrices.abs().sum(-2).max() > 1:
        return "a matrix is not a map of states"
    return None


def _too_large(bound: float, mixer: nn.Module) -> str | None:
    limit = 2.0 ** MANTISSA_BITS[state_dtype(next(mixer.parameters()))]
    return None if bound < limit else f"sums may reach {bound:g}, beyond {limit:g}"


def _whole(x: Tensor) -> bool:
    return bool((x == x.round()).all())


_RULES: dict[type, Callable[[Any, Tensor], str | None]] = {DeltaNet: _products_fault, GLA: _gates_fault, Dense: _matrices_fault}
