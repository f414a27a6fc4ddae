"""Language models in both ranges, trained alike: what Figures 4, 7, 8 and Table 4 share.

The paper (workshop version, appendix E.4): DeltaNet of 340M and Mamba of 370M parameters, 32B tokens of FineWeb, context 2048;
perplexity by position far beyond it on CodeParrot (code), Math-Hard (mathematics), TriviaQA (facts), SlimPajama (the web).
All four experiments share the training runs in their folder, so that each model is trained once.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from eigentrack.experiments.design.experiment import Experiment
from eigentrack.experiments.language.cell import LanguageCell
from eigentrack.experiments.language.evaluation import STANDARD_LIBRARY, LanguageTest, TextSource
from eigentrack.files import write_json
from eigentrack.lm.config import LanguageRunConfig
from eigentrack.lm.corpus import INDEX_FILE
from eigentrack.lm.prepare import Progress, prepare
from eigentrack.lm.tokenizer import NamedTokenizer, TrainedBpe
from eigentrack.training.config_file import read_values

CORPUS, SOURCE_FILE = "corpora/train", "source.json"
TRAIN_LABEL = "train"
SECONDS_BETWEEN_WORDS = 30
CODE, MATHS, FACTS, WEB = "CodeParrot", "Math-Hard", "TriviaQA", "SlimPajama"
_PRESETS = {"DeltaNet": "deltanet-340m", "Mamba": "mamba-370m", "DeltaNet 1.3B": "deltanet-1.3b"}


@dataclass(frozen=True)
class LanguageSettings:
    """The settings of a budget for language models; `models` and `run` change the presets.

    `tokenizer` is a name, or the size of a BPE that is trained on the text."""

    chooses_rates: ClassVar[bool] = False

    train: TextSource
    validation_share: float
    tokenizer: str | int
    models: dict[str, dict[str, Any]]  # what differs from the preset, for each of its models
    run: dict[str, Any]
    seeds: tuple[int, ...]
    test: LanguageTest
    pilot: bool = False
    recomputed: tuple[str, ...] = ()  # models whose activations are computed again, as they would not fit on a GPU

    @property
    def rates(self) -> tuple[float, ...]:
        return tuple(dict.fromkeys(run.training.learning_rate for run in map(self.run_of, self.models)))

    def run_of(self, model: str, eigenvalues: tuple[float, float] = (-1, 1), seed: int = 0) -> LanguageRunConfig:
        training = {**self.run.get("training", {}), "activation_checkpointing": model in self.recomputed, "seed": seed}
        changes = {**self.run, "training": training, "model": {**self.models[model], "eigenvalues": list(eigenvalues)}}
        return LanguageRunConfig.from_json({"preset": _PRESETS[model], "corpus": CORPUS, **changes})

    def cells(self, experiment: Experiment, seeds: Sequence[int]) -> list[LanguageCell]:
        """Return a cell for every series whose model this budget has: `{"model": NAME, "eigenvalues": (low, high)}`."""
        return [
            LanguageCell(experiment.family, panel.label, series.label, self.run_of(**series.model, seed=seed), self.test)
            for seed in seeds
            for panel in experiment.panels
            for series in experiment.series
            if series.model["model"] in self.models
        ]

    def size_words(self, cells: Sequence[LanguageCell]) -> str:
        return self.facts()["budget"]

    def facts(self) -> dict[str, str]:
        """Return what the page says of the budget, by name."""
        runs = {model: self.run_of(model) for model in self.models}
        training = next(iter(runs.values())).training
        sizes = ", ".join(f"{model} d = {run.model['d_model']} × {run.model['layers']}" for model, run in runs.items())
        texts = "; ".join(f"{text.label}: {text.shown}" for text in self.test.texts)
        return {
            "budget": f"{training.steps:,} steps of {training.tokens_per_step:,} tokens; {sizes}",
            "training text": self.train.shown,
            "test": f"{texts}, {self.test.windows} windows of {self.test.length:,}" if texts else ", ".join(self.test.tasks),
        }

    def with_data(self, data: dict[str, str]) -> LanguageSettings:
        """Return the settings with files or folders in place of the texts: "train" to train on, all others to test on."""
        given = {label: TextSource(label, (path,)) for label, path in data.items()}
        train = given.pop(TRAIN_LABEL, self.train)
        if given and not self.test.texts:
            raise ValueError(
                f"the test is made of tasks, not of texts: of --data only train=PATH fits, not {next(iter(given))}"
            )
        return replace(self, train=train, test=replace(self.test, texts=tuple(given.values()) or self.test.texts))


# 65M rows of some 650 tokens are 42B: the 32.8B of the paper, and a reserve of a quarter
FINEWEB = TextSource("FineWeb", dataset="HuggingFaceFW/fineweb", subset="sample-100BT", first=65_000_000)
PAPER = LanguageSettings(
    train=FINEWEB,
    validation_share=0.0001,
    tokenizer="EleutherAI/gpt-neox-20b",
    models={model: {} for model in _PRESETS},
    run={"training": {"accumulation": 10}},  # 8 of the 80 sequences at a time: 24 to 36 GiB, all of them would take 190
    recomputed=("DeltaNet 1.3B",),
    seeds=(0,),
    test=LanguageTest(
        texts=(
            TextSource(CODE, dataset="codeparrot/codeparrot-clean-valid", field="content"),
            TextSource(MATHS, dataset="lighteval/MATH-Hard", split="test", field="solution"),
            TextSource(FACTS, dataset="mandarjoshi/trivia_qa", subset="rc.nocontext", split="validation", field="question"),
            TextSource(WEB, dataset="cerebras/SlimPajama-627B", split="test"),
        )
    ),
)
SHORT = replace(
    PAPER,
    train=replace(FINEWEB, subset="sample-10BT", first=200_000),
    validation_share=0.01,
    tokenizer=8192,
    models={
        "DeltaNet": {"d_model": 384, "layers": 8, "mixer_options": {"heads": 3}, "mlp_width": 1024},
        "Mamba": {"d_model": 384, "layers": 14},
    },
    run={
        "training": {"steps": 2000, "batch": 32, "warmup": 200, "learning_rate": 1e-3},
        "validate_every": 200,
        "telemetry_every": 200,
    },
    test=replace(PAPER.test, windows=16),
)
_LIBRARY = ("argparse", "ast", "difflib", "inspect", "shutil", "statistics", "subprocess", "tarfile", "turtle")
SMOKE = replace(
    SHORT,
    train=TextSource("Python's library", tuple(f"{STANDARD_LIBRARY}{name}.py" for name in _LIBRARY)),
    validation_share=0.3,
    tokenizer=300,
    models={
        "DeltaNet": {"d_model": 16, "layers": 1, "mixer_options": {"heads": 1}, "mlp_width": 32},
        "Mamba": {"d_model": 16, "layers": 1},
    },
    run={
        "training": {"steps": 12, "batch": 2, "length": 64, "warmup": 2, "learning_rate": 1e-2, "precision": "float32"},
        "validate_every": 6,
        "checkpoint_every": 6,
        "telemetry_every": 6,
        "validation_batches": 1,
    },
    test=LanguageTest(
        texts=(
            TextSource("code", (STANDARD_LIBRARY + "typing.py",)),
            TextSource("prose", (STANDARD_LIBRARY + "pydoc_data/topics.py",)),
        ),
        length=512,
        buckets=8,
        windows=4,
    ),
)
SETTINGS = {"smoke": SMOKE, "short": SHORT, "paper": PAPER}

DIFFERENCES = (
    "One tokenizer (GPT-NeoX's) for all models; the paper does not name its own.",
    "Windows are cut from the documents of a text end to end; of a dataset one field is read: the code of CodeParrot, the "
    "solutions of Math-Hard, the questions of TriviaQA. The paper does not say how it cut its sequences.",
    "The budget short trains on 131M tokens of FineWeb's first documents with a BPE of 8192 tokens.",
)


def prepare_text(settings: LanguageSettings, folder: Path, say: Callable[[str], None]) -> None:
    """Check the test, then prepare the training corpus of all cells; raise if one is there that comes from another text."""
    settings.test.check()
    corpus = folder / CORPUS
    documents = settings.train.documents(settings.validation_share)
    source = {"text": settings.train.shown, "tokenizer": settings.tokenizer, "documents": documents.identity()}
    if (corpus / SOURCE_FILE).exists() and read_values(corpus / SOURCE_FILE) != source:
        raise ValueError(
            f"{corpus} was made from another text or tokenizer, or the text has changed: name another --out folder"
        )
    if (corpus / SOURCE_FILE).exists() and (corpus / INDEX_FILE).exists():
        return
    say(f"preparing the training text: {settings.train.shown}")
    chosen = settings.tokenizer
    tokenizer = NamedTokenizer(chosen) if isinstance(chosen, str) else TrainedBpe(chosen)
    index = prepare(documents, corpus, tokenizer, processes=os.cpu_count() or 1, report=_saying(say))
    write_json(corpus / SOURCE_FILE, source)
    say(f"the training text has {sum(split.tokens for split in index.splits.values()):,} tokens")


def _saying(say: Callable[[str], None]) -> Callable[[Progress], None]:
    """Return a function that says how far the preparation is, every now and then."""
    said_at = time.monotonic()

    def report(progress: Progress) -> None:
        nonlocal said_at
        if time.monotonic() - said_at >= SECONDS_BETWEEN_WORDS:
            said_at = time.monotonic()
            say(f"{progress.stage}: {progress.bytes_read / 1e6:,.0f} MB read, {progress.tokens / 1e6:,.0f}M tokens")

    return report
