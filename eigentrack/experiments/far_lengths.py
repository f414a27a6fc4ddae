"""A column of the report's table: the accuracy at the far end of a test, or where the test stopped and why."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from eigentrack.experiments.cell import CellResult
from eigentrack.experiments.experiment import Column
from eigentrack.experiments.length_test import DEAD, LengthTest


def far_column(test: LengthTest, streamed: Collection[str]) -> Column:
    """`streamed`: the panels whose tasks answer after every token."""

    def entry(run: CellResult) -> str:
        if run.diverged_at is not None:
            return "–"
        if run.panel not in streamed:
            return f"tested to {run.scores.longest:,}"
        if run.scores.longest >= test.far:
            return f"{run.scores.curve[-1].accuracy:.3f}"
        why = "dead" if run.state_size else "attention"
        return f"stopped at {run.scores.longest:,} ({why})"

    def show(runs: Sequence[CellResult]) -> str:
        entries = [entry(run) for run in runs]
        return entries[0] if len(set(entries)) == 1 else ", ".join(entries)

    meaning = (
        "the share of right answers at the last 5 % of these lengths, every seed; stopped before: (dead) the horizon is known "
        f"and fewer than {100 * DEAD:.0f} % of the sequences are right, so that no greater length changes a score; (attention) "
        "its cache would grow"
    )
    return Column(f"at {test.far:,}", meaning, show)
