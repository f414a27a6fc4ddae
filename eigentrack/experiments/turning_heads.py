"""Does a head of a network turn as addition modulo m does?

On d + d + d + … (or with minus) every term multiplies the state of a linear layer by a matrix M. A head that adds modulo m by
turning has an eigenvalue of M at the angle 2πkd/m, with one k for all digits, perhaps with a sign besides:

    error of a head = min over k  max over digits d ≠ 0, both signs, and the last m terms  min |z ∓ e^{2πikd/m}|

over the eigenvalues z of M. 0.05 is an angle that is 3 degrees off, or a state that loses 5 % with every term. Real eigenvalues
alone come no nearer than sin 72° = 0.95 for m = 5. A small error is necessary for counting so, not sufficient: the planes in
which different digits turn may differ.

W words  T time  H heads  n state size
"""

from __future__ import annotations

import cmath

import torch
from jaxtyping import Complex, Int
from torch import Tensor

from eigentrack.analysis.spectra import layer_inputs
from eigentrack.layers.mixer import LinearMixer
from eigentrack.models import SequenceModel
from eigentrack.tasks.modular_arithmetic import MINUS, PLUS, ModularArithmetic

TERMS = 20  # after which a convolution repeats itself; what lower layers hold may go round with the sum, every m terms


@torch.no_grad()
def turning_error(model: SequenceModel, task: ModularArithmetic) -> float:
    """Of the head that turns best, in any layer."""
    inputs = layer_inputs(model, repeated_terms(task.modulus))
    errors = [
        head_errors(mixer.transitions(seen), task.modulus)
        for mixer, seen in zip((block.mixer for block in model.blocks), inputs, strict=True)
        if isinstance(mixer, LinearMixer)
    ]
    return min((float(found.min()) for found in errors), default=float("inf"))


def repeated_terms(modulus: int) -> Int[Tensor, "W T"]:
    """d ± d ± d …, for every digit but 0, first with plus."""
    pairs = [(modulus + sign, digit) for sign in (PLUS, MINUS) for digit in range(1, modulus)]
    return torch.tensor([[digit, *(sign, digit) * TERMS] for sign, digit in pairs])


def head_errors(transitions: Tensor, modulus: int) -> Tensor:
    """[W T H n n] of `repeated_terms` → [H]."""
    matrices = transitions[:, -2 * modulus :].double().cpu()
    values = torch.linalg.eigvals(matrices[:, 1::2] @ matrices[:, ::2])  # [W, terms, H, n]; a term is a sign and a digit
    by_k = []
    for k in range(1, modulus // 2 + 1):  # eigenvalues come in conjugate pairs, so that -k is k
        wanted = angles(k, modulus)[:, None, None, None]
        near = torch.minimum((values - wanted).abs(), (values + wanted).abs()).amin(-1)
        by_k.append(near.amax((0, 1)))
    return torch.stack(by_k).amin(0)


def angles(k: int, modulus: int) -> Complex[Tensor, " W"]:
    """e^{2πikd/m}, for the digits of `repeated_terms`; with minus it is the conjugate, which is an eigenvalue as well."""
    once = [cmath.exp(2j * cmath.pi * k * digit / modulus) for digit in range(1, modulus)]
    return torch.tensor(2 * once, dtype=torch.complex128)
