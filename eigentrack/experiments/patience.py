"""What theory allows and training did not find, with ten times the steps: was it the budget?

The fields of `ladder` and of `hybrids` of which theory says can and no seed fits the training lengths, each at the rate that
the pilot there chose for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from eigentrack.experiments import hybrids, ladder
from eigentrack.experiments.cell import Cell, CellResult
from eigentrack.experiments.experiment import Experiment, Score, Series, Settings, grid
from eigentrack.experiments.horizon_map import plot_horizons
from eigentrack.experiments.ladder_study import FITTED
from eigentrack.experiments.open_questions import PAPER, REACH, SMOKE, learned, longer
from eigentrack.experiments.theory import Theory

TIMES = 10
PRODUCT = "DeltaProduct, n = 2, [-1, 1]"
RATES = {  # of the pilots, by language and layer
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
    ("mod 3, with resets", "gated GH, n = 2, one layer"): 3e-3,
    ("mod 3, with resets", "KDA, n = 2, one layer"): 3e-3,
}


def _series(d_model: int, heads: int) -> tuple[Series, ...]:
    one_layer = (replace(series, label=f"{series.label}, one layer") for series in hybrids.models(d_model, heads))
    return (*ladder.architectures(heads), *one_layer)


THEORY = Theory((*ladder.EASY, *ladder.HARD), _series(PAPER.d_model, PAPER.heads))


def _cells(settings: Settings, seeds: Sequence[int]) -> list[Cell]:
    """At every budget ten times the ladder's steps; twice that for languages with more answers, as there, and for one layer."""
    series = _series(settings.d_model, settings.heads)
    cells = []
    for panel in (*ladder.EASY, *ladder.HARD):
        for model in series:
            more = ladder.MORE if panel in ladder.HARD or model.model["layers"] == 1 else 1
            cells += grid("patience", [longer(panel, TIMES * more, settings)], [model], settings, seeds)
    chosen = [cell for cell in cells if cell.rate == RATES.get((cell.panel, cell.series))]
    return sorted(chosen, key=lambda cell: cell.seed)  # so that a sweep cut short has whole seeds


def findings(results: Sequence[CellResult]) -> list[str]:
    """Field by field: learned now, fitted now, or neither."""
    told: dict[str, list[str]] = {"learned": [], "fitted": [], "neither": []}
    keys = list(dict.fromkeys(result.key for result in results))
    for panel, series in keys:
        runs = [result for result in results if result.key == (panel, series)]
        best = max(run.validation_accuracy for run in runs)
        kind = "learned" if learned(runs) else "fitted" if best >= FITTED else "neither"
        told[kind].append(f"{panel}: {series}" + (f", {best:.3f}" if kind == "neither" else ""))
    names = {
        "learned": f"Learned, a seed is right to {REACH} times the training length, so the budget was too small",
        "fitted": f"Right at the training lengths ({FITTED:.0%}), as with fewer steps they were not, and not so far",
        "neither": "Not learned at the training lengths either, with the best validation accuracy",
    }
    return [
        f"{names[kind]}; {len(fields)} of {len(keys)} fields. {'; '.join(fields)}." for kind, fields in told.items() if fields
    ]


EXPERIMENT = Experiment(
    name="patience",
    title="What can be recognised and was not learned, with ten times the steps or more",
    source="none: the fields of `ladder` and `hybrids` that disagree with theory because training did not find the network",
    settings={
        "smoke": replace(SMOKE, rates=PAPER.rates),
        "short": replace(ladder.SHORT, pilot=False, checkpoint_every=2000),
        "paper": replace(PAPER, pilot=False),
    },
    cells=_cells,
    setup="two layers or one, no convolution; each field at the rate that the pilot of `ladder` or `hybrids` chose",
    score=Score("horizon", lambda result: result.scores.horizon, digits=0),
    plot=partial(plot_horizons, answer=THEORY.answer),
    findings=findings,
    columns=(THEORY.column,),
)
