"""Task: what a model is trained and tested on. Every batch is a pure function of (seed, step), on every device.

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
    tokens: Int[Tensor, "B T"]
    targets: Int[Tensor, "B T"]  # the answer after each token
    weight: Float[Tensor, "B T"]  # of each position in the loss; 0 where nothing is asked, each row sums to 1


class Task(ABC):
    """Tokens 0..vocab_size-1, answers 0..classes-1."""

    description: ClassVar[str]
    varies_in_length: ClassVar[bool] = True

    @property
    @abstractmethod
    def vocab_size(self) -> int:
        """Padding and other special tokens included."""

    @property
    @abstractmethod
    def classes(self) -> int: ...

    @property
    def model_vocab_size(self) -> int:
        """A model's head answers with the same numbers that its embedding reads: it must hold both."""
        return max(self.vocab_size, self.classes)

    def as_tested(self) -> Task:
        """The task as a test asks it, without the further answers that only help to train."""
        return self

    @abstractmethod
    def sample(
        self, batch: int, lengths: tuple[int, int], *, seed: int, step: int | Tensor, device: torch.device | str = "cpu"
    ) -> Batch:
        """Sequences of random lengths between the two (inclusive), padded on the right to the longer one.

        A vector of n steps gives their batches one below the other, `batch` rows in all.
        Nothing is read from the device and nothing copied to it once the first batch is drawn: a CUDA graph can hold this.
        """


def check_lengths(lengths: tuple[int, int], least: int = 1) -> None:
    shortest, longest = lengths
    if not least <= shortest <= longest:
        raise ValueError(f"lengths={lengths} must be {least} ≤ shortest ≤ longest")


class DeviceTables:
    """What a sampler looks up, copied to each device once: a CUDA graph cannot hold a copy from the host."""

    def __init__(self, *tables: Tensor) -> None:
        self._on: dict[torch.device, tuple[Tensor, ...]] = {}
        self._tables = tables

    def on(self, device: torch.device) -> tuple[Tensor, ...]:
        """Return the tables in the order in which they were given."""
        if device not in self._on:
            self._on[device] = tuple(table.to(device) for table in self._tables)
        return self._on[device]
