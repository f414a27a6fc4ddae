"""Noise: the largest error ε per step that a network tolerates, by trial on words of some length, or by proof on all words.

By trial: after every letter the joint state is moved by ε in a random direction, until an answer is wrong.

Bisection over powers of two finds the largest ε at which every answer is right; every trial draws its words and directions
from the same seed. A trial is a sample: a worse direction may do harm at a smaller ε, so this is an upper bound of the true ε.

By proof: non-linear layers are decided by boxes. These widen in every layer and norm, so that a trained network is decided only
if it is small and saturates. Linear layers tolerate no ε > 0 unless the last few letters decide the answer (dynamics.py).

B rows  D numbers of a joint state
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from eigentrack.analysis.dynamics import no_linear_robustness
from eigentrack.analysis.inspected_network import InspectedNetwork, model_mixers, require_fixed_size, shifted, state_vector
from eigentrack.analysis.moore_machine import minimal_machine
from eigentrack.compiler.boxes import BoxCertificate, Undecided
from eigentrack.compiler.robustness import boxed_start, largest_proved
from eigentrack.layers import Convolution, LinearMixer
from eigentrack.tasks.counter_random import derived_seed

SMALLEST, LARGEST = -16, 8  # powers of two that are tried, in units of the mean |joint state|
HALVINGS = 8  # bisections of the interval between these powers: the result is within 7 %


@dataclass(frozen=True)
class NoiseTolerance:
    """The largest noise per letter at which every answer was right in a trial.

    `noise` is 0 if the smallest noise that was tried is too much, or if the network errs without noise. For a network that
    forgets its state at once no noise is too much, and `noise` is near the largest that was tried.
    """

    letters: int
    rows: int  # words that were tried
    seed: int
    noise: float
    state_norm: float  # the mean |joint state|, the unit of `relative`; too small if the network errs without noise

    @property
    def relative(self) -> float:
        return self.noise / self.state_norm if self.state_norm else 0.0


@torch.no_grad()
def noise_tolerance(network: InspectedNetwork, letters: int, *, rows: int = 32, seed: int) -> NoiseTolerance:
    """Return the largest noise per letter that a network tolerates, by trial.

    Args:
        network: the network and the machine that it should be.
        letters: the length of the words.
        rows: the number of words.
        seed: of the words and the directions.
    """
    require_fixed_size(network.model)
    if letters < 1:
        raise ValueError(f"letters={letters} must be at least 1")
    misread, norm = _trial(network, letters, 0.0, rows, seed)
    low, high, noise = float(SMALLEST), float(LARGEST), 0.0
    for _ in range(0 if misread else HALVINGS):
        middle = (low + high) / 2
        misread, _ = _trial(network, letters, norm * 2**middle, rows, seed)
        low, high, noise = (low, middle, noise) if misread else (middle, high, norm * 2**middle)
    return NoiseTolerance(letters, rows, seed, noise, norm)


def _trial(network: InspectedNetwork, letters: int, noise: float, rows: int, seed: int) -> tuple[bool, float]:
    """Return whether any answer is wrong, and the mean norm of the joint states (too small if an answer is wrong)."""
    generator = torch.Generator().manual_seed(derived_seed(seed, "noise") % 2**63)
    answers = torch.tensor(network.machine.outputs)
    word, states = network.walk(torch.full((rows,), network.machine.start), letters, derived_seed(seed, "noisy words"), 0)
    _, state = network.begin(rows)
    norm = 0.0
    for t in range(letters):
        logits, state = network.step(word[:, t].to(network.device), state)
        if bool((logits.argmax(-1).cpu() != answers[states[:, t + 1]]).any()):
            return True, norm
        vector = state_vector(state)
        norm += float(torch.linalg.vector_norm(vector, dim=1).mean()) / letters
        direction = torch.randn(vector.shape, generator=generator, dtype=torch.float64).to(vector.device)
        state = shifted(state, noise * torch.nn.functional.normalize(direction, dim=1))
    return False, norm


MOST_BOXES = 1000


@dataclass(frozen=True)
class CertifiedNoise:
    """The largest error after every letter that provably changes no answer on any word."""

    epsilon: float | None  # None if undecided, 0 if no error is tolerated on all words
    reason: str


def certified_noise(network: InspectedNetwork) -> CertifiedNoise:
    """Return the largest error that the `network` provably tolerates on words of every length."""
    if all(isinstance(mixer, (LinearMixer, Convolution)) for mixer in model_mixers(network.model)):
        machine = minimal_machine(network.machine)
        reason = no_linear_robustness(machine.transitions, machine.letters)
        return CertifiedNoise(0.0, reason) if reason else CertifiedNoise(None, "the last few letters decide: it may bear some")
    try:
        found = largest_proved(lambda epsilon: proved_boxes(network, epsilon))
    except ValueError as obstacle:
        return CertifiedNoise(None, str(obstacle))
    if isinstance(found, BoxCertificate):
        return CertifiedNoise(found.epsilon, f"proved by {len(found.labels)} boxes")
    return CertifiedNoise(None, str(found))


def proved_boxes(network: InspectedNetwork, epsilon: float) -> BoxCertificate | Undecided:
    """Return one or more boxes of joint states for every state of the machine, which prove ε-robustness, or why there are none.

    The answer to the empty word, which comes after the last opening token, must be certain, too.
    """
    if network.tokens_per_letter != 1:
        raise ValueError("boxes are found for networks that read one token a letter")
    machine, tokens = network.machine, [token for (token,) in network.spelling]
    begun = boxed_start(network.model, network.opening, tokens, machine.outputs, machine.start, epsilon, machine.classes)
    return begun if isinstance(begun, Undecided) else begun.boxes(machine.start, machine.transitions, epsilon, MOST_BOXES)
