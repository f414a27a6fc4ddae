"""Trained networks on long words and under noise, beside compiled and snapped ones, and beside theory.

horizon     the longest length at which 99 % of the answers are right: on random words, and on the worst of the input patterns
noise       the largest error in every step that misread nothing, in as many letters as the longest training word; a sample
certified   an error that is proved to be borne at every length: by boxes, or 0 where a theorem says that there is none
theory      can the layer do it at all in finite precision, and can it do it robustly?
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from eigentrack.analysis import (
    InspectedNetwork,
    find_horizons,
    input_patterns,
    noise_tolerance,
    snap_to_exact,
)
from eigentrack.analysis.inspected_network import task_machine
from eigentrack.analysis.noise import certified_noise
from eigentrack.automata import DFA, classify
from eigentrack.compiler import Compiled, choose_plan, compile_network
from eigentrack.experiments.design.experiment import Settings
from eigentrack.experiments.design.theory import architecture_of, automaton_of
from eigentrack.experiments.running.cell import Cell
from eigentrack.experiments.running.provenance import NOT_RECORDED, origin
from eigentrack.experiments.running.task_cell import CellResult, TaskCell, kept_networks
from eigentrack.expressivity import Architecture, judge
from eigentrack.files import write_json
from eigentrack.models import load_model
from eigentrack.tasks import TrackingTask
from eigentrack.training.run import MODEL

NON_LINEAR = ("slstm", "lstm")
ROWS, CYCLE_ROWS = 32, 4
FACTS_FILE = "robustness.json"  # lies in the folder of a cell, and for compiled networks in that of the language


@dataclass(frozen=True)
class NetworkFacts:
    """A horizon is None where every length is proved; `certified` is None where it was not decided."""

    panel: str
    series: str
    kind: str  # trained, compiled or snapped
    rate: float
    seed: int
    validation_accuracy: float | None  # None unless the network was trained
    random_horizon: int | None
    worst_horizon: int | None
    worst_pattern: str
    tested: int
    noise: float
    relative_noise: float  # the noise borne, relative to the mean norm of the state
    noisy_letters: int
    certified: float | None
    can: str
    robustly: str
    seconds: float
    hardware: str
    obstacle: str = ""  # why a trained one could not be snapped
    commit: str = NOT_RECORDED
    versions: str = NOT_RECORDED

    @property
    def key(self) -> tuple[str, str]:
        return self.panel, self.series

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> NetworkFacts:
        return cls(**values)


def study(
    results: Sequence[CellResult], cells: Sequence[Cell], folder: Path, settings: Settings, say: Callable[[str], None]
) -> list[NetworkFacts]:
    """Return the facts of each language: its trained networks with what they snap to, then the compiled ones."""
    found: list[NetworkFacts] = []
    for panel in dict.fromkeys(result.panel for result in results):
        own = [result for result in results if result.panel == panel and result.diverged_at is None]
        say(f"{panel}: horizon and noise of {len(own)} trained networks")
        for result, cell, network in kept_networks(own, cells, folder):
            facts = folder / cell.name / FACTS_FILE
            if network is None and not facts.exists():
                say(f"{cell.name}: its network was not kept, so nothing is said about it")
            else:
                found += _kept(facts, partial(_trained, result, cell, folder, settings))
        if own:
            of_panel = (folder / cell.name).parents[1] / FACTS_FILE
            found += _kept(of_panel, partial(_compiled, own[0], _task(cell), settings))
    return found


def _kept(path: Path, find: Callable[[], Iterator[NetworkFacts]]) -> list[NetworkFacts]:
    """Return what was found before, or find and store it, so that no network is studied twice."""
    if not path.exists():
        write_json(path, [facts.to_json() for facts in find()])
    return [NetworkFacts.from_json(values) for values in json.loads(path.read_text())]


def _trained(result: CellResult, cell: TaskCell, folder: Path, settings: Settings) -> Iterator[NetworkFacts]:
    inspected = _trained_network(cell, folder)
    start, dfa, architecture = time.perf_counter(), automaton_of(inspected.machine), _architecture(inspected)
    facts = _with_horizons(_facts(result, "trained", inspected, dfa, architecture), inspected, settings)
    facts = dataclasses.replace(
        facts,
        validation_accuracy=result.validation_accuracy,
        seconds=round(result.seconds + time.perf_counter() - start, 2),
        # those of its training, not of the study
        **{name: getattr(result, name) for name in ("hardware", "commit", "versions")},
    )
    if architecture.layer in NON_LINEAR:
        yield facts
        return
    try:
        snapped = snap_to_exact(inspected).compiled
    except ValueError as obstacle:
        yield dataclasses.replace(facts, obstacle=str(obstacle))
        return
    yield facts
    yield compiled_facts(result, f"{result.series}, snapped", "snapped", snapped, architecture, settings)


def _compiled(like: CellResult, task: TrackingTask, settings: Settings) -> Iterator[NetworkFacts]:
    """Yield the facts of the smallest linear network and of the smallest sLSTM for the language of the task."""
    dfa = automaton_of(task_machine(task))
    linear = compile_network(choose_plan(dfa))
    name = f"compiled {linear.summary['architecture']}"
    yield compiled_facts(like, name, "compiled", linear, Architecture("dense", layers=1), settings)
    robust = compile_network(choose_plan(dfa, "slstm"))
    yield compiled_facts(like, "compiled sLSTM", "compiled", robust, Architecture("slstm", layers=1), settings)


def compiled_facts(
    like: CellResult, series: str, kind: str, network: Compiled, architecture: Architecture, settings: Settings
) -> NetworkFacts:
    """Return the facts of a compiled network; its horizon is measured if the certificate does not hold for every length."""
    start, inspected, proof = time.perf_counter(), InspectedNetwork.from_compiled(network), network.certificate
    facts = _facts(like, kind, inspected, network.dfa, architecture)
    if not proof.holds or proof.length_bound is not None:
        facts = _with_horizons(facts, inspected, settings)
    can = "can" if proof.holds else facts.can
    return dataclasses.replace(facts, series=series, can=can, seconds=round(time.perf_counter() - start, 2))


def _with_horizons(facts: NetworkFacts, inspected: InspectedNetwork, settings: Settings) -> NetworkFacts:
    patterns = input_patterns(inspected, ROWS, CYCLE_ROWS, facts.seed)
    horizons = find_horizons(inspected, patterns, settings.test.far, seed=facts.seed)
    worst = min(horizons, key=lambda horizon: (horizon.letters, horizon.is_open))
    return dataclasses.replace(
        facts,
        random_horizon=horizons[0].letters,
        worst_horizon=worst.letters,
        worst_pattern="" if worst.is_open else worst.pattern,
        tested=settings.test.far,
    )


def _facts(like: CellResult, kind: str, inspected: InspectedNetwork, dfa: DFA, architecture: Architecture) -> NetworkFacts:
    """Return all facts of a network but its horizon, which is taken as proved."""
    language, letters = classify(dfa), like.trained_to
    layer = architecture.layer if architecture.layer in NON_LINEAR else "dense"
    robustly = judge(dfa, language, Architecture(layer, precision="robust")).answer
    noise = noise_tolerance(inspected, letters, rows=ROWS, seed=like.seed)
    return NetworkFacts(
        panel=like.panel,
        series=like.series,
        kind=kind,
        rate=like.rate,
        seed=like.seed,
        validation_accuracy=None,
        random_horizon=None,
        worst_horizon=None,
        worst_pattern="",
        tested=0,
        noise=noise.noise,
        relative_noise=noise.relative,
        noisy_letters=letters,
        certified=certified_noise(inspected).epsilon,
        can=judge(dfa, language, architecture).answer,
        robustly=robustly,
        seconds=0.0,
        **origin("cpu"),
    )


def _trained_network(cell: TaskCell, folder: Path) -> InspectedNetwork:
    return InspectedNetwork.from_task(load_model(folder / cell.name / MODEL), _task(cell))


def _task(cell: TaskCell) -> TrackingTask:
    task = cell.run.build_task()
    assert isinstance(task, TrackingTask)
    return task


def _architecture(inspected: InspectedNetwork) -> Architecture:
    known = architecture_of(inspected.model.config)
    assert known is not None  # the layers of this study are all known
    return known
