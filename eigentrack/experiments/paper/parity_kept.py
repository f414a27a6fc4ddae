"""The third act of the demo: the wide DeltaNet twin, which drifts, is corrected, proved, and read for a million bits.

The correction finds its codes without labels, in the twin as the demo has trained it, and trains it a little further.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from eigentrack.analysis.correction.correct import CorrectionConfig, correct_network
from eigentrack.analysis.inspected_network import InspectedNetwork
from eigentrack.compiler.correction_proof import CorrectionProof
from eigentrack.compiler.kept_network import save_kept
from eigentrack.models import SequenceModel, load_model
from eigentrack.tasks import TrackingTask

LONGEST = 1_000_000
PIECE = 2**15  # bits that are read at once
ROWS = 1
POINTS = 12  # lengths per decade at which the accuracy is kept


@dataclass(frozen=True)
class Kept:
    """The corrected twin beside the twin that it was made of."""

    proof: CorrectionProof
    corrected: tuple[tuple[int, float], ...]  # (length, accuracy since the length before it)
    uncorrected: tuple[tuple[int, float], ...]

    @property
    def holds(self) -> bool:
        """Whether every answer of the corrected twin was right."""
        return all(accuracy == 1.0 for _, accuracy in self.corrected)

    def to_json(self) -> dict[str, Any]:
        """Return what the demo's JSON says of the third act."""
        return {
            "proof": asdict(self.proof),
            "bits": LONGEST,
            "sequences": ROWS,
            "every_answer_right": self.holds,
            "corrected": [list(point) for point in self.corrected],
            "uncorrected": [list(point) for point in self.uncorrected],
        }


def keep(
    twin: Path,
    task: TrackingTask,
    trained_to: int,
    seed: int,
    folder: Path,
    progress: Callable[[str, int, int], None] | None = None,
) -> Kept:
    """Correct a trained twin, save it with its proof, and read a million bits with both.

    Args:
        twin: the folder of the trained model.
        task: what it was trained on.
        trained_to: the length of its longest training sequence.
        seed: of the words for the codes, and of the bits.
        folder: where the corrected network goes.
        progress: called with what is done, how much is done and of how much; None: nobody is told.
    """
    model = load_model(twin)
    found = correct_network(InspectedNetwork.from_task(model, task), trained_to, CorrectionConfig(seed=seed), progress)
    save_kept(found.kept, folder)
    curves = [_curve(which, task, seed) for which in (found.kept.model, model)]
    return Kept(found.kept.proof, *curves)


@torch.no_grad()
def _curve(model: SequenceModel, task: TrackingTask, seed: int) -> tuple[tuple[int, float], ...]:
    """Return the accuracy between lengths that grow by a constant factor."""
    cuts = sorted({round(10 ** (power / POINTS)) for power in range(POINTS * 6 + 1)})
    right, state = [], None
    for tokens, answers in task.stream(ROWS, LONGEST, piece=PIECE, seed=10**6 + seed):
        logits, state = model(tokens, state)
        right.append((logits[..., : task.classes].argmax(-1) == answers).double().mean(0))
    share = torch.cat(right)
    pieces = share.split([end - start for start, end in zip([0, *cuts[:-1]], cuts, strict=True)])
    return tuple((cut, float(piece.mean())) for cut, piece in zip(cuts, pieces, strict=True))
