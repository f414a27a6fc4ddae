"""What theory allows and the ladder did not learn, with ten times the steps: was it the budget?

The fields of `ladder` of which theory says can and no seed fits the training lengths, each at the rate that the ladder's pilot
chose for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from eigentrack.experiments import ladder
from eigentrack.experiments.cell import Cell, CellResult
from eigentrack.experiments.experiment import Experiment, Score, Settings, grid
from eigentrack.experiments.horizon_map import plot_horizons
from eigentrack.experiments.ladder_study import FITTED
from eigentrack.experiments.open_questions import PAPER, REACH, SMOKE, learned, longer

TIMES = 10
PRODUCT = "DeltaProduct, n = 2, [-1, 1]"
RATES = {  # of the ladder's pilot, by language and layer
    ("Z4", "sLSTM"): 1e-3,
    ("binary, mod 5", "GLA, disk"): 1e-3,
    ("binary, mod 5", "sLSTM"): 3e-3,
    ("S3", "GLA, disk"): 3e-3,
    ("S3", "DeltaNet [-1, 1]"): 3e-3,
    ("A4", "GLA, disk"): 1e-3,
    ("A4", PRODUCT): 3e-3,
    ("A4", "sLSTM"): 3e-3,
    ("Z60", "GLA, disk"): 1e-3,
    ("Z60", "DeltaNet [-1, 1]"): 1e-3,
    ("Z60", PRODUCT): 1e-3,
    ("Z60", "sLSTM"): 3e-3,
    ("A5", PRODUCT): 1e-3,
    ("A5", "sLSTM"): 1e-3,
    ("S5, swaps", "sLSTM"): 3e-3,
}


def _cells(settings: Settings, seeds: Sequence[int]) -> list[Cell]:
    """At every budget ten times the ladder's steps of that budget, so the languages with more answers have twenty."""
    panels = [longer(panel, TIMES, settings) for panel in ladder.EASY]
    panels += [longer(panel, TIMES * ladder.MORE, settings) for panel in ladder.HARD]
    cells = grid("patience", panels, ladder.architectures(settings.heads), settings, seeds)
    return [cell for cell in cells if cell.rate == RATES.get((cell.panel, cell.series))]


def findings(results: Sequence[CellResult]) -> list[str]:
    """Field by field: learned now, fitted now, or neither."""
    told: dict[str, list[str]] = {"learned": [], "fitted": [], "neither": []}
    for key in dict.fromkeys(result.key for result in results):
        runs = [result for result in results if result.key == key]
        best = max(run.validation_accuracy for run in runs)
        kind = "learned" if learned(runs) else "fitted" if best >= FITTED else "neither"
        told[kind].append(f"{key[0]} with {key[1]}" + (f" ({best:.3f})" if kind == "neither" else ""))
    lines = [f"Of {sum(map(len, told.values()))} fields {len(told['learned'])} are learned with {TIMES} times the steps."]
    names = {
        "learned": f"Learned, a seed is right to {REACH} times the training length, so the ladder's budget was too small",
        "fitted": f"Right at the training lengths ({FITTED:.0%}) and not so far",
        "neither": "Not learned at the training lengths either, with the best validation accuracy",
    }
    return lines + [f"{names[kind]}: {', '.join(fields)}." for kind, fields in told.items() if fields]


EXPERIMENT = Experiment(
    name="patience",
    title="What can be recognised and was not learned, with ten times the steps",
    source="none: the fields of `ladder` that disagree with theory because training did not find the network",
    settings={
        "smoke": replace(SMOKE, rates=PAPER.rates),
        "short": replace(ladder.SHORT, pilot=False, checkpoint_every=2000),
        "paper": replace(PAPER, pilot=False),
    },
    cells=_cells,
    setup="two layers, no convolution; each field at the rate that the pilot of `ladder` chose",
    score=Score("horizon", lambda result: result.scores.horizon, digits=0),
    plot=partial(plot_horizons, answer=ladder.THEORY.answer),
    findings=findings,
    columns=(ladder.THEORY.column,),
)
