"""One measure of closeness, ‖ours - reference‖ / ‖reference‖, and one table of what each precision allows."""

from __future__ import annotations

import torch
from torch import Tensor

TOLERANCE = {torch.float64: 1e-10, torch.float32: 2e-5, torch.bfloat16: 1e-2}
# between our layers and a peer's with the same weights: the largest difference, as a share of the largest entry
TWIN_TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}
# of a kernel that is compared with plain torch: below this, errors say nothing but in which order sums were rounded. Three
# roundings of a result to bfloat16; in float32 a GPU makes a product of three TF32 terms, of sums with hundreds of entries
KERNEL_FLOOR = {torch.float32: 5e-6, torch.bfloat16: 5e-3}
# of what was computed in float32 and rounded to bfloat16 once: any entry, and the norm of them all, in which roundings differ
ONE_ROUNDING, ONE_ROUNDING_OF_ALL = 2**-8, 2**-9


def relative_error(ours: Tensor, reference: Tensor) -> float:
    ours, reference = ours.detach().double(), reference.detach().double()
    assert ours.shape == reference.shape, (ours.shape, reference.shape)
    # inputs are of order 1: what is smaller than this is a zero with rounding errors
    error = (ours - reference).norm() / reference.norm().clamp_min(1e-4)
    return float(error)  # a NaN stays a NaN, and fails every comparison


def assert_close(ours: Tensor, reference: Tensor, name: str = "tensor", dtype: torch.dtype | None = None) -> None:
    error, allowed = relative_error(ours, reference), TOLERANCE[dtype or ours.dtype]
    assert error <= allowed, f"{name}: relative error {error:.2e} > {allowed:.0e}"
