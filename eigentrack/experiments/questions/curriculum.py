"""Does it help to begin with few letters? Groups with all elements as letters, one layer, with and without a curriculum.

A curriculum begins with generators of the group. By rank, letters that move 2 points come next, then those that move 3, and so
on; by words, those that are products of 2 generators, of 3, and so on. Each stage begins when 99.5 % of the answers are right.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from eigentrack.experiments.design.experiment import SCALED_ACCURACY, Column, Experiment, Panel, Series, Settings
from eigentrack.experiments.design.models import WIDE
from eigentrack.experiments.design.theory import Theory
from eigentrack.experiments.reporting.columns import HORIZON
from eigentrack.experiments.reporting.findings import by_key, by_panel, by_series, median_horizon
from eigentrack.experiments.reporting.series_grid_plot import CAPTION, plot_each_series
from eigentrack.experiments.reporting.wording import counted, joined, nested
from eigentrack.experiments.running.length_test import LengthTest
from eigentrack.experiments.running.task_cell import FITTED, CellResult
from eigentrack.tasks.curriculum import Curriculum
from eigentrack.training import TrainingConfig

FACTORS = {"S3": 3, "S4": 3, "A5": 4, "S5": 4}  # a token
AT_ONCE = "all letters at once"
ORDERS = {"by rank": Curriculum("rank"), "by words": Curriculum("words")}

PAPER = Settings(
    d_model=128,
    training=TrainingConfig(
        steps=20_000,
        batch=512,
        lengths=(20, 20),
        warmup=100,
        weight_decay=0.0,
        label_smoothing=0.05,
        precision="bfloat16",
    ),
    rates=(1e-3,),
    floor=None,
    seeds=(0, 1, 2),
    test=LengthTest((21, 256), 2048, far=4096),
    telemetry_every=1000,
)
SHORT = replace(PAPER, training=replace(PAPER.training, steps=6000))
SMOKE = replace(
    PAPER,
    d_model=8,
    training=replace(PAPER.training, steps=2, batch=4, lengths=(6, 6), warmup=1, precision="float32"),
    seeds=(0,),
    test=LengthTest((7, 16), 8),
    validate_every=2,
    checkpoint_every=2,
    telemetry_every=0,
)
PANELS = tuple(
    Panel(name, "group", {"name": name}, model={"mixer_options": {"heads": 4, "conv": 0, "householders": factors}})
    for name, factors in FACTORS.items()
)
MODEL = {"mixer": "deltanet", "layers": 1, "eigenvalues": WIDE}
SERIES = (
    Series(AT_ONCE, MODEL),
    *(Series(label, MODEL, training={"curriculum": curriculum}) for label, curriculum in ORDERS.items()),
)


@dataclass(frozen=True)
class FewLettersFirst:
    """Findings on which groups are fitted and how far they are right, with a curriculum and without."""

    def __call__(self, results: Sequence[CellResult]) -> list[str]:
        return [
            nested(
                f"{panel}, in the median over the seeds:",
                [
                    f"{series}: {_fitted(runs):.3f} of the answers at the training length are right, and 99 % up to length "
                    f"{median_horizon(runs):,.0f}."
                    for series, runs in by_series(inside).items()
                ],
            )
            for panel, inside in by_panel(results).items()
        ]

    def answer(self, results: Sequence[CellResult]) -> str:
        """Count the groups that the median seed fits, for each order of the letters."""
        groups, fields = by_panel(results), by_key(results)
        orders = list(by_series(results))
        fitted = {
            order: [group for group in groups if (group, order) in fields and _fitted(fields[group, order]) >= FITTED]
            for order in orders
        }
        if AT_ONCE not in fitted or len(orders) == 1:
            return ""

        def said(order: str) -> str:
            names = f" ({joined(fitted[order])})" if fitted[order] else ""
            return f"{len(fitted[order])}{names}"

        with_order = joined(f"{order} {said(order)}" for order in orders if order != AT_ONCE)
        return (
            f"Of {counted(len(groups), 'group')} the median seed fits {said(AT_ONCE)} at the training length where all letters "
            f"come at once, {with_order} where they come in stages. To fit means that 99 % of the answers are right."
        )


def _fitted(runs: Sequence[CellResult]) -> float:
    return statistics.median(run.validation_accuracy for run in runs)


def _every_seed(runs: Sequence[CellResult]) -> str:
    return ", ".join(f"{run.validation_accuracy:.3f}" for run in sorted(runs, key=lambda run: run.seed))


COMPARISON = FewLettersFirst()
EXPERIMENT = Experiment(
    name="curriculum",
    title="Few letters first: S3, S4, A5 and S5 with all elements as letters, one layer",
    question="Does a group with all its elements as letters become learnable when training begins with generators?",
    answer=COMPARISON.answer,
    source="none: the paper trains on all letters from the start",
    settings={"smoke": SMOKE, "short": SHORT, "paper": PAPER},
    family="curriculum",
    panels=PANELS,
    series=SERIES,
    setup="one layer of DeltaNet in [-1, 1] without a convolution, 4 heads of 32; 3 factors a token on S3 and S4, 4 on A5 and "
    "S5; the rate is constant",
    score=SCALED_ACCURACY,
    findings=(COMPARISON,),
    plot=partial(plot_each_series, models="one layer"),
    caption=CAPTION,
    columns=(
        Column("fitted", "the share of right answers at the training length, all letters, every seed", _every_seed),
        HORIZON,
        Theory(PANELS, SERIES, PAPER).column,
    ),
)
