"""Noise: how large an error ε in every step a network bears, by trial for a while, and by proof for ever.

By trial: after every letter the joint state is moved by ε in a random direction, until an answer is wrong.

The largest ε at which nothing is misread is found by bisection over powers of two; every trial draws its words and directions
from the same seed. A trial is a sample: a cleverer noise may do harm below it, so this is an upper bound of the true ε.

By proof: non-linear layers are asked by boxes. These widen in every layer and norm, so a trained network is decided only if it
is small and saturates. Linear layers bear no ε > 0 unless the last few letters decide the answer (dynamics.py).

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
HALVINGS = 8  # of the interval between them: the answer is within 7 %


@dataclass(frozen=True)
class NoiseTolerance:
    """`noise` is 0 where even the smallest tried is too much, or the network errs by itself within the letters.

    Where the state is forgotten at once nothing is ever too much, and it is near the largest that was tried.
    """

    letters: int
    rows: int
    seed: int
    noise: float
    state_norm: float  # the mean |joint state|, to measure the noise by

    @property
    def relative(self) -> float:
        return self.noise / self.state_norm if self.state_norm else 0.0


@torch.no_grad()
def noise_tolerance(network: InspectedNetwork, letters: int, *, rows: int = 32, seed: int) -> NoiseTolerance:
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
    """Is any answer wrong? And the mean norm of the joint states, before any is."""
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
    """`epsilon` is None where it was not decided, and 0 where no error is borne for ever; `reason` says why."""

    epsilon: float | None
    reason: str


def certified_noise(network: InspectedNetwork) -> CertifiedNoise:
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
    """A box of joint states, or several, for every state of the machine that the network should be.

    The answer after the opening's last token, which is that to the empty word, must be certain, too.
    """
    if network.tokens_per_letter != 1:
        raise ValueError("boxes are found for networks that read one token a letter")
    machine, tokens = network.machine, [token for (token,) in network.spelling]
    begun = boxed_start(network.model, network.opening, tokens, machine.outputs, machine.start, epsilon, machine.classes)
    return begun if isinstance(begun, Undecided) else begun.boxes(machine.start, machine.transitions, epsilon, MOST_BOXES)
