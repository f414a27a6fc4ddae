"""Complex diagonal gates as real matrices: the eigenvalue r e^{2πi turn} is r R(turn) on a pair of channels.

In a disk, angles are affine in the input, and r is the layer's own gate, one per pair. The biases start spread over a quarter
of a turn, so that some pairs rotate and others hardly do; the weights start small, so that the input changes angles little.

In a polygon, the eigenvalue of a pair is the mean of the corners by softmax weights, whose logits are affine in the input. At
first the corner 1 has most of the weight, so that a pair remembers.

The table PROJECTIONS says which projection a set of eigenvalues needs; other sets can be added to it.

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

from eigentrack.ops.shared.dispatch import state_dtype, without_autocast
from eigentrack.ops.shared.rotation import rotation
from eigentrack.spectrum import EigenDisk, EigenPolygon, EigenRange, Eigenvalues

INITIAL_SCALE, INITIAL_SPREAD = 0.3, 0.25  # a factor for the initial weights; the range of the initial biases, in turns
FIRST_WEIGHT = 0.93  # the initial softmax weight of the corner 1


class PreciseProjection(nn.Linear):
    """A linear projection that is computed in the state's precision, as errors of angles are never damped.

    Its weights stay in float32 when a layer is cast to half precision: with 8 bits, a third of a turn would be off by 7·10⁻⁴.
    """

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> PreciseProjection:
        """Apply `fn` to every weight, as `to` and `bfloat16` do, but keep float32 where it would give half precision."""

        def keep_precision(weight: Tensor) -> Tensor:
            moved = fn(weight)
            return weight.to(moved.device, torch.float32) if moved.itemsize < 4 <= weight.itemsize else moved

        return super()._apply(keep_precision, recurse)

    def forward(self, x: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch outputs"]:
        dtype = state_dtype(x)
        with without_autocast(x):
            return F.linear(x.to(dtype), self.weight.to(dtype)) + self.bias.to(dtype)


class AngleProjection(nn.Module):
    """A module that computes the angle of every pair of channels, in turns: [B, T, d] → [B, T, P].

    The modulus is the layer's own gate. The constructor takes the set of eigenvalues, the number of inputs and the
    number of pairs.
    """


class GateProjection(nn.Module):
    """A module that computes modulus and angle of every pair of channels, and so replaces the layer's gate.

    Its constructor takes the same arguments as that of an AngleProjection.
    """


class TurnProjection(PreciseProjection, AngleProjection):
    """A projection to the angles of a disk, which are affine in the input."""

    def __init__(self, eigenvalues: Eigenvalues, inputs: int, pairs: int) -> None:
        super().__init__(inputs, pairs)
        self.weight.data *= INITIAL_SCALE
        self.bias.data = INITIAL_SPREAD * ((torch.arange(pairs) + 0.5) / pairs - 0.5)


class CornerProjection(GateProjection):
    """A projection to modulus and angle of every pair in a polygon.

    After `polygon.sharp_after` steps of training, the eigenvalue is the corner of the largest weight, while gradients are still
    those of the mean (straight-through): a mean of neighbouring corners can have any angle between them, which may fit the
    training lengths and fail beyond. `steps` is saved with the weights; training sets it through `at_step`.
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
            # torch.where on a tensor, as a CUDA graph cannot contain a branch in Python
            weights = weights + torch.where(self.steps >= self.polygon.sharp_after, corner - weights, 0.0).detach()
        return self.polygon.eigenvalue(weights)

    def at_step(self, number: int) -> None:
        """Set the number of the current training step."""
        if self.steps is not None:
            self.steps.fill_(number)


# set of eigenvalues → the projection from a layer's input to complex gates; None: the layer has real gates of its own
PROJECTIONS: dict[type[Eigenvalues], type[AngleProjection | GateProjection] | None] = {
    EigenRange: None,
    EigenDisk: TurnProjection,
    EigenPolygon: CornerProjection,
}
Projection = TypeVar("Projection", AngleProjection, GateProjection, TurnProjection)


def can_serve(kinds: tuple[type[nn.Module], ...], eigenvalues: type[Eigenvalues]) -> bool:
    """Return whether a layer that supports real gates and these `kinds` of projections supports this kind of set."""
    if eigenvalues not in PROJECTIONS:
        return False
    projection = PROJECTIONS[eigenvalues]
    return projection is None or issubclass(projection, kinds)


def optional_projection(
    kind: type[Projection], eigenvalues: Eigenvalues, inputs: int, groups: int, **channels: int
) -> Projection | None:
    """Return the projection that the set of eigenvalues needs if it is of this `kind`, else None.

    `channels` is the number of channels per group, as one keyword argument whose name appears in error messages.
    """
    projection = PROJECTIONS[type(eigenvalues)]
    if projection is None or not issubclass(projection, kind):
        return None
    check_pairs(**channels)
    (count,) = channels.values()
    return projection(eigenvalues, inputs, groups * count // 2)


def check_pairs(**channels: int) -> None:
    """Raise if a number of channels is odd; the keyword is its name in the error."""
    for name, count in channels.items():
        if count % 2:
            raise ValueError(f"{name}={count} must be even: complex eigenvalues turn pairs of channels")


def gate_matrices(radial: Float[Tensor, "*batch n"], turns: Float[Tensor, "*batch n"] | None) -> Float[Tensor, "*batch m m"]:
    """Return the matrices diag(r), or with angles the block-diagonal matrices of r R(turn)."""
    if turns is None:
        return torch.diag_embed(radial)
    cosine, sine = (radial * part for part in rotation(turns))
    blocks = torch.stack([torch.stack([cosine, -sine], -1), torch.stack([sine, cosine], -1)], -2)  # [..., P, 2, 2]
    identity = torch.eye(radial.shape[-1], dtype=radial.dtype, device=radial.device)
    return torch.einsum("...pij,pq->...piqj", blocks, identity).flatten(-2).flatten(-3, -2)


def gate_eigenvalues(
    radial: Float[Tensor, "*batch n"], turns: Float[Tensor, "*batch n"] | None
) -> Float[Tensor, "*batch n"] | Complex[Tensor, "*batch m"]:
    """Return the eigenvalues of `gate_matrices`; with angles, both of each conjugate pair."""
    if turns is None:
        return radial
    cosine, sine = (radial * part for part in rotation(turns))
    return torch.complex(torch.cat([cosine, cosine], -1), torch.cat([sine, -sine], -1))
