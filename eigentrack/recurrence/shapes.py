"""Shape checks for the public ops: every tensor is declared once as a pattern such as "B T H K"."""

from __future__ import annotations

from torch import Tensor


def check_shapes(op: str, **declared: tuple[Tensor | None, str]) -> dict[str, int]:
    """Binds the letters of all patterns, left to right, and returns them; None tensors are passed over."""
    sizes: dict[str, int] = {}
    for name, (tensor, pattern) in declared.items():
        if tensor is None:
            continue
        letters = pattern.split()
        shape = tuple(tensor.shape)
        here = dict(zip(letters, shape, strict=False)) | {a: int(a) for a in letters if a.isdigit()}
        if shape != tuple(sizes.get(a, here.get(a)) for a in letters):
            known = ", ".join(f"{a}={sizes[a]}" for a in letters if a in sizes)
            raise ValueError(
                f"{op}: {name} has shape {list(shape)}, expected [{', '.join(letters)}]" + (f" with {known}" if known else "")
            )
        if not tensor.is_floating_point():
            raise ValueError(f"{op}: {name} has dtype {tensor.dtype}, expected a floating-point tensor")
        sizes.update(here)
    return sizes
