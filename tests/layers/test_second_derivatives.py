"""Second derivatives of whole layers: a gradient penalty is right for every layer, or the error says what has none."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

from eigentrack.layers import Mixer
from tests.layers.layer_cases import D_MODEL, LINEAR, OTHERS, build, case_name

STEP = 2.0**-13  # of a numerical derivative: much larger than 2⁻³², to which angles are rounded
EVERY = [
    *((name, {**options, "backend": backend}) for name, options in LINEAR for backend in ("reference", "chunked")),
    *((name, options) for name, options in OTHERS if name != "attention"),
]
SMOOTH = [(name, options) for name, options in EVERY if name != "pd_ssm"]
CHOOSING = [(name, options) for name, options in EVERY if name == "pd_ssm"]


@pytest.mark.parametrize(("name", "options"), SMOOTH, ids=case_name)
def test_a_gradient_penalty_is_right(name: str, options: dict[str, Any]) -> None:
    found, expected = slopes_of_a_penalty(build(name, options))
    assert found == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(("name", "options"), CHOOSING, ids=case_name)
def test_a_hard_choice_refuses_a_gradient_penalty(name: str, options: dict[str, Any]) -> None:
    with pytest.raises(NotImplementedError, match="the straight-through gradient of P has no second derivatives"):
        slopes_of_a_penalty(build(name, options))


def slopes_of_a_penalty(mixer: Mixer) -> tuple[float, float]:
    """The slope of |∂loss/∂x|² along a random direction in the input and in all parameters: by autograd, and numerically."""
    names, values = zip(*((name, value.detach()) for name, value in mixer.named_parameters()), strict=True)
    x, weight = torch.randn(2, 2, 6, D_MODEL, dtype=torch.float64).unbind()
    start = [x, *values]
    direction = [torch.randn_like(leaf) for leaf in start]

    def penalty(leaves: list[Tensor]) -> Tensor:
        x, *values = leaves
        y, _ = functional_call(mixer, dict(zip(names, values, strict=True)), (x,))
        (slope,) = torch.autograd.grad((y * weight).sum(), x, create_graph=True)
        return slope.square().sum()

    def at(steps: int) -> float:
        moved = [(leaf + steps * STEP * along).requires_grad_() for leaf, along in zip(start, direction, strict=True)]
        return float(penalty(moved).detach())

    leaves = [leaf.clone().requires_grad_() for leaf in start]
    gradients = torch.autograd.grad(penalty(leaves), leaves, allow_unused=True)
    slopes = ((g * along).sum() for g, along in zip(gradients, direction, strict=True) if g is not None)
    return float(sum(slopes)), (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * STEP)


def test_attention_has_them_by_plain_products_and_says_so_otherwise() -> None:
    mixer = build("attention", {"heads": 3})
    with pytest.raises(RuntimeError, match=r"derivative for aten::_scaled_dot_product_.*_backward is not implemented"):
        slopes_of_a_penalty(mixer)
    with sdpa_kernel(SDPBackend.MATH):
        found, expected = slopes_of_a_penalty(mixer)
    assert found == pytest.approx(expected, rel=1e-4)
