"""Noise: after every letter the joint state is moved by ε in a random direction. How large may ε be before an answer is wrong?

The largest ε at which nothing is misread is found by bisection over powers of two; every trial draws its words and directions
from the same seed. A trial is a sample: a cleverer noise may do harm below it, so this is an upper bound of the true ε.

B rows  D numbers of a joint state
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from eigentrack.analysis.joint_state import require_fixed_size, shifted, state_vector
from eigentrack.analysis.subject import Subject
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
def noise_tolerance(subject: Subject, letters: int, *, rows: int = 32, seed: int) -> NoiseTolerance:
    require_fixed_size(subject.model)
    if letters < 1:
        raise ValueError(f"letters={letters} must be at least 1")
    misread, norm = _trial(subject, letters, 0.0, rows, seed)
    low, high, noise = float(SMALLEST), float(LARGEST), 0.0
    for _ in range(0 if misread else HALVINGS):
        middle = (low + high) / 2
        misread, _ = _trial(subject, letters, norm * 2**middle, rows, seed)
        low, high, noise = (low, middle, noise) if misread else (middle, high, norm * 2**middle)
    return NoiseTolerance(letters, rows, seed, noise, norm)


def _trial(subject: Subject, letters: int, noise: float, rows: int, seed: int) -> tuple[bool, float]:
    """Is any answer wrong? And the mean norm of the joint states, before any is."""
    generator = torch.Generator().manual_seed(derived_seed(seed, "noise") % 2**63)
    answers = torch.tensor(subject.machine.outputs)
    word, states = subject.walk(torch.full((rows,), subject.machine.start), letters, derived_seed(seed, "noisy words"), 0)
    _, state = subject.begin(rows)
    norm = 0.0
    for t in range(letters):
        logits, state = subject.step(word[:, t].to(subject.device), state)
        if bool((logits.argmax(-1).cpu() != answers[states[:, t + 1]]).any()):
            return True, norm
        vector = state_vector(state)
        norm += float(torch.linalg.vector_norm(vector, dim=1).mean()) / letters
        direction = torch.randn(vector.shape, generator=generator, dtype=torch.float64).to(vector.device)
        state = shifted(state, noise * torch.nn.functional.normalize(direction, dim=1))
    return False, norm
