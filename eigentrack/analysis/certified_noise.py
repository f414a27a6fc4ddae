"""Certified noise: an ε that a network is proved to bear in every step, on words of every length; or that there is none.

Non-linear layers are asked by boxes. These widen in every layer and norm, so a trained network is decided only if it is small
and saturates. Linear layers bear no ε > 0 unless the last few letters decide the answer (dynamics.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from eigentrack.analysis.dynamics import no_linear_robustness
from eigentrack.analysis.moore_machine import minimal_machine
from eigentrack.analysis.subject import Subject, model_mixers
from eigentrack.compiler.boxed_network import BoxedNetwork
from eigentrack.compiler.boxes import BoxCertificate, Undecided, find_boxes
from eigentrack.compiler.interval import Interval, Unbounded
from eigentrack.compiler.robustness import EMPTY_WORD, answer_margins, largest_proved
from eigentrack.layers import Convolution, LinearMixer

MOST_BOXES = 1000


@dataclass(frozen=True)
class CertifiedNoise:
    """`epsilon` is None where it was not decided, and 0 where no error is borne for ever; `reason` says why."""

    epsilon: float | None
    reason: str


def certified_noise(subject: Subject) -> CertifiedNoise:
    if all(isinstance(mixer, (LinearMixer, Convolution)) for mixer in model_mixers(subject.model)):
        machine = minimal_machine(subject.machine)
        reason = no_linear_robustness(machine.transitions, machine.letters)
        return CertifiedNoise(0.0, reason) if reason else CertifiedNoise(None, "the last few letters decide: it may bear some")
    try:
        found = largest_proved(lambda epsilon: subject_boxes(subject, epsilon))
    except ValueError as obstacle:
        return CertifiedNoise(None, str(obstacle))
    if isinstance(found, BoxCertificate):
        return CertifiedNoise(found.epsilon, f"proved by {len(found.labels)} boxes")
    return CertifiedNoise(None, str(found))


def subject_boxes(subject: Subject, epsilon: float) -> BoxCertificate | Undecided:
    """A box of joint states, or several, for every state of the machine that the network should be.

    The answer after the opening's last token, which is that to the empty word, must be certain, too.
    """
    if subject.tokens_per_letter != 1:
        raise ValueError("boxes are found for networks that read one token a letter")
    network, machine = BoxedNetwork(subject.model), subject.machine
    outputs, spelling = np.array(machine.outputs), np.array(subject.spelling)[:, 0]

    def step(letters: NDArray[np.int_], boxes: Interval, targets: NDArray[np.int_]) -> tuple[Interval, NDArray[np.float64]]:
        logits, after = network.step(spelling[letters], boxes)
        return after, answer_margins(logits[:, : machine.classes], outputs[targets])

    start, margin = network.start, np.inf
    try:
        for token in subject.opening:
            logits, after = network.step(np.array([token]), start)
            start = after.inflated(epsilon)
            margin = float(answer_margins(logits[:, : machine.classes], outputs[[machine.start]])[0])
    except Unbounded as reason:
        return Undecided(str(reason))
    if not margin > 0:
        return Undecided(EMPTY_WORD)
    found = find_boxes(step, start, machine.start, machine.transitions, epsilon, MOST_BOXES)
    return found if isinstance(found, Undecided) else replace(found, margin=min(found.margin, margin))
