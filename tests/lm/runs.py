"""Small corpora to learn from, small runs on them, and what a run's metrics say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from eigentrack.files import write_json
from eigentrack.lm.blocks import EncodedBlock
from eigentrack.lm.config import LanguageRunConfig
from eigentrack.lm.corpus import INDEX_FILE, STARTS, CorpusIndex
from eigentrack.lm.documents import Place
from eigentrack.lm.shards import write_shards
from eigentrack.training.run import METRICS_FILE

ROOT = Path(__file__).resolve().parent.parent.parent
VOCAB = 24


def write_learnable_corpus(folder: Path, *, tokens: int = 4000) -> Path:
    """Documents of 5 to 40 tokens that count upwards by 1 to 3 modulo the vocabulary."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(0)
    made: dict[str, Any] = {}
    for split, size in (("train", tokens), ("validation", 400)):
        starts = np.concatenate([[0], np.cumsum(draw.integers(5, 41, size // 5))])
        starts = starts[starts < size].astype(STARTS)
        made[split] = (np.cumsum(draw.integers(1, 4, size)) % VOCAB).astype("uint16"), starts
    block = EncodedBlock({k: v[0] for k, v in made.items()}, {k: v[1] for k, v in made.items()}, Place(), 0)
    splits = write_shards([block], folder, "uint16", 1000)
    write_json(folder / INDEX_FILE, CorpusIndex("uint16", VOCAB, None, "", splits).to_json())
    return folder


def small_run(corpus: Path, **training: Any) -> LanguageRunConfig:
    """One head of one block, so that some parameters are too small for every process to hold a part of them."""
    return LanguageRunConfig.from_json(
        {
            "corpus": str(corpus),
            "model": {"d_model": 8, "layers": 1, "mixer": "deltanet", "mixer_options": {"heads": 1}, "mlp_width": 12},
            "training": {"steps": 10, "batch": 4, "length": 16, "warmup": 2, "learning_rate": 1e-2, **training},
            "validate_every": 5,
            "validation_batches": 2,
            "checkpoint_every": 3,
            "telemetry_every": 5,
        }
    )


def metrics_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / METRICS_FILE).read_text().splitlines()]


def curve(folder: Path, name: str = "loss") -> list[float]:
    return [metrics[name] for metrics in metrics_of(folder) if name in metrics]


def launch(config: LanguageRunConfig, folder: Path, *options: str, processes: int) -> subprocess.Popen[str]:
    """`eigentrack lm train`, under torchrun if there is more than one process."""
    written = folder.parent / f"{folder.name}.json"
    written.write_text(json.dumps(config.to_json()))
    start = [sys.executable]
    if processes > 1:
        start += ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    command = [*start, "-m", "eigentrack", "lm", "train", str(written), "--out", str(folder), *options]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def run_to_the_end(config: LanguageRunConfig, folder: Path, *options: str, processes: int) -> str:
    process = launch(config, folder, *options, processes=processes)
    try:
        said, _ = process.communicate(timeout=300)
    except subprocess.TimeoutExpired:
        process.terminate()  # torchrun ends its workers, too
        raise
    assert process.returncode == 0, said
    return said
