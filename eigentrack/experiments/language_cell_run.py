"""Train a language cell's model, or take the one that another cell has trained the same way, and test it.

OUT/corpora/train         the training text, prepared before any cell runs
OUT/language_models/...   the training runs, which all experiments in OUT share
OUT/cells/...             the results
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from eigentrack.experiments.cell import Cell
from eigentrack.experiments.language_result import LanguageResult, PerplexityPoint, read_learning, training_seconds
from eigentrack.experiments.language_test import LanguageTest
from eigentrack.experiments.provenance import origin
from eigentrack.files import write_json
from eigentrack.lm.config import LanguageRunConfig, load_language_run
from eigentrack.lm.corpus import Corpus
from eigentrack.lm.documents import TRAIN
from eigentrack.lm.language_model import load_language_model
from eigentrack.lm.perplexity import PositionPerplexity
from eigentrack.lm.train import run_language_training
from eigentrack.training import Diverged
from eigentrack.training.run import CHECKPOINTS, RUN_FILE

RUNS_FOLDER, TRAINED_FILE = "language_models", "trained.json"


def train_and_test_language_model(
    cell: Cell, folder: Path, device: str, report: Callable[[int], None], say: Callable[[str], None]
) -> LanguageResult:
    assert isinstance(cell.run, LanguageRunConfig)
    assert isinstance(cell.test, LanguageTest)
    place = Path(cell.name).parts[1:]  # without the family, which names the test
    out = folder.parents[len(place) + 1]  # above the folder of all cells
    run, trained = replace(cell.run, corpus=str(out / cell.run.corpus)), out.joinpath(RUNS_FOLDER, *place)
    perplexities: dict[str, tuple[PerplexityPoint, ...]] = {}
    scores: dict[str, dict[str, Any]] = {}
    diverged_at, parameters, start = None, 0, time.perf_counter()
    try:
        _train(run, trained, device, report, say)
        start = time.perf_counter()
        language_model = load_language_model(trained, device)
        parameters = sum(parameter.numel() for parameter in language_model.model.parameters())
        for text in cell.test.texts:
            perplexities[text.label] = _curve(cell.test.perplexity(language_model, text))
        scores = cell.test.scores(language_model, folder / "tasks", device, say)
    except Diverged as error:
        diverged_at = error.step
    return LanguageResult(
        panel=cell.panel,
        series=cell.series,
        rate=cell.rate,
        seed=cell.seed,
        trained_to=run.training.length,
        steps=run.training.steps if diverged_at is None else diverged_at,
        diverged_at=diverged_at,
        learning=read_learning(trained),
        perplexities=perplexities,
        scores=scores,
        parameters=parameters,
        seconds=round(training_seconds(trained) + time.perf_counter() - start, 2),
        **origin(device),
    )


def _train(
    run: LanguageRunConfig, folder: Path, device: str, report: Callable[[int], None], say: Callable[[str], None]
) -> None:
    """A run that is finished is not run again, but it must be this one."""
    if (folder / TRAINED_FILE).exists():
        run = replace(run, corpus_fingerprint=Corpus.open(run.corpus, TRAIN).fingerprint)
        if load_language_run(folder / RUN_FILE) != run:
            raise ValueError(f"{folder} holds a run with another configuration or corpus: name another --out folder")
        return
    run_language_training(run, folder, resume=True, device=device, report=lambda step, _: report(step), say=say)
    write_json(folder / TRAINED_FILE, True)
    shutil.rmtree(folder / CHECKPOINTS)


def _curve(found: PositionPerplexity) -> tuple[PerplexityPoint, ...]:
    return tuple(PerplexityPoint(bucket.last, bucket.perplexity) for bucket in found.buckets)
