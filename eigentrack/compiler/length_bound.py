"""A length bound for rotations, whose angles no float holds exactly: right on every word of at most N letters.

Only for the networks of `cyclic.py`: their matrices are rounded mirrors, their read-out is the m-gon, nothing else is rounded.
Let every step be followed by snapping the plane's vector to the nearest corner of the m-gon. The snapped system is finite:
closure proves that it answers like the automaton, and shows the largest error ε of one step, to which the rounding away from
the corners is added. A step is linear with norm at most 1 + η, so after N steps the true vector is within ε((1 + η)^N - 1)/η of
the snapped one. Corners j and j + d have logits 2 sin²(πd/m) apart, an error e costs 2 sin(πd/m) e of that, and the read-out
rounds by less than 5 units of the weights' precision a logit: right while e < s - 5u/s, s = sin(π/m).
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

# a factor on a vector h of the plane rounds k·h, b k (k·h) and the sum: 4 + 4 + 2 times u|h| an entry, and |b k k| ≤ 2
ROUNDINGS = 32


def length_bound(model: SequenceModel, dfa: DFA, alphabet: Alphabet, state_limit: int) -> tuple[Closure, int]:
    """The closure of the snapped network, and the number of letters up to which the real one follows it."""
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
    """The layer that turns a vector of the plane."""
    mixers = [block.mixer for block in model.blocks]
    planes = [layer for layer, mixer in enumerate(mixers) if isinstance(mixer, DeltaNet) and mixer.memory_shape[1:] == (2, 1)]
    if len(planes) != 1 or planes[0] != len(mixers) - 1:
        raise ValueError(
            "a length bound needs a network of rotations: its last layer, and no other, turns a vector of the plane"
        )
    return planes[0]


def _nearest_corner(memory: Tensor, corners: int) -> Tensor:
    """[..., 2, 1] → the corner of the polygon in the same direction."""
    x, y = memory.double().unbind(-2)
    turn = 2 * math.pi / corners
    angle = torch.round(torch.atan2(y, x) / turn) * turn
    return torch.stack([torch.cos(angle), torch.sin(angle)], -2).to(memory.dtype)
