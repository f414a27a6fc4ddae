"""A language model's training in a folder: run.json, metrics.jsonl, checkpoints/ and, at the end, model/ with its tokenizer.

Every process that torchrun started calls `run_language_training`; the first writes all but the checkpoints, which all write.
Killed at any moment, the run goes on from its last complete checkpoint, with any number of processes.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from eigentrack.lm.batches import PackedBatches
from eigentrack.lm.captured_step import CapturedLanguageStep, can_capture
from eigentrack.lm.compiled_block import pays_to_compile
from eigentrack.lm.config import LanguageRunConfig, load_language_run
from eigentrack.lm.corpus import TOKENIZER_FOLDER, Corpus, CorpusIndex
from eigentrack.lm.distributed import World, join_world
from eigentrack.lm.documents import TRAIN, VALIDATION
from eigentrack.lm.flops import matrix_product_rate, training_flops
from eigentrack.lm.sharded_checkpoint import ShardedCheckpoints
from eigentrack.lm.step import LanguageStep
from eigentrack.lm.tokenizer import TOKENIZER_FILE, fingerprint
from eigentrack.models import SequenceModel, save_model
from eigentrack.models.storage import clear_unfinished, write_json
from eigentrack.training.folder_lock import only_process_in
from eigentrack.training.loop import take_steps
from eigentrack.training.metrics_log import Metrics, MetricsLog
from eigentrack.training.run import CHECKPOINTS, EVENTS, METRICS_FILE, MODEL, RUN_FILE
from eigentrack.training.telemetry import telemetry
from eigentrack.training.tensorboard import TensorBoard, require_tensorboard

READ_EVERY = 8  # steps on a GPU: reading waits until the device is done
BYTES_READ_FIRST = 4 << 30  # of a corpus, to check them before the run: some seconds


@dataclass(frozen=True)
class LanguageRunResult:
    steps: int
    tokens: int
    loss: float | None  # of the last step; None if none was left to take
    validation_loss: float | None


def run_language_training(
    config: LanguageRunConfig,
    folder: Path,
    *,
    resume: bool = False,
    device: str = "cpu",
    graph: bool = True,
    compiled: bool | None = None,
    tensorboard: bool = False,
    report: Callable[[int, Metrics], None] = lambda done, metrics: None,
    say: Callable[[str], None] = print,
) -> LanguageRunResult:
    """`report(steps done, metrics)` is called for every step, in the first process alone.

    `graph`: where it can be, the step is replayed as a CUDA graph. `compiled`: torch.compile fuses each block; None: where it
    pays, in a long run on one GPU whose shapes stay the same.
    """
    if tensorboard:
        require_tensorboard()
    with join_world(device) as world:
        say = say if world.leads else lambda text: None
        try:
            return _run(config, folder, world, resume, graph, compiled, tensorboard, report, say)
        except torch.OutOfMemoryError:
            training = config.training
            rows = training.batch // (world.ranks * training.accumulation)
            raise ValueError(
                f"out of memory with {rows} sequences of {training.length} tokens at a time on {world.device}: "
                f"raise training.accumulation (it is {training.accumulation}) or set training.activation_checkpointing"
            ) from None


def _run(
    config: LanguageRunConfig,
    folder: Path,
    world: World,
    resume: bool,
    graph: bool,
    compiled: bool | None,
    tensorboard: bool,
    report: Callable[[int, Metrics], None],
    say: Callable[[str], None],
) -> LanguageRunResult:
    training = config.training
    training.check_ranks(world.ranks)
    batches, validation = _batches(config, TRAIN), _validation_batches(config, say)
    if world.leads:
        _check_bytes([batches.corpus] if validation is None else [batches.corpus, validation.corpus], say)
    config = replace(config, corpus_fingerprint=batches.corpus.fingerprint)
    torch.manual_seed(training.seed)
    weights = SequenceModel(config.build_model_config(batches.corpus.vocab_size))
    batches.corpus.check_vocabulary(weights.config.vocab_size)
    flops = training_flops(weights)
    if compiled is None:
        compiled = pays_to_compile(weights, training, world)
    step = LanguageStep(weights, batches, training, world, compiled=compiled)
    with ExitStack() as open_files:
        open_files.enter_context(_opened(folder, config, resume, world))
        checkpoints = ShardedCheckpoints(folder / CHECKPOINTS, step, say)
        done = checkpoints.load() if resume else 0

        def every(count: int) -> Callable[[int], bool]:
            return lambda done: count > 0 and (done % count == 0 or done == training.steps)

        validates = every(config.validate_every if validation is not None else 0)
        saves, looks = every(config.checkpoint_every), every(config.telemetry_every)

        def pauses(done: int) -> bool:
            return validates(done) or saves(done) or looks(done)

        log = open_files.enter_context(closing(MetricsLog(folder / METRICS_FILE, done, say))) if world.leads else None
        events = None
        if tensorboard and log is not None:
            events = open_files.enter_context(closing(TensorBoard(folder / EVENTS, log.history)))
        open_files.callback(checkpoints.finish)
        peak = world.ranks * matrix_product_rate(world.device, training.computed_in)
        metrics: Metrics = {}
        run = CapturedLanguageStep(step) if graph and can_capture(step) else step
        for outcome in take_steps(step, done, training.steps, run=run, pause=pauses, read_every=READ_EVERY):
            done = outcome.number + 1
            metrics = {
                "loss": outcome.loss,
                "gradient_norm": outcome.gradient_norm,
                "learning_rate": training.rate(outcome.number),
                "tokens": done * training.tokens_per_step,
                "epoch": batches.epoch(done),
                "tokens_per_second": (speed := training.tokens_per_step / outcome.seconds),
            }
            if flops is not None:
                metrics["utilisation"] = flops * speed / peak
            if looks(done):
                metrics["telemetry"] = telemetry(step, outcome)
            if validates(done) and validation is not None:
                metrics["validation_loss"] = step.mean_loss(validation, config.validation_batches)
            if log is not None:
                log.append({"step": done, **metrics})
                report(done, metrics)
            if events is not None:
                events.write({"step": done, **metrics})
            if saves(done):
                checkpoints.save(done)
        checkpoints.finish()
        _save_model(step, folder / MODEL)
        tokenizer = batches.corpus.folder / TOKENIZER_FOLDER
        if world.leads and tokenizer.is_dir():
            shutil.copytree(tokenizer, folder / MODEL, dirs_exist_ok=True)
    return LanguageRunResult(done, done * training.tokens_per_step, metrics.get("loss"), metrics.get("validation_loss"))


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
    """None if there are none: a run can do without."""
    if not config.validate_every or VALIDATION not in CorpusIndex.load(Path(config.corpus)).splits:
        return None
    try:
        return _batches(config, VALIDATION)
    except ValueError as error:
        say(f"there will be no validation: {error}")
        return None


def _check_bytes(splits: Sequence[Corpus], say: Callable[[str], None]) -> None:
    """A damaged shard would be learnt from in silence."""
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


@contextmanager
def _opened(folder: Path, config: LanguageRunConfig, resume: bool, world: World) -> Iterator[None]:
    """All processes look before the first of them writes; while they are at work, no other run may begin here."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--out {folder} is a file: name a folder")
    with only_process_in(folder) if world.leads else nullcontext():
        if world.leads:
            clear_unfinished(folder)
        is_new = not (folder / RUN_FILE).exists()
        if not is_new:
            if not resume:
                raise ValueError(f"{folder} already holds a run: add --resume to go on with it, or name another folder")
            if load_language_run(folder / RUN_FILE) != config:
                raise ValueError(f"{folder} holds a run with another configuration or corpus: name another folder")
        world.wait()
        if world.leads and is_new:
            write_json(folder / RUN_FILE, config.to_json())
        world.wait()
        yield


def _save_model(step: LanguageStep, folder: Path) -> None:
    """Whole, in float32, by the first process."""
    whole: dict[str, Tensor] = {}
    for name, weight in step.parameters.items():
        tensor = weight.full_tensor() if isinstance(weight, DTensor) else weight
        if step.world.leads:
            whole[name] = tensor.detach().cpu()
    if not step.world.leads:
        return
    with torch.device("meta"):
        model = SequenceModel(step.weights.config)
    kept = model.state_dict().keys()
    whole |= {name: buffer.cpu() for name, buffer in step.weights.named_buffers() if name in kept}
    model.load_state_dict(whole, strict=False, assign=True)  # a tied head is the embedding
    save_model(model, folder)
