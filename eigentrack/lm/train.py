"""The training of a language model in a folder; at the end, the model and its tokenizer are saved there.

Every process that torchrun started calls `run_language_training`; all write checkpoints, the first writes everything else.
A run that was killed at any moment can go on from its last complete checkpoint, with any number of processes.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from eigentrack.files import written_together
from eigentrack.lm.batches import PackedBatches
from eigentrack.lm.config import LanguageRunConfig, load_language_run
from eigentrack.lm.corpus import TOKENIZER_FOLDER, Corpus, CorpusIndex
from eigentrack.lm.distributed import World, join_world
from eigentrack.lm.documents import TRAIN, VALIDATION
from eigentrack.lm.flops import matrix_product_rate, training_flops
from eigentrack.lm.sharded_checkpoint import ShardedCheckpoints
from eigentrack.lm.step import LanguageStep, pays_to_compile
from eigentrack.lm.tokenizer import TOKENIZER_FILE, fingerprint
from eigentrack.models import SequenceModel, save_model
from eigentrack.models.storage import CONFIG_FILE
from eigentrack.training.driver import TrainingRun, drive
from eigentrack.training.metrics_log import Metrics, require_tensorboard
from eigentrack.training.step import Outcome

log = logging.getLogger(__name__)
BYTES_READ_FIRST = 4 << 30  # a corpus of at most so many bytes is checked before the run, which takes some seconds


@dataclass(frozen=True)
class LanguageRunResult:
    """The outcome of a training run."""

    steps: int
    tokens: int  # seen in training
    loss: float | None  # the loss of the last step; None if no step was left to take
    validation_loss: float | None  # None without a validation


def run_language_training(
    config: LanguageRunConfig,
    folder: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    device: str = "cpu",
    graph: bool = True,
    compiled: bool | None = None,
    tensorboard: bool = False,
    is_over: Callable[[], bool] | None = None,
    report: Callable[[int, Metrics], None] = lambda done, metrics: None,
    say: Callable[[str], None] = log.warning,
) -> LanguageRunResult:
    """Train a language model, or go on with a training that was stopped.

    Args:
        config: the settings of the run.
        folder: where the run is written.
        resume: whether to go on with the run in the folder.
        overwrite: whether to delete a run that the folder holds, and to write beside other files in it.
        device: "cpu" or "cuda".
        graph: whether to replay the step as a CUDA graph where that is possible.
        compiled: whether torch.compile fuses each block; None: only in a long run on one GPU whose shapes stay the same.
        tensorboard: whether to write the metrics for TensorBoard, too.
        is_over: asked after every step; once it is true, the run writes a checkpoint and raises RunStopped. None: never.
        report: called with the number of steps done and the metrics of every step, in the first process only.
        say: called with each message, in the first process only.
    """
    training = config.training
    if tensorboard:
        require_tensorboard()  # first, before anything that takes long
    with join_world(device) as world:
        say = say if world.leads else lambda text: None
        try:
            run = _LanguageRun(config, world, compiled, say)
            outcome = drive(
                run,
                folder,
                resume=resume,
                overwrite=overwrite,
                graph=graph,
                tensorboard=tensorboard,
                is_over=is_over,
                report=report,
                say=say,
            )
        except torch.OutOfMemoryError:
            rows = training.batch // (world.ranks * training.accumulation)
            raise ValueError(
                f"out of memory with {rows} sequences of {training.length} tokens at a time on {world.device}: "
                f"raise training.accumulation (it is {training.accumulation}) or set training.activation_checkpointing"
            ) from None
    last, tokens = outcome.metrics, outcome.steps * training.tokens_per_step
    return LanguageRunResult(outcome.steps, tokens, last.get("loss"), last.get(_LanguageRun.validation))


class _LanguageRun(TrainingRun):
    """The training run of a language model, as the driver needs it."""

    config: LanguageRunConfig
    step: LanguageStep
    read_every = 8
    settings = "configuration or corpus"
    validation = "validation_loss"

    def __init__(self, config: LanguageRunConfig, world: World, compiled: bool | None, say: Callable[[str], None]) -> None:
        training = config.training
        training.check_ranks(world.ranks)
        self.world = world
        self.batches, self._validation = _batches(config, TRAIN), _validation_batches(config, say)
        corpus = self.batches.corpus
        if world.leads:
            _check_bytes([corpus] if self._validation is None else [corpus, self._validation.corpus], say)
        self.config = replace(config, corpus_fingerprint=corpus.fingerprint)
        self.validate_every = 0 if self._validation is None else config.validate_every
        torch.manual_seed(training.seed)
        weights = SequenceModel(config.build_model_config(corpus.vocab_size))
        corpus.check_vocabulary(weights.config.vocab_size)
        self._flops = training_flops(weights)
        if compiled is None:
            compiled = pays_to_compile(weights, training, world)
        self.step = LanguageStep(weights, self.batches, training, world, compiled=compiled)
        self._peak = world.ranks * matrix_product_rate(world.device, training.computed_in)

    def is_stored_in(self, path: Path) -> bool:
        return load_language_run(path) == self.config

    def checkpoints(self, folder: Path, say: Callable[[str], None]) -> ShardedCheckpoints:
        return ShardedCheckpoints(folder, self.step, say)

    def metrics(self, outcome: Outcome) -> Metrics:
        training, done = self.config.training, outcome.number + 1
        speed = training.tokens_per_step / outcome.seconds
        metrics = {
            "loss": outcome.loss,
            "gradient_norm": outcome.gradient_norm,
            "learning_rate": training.rate(outcome.number),
            "tokens": done * training.tokens_per_step,
            "epoch": self.batches.epoch(done),
            "tokens_per_second": speed,
        }
        return metrics if self._flops is None else {**metrics, "utilisation": self._flops * speed / self._peak}

    def validate(self) -> float:
        assert self._validation is not None
        return self.step.mean_loss(self._validation, self.config.validation_batches)

    def save_model(self, folder: Path) -> None:
        """Save the whole model in float32, and the tokenizer if the corpus has one; only the first process writes."""
        model, tokenizer = _whole_model(self.step), self.batches.corpus.folder / TOKENIZER_FOLDER
        if model is None:
            return
        with written_together(folder, last=CONFIG_FILE) as new:
            save_model(model, new)
            if tokenizer.is_dir():
                shutil.copytree(tokenizer, new, dirs_exist_ok=True)


def _batches(config: LanguageRunConfig, split: str) -> PackedBatches:
    training = config.training
    return PackedBatches(
        Corpus.open(config.corpus, split),
        batch=training.batch,
        length=training.length,
        seed=training.seed,
        reset_documents=training.reset_documents,
    )


def _validation_batches(config: LanguageRunConfig, say: Callable[[str], None]) -> PackedBatches | None:
    """Return the batches for validation; None if validation is off, or impossible, which `say` reports."""
    if not config.validate_every or VALIDATION not in CorpusIndex.load(Path(config.corpus)).splits:
        return None
    try:
        return _batches(config, VALIDATION)
    except ValueError as error:
        say(f"there will be no validation: {error}")
        return None


def _check_bytes(splits: Sequence[Corpus], say: Callable[[str], None]) -> None:
    """Raise if a small corpus is damaged, for training would not notice; a corpus too large to check gets a message."""
    size = sum(split.stored_bytes for split in splits)
    if size > BYTES_READ_FIRST:
        check = f"eigentrack lm prepare --verify --out {splits[0].folder}"
        say(f"{splits[0].folder} has {size / 2**30:.0f} GiB, too much to check first: `{check}` does")
        return
    for split in splits:
        split.verify()
    tokenizer = splits[0].folder / TOKENIZER_FOLDER
    if (tokenizer / TOKENIZER_FILE).is_file() and fingerprint(tokenizer) != CorpusIndex.load(splits[0].folder).tokenizer_sha256:
        raise ValueError(f"{tokenizer} is not the tokenizer that made the corpus: copy or prepare it again")


def _whole_model(step: LanguageStep) -> SequenceModel | None:
    """Gather the parameters of all processes and return the model in float32, in the first process only."""
    whole: dict[str, Tensor] = {}
    for name, weight in step.parameters.items():
        tensor = weight.full_tensor() if isinstance(weight, DTensor) else weight
        if step.world.leads:
            whole[name] = tensor.detach().cpu()
    if not step.world.leads:
        return None
    with torch.device("meta"):
        model = SequenceModel(step.weights.config)
    kept = model.state_dict().keys()
    whole |= {name: buffer.cpu() for name, buffer in step.weights.named_buffers() if name in kept}
    model.load_state_dict(whole, strict=False, assign=True)  # not strict: a tied head is not among the parameters
    return model
