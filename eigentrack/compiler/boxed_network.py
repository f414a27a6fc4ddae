"""One step of a SequenceModel on boxes of joint states, enclosed by intervals.

A joint state is everything that one step passes to the next, as one vector: layer by layer the memories, then the window. There
are enclosures for sLSTM, LSTM and convolution layers, gated MLPs and norms; the memories are stored as in
`ops/slstm/reference.py` and `ops/lstm/reference.py`.

N boxes  D numbers of a joint state  d model width
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from eigentrack.compiler.interval import Arithmetic, Array, Interval
from eigentrack.layers import LSTM, SLSTM, Convolution, Mixer
from eigentrack.models import SequenceModel
from eigentrack.models.sequence_model import Block

Parts = list[Interval]  # the parts of a layer's state, each [N, …]


class BoxedNetwork:
    """A SequenceModel whose step maps boxes of joint states to boxes that contain all their images."""

    def __init__(self, model: SequenceModel, floats: Arithmetic | None = None) -> None:
        """Prepare the step of `model`; `floats` is the arithmetic to enclose, None means that of the weights' float type."""
        for block in model.blocks:
            if type(block.mixer) not in _MIXERS:
                raise ValueError(f"there is no enclosure for a layer of {type(block.mixer).__name__}")
        self.floats = float_arithmetic(model.embedding.weight.dtype) if floats is None else floats
        self._model = model
        self._known: dict[int, Array] = {}
        states = [cast(Block, block).mixer.initial_state(1) for block in model.blocks]
        self._begin = [[*state.memory, *([] if state.window is None else [state.window])] for state in states]

    @property
    def start(self) -> Interval:
        """The joint state before the first token, [1, D]."""
        return Interval.at(np.concatenate([numbers(part).reshape(1, -1) for parts in self._begin for part in parts], 1))

    @torch.no_grad()
    def step(self, tokens: NDArray[np.int_], boxes: Interval) -> tuple[Interval, Interval]:
        """Return the logits [N, vocab] and the joint states [N, D] after one token per box."""
        floats, model = self.floats, self._model
        x, after = Interval.at(self.weight(model.embedding.weight)[tokens]), []
        for module, before in zip(model.blocks, self._split(boxes), strict=True):
            block = cast(Block, module)
            mix = _MIXERS[type(block.mixer)]
            if block.norm_after:
                mixed, parts = mix(self, block.mixer, x, before)
                mixed = self._norm(block.mixer_norm, mixed)
            else:
                mixed, parts = mix(self, block.mixer, self._norm(block.mixer_norm, x), before)
            x = self._add_mlp(block, floats.plus(x, mixed))
            after += [part.reshape(len(tokens), -1) for part in parts]
        return floats.affine(self._norm(model.norm, x), self.weight(model.head.weight)), Interval.joined(after, axis=1)

    def weight(self, parameter: Tensor) -> Array:
        key = id(parameter)
        if key not in self._known:
            self._known[key] = numbers(parameter)
        return self._known[key]

    def linear(self, layer: nn.Linear, x: Interval) -> Interval:
        bias = cast("Tensor | None", layer.bias)
        return self.floats.affine(x, self.weight(layer.weight), None if bias is None else self.weight(bias))

    def _split(self, boxes: Interval) -> list[Parts]:
        layers, first = [], 0
        for parts in self._begin:
            layer = []
            for part in parts:
                layer.append(boxes[:, first : first + part.numel()].reshape(len(boxes.low), *part.shape[1:]))
                first += part.numel()
            layers.append(layer)
        return layers

    def _norm(self, norm: nn.Module, x: Interval) -> Interval:
        if isinstance(norm, nn.Identity):
            return x
        rms = cast(nn.RMSNorm, norm)
        return self.floats.rms_norm(x, self.weight(rms.weight), cast(float, rms.eps))

    def _add_mlp(self, block: Block, x: Interval) -> Interval:
        if block.mlp is None or block.mlp_norm is None:
            return x
        mlp, floats = block.mlp, self.floats
        inside = x if block.norm_after else self._norm(block.mlp_norm, x)
        gated = floats.times(floats.silu(self.linear(mlp.gate_proj, inside)), self.linear(mlp.up_proj, inside))
        out = self.linear(mlp.down_proj, gated)
        return floats.plus(x, self._norm(block.mlp_norm, out) if block.norm_after else out)


