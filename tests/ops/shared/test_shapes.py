"""check_shapes against its definition: equal letters have equal sizes, and a digit is its own size."""

from __future__ import annotations

import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from eigentrack.ops.shared.shapes import check_shapes

DECLARED = st.lists(
    st.tuples(st.lists(st.integers(1, 3), max_size=3), st.lists(st.sampled_from(["B", "T", "2"]), max_size=3)), max_size=3
)


@given(DECLARED)
def test_letters_bind_sizes(declared: list[tuple[list[int], list[str]]]) -> None:
    pairs = [pair for shape, letters in declared for pair in zip(letters, shape, strict=False)] + [("2", 2)]
    one_size_a_letter = all(size == other for letter, size in pairs for same, other in pairs if letter == same)
    fits = one_size_a_letter and all(len(shape) == len(letters) for shape, letters in declared)
    tensors = {f"x{i}": (torch.zeros(shape), " ".join(letters)) for i, (shape, letters) in enumerate(declared)}
    try:
        sizes = check_shapes("op", **tensors)
    except ValueError:
        assert not fits
    else:
        assert fits
        assert sizes == {letter: size for shape, letters in declared for letter, size in zip(letters, shape, strict=True)}


@pytest.mark.parametrize(
    ("shape", "pattern", "message"),
    [
        ((3, 5), "T 2", "op: y has shape [3, 5], expected [T, 2] with T=3"),
        ((3, 4), "T T", "op: y has shape [3, 4], expected [T, T] with T=3"),
        ((4, 5), "K K", "op: y has shape [4, 5], expected [K, K]"),
        ((3,), "T K", "op: y has shape [3], expected [T, K] with T=3"),
        ((3, 1, 1), "T K", "op: y has shape [3, 1, 1], expected [T, K] with T=3"),
    ],
)
def test_the_error_names_what_was_bound_before(shape: tuple[int, ...], pattern: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message) + "$"):
        check_shapes("op", x=(torch.zeros(3), "T"), nothing=(None, "K"), y=(torch.zeros(shape), pattern))
