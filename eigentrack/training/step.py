"""One training step: a batch, its loss, the gradient, clipping, AdamW. The number of the step determines batch and rate.

B sequences  T time  V vocabulary  P parts of the model
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from eigentrack.layers import scheduled
from eigentrack.models import SequenceModel
from eigentrack.tasks import Batch, Task
from eigentrack.tasks.counter_random import derived_seed
from eigentrack.training.compilation import compile_pass
from eigentrack.training.config import OptimizationConfig, TrainingConfig
from eigentrack.training.letter_schedule import LetterSchedule
from eigentrack.training.optimizer import clip_gradients, make_optimizer, model_parts, set_rate

MOST_AHEAD = 16  # the largest number of steps whose batches are drawn at once
TOKENS_AHEAD = 2**22  # the largest number of tokens in these batches, unless a single batch is larger


class Step(Protocol):
    """A training step of a task or a language model, as the loop, CUDA graphs and telemetry use it.

    `model` computes the outputs; `parts` are the weights that `optimizer` updates. `step(number)` calls `prepare`, `sample` and
    `learn`.
    """

    device: torch.device
    optimizer: torch.optim.AdamW
    parts: dict[str, list[nn.Parameter]]

    @property
    def config(self) -> OptimizationConfig: ...

    @property
    def model(self) -> nn.Module: ...

    @property
    def can_be_captured(self) -> bool:
        """Whether a CUDA graph can capture the step."""

    def __call__(self, number: int, /) -> Tensor: ...

    def prepare(self, number: int) -> None: ...

    def sample(self, number: int, /) -> Any: ...

    def learn(self, batch: Any, /) -> Tensor: ...

    def feed(self, stream: torch.cuda.Stream) -> Callable[[int], Any]:
        """Return a function from the number of a step to its batch; a graph that draws batches is captured on `stream`."""

    def tensors(self, batch: Any, /) -> list[Tensor]:
        """Return all tensors of a batch that differ from step to step."""

    def look(self, number: int, tokens: int) -> None: ...


class TrainingStep:
    """A training step on a task.

    `step(number)` takes the step and returns its outcome as one tensor on the device, which `read_outcomes` decodes. If
    `compiled`, torch.compile compiles the passes through the model, for half a minute at the first step.
    """

    def __init__(self, model: SequenceModel, task: Task, config: TrainingConfig, *, compiled: bool = False) -> None:
        self.model, self.task, self.config = model, task, config
        self.device = next(model.parameters()).device
        self.letters = None if config.curriculum is None else LetterSchedule(config.curriculum, task, self.device)
        self.optimizer = make_optimizer(model, config)
        self.parts = model_parts(model)
        self._scheduled = scheduled(model)
        self._seed = derived_seed(config.seed, "training")
        self._evaluate = compile_pass(self._loss_and_accuracy) if compiled else self._loss_and_accuracy

    def __call__(self, number: int) -> Float[Tensor, " 2+P"]:
        self.prepare(number)
        return self.learn(self.sample(number))

    def prepare(self, number: int) -> None:
        """Set the learning rate and the letters of the step, and tell modules that have a schedule its number."""
        set_rate(self.optimizer, self.config.rate(number))
        if self.letters is not None:
            self.letters.prepare(number)
        for module in self._scheduled:
            module.at_step(number)

    def sample(self, number: int | Int[Tensor, " n"]) -> Batch:
        """Return the batch of a step, or the stacked batches of n steps."""
        rows = self.config.batch * (1 if isinstance(number, int) else len(number))
        source = self.letters or self.task
        return source.sample(rows, self.config.lengths, seed=self._seed, step=number, device=self.device)

    @property
    def can_be_captured(self) -> bool:
        return self.device.type == "cuda"

    def feed(self, stream: torch.cuda.Stream) -> Callable[[int], Batch]:
        return _BatchesAhead(self, stream).of

    def tensors(self, batch: Batch) -> list[Tensor]:
        return [batch.tokens, batch.targets, batch.weight]

    def learn(self, batch: Batch) -> Float[Tensor, " 2+P"]:
        """Update the weights and return loss, accuracy and the gradient norm of each part, without waiting for the device."""
        self.model.train()
        with matrix_products(self.config.precision):
            loss, accuracy = self._evaluate(batch)
            self.optimizer.zero_grad()
            loss.backward()
        gradient_norms = clip_gradients(self.parts.values(), self.config.clip)
        self.optimizer.step()
        if self.letters is not None:
            self.letters.count_answers(accuracy)
        return torch.cat([loss.detach()[None], accuracy[None], gradient_norms])

    def _loss_and_accuracy(self, batch: Batch) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        logits = self.logits(batch.tokens)
        loss = batch_loss(logits, batch, self.config.label_smoothing)
        return loss, batch_accuracy(logits.detach(), batch, self.task.classes)

    def logits(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        """Return the logits in float32, computed in the precision of the configuration."""
        with self.autocast():
            logits, _ = self.model(tokens)
        return logits.float()

    def look(self, number: int, tokens: int) -> None:
        """Run the model on about `tokens` tokens of the step's batch, for hooks that observe its layers."""
        batch = self.sample(number).tokens
        self.logits(batch[: max(1, tokens // batch.shape[1])])

    def autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.config.precision == "bfloat16")


class _BatchesAhead:
    """A CUDA graph that draws the batches of several consecutive steps at once.

    Drawing takes a hundred kernels or more, however large the batch is.
    """

    def __init__(self, step: TrainingStep, stream: torch.cuda.Stream) -> None:
        self._rows, self._letters = step.config.batch, step.letters
        ahead = max(1, min(MOST_AHEAD, TOKENS_AHEAD // (self._rows * step.config.lengths[1])))
        self._places = torch.arange(ahead, device=step.device)
        self._numbers = self._places.clone()  # the numbers of the steps
        self._first: int | None = None
        self._stage: int | None = None  # the seed of the batches
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, stream=stream):
            self._drawn = step.sample(self._numbers)

    def of(self, number: int) -> Batch:
        ahead, stage = len(self._numbers), None if self._letters is None else self._letters.stage
        if self._first is None or not self._first <= number < self._first + ahead or stage != self._stage:
            torch.add(self._places, number, out=self._numbers)
            self._graph.replay()
            self._first, self._stage = number, stage
        rows = slice((number - self._first) * self._rows, (number - self._first + 1) * self._rows)
        return Batch(self._drawn.tokens[rows], self._drawn.targets[rows], self._drawn.weight[rows])


@dataclass(frozen=True)
class Outcome:
    """The outcome of a step."""

    number: int  # counts from 0
    loss: float
    accuracy: float | None  # None if the step measures only the loss
    gradient_norms: dict[str, float]  # by part, before clipping
    seconds: float = math.nan  # time per step, the mean over the steps that were read together

    @property
    def gradient_norm(self) -> float:
        return math.hypot(*self.gradient_norms.values())


def read_outcomes(parts: list[str], numbers: list[int], outcomes: list[Tensor]) -> list[Outcome]:
    """Return the outcomes of steps from their tensors [loss, accuracy if there is one, *gradient norms].

    This is the only place where the host waits for the device. `parts` are the names of the gradient norms.
    """
    read = []
    for number, row in zip(numbers, torch.stack(outcomes).tolist(), strict=True):
        (loss, *accuracy), norms = row[: -len(parts)], row[-len(parts) :]
        read.append(Outcome(number, loss, accuracy[0] if accuracy else None, dict(zip(parts, norms, strict=True))))
    return read


def batch_loss(logits: Float[Tensor, "B T V"], batch: Batch, label_smoothing: float) -> Float[Tensor, ""]:
    """Return the mean cross-entropy over all positions, by the weights of the batch."""
    by_position = F.cross_entropy(logits.mT, batch.targets, label_smoothing=label_smoothing, reduction="none")
    return (by_position * batch.weight).sum() / batch.weight.sum()


def batch_accuracy(logits: Float[Tensor, "B T V"], batch: Batch, classes: int) -> Float[Tensor, ""]:
    """Return the share of right answers, by the weights of the batch."""
    is_right = logits[..., :classes].argmax(-1) == batch.targets
    return (is_right * batch.weight).sum() / batch.weight.sum()


@contextmanager
def matrix_products(precision: str) -> Iterator[None]:
    """Let a GPU compute float32 matrix products in TF32 inside of the block if the precision is tfloat32."""
    if precision != "tfloat32":
        yield
        return
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
