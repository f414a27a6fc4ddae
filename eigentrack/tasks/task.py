"""The base class of the tasks that models are trained and tested on.

Every batch is a pure function of (seed, step), the same on every device.

B sequences  T time
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """Sequences with the answers to them."""

    tokens: Int[Tensor, "B T"]  # what the model reads
    targets: Int[Tensor, "B T"]  # the right answer after each token
    weight: Float[Tensor, "B T"]  # the weight of each position in the loss: 0 where no answer is due; each row sums to 1


class Task(ABC):
    """A task, with tokens 0..vocab_size-1 and answers 0..classes-1."""

    description: ClassVar[str]  # what the task asks, in one line
    varies_in_length: ClassVar[bool] = True  # whether sequences have different lengths

    @property
    @abstractmethod
    def vocab_size(self) -> int:
        """The number of tokens, including padding and other special tokens."""

    @property
    @abstractmethod
    def classes(self) -> int: ...

    @property
    def model_vocab_size(self) -> int:
        """The vocabulary size of a model for this task, whose embedding takes all tokens and whose head gives all answers."""
        return max(self.vocab_size, self.classes)

    def as_tested(self) -> Task:
        """Return the task without the additional answers that are asked for only in training."""
        return self

    @abstractmethod
    def sample(
        self, batch: int, lengths: tuple[int, int], *, seed: int, step: int | Tensor, device: torch.device | str = "cpu"
    ) -> Batch:
        """Return sequences of random lengths, padded on the right to the longest.

        After the first call nothing is copied between host and device, so that a CUDA graph can capture the call.

        Args:
            batch: the number of sequences.
            lengths: the shortest and the longest possible length.
            seed: the seed of all draws.
            step: the number of the training step, or a vector of n steps, whose batches of `batch` / n rows each are stacked.
            device: the device of the batch.
        """


def check_lengths(lengths: tuple[int, int], least: int = 1) -> None:
    shortest, longest = lengths
    if not least <= shortest <= longest:
        raise ValueError(f"lengths={lengths} must be {least} ≤ shortest ≤ longest")


class DeviceTables:
    """Lookup tables of a sampler, copied to each device once: a CUDA graph cannot capture a copy from the host."""

    def __init__(self, *tables: Tensor) -> None:
        self._on: dict[torch.device, tuple[Tensor, ...]] = {}
        self._tables = tables

    def on(self, device: torch.device) -> tuple[Tensor, ...]:
        """Return the tables in the order in which they were given."""
        if device not in self._on:
            self._on[device] = tuple(table.to(device) for table in self._tables)
        return self._on[device]
