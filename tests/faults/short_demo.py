"""The demo in a second or so: one of its four models, a few steps, and short words to test them on.

Worker processes import this module, and nothing that they do not need.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from eigentrack.compiler.correction_proof import CorrectionProof
from eigentrack.experiments.paper import parity_kept, parity_twins
from eigentrack.processes import Line

SHORT = 260  # the longest word of the test
_run_whole, _all_twins = parity_twins._run_by_itself, parity_twins.twins


def shorten() -> None:
    """Make the demo of this process a short one."""
    parity_twins.twins = _short_twins
    parity_twins.LONGEST = SHORT
    parity_twins._run_by_itself = _run_short
    parity_twins.claim_holds = lambda outcomes: True  # so short a training proves nothing
    parity_kept.keep = _not_kept


def _short_twins(seed: int) -> list[parity_twins.Twin]:
    return [replace(twin, training=replace(twin.training, steps=4, batch=4, warmup=1)) for twin in _all_twins(seed)[3:]]


def _run_short(line: Line, twin: parity_twins.Twin, models: Path | None) -> parity_twins.Outcome:
    parity_twins.LONGEST = SHORT
    return _run_whole(line, twin, models)


def _not_kept(twin: Path, *_: object) -> parity_kept.Kept:
    """Stand in for the correction, which finds no codes in so short a training."""
    proof = CorrectionProof(1, 2, 4, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1, ("reference",), "float32")
    return parity_kept.Kept(proof, ((1, 1.0),), ((1, 1.0),))
