"""Multi-query associative recall (Arora et al. 2023): k₁ v₁ k₂ v₂ … k_P v_P, then queries q; the answer to q = k_i is v_i.

Tokens 0..keys-1 are keys, the next `values` are values; filler and padding follow.  B sequences  P pairs  Q queries
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Int
from torch import Tensor

from eigentrack.tasks.counter_random import random_integers
from eigentrack.tasks.task import Batch, Task, check_lengths


@dataclass(frozen=True)
class AssociativeRecall(Task):
    """The task to recall the values of keys from a list of pairs.

    The queries ask for the keys of all pairs in a random order, and start again in a new order when all were asked.
    """

    varies_in_length: ClassVar[bool] = False
    description: ClassVar[str] = "Ask for the values of keys from a list of pairs, or for the last of several values of a key."
    keys: int = 32  # the number of possible keys
    values: int = 32  # the number of possible values
    pairs: int = 8  # the number of pairs in the list
    queries: int = 8  # the number of queries after the list
    gap: int = 0  # the number of fillers before every query
    # False: the keys of a list are distinct. True: keys are drawn independently and may repeat, and the last value of a key is
    # the answer, so that the state must forget the earlier ones; a key that was listed twice may be asked for twice
    overwrite: bool = False

    def __post_init__(self) -> None:
        for name, least in (("keys", 1), ("values", 2), ("pairs", 1), ("queries", 1), ("gap", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}={getattr(self, name)} must be at least {least}")
        if self.pairs > self.keys and not self.overwrite:
            raise ValueError(f"pairs={self.pairs} with distinct keys need at least as many keys, not keys={self.keys}")

    @property
    def filler(self) -> int:
        return self.keys + self.values

    @property
    def padding(self) -> int:
        return self.filler + 1

    @property
    def vocab_size(self) -> int:
        return self.padding + 1

    @property
    def classes(self) -> int:
        return self.values

    @property
    def length(self) -> int:
        return 2 * self.pairs + self.queries * (self.gap + 1)

    def sample(
        self, batch: int, lengths: tuple[int, int], *, seed: int, step: int | Tensor, device: torch.device | str = "cpu"
    ) -> Batch:
        """Return sequences that all have `self.length` tokens, padded on the right to the longer of `lengths`."""
        check_lengths(lengths)
        longest = lengths[1]
        if longest < self.length:
            raise ValueError(
                f"lengths={lengths} cannot hold the {self.length} tokens of {self.pairs} pairs and {self.queries} queries"
            )
        draw = partial(random_integers, seed=seed, step=step, device=device)
        if self.overwrite:
            keys = draw(self.keys, (batch, self.pairs), stream=0)
        else:
            keys = _orders(draw(2**31, (batch, self.keys), stream=0))[:, : self.pairs]
        values = draw(self.values, (batch, self.pairs), stream=1)
        rounds = -(-self.queries // self.pairs)
        asked = _orders(draw(2**31, (batch, rounds, self.pairs), stream=2)).flatten(1)[:, : self.queries]  # B Q, of 0..P-1

        queries = keys.gather(1, asked)
        answers = values.gather(1, self._last_pair(keys).gather(1, queries))
        pairs = torch.stack([keys, self.keys + values], 2).flatten(1)
        nothing = torch.zeros_like(pairs)
        tokens = self._row(pairs, queries, longest, filler=self.filler, padding=self.padding)
        weight = self._row(nothing, torch.ones_like(queries), longest) / self.queries
        return Batch(tokens, self._row(nothing, answers, longest), weight)

    def _last_pair(self, keys: Int[Tensor, "B P"]) -> Int[Tensor, "B keys"]:
        """Return the index of the last pair of each key, 0 for a key that is not listed."""
        pair = torch.arange(self.pairs, device=keys.device).expand_as(keys)
        return keys.new_zeros(len(keys), self.keys).scatter_reduce(1, keys, pair, "amax")

    def _row(
        self, listed: Int[Tensor, "B listed"], asked: Int[Tensor, "B Q"], longest: int, filler: int = 0, padding: int = 0
    ) -> Int[Tensor, "B T"]:
        spaced = F.pad(asked[:, :, None], (self.gap, 0), value=filler).flatten(1)
        return F.pad(torch.cat([listed, spaced], 1), (0, longest - self.length), value=padding)


def _orders(random: Int[Tensor, "... n"]) -> Int[Tensor, "... n"]:
    """Return random orders of the numbers 0..n-1."""
    return random.argsort(dim=-1, stable=True)  # stable, so that ties are ordered alike on all devices
