"""Every experiment by name: where its definition is, and what it asks. `eigentrack reproduce`, its help and the docs follow it.

Importing this module costs nothing: a definition, and with it torch, is imported when its experiment is asked for.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eigentrack.experiments.design.experiment import Experiment


@dataclass(frozen=True)
class Entry:
    """An entry of the catalogue: where the definition of an experiment is, and what it is about in a few words.

    `place` is the module, with a dot in front where it belongs to this package, and the name of the definition there.

    An experiment from outside the package: CATALOGUE["name"] = Entry("my_package.my_module:EXPERIMENT", "what it asks").
    """

    place: str
    about: str

    def load(self) -> Experiment:
        module, name = self.place.split(":")
        return getattr(importlib.import_module(module, __package__), name)


SYNTHETIC = {
    "figure1": Entry(".paper.parity_and_arithmetic:FIGURE_1", "parity by length, seven models"),
    "figure2": Entry(".paper.parity_and_arithmetic:FIGURE_2", "DeltaNet in both ranges on parity and modular arithmetic"),
    "figure3": Entry(".paper.word_problems:FIGURE_3", "the word problem of S5, and three easier forms"),
    "figure5": Entry(".paper.parity_and_arithmetic:FIGURE_5", "six recurrent models on parity and modular arithmetic"),
    "figure6": Entry(".paper.word_problems:FIGURE_6", "addition modulo 60, one and two tokens per element"),
    "table3": Entry(".paper.parity_and_arithmetic:TABLE_3", "seven models on parity and modular arithmetic"),
    "deltaproduct": Entry(".questions.deltaproduct:EXPERIMENT", "how many Householder factors per token a group needs"),
    "parity": Entry(".questions.parity:EXPERIMENT", "what keeps eigenvalues at -1: the released code's budget, other losses"),
    "longer": Entry(".questions.more_steps:LONGER", "Table 3's first two columns with the paper's number of steps"),
    "arithmetic": Entry(".questions.arithmetic:EXPERIMENT", "modular arithmetic beyond the paper's best"),
    "ablation": Entry(".questions.ablation:EXPERIMENT", "range or structure: five structures in two ranges, equally large"),
    "stability": Entry(".questions.stability:EXPERIMENT", "where training diverges: size, learning rate, range"),
    "mat": Entry(".questions.robustness:EXPERIMENT", "robustness, by Metric Automata Theory: noise and worst words"),
}
OPEN = {  # questions that the paper leaves open, beside the verdicts of theory
    "hybrids": Entry(".questions.hybrids:EXPERIMENT", "does a factor with a gate learn what neither learns alone?"),
    "tradeoff": Entry(".questions.tradeoff:EXPERIMENT", "does tracking state cost recall?"),
    "depth": Entry(".questions.depth:EXPERIMENT", "how many layers does a language take?"),
    "signed_gates": Entry(".questions.signed_gates:EXPERIMENT", "do GLA, Mamba-2 and mLSTM track with negative gates?"),
    "ladder": Entry(".questions.ladder:EXPERIMENT", "where do theory and training disagree?"),
    "patience": Entry(".questions.more_steps:PATIENCE", "was it the budget? ladder and hybrids with ten times the steps"),
    "curriculum": Entry(".questions.curriculum:EXPERIMENT", "does it help to begin with few letters?"),
    "horizons": Entry(".questions.horizons:EXPERIMENT", "can a horizon be told from the training lengths alone?"),
    "family": Entry(".questions.family:EXPERIMENT", "every linear layer on six tasks"),
}
LANGUAGE = {  # language models
    "figure4": Entry(".paper.language_models:FIGURE_4", "DeltaNet: perplexity by position on four texts"),
    "figure7": Entry(".paper.language_models:FIGURE_7", "learning curves of DeltaNet and Mamba"),
    "figure8": Entry(".paper.language_models:FIGURE_8", "Mamba: perplexity by position on four texts"),
    "table4": Entry(".paper.table4:TABLE_4", "benchmarks of lm-eval"),
}
CATALOGUE = SYNTHETIC | OPEN | LANGUAGE
NAMES = tuple(CATALOGUE)


def named_experiment(name: str) -> Experiment:
    if name not in CATALOGUE:
        raise ValueError(f"experiment {name!r} is not known; there are {', '.join(NAMES)}")
    return CATALOGUE[name].load()
