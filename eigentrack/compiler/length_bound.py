"""A length bound for rotations, whose angles no float holds exactly: right on every word of at most N letters.

Let every step be followed by snapping the plane's vector to the nearest corner of the m-gon. The snapped system is finite:
closure proves that it answers like the automaton, and shows the largest error ε of one step, to which the rounding away from
the corners is added. Steps are linear with norm at most 1 + η, η = 2ε, so after N steps the true vector is within
ε((1 + η)^N - 1)/η of the snapped one. The answer is right as long as that stays below sin(π/m)/2, half of what separates two
corners; the other half pays for the rounding of the read-out.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from eigentrack.automata import DFA
from eigentrack.compiler.closure import Alphabet, Closure, explore
from eigentrack.layers import DeltaNet, MixerState
from eigentrack.models import SequenceModel
from eigentrack.models.sequence_model import ModelState
from eigentrack.recurrence.dispatch import state_dtype

ROUNDINGS = 32  # an upper bound on the roundings of one factor in the plane, in units of the state's precision


def length_bound(model: SequenceModel, dfa: DFA, alphabet: Alphabet, state_limit: int) -> tuple[Closure, int]:
    """The closure of the snapped network, and the number of letters up to which the real one follows it."""
    corners = dfa.states
    planes = [
        layer for layer, block in enumerate(model.blocks) if isinstance(block.mixer, DeltaNet) and block.mixer.key_dim == 2
    ]
    worst = 0.0

    def snapped_step(token: Tensor, state: ModelState | None) -> tuple[Tensor, ModelState]:
        nonlocal worst
        logits, after = model.step(token, state)
        layers = list(after.layers)
        for layer in planes:
            (memory,) = layers[layer].memory
            snapped = _nearest_corner(memory, corners)
            worst = max(worst, float(torch.linalg.vector_norm((memory - snapped).double(), dim=-2).max()))
            layers[layer] = MixerState((snapped,), layers[layer].window)
        return logits, ModelState(tuple(layers))

    with torch.no_grad():
        closure = explore(snapped_step, dfa, alphabet, state_limit)
    factors = sum(block.mixer.householders for block in model.blocks if isinstance(block.mixer, DeltaNet))
    error = worst + ROUNDINGS * factors * torch.finfo(state_dtype(model.embedding.weight)).eps / 2
    room = math.sin(math.pi / corners) / 2 - 4 * torch.finfo(model.embedding.weight.dtype).eps
    if closure.counterexample is not None or room <= 0:
        return closure, 0
    growth = 2 * error
    return closure, int(math.log1p(growth * room / error) / math.log1p(growth))


def _nearest_corner(memory: Tensor, corners: int) -> Tensor:
    """[..., 2, 1] → the corner of the polygon in the same direction."""
    x, y = memory.double().unbind(-2)
    turn = 2 * math.pi / corners
    angle = torch.round(torch.atan2(y, x) / turn) * turn
    return torch.stack([torch.cos(angle), torch.sin(angle)], -2).to(memory.dtype)
