"""Correct a trained network: find codes, close them, choose C, prove, and compare the horizons before and after.

Codes are found without the task's answers. Only then the automaton that they follow is held against the task's: a network that
was not trained, or was trained on something else, has no codes or another automaton, and is refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eigentrack.analysis.correction.closing import ClosingConfig, close_codes
from eigentrack.analysis.correction.codes import CodeAutomaton, NoAutomaton, find_codes, state_of
from eigentrack.analysis.horizon import PatternHorizon, find_horizons
from eigentrack.analysis.inspected_network import InspectedNetwork
from eigentrack.analysis.loading import COMPILED, load_inspected
from eigentrack.analysis.word_patterns import input_patterns
from eigentrack.compiler.correction_proof import CorrectedBounds, CorrectionProof, Language, Refuted, find_moves
from eigentrack.compiler.kept_network import REPORT, KeptNetwork, save_kept
from eigentrack.files import write_json
from eigentrack.json_text import plain_json
from eigentrack.models import SequenceModel

CLUSTERS = (1, 2, 4, 8)  # into how many clusters classes are split, in turn
EVERY = (64, 32, 16, 8, 4, 2, 1)  # the numbers of tokens between corrections that are tried
LENGTH = 40  # letters of the words from which codes are found, if a saved model does not say how it was trained
RANDOM_ROWS, CYCLE_ROWS = 4, 1  # words of the tested patterns
LINEAR_SPEED = 16  # from this C on a corrected network counts as kept at the speed of a linear one


class NotCorrected(ValueError):
    """The error that a network could not be corrected with a proof; it says why."""


@dataclass(frozen=True)
class CorrectionConfig:
    """The settings of a correction."""

    words: int = 256  # from which codes are found
    closing: ClosingConfig = field(default_factory=ClosingConfig)
    every: int | None = None  # C; None: the largest of EVERY for which there is a proof, if possible for chunks, too
    seed: int = 0


@dataclass(frozen=True)
class Corrected:
    """A corrected network with its proof, and what was found on the way."""

    kept: KeptNetwork
    clusters: int  # the most codes of a class of equal answers


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
    reasons: list[str] = []
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
        return Corrected(kept, clusters)
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


@dataclass(frozen=True)
class Correction:
    """A corrected training run, as it is reported."""

    task: str
    trained_to: int | None  # letters of the longest word in training
    corrected: Corrected
    before: tuple[PatternHorizon, ...]  # the horizons of the trained network
    after: tuple[PatternHorizon, ...]  # the horizons of the corrected one

    def to_json(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "trained_to": self.trained_to,
            "clusters": self.corrected.clusters,
            "proof": dataclasses.asdict(self.corrected.kept.proof),
            "before": [dataclasses.asdict(horizon) for horizon in self.before],
            "after": [dataclasses.asdict(horizon) for horizon in self.after],
        }


def correct_run(
    folder: Path,
    task: str | None,
    options: dict[str, Any],
    config: CorrectionConfig,
    longest: int,
    out: Path,
    provenance: dict[str, str],
    progress: Callable[[str, int, int], None] | None = None,
) -> Correction:
    """Correct a training run or a saved model, test it before and after, and write the result to `out`.

    Args:
        folder: the training run, or the saved model.
        task: the task of a saved model; None: the run's own.
        options: of the task.
        config: how it is corrected.
        longest: letters of the longest word of the tests.
        out: where the corrected network, its proof and the report go.
        provenance: command, commit and hardware, for the report.
        progress: called with what is done, how much is done and of how much; None: nobody is told.
    """
    loaded = load_inspected(folder, task, options, "cpu")
    if loaded.network is None or loaded.kind == COMPILED:
        raise ValueError(
            f"{folder}: codes need a trained network and a task that follows an automaton, with an answer per letter"
        )
    length = LENGTH if loaded.trained_to is None else loaded.trained_to
    corrected = correct_network(loaded.network, length, config, progress)
    network = dataclasses.replace(loaded.network, model=corrected.kept.model)
    patterns = input_patterns(network, RANDOM_ROWS, CYCLE_ROWS, config.seed)
    horizons = []
    for what, tested in (("horizon before", loaded.network), ("horizon after", network)):
        told = None if progress is None else _letters(progress, what, longest)
        horizons.append(find_horizons(tested, patterns, longest, seed=config.seed, progress=told))
    found = Correction(loaded.task, loaded.trained_to, corrected, *horizons)
    save_kept(corrected.kept, out)
    write_json(out / REPORT, plain_json({**found.to_json(), "provenance": provenance}))
    return found


def _letters(progress: Callable[[str, int, int], None], what: str, longest: int) -> Callable[[int], None]:
    return lambda done: progress(what, done, longest)
