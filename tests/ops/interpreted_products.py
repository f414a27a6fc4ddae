"""Matrix products of Triton's interpreter that are the same on every processor.

The interpreter multiplies with numpy's BLAS, whose kernels add in another order on each processor: on one of them the
error of the delta rule at nearly equal keys is eight times that on another. Here one float32 term after the other is added.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from triton.runtime import interpreter


def add_terms_in_order() -> None:
    interpreter.InterpreterBuilder.create_dot = _dot


def _dot(_builder: Any, a: Any, b: Any, start: Any, _precision: Any, _most_imprecise: Any) -> Any:
    product = np.zeros_like(start.data)
    for column, row in zip(np.moveaxis(a.data, -1, 0), np.moveaxis(b.data, -2, 0), strict=True):
        product += column[..., :, None] * row[..., None, :]
    return interpreter.TensorHandle(product + start.data, start.dtype.scalar)
