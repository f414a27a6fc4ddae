"""Inspection: every analysis of a network's weights and, if its automaton is known, of its answers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from eigentrack.analysis.extraction import HALVINGS, Extraction, extract_machine
from eigentrack.analysis.horizon import PatternHorizon, PrecisionHorizons, find_horizons, precision_sweep, worst_first
from eigentrack.analysis.inspected_network import InspectedNetwork
from eigentrack.analysis.loading import COMPILED, Loaded
from eigentrack.analysis.noise import CertifiedNoise, NoiseTolerance, certified_noise, noise_tolerance
from eigentrack.analysis.predicted_horizon import SHORTEST, PredictedHorizon, predict_horizon
from eigentrack.analysis.snap import Snapped, snap_to_exact
from eigentrack.analysis.snap_agreement import compare_with_trained
from eigentrack.analysis.spectra import LayerSpectrum, layer_spectra, sampled_words
from eigentrack.analysis.state_geometry import LOOKS, Geometry, merging_time, state_geometry
from eigentrack.analysis.word_patterns import input_patterns
from eigentrack.json_text import plain_json

Progress = Callable[[str, int, int], None]  # the name of the analysis, the work done, all of its work

RANDOM_ROWS, CYCLE_ROWS = 64, 8  # words per pattern
SWEPT = 4096  # the most letters for the geometry of the states and for the comparison of precisions
NOISY = (32, 256)  # letters for which the tolerated noise is measured
READ_FROM = 40  # letters of the words that an automaton is read from; fewer if training or the horizon was shorter
WITH_ATTENTION = 1024  # the most letters with attention, whose cost grows with their square
MOST_TOKENS = 32  # the most tokens whose spectra are shown if no task names the letters


@dataclass(frozen=True)
class Inspection:
    """The results of all analyses of one network; those that need a task are empty or None without one."""

    kind: str  # where the network comes from, such as "training run"
    task: str
    mixers: tuple[str, ...]  # one name per layer
    parameters: int
    trained_to: int | None  # letters of the longest word in training; None if unknown
    seed: int
    spectra: tuple[LayerSpectrum, ...]
    horizons: tuple[PatternHorizon, ...] = ()
    predicted: PredictedHorizon | None = None  # on random words, from the training lengths alone
    geometry: tuple[Geometry, ...] = ()
    noise: tuple[NoiseTolerance, ...] = ()
    merging_time: int | None = None  # letters; see state_geometry.merging_time
    certified_noise: CertifiedNoise | None = None
    precisions: tuple[PrecisionHorizons, ...] = ()
    extraction: Extraction | None = None
    snapped: Snapped | None = None
    notes: tuple[str, ...] = ()  # what was left out, and why

    @property
    def worst(self) -> PatternHorizon:
        """The pattern on which the network fails first."""
        return worst_first(self.horizons)[0]

    def to_json(self) -> dict[str, Any]:
        values = dataclasses.asdict(dataclasses.replace(self, snapped=None))
        return plain_json({**values, "snapped": None if self.snapped is None else self.snapped.to_json()})


def inspect_network(loaded: Loaded, *, longest: int, seed: int, progress: Progress) -> Inspection:
    """Run every analysis on a network.

    Args:
        loaded: the network, from `load_inspected`.
        longest: the most letters of the words that are tried.
        seed: of all random words and directions.
        progress: called with the name of the analysis, the work done and all of its work.
    """
    if longest < 1:
        raise ValueError(f"longest={longest} must be at least 1")
    network, notes = loaded.network, []
    about: dict[str, Any] = {
        "kind": loaded.kind,
        "task": loaded.task,
        "mixers": loaded.model.config.mixers,
        "parameters": sum(parameter.numel() for parameter in loaded.model.parameters()),
        "trained_to": loaded.trained_to,
        "seed": seed,
        "spectra": _spectra(loaded, seed, progress),
    }
    if len(about["spectra"]) < len(loaded.model.blocks):
        notes.append("layers that are not linear recurrences have no matrix A(x) and are left out of the spectra")
    if network is None:
        notes.append(
            "no automaton says what this network should do: only its spectra are shown (a task that has one adds the rest)"
        )
        return Inspection(**about, notes=tuple(notes))
    has_attention = "attention" in loaded.model.config.mixers
    if has_attention and longest > WITH_ATTENTION:
        longest = WITH_ATTENTION
        notes.append(f"with attention words are tried up to {longest} letters only: its cost grows with the square")
    patterns = input_patterns(network, RANDOM_ROWS, CYCLE_ROWS, seed)
    horizons = find_horizons(network, patterns, longest, seed=seed, progress=lambda done: progress("horizon", done, longest))
    progress("horizon", longest, longest)
    about |= {"horizons": horizons, "precisions": _precisions(network, min(longest, SWEPT), seed, progress)}
    if has_attention:
        notes.append("attention's state grows with the word: geometry, noise and the automaton are left out")
    else:
        about |= _states(network, longest, seed, progress)
        if loaded.trained_to is not None and SHORTEST <= loaded.trained_to <= longest:
            about["predicted"] = predict_horizon(network, loaded.trained_to, longest, seed=seed)
            progress("predicted horizon", 1, 1)
        reach = min(horizon.letters for horizon in horizons if horizon.pattern == "random")
        length = max(1, min(loaded.trained_to or READ_FROM, READ_FROM, reach))
        about["extraction"] = extract_machine(
            network, length=length, seed=seed, progress=lambda done: progress("automaton", done, HALVINGS)
        )
        progress("automaton", HALVINGS, HALVINGS)
    if loaded.kind != COMPILED:
        try:
            snapped, read_off = snap_to_exact(network), about.get("extraction")
            agreement = compare_with_trained(
                network,
                snapped.compiled,
                letters=min(horizon.letters for horizon in horizons),
                same_automaton=read_off is not None and read_off.is_equal,
                seed=seed,
            )
            about["snapped"] = dataclasses.replace(snapped, agreement=agreement)
        except ValueError as obstacle:
            notes.append(f"it could not be snapped to an exact network: {obstacle}")
        progress("snap to exact", 1, 1)
    return Inspection(**about, notes=tuple(notes))


def _spectra(loaded: Loaded, seed: int, progress: Progress) -> tuple[LayerSpectrum, ...]:
    model, network = loaded.model, loaded.network
    if network is None:
        names = {token: str(token) for token in range(min(MOST_TOKENS, model.config.vocab_size))}
        opening: tuple[int, ...] = ()
    else:
        names = {spelled[0]: name for spelled, name in zip(network.spelling, network.machine.letters, strict=True)}
        names |= {token: "filler" for spelled in network.spelling for token in spelled[1:]}
        opening = network.opening
    done = 0

    def report() -> None:
        nonlocal done
        done += 1
        progress("spectra", done, len(model.blocks))

    return layer_spectra(model, sampled_words(list(names), opening, rows=64, length=16, seed=seed), names, report)


def _states(network: InspectedNetwork, longest: int, seed: int, progress: Progress) -> dict[str, Any]:
    swept = max(LOOKS, min(longest, SWEPT))
    geometry = state_geometry(network, swept, seed=seed, progress=lambda done: progress("states", done, swept))
    progress("states", swept, swept)
    noise: list[NoiseTolerance] = []
    for number, letters in enumerate(NOISY, start=1):
        found = noise_tolerance(network, min(letters, longest), seed=seed)
        # the trials use different words; noise that is misread within fewer letters is misread within more letters, too
        noise.append(dataclasses.replace(found, noise=min([found.noise, *(shorter.noise for shorter in noise)])))
        progress("noise", number, len(NOISY))
    last, merged = geometry[-1], None
    if noise[-1].noise and last.gap:
        merged = merging_time(last.diameter, last.gap, noise[-1].noise)
    proved = certified_noise(network)
    progress("noise, by boxes", 1, 1)
    return {"geometry": geometry, "noise": tuple(noise), "merging_time": merged, "certified_noise": proved}


def _precisions(network: InspectedNetwork, longest: int, seed: int, progress: Progress) -> tuple[PrecisionHorizons, ...]:
    patterns = input_patterns(network, RANDOM_ROWS // 2, CYCLE_ROWS // 2, seed)
    seen: dict[str, int] = {}

    def report(precision: str, done: int) -> None:
        seen[precision] = done
        progress("precisions", sum(seen.values()), 5 * longest)

    found = precision_sweep(network, patterns, longest, seed=seed, progress=report)
    progress("precisions", 5 * longest, 5 * longest)
    return found
