"""Shape checks for the public ops: every tensor is declared once as a pattern such as "B T H K"."""

from __future__ import annotations

from torch import Tensor

from eigentrack.ops.shared.packing import Packing


def check_shapes(op: str, **declared: tuple[Tensor | None, str]) -> dict[str, int]:
    """Bind the letters of all patterns to sizes, left to right, and return the sizes; tensors that are None are skipped.

    Raise a ValueError if a tensor does not fit its pattern or does not hold floating-point numbers.
    """
    sizes: dict[str, int] = {}
    for name, (tensor, pattern) in declared.items():
        if tensor is None:
            continue
        letters, shape, known = pattern.split(), tensor.shape, sizes.copy()
        if not pattern.replace(" ", "").isalpha():
            sizes |= {letter: int(letter) for letter in letters if letter.isdigit()}
        if len(letters) != len(shape) or tuple(map(sizes.setdefault, letters, shape)) != shape:
            bound = ", ".join(f"{letter}={size}" for letter, size in known.items() if letter in letters)
            raise ValueError(
                f"{op}: {name} has shape {list(shape)}, expected [{', '.join(letters)}]" + (f" with {bound}" if bound else "")
            )
        if not tensor.is_floating_point():
            raise ValueError(f"{op}: {name} has dtype {tensor.dtype}, expected a floating-point tensor")
    return sizes


def check_pairs(op: str, name: str, x: Tensor, turns: Tensor | None) -> None:
    """Raise if `turns` does not have one angle for every pair of the last axis of x."""
    if turns is not None and 2 * turns.shape[-1] != x.shape[-1]:
        raise ValueError(f"{op}: turns has {turns.shape[-1]} angles a token, and {name}={x.shape[-1]}: one a pair is needed")


def state_rows(packing: Packing | None) -> str:
    """Return the first axis of a state in a pattern: one row for each of the batch, or for each packed sequence."""
    return "B" if packing is None else f"{packing.sequences}"


def gate_pattern(gate: Tensor | None, turns: Tensor | None = None) -> str:
    """Return the pattern of a gate: one entry per head, per key channel, or, with `turns`, per pair of channels."""
    if gate is None or gate.ndim == 3:
        return "B T H"
    return "B T H K" if turns is None else "B T H P"
