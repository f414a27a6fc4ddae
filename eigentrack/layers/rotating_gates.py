"""Complex diagonal gates as real matrices: the eigenvalue r e^{2πi turn} is r R(turn) on a pair of channels.

In a disk, angles are affine in the input. At first a pair turns by its bias, and a token adds a little to it: the biases start
spread over a quarter of a turn, so that some pairs hardly turn and others do. r is the layer's own gate, one for each pair.

In a polygon, a pair's eigenvalue is the mean of the corners by softmax weights, whose logits are affine in the input. At first
the corner 1 has most of the weight, and a pair remembers.

Which of the two a layer builds follows from its set of eigenvalues by the table PROJECTIONS, which is open for other sets.

P pairs of channels  m corners
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import torch
from jaxtyping import Complex, Float
from torch import Tensor, nn
from torch.nn import functional as F

from eigentrack.ops.shared.dispatch import state_dtype
from eigentrack.ops.shared.rotation import rotation
from eigentrack.spectrum import EigenDisk, EigenPolygon, EigenRange, Eigenvalues

INITIAL_SCALE, INITIAL_SPREAD = 0.3, 0.25  # of the weights; of the biases, in turns
FIRST_WEIGHT = 0.93  # of the corner 1


class PreciseProjection(nn.Linear):
    """Computed in the state's precision: an error of an angle is never damped, it turns all that is remembered.

    So its weights stay float32 when a layer is cast to half precision: of 8 bits, a third of a turn would be off by 7·10⁻⁴."""

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> PreciseProjection:
        """What `to`, `bfloat16` and their kin do to every weight."""

        def keep_precision(weight: Tensor) -> Tensor:
            moved = fn(weight)
            return weight.to(moved.device, torch.float32) if moved.itemsize < 4 <= weight.itemsize else moved

        return super()._apply(keep_precision, recurse)

    def forward(self, x: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch outputs"]:
        dtype = state_dtype(x)
        with torch.autocast(x.device.type, enabled=False):
            return F.linear(x.to(dtype), self.weight.to(dtype)) + self.bias.to(dtype)


class AngleProjection(nn.Module):
    """A module that makes an angle, in turns, of every pair of channels, [B, T, d] → [B, T, P], beside the layer's own gate.

    It is built from the set of eigenvalues, the number of inputs and the number of pairs.
    """


class GateProjection(nn.Module):
    """A module that makes modulus and angle of every pair of channels, in place of the layer's gate; built like the other."""


class TurnProjection(PreciseProjection, AngleProjection):
    """The angles of a disk: affine in the input, one for every pair."""

    def __init__(self, eigenvalues: Eigenvalues, inputs: int, pairs: int) -> None:
        super().__init__(inputs, pairs)
        self.weight.data *= INITIAL_SCALE
        self.bias.data = INITIAL_SPREAD * ((torch.arange(pairs) + 0.5) / pairs - 0.5)


class CornerProjection(GateProjection):
    """Modulus and angle of every pair in a polygon.

    After `polygon.sharp_after` steps of training a pair takes the corner of the largest weight alone, and gradients pass as if
    it took the mean: a mean of neighbours can be tuned to any angle between them, which fits the training lengths and no more.
    `steps` is saved with the weights; `at_step`, which training calls, sets it.
    """

    steps: Tensor | None

    def __init__(self, polygon: EigenPolygon, inputs: int, pairs: int) -> None:
        super().__init__()
        self.polygon = polygon
        self.register_buffer("steps", None if polygon.sharp_after is None else torch.zeros((), dtype=torch.long))
        self.logits = PreciseProjection(inputs, pairs * polygon.corners)
        first = torch.zeros(pairs, polygon.corners)
        first[:, 0] = math.log(FIRST_WEIGHT / (1 - FIRST_WEIGHT) * (polygon.corners - 1))
        self.logits.bias.data = first.flatten()

    def forward(self, x: Float[Tensor, "*batch d"]) -> tuple[Float[Tensor, "*batch P"], Float[Tensor, "*batch P"]]:
        weights = self.logits(x).unflatten(-1, (-1, self.polygon.corners)).softmax(-1)
        if self.steps is not None and self.polygon.sharp_after is not None:
            corner = torch.zeros_like(weights).scatter_(-1, weights.argmax(-1, keepdim=True), 1.0)
            # chosen by a tensor, as a CUDA graph holds one way alone
            weights = weights + torch.where(self.steps >= self.polygon.sharp_after, corner - weights, 0.0).detach()
        return self.polygon.eigenvalue(weights)

    def at_step(self, number: int) -> None:
        if self.steps is not None:
            self.steps.fill_(number)


# set of eigenvalues → what makes complex gates of a layer's input; None where the gates are real, and the layer's own
PROJECTIONS: dict[type[Eigenvalues], type[AngleProjection | GateProjection] | None] = {
    EigenRange: None,
    EigenDisk: TurnProjection,
    EigenPolygon: CornerProjection,
}
Projection = TypeVar("Projection", AngleProjection, GateProjection, TurnProjection)


def can_serve(kinds: tuple[type[nn.Module], ...], eigenvalues: type[Eigenvalues]) -> bool:
    """Whether a layer that can use these kinds of projection, and real gates, can have its eigenvalues in such a set."""
    if eigenvalues not in PROJECTIONS:
        return False
    projection = PROJECTIONS[eigenvalues]
    return projection is None or issubclass(projection, kinds)


def optional_projection(
    kind: type[Projection], eigenvalues: Eigenvalues, inputs: int, groups: int, **channels: int
) -> Projection | None:
    """Build the projection that the set asks for, if it is of this kind. `channels`: how many a group has, by their name."""
    projection = PROJECTIONS[type(eigenvalues)]
    if projection is None or not issubclass(projection, kind):
        return None
    check_pairs(**channels)
    (count,) = channels.values()
    return projection(eigenvalues, inputs, groups * count // 2)


def check_pairs(**channels: int) -> None:
    for name, count in channels.items():
        if count % 2:
            raise ValueError(f"{name}={count} must be even: complex eigenvalues turn pairs of channels")


def gate_matrices(radial: Float[Tensor, "*batch n"], turns: Float[Tensor, "*batch n"] | None) -> Float[Tensor, "*batch m m"]:
    """diag(r), or with angles the blocks r R(turn)."""
    if turns is None:
        return torch.diag_embed(radial)
    cosine, sine = (radial * part for part in rotation(turns))
    blocks = torch.stack([torch.stack([cosine, -sine], -1), torch.stack([sine, cosine], -1)], -2)  # [..., P, 2, 2]
    identity = torch.eye(radial.shape[-1], dtype=radial.dtype, device=radial.device)
    return torch.einsum("...pij,pq->...piqj", blocks, identity).flatten(-2).flatten(-3, -2)


def gate_eigenvalues(
    radial: Float[Tensor, "*batch n"], turns: Float[Tensor, "*batch n"] | None
) -> Float[Tensor, "*batch n"] | Complex[Tensor, "*batch m"]:
    """Of `gate_matrices`; with angles, both of each conjugate pair."""
    if turns is None:
        return radial
    cosine, sine = (radial * part for part in rotation(turns))
    return torch.complex(torch.cat([cosine, cosine], -1), torch.cat([sine, -sine], -1))
