"""Geometry of the states: the joint states of a network, labelled by the machine's state, at growing lengths.

    gap     the smallest distance between joint states with different labels
    radius  the largest distance of a joint state from the mean of its label
    margin  the smallest lead of the right logit over the next

In the terms of metric automata theory a network is safe while the labels' components stay apart: if the gap shrinks, or the
radius grows towards the gap, the network will fail. A label may hold several components, so a large radius alone is no fault.

B rows  D numbers of a joint state
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from eigentrack.analysis.inspected_network import InspectedNetwork, require_fixed_size, state_vector
from eigentrack.compiler.closure import answer_margins
from eigentrack.tasks.counter_random import derived_seed

LOOKS = 8  # successive letters whose states are measured together
PIECE = 256  # letters that are read at once between two measurements


@dataclass(frozen=True)
class Geometry:
    """Distances of the labelled joint states after `length` letters, and the margin of the answers."""

    length: int
    labels: int  # how many labels were seen
    gap: float  # 0 if only one label was seen
    radius: float
    diameter: float  # the largest distance between two joint states
    margin: float


@torch.no_grad()
def state_geometry(
    network: InspectedNetwork, longest: int, *, rows: int = 64, seed: int, progress: Callable[[int], None] | None = None
) -> tuple[Geometry, ...]:
    """Measure the geometry of the joint states on random words, at the lengths 8, 16, 32 … up to `longest`.

    Args:
        network: the network and the machine that it should be.
        longest: the most letters that are read of a word.
        rows: the number of words.
        seed: of the words.
        progress: called with each length after it was measured; None: nobody is told.
    """
    require_fixed_size(network.model)
    if longest < LOOKS:
        raise ValueError(f"longest={longest} must be at least {LOOKS}")
    start, seed = torch.full((rows,), network.machine.start), derived_seed(seed, "geometry")
    _, state = network.begin(rows)
    found: list[Geometry] = []
    done = step = 0
    while True:
        target = LOOKS * 2 ** len(found)
        if target > longest:
            return tuple(found)
        while (count := min(PIECE, target - LOOKS - done)) > 0:
            letters, states = network.walk(start, count, seed, step)
            _, state = network.read(letters.to(network.device), state)
            start, done, step = states[:, -1], done + count, step + 1
        letters, states = network.walk(start, LOOKS, seed, step)
        start, done, step = states[:, -1], done + LOOKS, step + 1
        vectors, margins = [], []
        for letter, after in zip(letters.unbind(1), states[:, 1:].unbind(1), strict=True):
            logits, state = network.step(letter.to(network.device), state)
            vectors.append(state_vector(state).cpu())
            margins.append(float(answer_margins(logits.cpu(), torch.tensor(network.machine.outputs)[after]).min()))
        found.append(_geometry(target, torch.cat(vectors), states[:, 1:].T.flatten(), min(margins)))
        if progress is not None:
            progress(target)


def merging_time(diameter: float, gap: float, noise: float) -> int:
    """Return after how many letters a linear recurrence that tolerates this noise on all words has merged all its components.

    With D the convex hull of all differences of states, M the diameter and ε the noise, A D + ball(2ε) ⊆ D. As D ⊆ ball(M),
    A D + (2ε/M) D ⊆ D, hence A D ⊆ (1 - 2ε/M) D: every distance is below the gap δ after (M/2ε) ln(M/δ) letters.
    """
    if not 0 < gap <= diameter or noise <= 0:
        raise ValueError(f"gap={gap:g} must lie between 0 and diameter={diameter:g}, and noise={noise:g} above 0")
    return max(1, math.ceil(diameter / (2 * noise) * math.log(diameter / gap)))


def _geometry(length: int, vectors: Float[Tensor, "B D"], labels: Int[Tensor, " B"], margin: float) -> Geometry:
    distances = torch.cdist(vectors, vectors, compute_mode="donot_use_mm_for_euclid_dist")
    differs = labels[:, None] != labels
    present = labels.unique().tolist()
    means = [vectors[labels == label].mean(0) for label in present]
    radius = max(
        float(torch.linalg.vector_norm(vectors[labels == label] - mean, dim=1).max())
        for label, mean in zip(present, means, strict=True)
    )
    gap = float(distances[differs].min()) if bool(differs.any()) else 0.0
    return Geometry(length, len(present), gap, radius, float(distances.max()), margin)