def float_arithmetic(dtype: torch.dtype) -> Arithmetic:
    floats = torch.finfo(dtype)
    return Arithmetic(floats.eps / 2, floats.tiny, floats.max)


def numbers(tensor: Tensor) -> Array:
    return tensor.detach().cpu().double().numpy()


def _slstm(network: BoxedNetwork, layer: SLSTM, x: Interval, state: Parts) -> tuple[Interval, Parts]:
    c, n, h, m = state
    gates = network.linear(layer.gates.input_proj, x).reshape(-1, layer.heads, 4, layer.width)
    after = slstm_boxes(gates, network.weight(layer.gates.recurrent), (c, n, h, m), network.floats)
    normed = network.floats.rms_norm(after[2], network.weight(layer.norm.weight), cast(float, layer.norm.eps))
    return network.linear(layer.out_proj, normed.reshape(-1, layer.d_model)), list(after)


def _lstm(network: BoxedNetwork, layer: LSTM, x: Interval, state: Parts) -> tuple[Interval, Parts]:
    c, h = state
    gates = network.linear(layer.gates.input_proj, x).reshape(-1, layer.heads, 4, layer.width)
    after = lstm_boxes(gates, network.weight(layer.gates.recurrent), (c, h), network.floats)
    return network.linear(layer.out_proj, after[1].reshape(-1, layer.d_model)), list(after)


def _convolution(network: BoxedNetwork, layer: Convolution, x: Interval, state: Parts) -> tuple[Interval, Parts]:
    (window,) = state
    now = network.linear(layer.in_proj, x)
    seen = Interval.joined([window, now.reshape(-1, 1, now.shape[-1])], axis=1)  # [N, width, channels]
    weight = network.weight(layer.convolution.weight)  # [channels, width]
    y = network.floats.affine_by_head(seen.swapped(1, 2), weight[:, None, None])  # one filter per channel
    return network.linear(layer.out_proj, y.reshape(-1, len(weight))), [seen[:, 1:]]


_MIXERS: dict[type[Mixer], Callable[[BoxedNetwork, Any, Interval, Parts], tuple[Interval, Parts]]] = {
    SLSTM: _slstm,
    LSTM: _lstm,
    Convolution: _convolution,
}


Cell = tuple[Interval, ...]


def slstm_boxes(gates: Interval, recurrent: Array, state: Cell, floats: Arithmetic) -> Cell:
    """Return the state of an sLSTM cell after one step.

    `gates` [N, H, 4, D] is the part of the gates that comes from the input, `recurrent` is [H, 4, D, D], and the state is
    c, n, h, m, each [N, H, D].
    """
    c, n, h, m = state
    z, i, f, o = _gates(gates, recurrent, h, floats)
    kept = floats.plus(floats.log_sigmoid(f), m)
    m = floats.maximum(kept, i)
    # m is the larger of kept and i, so no exponent exceeds 0 and no weight exceeds 1, even if the intervals are wider
    keep, write = (_at_most(1.0, floats.exp(_at_most(0.0, floats.plus(part, -m)))) for part in (kept, i))
    c = floats.plus(floats.times(keep, c), floats.times(write, floats.tanh(z)))
    n = floats.plus(floats.times(keep, n), write)
    return c, n, floats.divided(floats.times(floats.sigmoid(o), c), n), m


def lstm_boxes(gates: Interval, recurrent: Array, state: Cell, floats: Arithmetic) -> Cell:
    """Return the state of an LSTM cell after one step.

    `gates` [N, H, 4, D] is the part of the gates that comes from the input, `recurrent` is [H, 4, D, D], and the state is
    c, h, each [N, H, D].
    """
    c, h = state
    z, i, f, o = _gates(gates, recurrent, h, floats)
    c = floats.plus(floats.times(floats.sigmoid(f), c), floats.times(floats.sigmoid(i), floats.tanh(z)))
    return c, floats.times(floats.sigmoid(o), floats.tanh(c))


def _gates(gates: Interval, recurrent: Array, h: Interval, floats: Arithmetic) -> tuple[Interval, ...]:
    """Return the gates z, i, f, o before their activations, each [N, H, D]."""
    whole = floats.plus(gates, floats.affine_by_head(h, recurrent))
    return tuple(whole[:, :, gate] for gate in range(4))


def _at_most(most: float, x: Interval) -> Interval:
    return Interval(np.minimum(x.low, most), np.minimum(x.high, most))
