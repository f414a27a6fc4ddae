"""The network of a plan: a SequenceModel all of whose weights are set.

In exact plans the weights are small integers, halves, and products with the constants below or their inverses. A gate must be
exactly 0 or 1, so its logit is ±SETTLED, where σ, softplus and silu no longer depend on rounding:
σ(-1024) = 0, σ(0) = ½, σ(1024) = 1, silu(-1024) = 0, silu(0) = 0, silu(1024) = 1024 in every float type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn

from eigentrack.compiler.plan import (
    ALWAYS,
    Delay,
    FlipFlops,
    Gates,
    Head,
    Matrices,
    Mixer,
    NetworkPlan,
    Products,
    Row,
    ThresholdUnits,
    letter_channel,
)
from eigentrack.layers import GLA, SLSTM, Convolution, DeltaNet, Dense
from eigentrack.models import ModelConfig, SequenceModel
from eigentrack.models.sequence_model import GatedMLP
from eigentrack.spectrum import EigenRange

SETTLED = 1024.0
KEEP, SET = 32.0, 256.0  # weights of a flip-flop: tanh(32) = 1 in every float type, and even a weak signal overrules it
THRESHOLD = 64.0  # weight of a threshold unit: tanh(64 / 2) = 1
NARROW, WIDE = EigenRange(0, 1), EigenRange(-1, 1)


def build_network(plan: NetworkPlan, dtype: torch.dtype = torch.float32) -> SequenceModel:
    model = SequenceModel(model_config(plan)).to(dtype)
    threshold = 0.5 if plan.architecture == "slstm" else 1.0  # the bits of an sLSTM may be noisy, others are exactly 0 or 1
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        _set_embedding(model.embedding.weight, plan)
        for block, planned in zip(model.blocks, plan.blocks, strict=True):
            _SETTERS[type(planned.mixer)](block.mixer, planned.mixer)
            if isinstance(block.mlp, GatedMLP):
                _set_table(block.mlp, planned.table, threshold)
        for state in range(model.config.vocab_size):
            # a logit that stands for no state must never be the largest
            row = plan.readout[state] if state < len(plan.readout) else ((ALWAYS, -SETTLED),)
            for channel, weight in row:
                model.head.weight[state, channel] = weight
    return model.eval()


def model_config(plan: NetworkPlan) -> ModelConfig:
    described = [_describe(block.mixer, plan.channels) for block in plan.blocks]
    return ModelConfig(
        vocab_size=max(plan.alphabet.size, plan.dfa.states),
        d_model=plan.channels,
        layers=len(plan.blocks),
        mixer=tuple(name for name, _ in described),
        mixer_options=tuple(options for _, options in described),
        mlp_width=tuple(len(block.table) for block in plan.blocks),
        norm="none",
    )


def _describe(mixer: Mixer, channels: int) -> tuple[str, dict[str, Any]]:
    """Return the name and the options of the layer."""
    if isinstance(mixer, FlipFlops):
        return "slstm", {"heads": channels}
    if isinstance(mixer, ThresholdUnits):
        return "slstm", {"heads": 1}
    if isinstance(mixer, Delay):
        return "convolution", {"channels": len(mixer.lines), "width": 1 + max(lag for _, _, lag in mixer.lines)}
    if isinstance(mixer, Matrices):
        return "dense", {"state_size": len(mixer.outputs), "eigenvalues": None, "learn_initial_state": True, "bare": True}
    shape = {
        "heads": max(1, len(mixer.heads)),
        "key_dim": max((len(head.start) for head in mixer.heads), default=1),
        "value_dim": max((len(head.outputs) for head in mixer.heads), default=1),
        "eigenvalues": WIDE if _largest_beta(mixer.heads) > 1 else NARROW,
        "learn_initial_state": True,
        "conv": 0,
        "bare": True,
    }
    if isinstance(mixer, Gates):
        return "gla", {**shape, "gate_rank": shape["heads"], "gate_temperature": 1.0}
    wide = any(factor.key != (1.0,) for head in mixer.heads for move in head.moves for factor in move.factors)
    if wide:  # a swap's key has norm √2: with b = 1 its eigenvalue is -1
        shape["eigenvalues"] = WIDE
    return "deltanet", {**shape, "householders": mixer.householders, "gate": NARROW if mixer.gated else None}


def _largest_beta(heads: tuple[Head, ...]) -> float:
    return max((factor.beta for head in heads for move in head.moves for factor in move.factors), default=0.0)


def _set_embedding(weight: Tensor, plan: NetworkPlan) -> None:
    for channel, value in plan.offsets:
        weight[:, channel] = value
    for letter in range(len(plan.dfa.letters)):
        weight[letter, letter_channel(letter)] = 1


def _set_products(layer: DeltaNet, plan: Products) -> None:
    logit: Mapping[float, float] = _beta_logits(layer.eigenvalues)
    k = layer.k_proj.weight.view(layer.heads, layer.householders, layer.key_dim, -1)
    v = layer.v_proj.weight.view(layer.heads, layer.householders, layer.value_dim, -1)
    beta = layer.beta_proj.weight.view(layer.heads, layer.householders, -1)
    beta[:, :, ALWAYS] = logit[0]
    if plan.gated:
        layer.gate_proj.weight[:, ALWAYS] = -SETTLED  # softplus gives 0, the gate is 1
    for h, head in enumerate(plan.heads):
        for channel, move in zip(plan.inputs, head.moves, strict=True):
            if move.forget:
                layer.gate_proj.weight[h, channel] = 2 * SETTLED
            for j, factor in enumerate(move.factors):
                beta[h, j, channel] = logit[factor.beta] - logit[0]
                k[h, j, : len(factor.key), channel] = torch.tensor(factor.key, dtype=k.dtype)
                v[h, j, : len(factor.value), channel] = torch.tensor(factor.value, dtype=v.dtype)
    _set_reading(layer, plan.heads)


def _set_gates(layer: GLA, plan: Gates) -> None:
    """Set the weights of a GLA layer, where a factor with key 1 becomes the gate 1 - beta and the write beta value."""
    assert layer.gate_proj is not None
    assert layer.k_proj is not None
    assert layer.v_proj is not None
    down, up = cast(nn.Linear, layer.gate_proj[0]), cast(nn.Linear, layer.gate_proj[1])
    up.weight.copy_(torch.eye(len(up.weight)))
    gate_logit = _gate_logits(layer.eigenvalues.radial)
    down.weight[:, ALWAYS] = gate_logit[1]
    value = layer.v_proj.weight.view(layer.heads, -1, layer.d_model)
    for h, head in enumerate(plan.heads):
        for channel, move in zip(plan.inputs, head.moves, strict=True):
            for factor in move.factors:
                down.weight[h, channel] = gate_logit[1 - factor.beta] - gate_logit[1]
                layer.k_proj.weight[h, channel] = 1
                value[h, : len(factor.value), channel] = factor.beta * torch.tensor(factor.value, dtype=value.dtype)
    _set_reading(layer, plan.heads)


def _set_flip_flops(layer: SLSTM, plan: FlipFlops) -> None:
    """Set the weights of an sLSTM layer with one cell per column of the heads; cell 0 and the unused cells are always 1."""
    z, bias = _open_cells(layer)
    cell = ALWAYS + 1
    for head in plan.heads:
        for column, channel in enumerate(head.outputs):
            start = SET * (2 * head.start[0][column] - 1)
            bias[cell], z[cell, ALWAYS] = 0, start
            layer.gates.recurrent[cell, 0] = KEEP
            for letter in plan.letters:
                z[cell, letter] -= start
            for signal, move in zip(plan.inputs, head.moves, strict=True):
                for factor in move.factors:
                    z[cell, signal] += SET * (2 * factor.value[column] - 1)
            layer.out_proj.weight[channel, cell], layer.out_proj.weight[channel, ALWAYS] = 0.5, 0.5
            cell += 1


def _set_threshold_units(layer: SLSTM, plan: ThresholdUnits) -> None:
    """Set the weights of an sLSTM layer with one cell per unit; cell 0 and the unused cells are always 1."""
    z, bias = _open_cells(layer)
    leading = {goal: [n for n, unit in enumerate(plan.units, 1) if unit.goal == goal] for goal in range(len(plan.outputs))}
    most, recurrent = max(map(len, leading.values())), layer.gates.recurrent[0, 0]
    for cell, unit in enumerate(plan.units, start=1):
        if unit.state is None:
            bias[cell] = THRESHOLD / 2
            z[cell, list(plan.letters)] = -THRESHOLD
        else:
            bias[cell] = THRESHOLD * (len(leading[unit.state]) / 2 - 1 / 2 - most)
            z[cell, unit.letter] = THRESHOLD * most
            recurrent[cell, leading[unit.state]] = THRESHOLD / 2
        layer.out_proj.weight[plan.outputs[unit.goal], cell] = 0.5
        layer.out_proj.weight[plan.outputs[unit.goal], ALWAYS] += 0.5


def _open_cells(layer: SLSTM) -> tuple[Tensor, Tensor]:
    """Set forget gates to 0, input and output gates to 1, and all cells to 1, so that h = tanh z.

    Return the weights [cells, d] and biases [cells] of z, for the caller to change.
    """
    weight, bias = layer.gates.input_proj.weight, layer.gates.input_proj.bias
    weights, biases = weight.view(layer.heads, 4, layer.width, -1), bias.view(layer.heads, 4, layer.width)
    biases[:, 0], biases[:, 2], biases[:, 3] = SETTLED, -SETTLED, SETTLED
    layer.norm.weight.fill_(1)
    one_gate = (0, 0) if layer.heads == 1 else (slice(None), 0, 0)  # one head of many cells, or many heads of one
    return weights[one_gate], biases[one_gate]


def _set_reading(layer: DeltaNet | GLA, heads: tuple[Head, ...]) -> None:
    """Set the initial memory, the constant query, and the output channel of each column."""
    assert layer.initial_memory is not None
    keys, values = layer.memory_shape[1:]
    for h, head in enumerate(heads):
        start = torch.tensor(head.start, dtype=layer.initial_memory.dtype)
        layer.initial_memory[h, : start.shape[0], : start.shape[1]] = start
        layer.q_proj.weight[h * keys : h * keys + len(head.query), ALWAYS] = torch.tensor(head.query, dtype=start.dtype)
        for column, channel in enumerate(head.outputs):
            layer.out_proj.weight[channel, h * values + column] = head.scale


def _set_matrices(layer: Dense, plan: Matrices) -> None:
    size = len(plan.outputs)
    identity = torch.eye(size, dtype=layer.matrix_proj.weight.dtype)
    layer.matrix_proj.bias.copy_(identity.flatten())
    assert layer.initial_memory is not None
    # S starts as the identity plus initial_memory; all columns but the one that is read start as zero
    layer.initial_memory[0] = -identity
    layer.initial_memory[0, plan.start, plan.start] = 0
    for channel, images in zip(plan.inputs, plan.maps, strict=True):
        layer.matrix_proj.weight[:, channel] = (identity[:, list(images)] - identity).flatten()  # column s is e_images[s]
    for state, channel in enumerate(plan.outputs):
        layer.out_proj.weight[channel, state * size + plan.start] = 1


def _set_delay(layer: Convolution, plan: Delay) -> None:
    width = layer.convolution.width
    for line, (source, target, lag) in enumerate(plan.lines):
        layer.in_proj.weight[line, source] = 1
        layer.convolution.weight[line, width - 1 - lag] = 1
        layer.out_proj.weight[target, line] = 1


def _set_table(mlp: GatedMLP, rows: tuple[Row, ...], threshold: float) -> None:
    """Set the weights of an MLP to a table: unit r is silu(threshold SETTLED) if all bits of row r match.

    Otherwise it is silu of a number ≤ 0, and adds nothing.
    """
    for r, row in enumerate(rows):
        mlp.gate_proj.weight[r, ALWAYS] = SETTLED * (threshold - sum(bit for _, bit in row.when))
        for channel, bit in row.when:
            mlp.gate_proj.weight[r, channel] += SETTLED * (2 * bit - 1)
        mlp.up_proj.weight[r, row.source] = 1 / (threshold * SETTLED)
        mlp.down_proj.weight[row.then, r] = row.weight


def _beta_logits(eigenvalues: EigenRange) -> dict[float, float]:
    """Return the logits at which b is exactly 0, 1 or 2, by the value of b."""
    return {0: -SETTLED, 1: 0.0, 2: SETTLED} if eigenvalues == WIDE else {0: -SETTLED, 1: SETTLED}


def _gate_logits(eigenvalues: EigenRange) -> dict[float, float]:
    """Return the logits at which the eigenvalue is exactly -1, 0 or 1, by the eigenvalue."""
    return {-1: -SETTLED, 0: 0.0, 1: SETTLED} if eigenvalues == WIDE else {0: -SETTLED, 1: SETTLED}


_SETTERS: dict[type, Any] = {
    Products: _set_products,
    Gates: _set_gates,
    FlipFlops: _set_flip_flops,
    ThresholdUnits: _set_threshold_units,
    Matrices: _set_matrices,
    Delay: _set_delay,
}
