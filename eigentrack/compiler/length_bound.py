"""A length bound for rotations with rounded angles: the network answers rightly on every word of at most N letters.

The bound is for the networks of `cyclic.py` only: their matrices are rounded reflections, their read-out is the m-gon, and
nothing else is rounded. Let every step be followed by snapping the vector of the plane to the nearest corner of the m-gon. The
snapped system is finite: closure proves that it answers like the automaton, and gives the largest error of one step; adding the
rounding at points other than corners gives ε. A step is linear with norm at most 1 + η, so after N steps the true vector is
within ε((1 + η)^N - 1)/η of the snapped one. The logits of corners j and j + d differ by 2 sin²(πd/m), an error e reduces this
by at most 2 sin(πd/m) e, and the read-out rounds each logit by less than 5 units u of the weights' precision. So the answer is
right while e < s - 5u/s, s = sin(π/m).
"""

from __future__ import annotations

import math
from typing import cast

import torch
from torch import Tensor

from eigentrack.automata import DFA
from eigentrack.compiler.chunk_bounds import InputRecord
from eigentrack.compiler.closure import Closure, explore
from eigentrack.compiler.plan import Alphabet
from eigentrack.layers import DeltaNet, MixerState
from eigentrack.models import SequenceModel
from eigentrack.models.sequence_model import ModelState
from eigentrack.ops.shared.dispatch import state_dtype

# applying a factor to a vector h of the plane rounds k·h, b k (k·h) and the sum: (4 + 4 + 2) u|h| per entry, and |b k k| ≤ 2
ROUNDINGS = 32


def length_bound(model: SequenceModel, dfa: DFA, alphabet: Alphabet, state_limit: int) -> tuple[Closure, int]:
    """Return the closure of the snapped network, and the number of letters up to which the real network agrees with it."""
    corners = dfa.states
    layer = _plane(model)
    mixer = cast(DeltaNet, model.blocks[layer].mixer)
    record, worst = InputRecord(model), 0.0

    def snapped_step(token: Tensor, state: ModelState | None) -> tuple[Tensor, ModelState]:
        nonlocal worst
        logits, after = model.step(token, state)
        layers = list(after.layers)
        (memory,) = layers[layer].memory
        snapped = _nearest_corner(memory, corners)
        worst = max(worst, float(torch.linalg.vector_norm((memory - snapped).double(), dim=-2).max()))
        layers[layer] = MixerState((snapped,), layers[layer].window)
        return logits, ModelState(tuple(layers))

    with torch.no_grad(), record:
        closure = explore(snapped_step, dfa, alphabet, state_limit)
        matrices = mixer.transitions(record.seen[layer][None]).double()
    rounding = ROUNDINGS * mixer.householders * torch.finfo(state_dtype(model.embedding.weight)).eps / 2
    error = worst + rounding
    growth = max(0.0, float(torch.linalg.matrix_norm(matrices, ord=2).max()) - 1) + rounding
    side = math.sin(math.pi / corners)
    room = side - 5 * torch.finfo(model.embedding.weight.dtype).eps / side
    if closure.counterexample is not None or room <= 0:
        return closure, 0
    return closure, int(math.log1p(growth * room / error) / math.log1p(growth))


def _plane(model: SequenceModel) -> int:
    """Return the number of the layer that rotates a vector of the plane."""
    mixers = [block.mixer for block in model.blocks]
    planes = [layer for layer, mixer in enumerate(mixers) if isinstance(mixer, DeltaNet) and mixer.memory_shape[1:] == (2, 1)]
    if len(planes) != 1 or planes[0] != len(mixers) - 1:
        raise ValueError(
            "a length bound needs a network of rotations: its last layer, and no other, turns a vector of the plane"
        )
    return planes[0]


def _nearest_corner(memory: Tensor, corners: int) -> Tensor:
    """Return the corner of the polygon nearest in direction to each vector, [..., 2, 1]."""
    x, y = memory.double().unbind(-2)
    turn = 2 * math.pi / corners
    angle = torch.round(torch.atan2(y, x) / turn) * turn
    return torch.stack([torch.cos(angle), torch.sin(angle)], -2).to(memory.dtype)
