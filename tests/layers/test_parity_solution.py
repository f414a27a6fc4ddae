"""The paper's parity solution is right at length 100,000: on every backend, by steps, in pieces, in float32 and bfloat16."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch

from tests.layers.parity_solution import SOLUTIONS, build_solution, embed, odd

LENGTH = 100_000
every_solution = pytest.mark.parametrize("name", SOLUTIONS)
every_dtype = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)


def bits_and_answers(length: int = LENGTH) -> tuple[torch.Tensor, torch.Tensor]:
    bits = torch.randint(2, (1, length))
    return bits, bits.cumsum(1) % 2


@torch.no_grad()
@pytest.mark.parametrize("backend", [pytest.param("reference", marks=pytest.mark.slow), "chunked"])
@every_dtype
@every_solution
def test_right_at_every_position(name: str, dtype: torch.dtype, backend: str) -> None:
    bits, answers = bits_and_answers()
    y, _ = build_solution(name, dtype, backend)(embed(bits, dtype))
    assert torch.equal(odd(y), answers)


@torch.no_grad()
@every_dtype
@every_solution
def test_right_in_pieces(name: str, dtype: torch.dtype) -> None:
    bits, answers = bits_and_answers(20_000)
    layer, state, outputs = build_solution(name, dtype), None, []
    for first, last in pairwise([0, 1, 63, 64, 6_001, 15_555, 20_000]):
        y, state = layer(embed(bits[:, first:last], dtype), state)
        outputs.append(odd(y))
    assert torch.equal(torch.cat(outputs, 1), answers)


@torch.no_grad()
@every_dtype
@every_solution
def test_right_by_steps_after_a_long_prefix(name: str, dtype: torch.dtype) -> None:
    bits, answers = bits_and_answers(20_000)
    layer, tail = build_solution(name, dtype), 1000
    _, state = layer(embed(bits[:, :-tail], dtype))
    for bit, answer in zip(bits[0, -tail:], answers[0, -tail:], strict=True):
        y, state = layer.step(embed(bit.view(1, 1), dtype)[:, 0], state)
        assert odd(y) == answer


@pytest.mark.slow
@torch.no_grad()
@every_dtype
@every_solution
def test_right_by_steps_alone(name: str, dtype: torch.dtype) -> None:
    bits, answers = bits_and_answers()
    layer, state = build_solution(name, dtype), None
    inputs = embed(bits, dtype)[0]
    for t in range(LENGTH):
        y, state = layer.step(inputs[t : t + 1], state)
        assert odd(y) == answers[0, t]


@torch.no_grad()
@every_solution
def test_the_narrow_twin_of_the_same_weights_fails(name: str) -> None:
    """The check can fail: with the same weights in [0, 1] the memory cannot flip."""
    from eigentrack.spectrum import EigenRange

    layer = build_solution(name, torch.float32)
    layer.eigenvalues = EigenRange(0, 1)  # type: ignore[assignment]
    bits, answers = bits_and_answers(1000)
    y, _ = layer(embed(bits, torch.float32))
    assert (odd(y) == answers).float().mean() < 0.8
