"""Does a head of a network turn as addition modulo m does?

On d + d + d + … (or with minus) a linear layer multiplies its state, every two tokens, by one and the same matrix M. A head
that adds modulo m by turning has an eigenvalue of M that is a root of unity of order m, or of 2m where a sign flips besides;
±1 count nothing modulo m.

    error of a head = max over digits d ≠ 0 and both signs of  min |z - ω|,  z an eigenvalue of M,  ω^2m = 1,  ω² ≠ 1

At 0 it turns exactly, at every length. 0.05 is an angle that is 3 degrees off, or a state that loses 5 % with every term.

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

TERMS = 20  # after which a convolution, and what lower layers hold, repeats itself


@torch.no_grad()
def turning_error(model: SequenceModel, task: ModularArithmetic) -> float:
    """Of the head that turns best, in any layer."""
    words = repeated_terms(task.modulus)
    inputs = layer_inputs(model, words)
    errors = [
        head_errors(mixer.transitions(seen), task.modulus)
        for mixer, seen in zip((block.mixer for block in model.blocks), inputs, strict=True)
        if isinstance(mixer, LinearMixer)
    ]
    return min((float(found.min()) for found in errors), default=float("inf"))


def repeated_terms(modulus: int) -> Int[Tensor, "W T"]:
    """d ± d ± d …, for every digit but 0."""
    pairs = [(modulus + sign, digit) for sign in (PLUS, MINUS) for digit in range(1, modulus)]
    return torch.tensor([[digit, *(sign, digit) * TERMS] for sign, digit in pairs])


def head_errors(transitions: Tensor, modulus: int) -> Tensor:
    """[W T H n n] → [H], from what the last two tokens do."""
    last = transitions.double().cpu()
    values = torch.linalg.eigvals(last[:, -1] @ last[:, -2])  # [W, H, n]
    distances = (values[..., None] - useful_roots(modulus)).abs()
    return distances.flatten(2).amin(-1).amax(0)


def useful_roots(modulus: int) -> Complex[Tensor, " R"]:
    roots = [cmath.exp(1j * cmath.pi * k / modulus) for k in range(2 * modulus) if k % modulus]
    return torch.tensor(roots, dtype=torch.complex128)
