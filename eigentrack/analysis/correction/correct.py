"""Correct a trained network: find codes, close them, choose C, prove, and compare the horizons before and after.

Codes are found without the task's answers. Only then the automaton that they follow is held against the task's: a network that
was not trained, or was trained on something else, has no codes or another automaton, and is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import torch

from eigentrack.analysis.correction.closing import ClosingConfig, close_codes
from eigentrack.analysis.correction.codes import CodeAutomaton, NoAutomaton, find_codes, state_of
from eigentrack.analysis.inspected_network import InspectedNetwork
from eigentrack.compiler.correction_proof import CorrectedBounds, CorrectionProof, Language, Refuted, find_moves
from eigentrack.compiler.kept_network import KeptNetwork
from eigentrack.models import SequenceModel

CLUSTERS = (1, 2, 4, 8)  # into how many clusters classes are split, in turn
EVERY = (64, 32, 16, 8, 4, 2, 1)  # the numbers of tokens between corrections that are tried
LINEAR_SPEED = 16  # from this C on a corrected network counts as kept at the speed of a linear one


class NotCorrected(ValueError):
    """The error that a network could not be corrected with a proof; it says why."""


@dataclass(frozen=True)
class CorrectionConfig:
    """How a network is corrected."""

    words: int = 256  # from which codes are found
    closing: ClosingConfig = field(default_factory=ClosingConfig)
    every: int | None = None  # C; None: the largest of EVERY for which there is a proof, if possible for chunks, too
    seed: int = 0


@dataclass(frozen=True)
class Corrected:
    """A corrected network with its proof, and what was found on the way."""

    kept: KeptNetwork
    classes: int  # the states of the automaton that the network followed before it was closed
    codes: int
    clusters: int  # the most codes of a class
    error_before: float  # ε / r before the closing phase


def correct_network(
    network: InspectedNetwork,
    length: int,
    config: CorrectionConfig | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Corrected:
    """Return a corrected network with a proof for every length; raise NotCorrected with the reason if there is none.

    Args:
        network: the trained network and the machine that it should be.
        length: the longest word of its training.
        config: how it is corrected; None: as by default.
        progress: called with what is done, how much is done and of how much; None: nobody is told.
    """
    config = CorrectionConfig() if config is None else config
    language = spoken_language(network)
    reasons, automaton = [], None
    for clusters in CLUSTERS:
        try:
            automaton = find_codes(network, length=length, words=config.words, seed=config.seed, clusters=clusters)
            _check_language(automaton, network, language)
        except NoAutomaton as reason:
            raise NotCorrected(f"no codes were found: {reason}") from None
        except Refuted as reason:
            reasons.append(f"with {clusters} cluster{'s' if clusters > 1 else ''} per class: {reason}")
            continue
        told = None if progress is None else _telling(progress, f"closing {len(automaton.codes)} codes", config.closing.steps)
        model, closed = close_codes(network.model, automaton, config.closing, told)
        try:
            proof = _proved(model, closed, language, config.every)
        except Refuted as reason:
            reasons.append(f"with {clusters} cluster{'s' if clusters > 1 else ''} per class: {reason}")
            continue
        kept = KeptNetwork(model, language, network.machine.letters, proof)
        return Corrected(kept, len(set(language.outputs)), len(closed.codes), clusters, 0.0)
    raise NotCorrected("; ".join(dict.fromkeys(reasons)))


def spoken_language(network: InspectedNetwork) -> Language:
    """Return the automaton that a network should track, in the form in which it is proved."""
    machine = network.machine
    opening = network.opening[-1] if network.opening else None
    letters = tuple(spelled[0] for spelled in network.spelling)
    return Language(machine.transitions, machine.outputs, machine.start, letters, opening, machine.classes)


def _telling(progress: Callable[[str, int, int], None], what: str, total: int) -> Callable[[int, float], None]:
    return lambda done, ratio: progress(what, done, total)


def _check_language(automaton: CodeAutomaton, network: InspectedNetwork, language: Language) -> None:
    """Raise Refuted unless the network's own answers along its codes are those of the language."""
    moves = find_moves(automaton.successors(network.model.config.vocab_size).tolist(), language)
    own = {
        (source, token): answer
        for source, token, answer in zip(
            automaton.sources.tolist(), automaton.tokens.tolist(), automaton.answers.tolist(), strict=True
        )
    }
    for code, token, answer in zip(moves.codes.tolist(), moves.tokens.tolist(), moves.answers.tolist(), strict=True):
        if own[code, token] != answer:
            raise Refuted(f"the network follows another automaton: it answers {own[code, token]} where {answer} would be right")


def _proved(model: SequenceModel, closed: CodeAutomaton, language: Language, every: int | None) -> CorrectionProof:
    """Give the model its correction, and return the proof for the C that is asked for, or for the best one of EVERY."""
    successors = closed.successors(model.config.vocab_size)
    codes = [part.contiguous() for part in state_of(model, closed.codes).parts]
    model.correct(codes, successors, 1 if every is None else every)
    bounds = CorrectedBounds(model, language)
    if every is not None:
        return bounds.proof(every)
    found = _best(bounds, EVERY)
    model.correct(codes, successors, found.every)
    return found


def _best(bounds: CorrectedBounds, candidates: Iterable[int]) -> CorrectionProof:
    """Return the proof for the largest C that covers chunks as well, or else for the largest C."""
    largest, refuted = None, None
    for every in candidates:
        try:
            proof = bounds.proof(every)
        except Refuted as reason:
            refuted = reason
            continue
        if "chunked" in proof.backends and (every >= LINEAR_SPEED or largest is None or largest.every < LINEAR_SPEED):
            return proof
        largest = proof if largest is None else largest
        if every < LINEAR_SPEED:
            break
    if largest is None:
        raise Refuted(str(refuted))
    return largest


@torch.no_grad()
def agrees_with_training(network: InspectedNetwork, kept: KeptNetwork, length: int, words: int, seed: int) -> float:
    """Return the share of answers of the trained and of the corrected network that are equal, on random words."""
    letters, _ = network.walk(torch.full((words,), network.machine.start), length, seed, 0)
    _, before = network.begin(words)
    own, _ = network.read(letters, before)
    corrected = InspectedNetwork(kept.model, network.machine, network.opening, network.spelling, network.walk)
    _, state = corrected.begin(words)
    new, _ = corrected.read(letters, state)
    return float((own.argmax(-1) == new.argmax(-1)).double().mean())
