"""The verdict of theory on a model: its task becomes an automaton, its layers become an architecture, and both are judged.

A verdict speaks of layers without a convolution, of any width, and of the words that the task answers in one way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from eigentrack.analysis.moore_machine import MooreMachine, minimal_machine
from eigentrack.automata import DFA, classify
from eigentrack.experiments.design.experiment import Column, Panel, Series, Settings
from eigentrack.experiments.running.task_cell import CellResult
from eigentrack.expressivity import Architecture, Verdict, judge
from eigentrack.expressivity.architecture import WITH_RANGE
from eigentrack.expressivity.named_layers import DIAGONAL_MIXERS
from eigentrack.models import ModelConfig
from eigentrack.spectrum import EigenDisk, EigenRange, Eigenvalues
from eigentrack.tasks import TrackingTask
from eigentrack.tasks.registry import make_task

OF_THE_SAME_NAME = ("mlstm", "rwkv7", "ttt", "dense", "slstm", "lstm", "attention")


@dataclass(frozen=True)
class Theory:
    """The verdicts on every panel and series of an experiment, by their labels."""

    panels: tuple[Panel, ...]
    series: tuple[Series, ...]
    settings: Settings  # the settings of any budget: verdicts are about layers of any width

    def verdict(self, panel: str, series: str) -> Verdict | None:
        """Return the verdict on a series; None where the task tracks no automaton, or expressivity does not know the layer."""
        chosen = self._panel(panel)
        model = self.settings.filled_in(next(entry for entry in self.series if entry.label == series).model)
        task = make_task(chosen.task, chosen.options)
        sizes = {"vocab_size": task.model_vocab_size, "d_model": self.settings.d_model}
        design = architecture_of(ModelConfig.from_json({**sizes, **model, **chosen.model}))
        if design is None or not isinstance(task, TrackingTask):
            return None
        return _judged(_machine(task), design)

    def automaton(self, panel: str) -> DFA:
        """Return the automaton that the verdicts on this panel are about."""
        chosen = self._panel(panel)
        task = make_task(chosen.task, chosen.options)
        if not isinstance(task, TrackingTask):
            raise ValueError(f"{panel!r} tracks no automaton: name a panel whose task answers after every token")
        return automaton_of(_machine(task))

    def answer(self, panel: str, series: str) -> str:
        verdict = self.verdict(panel, series)
        return "–" if verdict is None else verdict.answer

    def _panel(self, label: str) -> Panel:
        return next(panel for panel in self.panels if panel.label == label)

    @property
    def column(self) -> Column:
        def show(runs: Sequence[CellResult]) -> str:
            return self.answer(*runs[0].key)

        return Column("theory", "can so many such layers do it at every length? (`eigentrack explain`)", show)


def automaton_of(machine: MooreMachine) -> DFA:
    """Return the automaton of the words after which the answer is 1, or that of the empty word if there are more than two."""
    smallest = minimal_machine(machine)
    return smallest.recogniser(1 if smallest.classes == 2 else smallest.outputs[smallest.start])


def architecture_of(model: ModelConfig) -> Architecture | None:
    """Return the architecture of a model; None for a mixture of layers, and for a layer that expressivity does not know."""
    if len(set(model.mixers)) > 1 or any(options != model.options[0] for options in model.options):
        return None
    mixer, options, layers = model.mixers[0], model.options[0], model.layers
    if not options.get("writes", True):  # a memory that is only multiplied can never be set anew
        return None
    eigenvalues = options.get("eigenvalues", model.eigenvalues)
    if isinstance(eigenvalues, EigenRange):
        eigenvalues = EigenRange(*eigenvalues.ends)  # an overshoot reaches its ends, and widens nothing
    if mixer in ("pd_ssm", "sd_ssm"):
        return Architecture(mixer, layers=layers) if _holds_permutations(mixer, eigenvalues) else None
    if mixer in OF_THE_SAME_NAME:
        return Architecture(mixer, eigenvalues if mixer in WITH_RANGE else None, layers=layers)
    if eigenvalues.turns:
        if eigenvalues != EigenDisk():  # theory knows the whole disk: with less a layer cannot keep, forget, or count as far
            return None
        return Architecture("s4d" if mixer == "s4d" else "complex-diagonal", layers=layers)
    if mixer == "s4d":
        return Architecture("s4d-real", eigenvalues, layers=layers)
    if mixer in DIAGONAL_MIXERS:
        return Architecture("diagonal", eigenvalues, layers=layers)
    if mixer != "deltanet" or (kind := _delta_net(eigenvalues, options)) is None:
        return None
    return Architecture(kind, eigenvalues, layers=layers, householders=options.get("householders", 1))


def _holds_permutations(mixer: str, eigenvalues: Eigenvalues | None) -> bool:
    """Return whether a layer that chooses its matrices may choose permutations, of which theory speaks.

    In PD-SSM entries of modulus 1 are moved by P; in SD-SSM the eigenvalues of A itself lie in the range."""
    if mixer == "pd_ssm":
        return eigenvalues is not None and eigenvalues.radial.high == 1
    return eigenvalues is None or eigenvalues == EigenRange(-1, 1)


def _delta_net(eigenvalues: EigenRange, options: Mapping[str, Any]) -> str | None:
    """Return the kind of a DeltaNet by its gates, or None if theory does not know them.

    It knows one gate per head in [0, 1], and one per channel there or in the range of the factors."""
    gate = options.get("gate")
    if gate is None:
        return "deltanet"
    if options.get("gate_per_channel", False):
        return "channel-gated-deltanet" if gate == eigenvalues else "kda" if gate == EigenRange(0, 1) else None
    return "gated-deltanet" if gate == EigenRange(0, 1) else None


def _machine(task: TrackingTask) -> MooreMachine:
    return MooreMachine(tuple(map(str, range(task.letters))), task.transitions, task.outputs, task.start)


@cache
def _judged(machine: MooreMachine, design: Architecture) -> Verdict:
    dfa = automaton_of(machine)
    return judge(dfa, classify(dfa), design)
