"""One step of training: a batch, its loss, the gradient, clipping, AdamW. All of it follows from the step's number.

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
from eigentrack.training.optimizer import clip_gradients, make_optimizer, model_parts, set_rate

MOST_AHEAD = 16  # steps whose batches are drawn at once
TOKENS_AHEAD = 2**22  # of them all, if one batch is not larger


class Step(Protocol):
    """What the loop, CUDA graphs and telemetry ask of a step, be it of a task or of a language model.

    `model` computes; `parts` are the weights that `optimizer` moves. `step(number)` is `prepare`, `sample` and `learn`.
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
        """Whether a CUDA graph can hold the step."""

    def __call__(self, number: int, /) -> Tensor: ...

    def prepare(self, number: int) -> None: ...

    def sample(self, number: int, /) -> Any: ...

    def learn(self, batch: Any, /) -> Tensor: ...

    def feed(self, stream: torch.cuda.Stream) -> Callable[[int], Any]:
        """Return a function that draws the batch of any step, for a graph on this stream."""

    def tensors(self, batch: Any, /) -> list[Tensor]:
        """Return all tensors of a batch that differ from step to step."""

    def look(self, number: int, tokens: int) -> None: ...


class TrainingStep:
    """`step(number)` takes the step and returns its outcome as one tensor on the device; `read_outcomes` makes sense of it.

    `compiled` lets torch.compile fuse the passes through the model, which takes it half a minute at the first step.
    """

    def __init__(self, model: SequenceModel, task: Task, config: TrainingConfig, *, compiled: bool = False) -> None:
        self.model, self.task, self.config = model, task, config
        self.device = next(model.parameters()).device
        self.optimizer = make_optimizer(model, config)
        self.parts = model_parts(model)
        self._scheduled = scheduled(model)
        self._seed = derived_seed(config.seed, "training")
        self._evaluate = compile_pass(self._loss_and_accuracy) if compiled else self._loss_and_accuracy

    def __call__(self, number: int) -> Float[Tensor, " 2+P"]:
        self.prepare(number)
        return self.learn(self.sample(number))

    def prepare(self, number: int) -> None:
        """Set what the number decides besides the batch: the rate, and modules with a schedule of their own."""
        set_rate(self.optimizer, self.config.rate(number))
        for module in self._scheduled:
            module.at_step(number)

    def sample(self, number: int | Int[Tensor, " n"]) -> Batch:
        """The batch of a step, or those of n steps one below the other."""
        rows = self.config.batch * (1 if isinstance(number, int) else len(number))
        return self.task.sample(rows, self.config.lengths, seed=self._seed, step=number, device=self.device)

    @property
    def can_be_captured(self) -> bool:
        return self.device.type == "cuda"

    def feed(self, stream: torch.cuda.Stream) -> Callable[[int], Batch]:
        return _BatchesAhead(self, stream).of

    def tensors(self, batch: Batch) -> list[Tensor]:
        return [batch.tokens, batch.targets, batch.weight]

    def learn(self, batch: Batch) -> Float[Tensor, " 2+P"]:
        """Moves the weights; loss, accuracy, and the gradient norm of each part. The host waits for nothing here."""
        self.model.train()
        with matrix_products(self.config.precision):
            loss, accuracy = self._evaluate(batch)
            self.optimizer.zero_grad()
            loss.backward()
        gradient_norms = clip_gradients(self.parts.values(), self.config.clip)
        self.optimizer.step()
        return torch.cat([loss.detach()[None], accuracy[None], gradient_norms])

    def _loss_and_accuracy(self, batch: Batch) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
        logits = self.logits(batch.tokens)
        loss = batch_loss(logits, batch, self.config.label_smoothing)
        return loss, batch_accuracy(logits.detach(), batch, self.task.classes)

    def logits(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        """In the precision of the configuration, handed back in float32."""
        with self.autocast():
            logits, _ = self.model(tokens)
        return logits.float()

    def look(self, number: int, tokens: int) -> None:
        """Takes the model over the first tokens of the step's batch, for those who watch its layers."""
        batch = self.sample(number).tokens
        self.logits(batch[: max(1, tokens // batch.shape[1])])

    def autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.config.precision == "bfloat16")


class _BatchesAhead:
    """The batches of a run of steps, in a CUDA graph that draws them all.

    Drawing a batch takes a hundred kernels and more whatever its size.
    """

    def __init__(self, step: TrainingStep, stream: torch.cuda.Stream) -> None:
        self._rows = step.config.batch
        ahead = max(1, min(MOST_AHEAD, TOKENS_AHEAD // (self._rows * step.config.lengths[1])))
        self._places = torch.arange(ahead, device=step.device)
        self._numbers = self._places.clone()  # of the steps
        self._first: int | None = None
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, stream=stream):
            self._drawn = step.sample(self._numbers)

    def of(self, number: int) -> Batch:
        ahead = len(self._numbers)
        if self._first is None or not self._first <= number < self._first + ahead:
            torch.add(self._places, number, out=self._numbers)
            self._graph.replay()
            self._first = number
        rows = slice((number - self._first) * self._rows, (number - self._first + 1) * self._rows)
        return Batch(self._drawn.tokens[rows], self._drawn.targets[rows], self._drawn.weight[rows])


@dataclass(frozen=True)
class Outcome:
    """What a step gave; `number` counts from 0."""

    number: int
    loss: float
    accuracy: float | None  # None where nothing is asked but the loss
    gradient_norms: dict[str, float]  # by part, before clipping
    seconds: float = math.nan  # a step took so long, on the mean of those that were read together

    @property
    def gradient_norm(self) -> float:
        return math.hypot(*self.gradient_norms.values())


def read_outcomes(parts: list[str], numbers: list[int], outcomes: list[Tensor]) -> list[Outcome]:
    """Each is [loss, accuracy if there is one, *gradient norms]. The one moment at which the host waits for the device."""
    read = []
    for number, row in zip(numbers, torch.stack(outcomes).tolist(), strict=True):
        (loss, *accuracy), norms = row[: -len(parts)], row[-len(parts) :]
        read.append(Outcome(number, loss, accuracy[0] if accuracy else None, dict(zip(parts, norms, strict=True))))
    return read


def batch_loss(logits: Float[Tensor, "B T V"], batch: Batch, label_smoothing: float) -> Float[Tensor, ""]:
    """Cross-entropy by position, weighted as the task says."""
    by_position = F.cross_entropy(logits.mT, batch.targets, label_smoothing=label_smoothing, reduction="none")
    return (by_position * batch.weight).sum() / batch.weight.sum()


def batch_accuracy(logits: Float[Tensor, "B T V"], batch: Batch, classes: int) -> Float[Tensor, ""]:
    """The weighted share of right answers."""
    is_right = logits[..., :classes].argmax(-1) == batch.targets
    return (is_right * batch.weight).sum() / batch.weight.sum()


@contextmanager
def matrix_products(precision: str) -> Iterator[None]:
    """Lets a GPU compute float32 matrix products in TF32, forward and backward, if the precision is tfloat32."""
    if precision != "tfloat32":
        yield
        return
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
