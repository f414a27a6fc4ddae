"""Batches of a corpus: a pure function of (seed, step), for any number of ranks and across epochs.

The split is cut into W windows of T tokens. Row r of step s is window π_e(n mod W) with n = s·B + r and e = n div W; π_e is a
permutation of its own for each epoch. The target of a token is the next token; the last token of a document has none (IGNORED).

B rows of a step, over all ranks  T tokens per row  W windows per epoch  N sequences of a packed batch
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from eigentrack.lm.corpus import Corpus
from eigentrack.ops.cross_entropy.op import IGNORED
from eigentrack.tasks.counter_random import derived_seed

ROUNDS = 6  # rounds of the Feistel network that permutes windows
_MULTIPLIERS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)  # the multipliers of SplitMix64


@dataclass(frozen=True)
class PackedBatch:
    """The tokens and targets of a step: packed as [1, B*T] if the state is reset between documents, else rows [B, T].

    `cu_seqlens` holds the position at which each document or row begins, and the end; None without resets. It stays on the CPU,
    where every layer reads it: a copy on a GPU would have to be waited for.
    """

    tokens: Int[Tensor, "rows time"]
    targets: Int[Tensor, "rows time"]
    cu_seqlens: Int[Tensor, "N+1"] | None


class PackedBatches:
    """The batches of one split of a corpus, for every step and rank."""

    def __init__(self, corpus: Corpus, *, batch: int, length: int, seed: int, reset_documents: bool = True) -> None:
        """Cut the split of a corpus into windows.

        Args:
            corpus: the split to read.
            batch: rows per step, over all ranks.
            length: tokens per row.
            seed: of the order of the windows.
            reset_documents: whether the state starts afresh with every document; if not, there are no cu_seqlens, and faster
                kernels run.
        """
        if batch < 1 or length < 1:
            raise ValueError(f"batch={batch} and length={length} must both be at least 1")
        self.windows = (corpus.tokens - 1) // length  # the last token of the split has no target
        if not self.windows:
            raise ValueError(
                f"{corpus.folder}, split {corpus.name!r} has {corpus.tokens} tokens, too few for one row of "
                f"length={length} and its targets: shorten the rows, or prepare more text"
            )
        self.corpus, self.batch, self.length, self.seed, self.reset_documents = corpus, batch, length, seed, reset_documents

    def epoch(self, step: int) -> float:
        """Return how often the corpus has been seen before this step."""
        return step * self.batch / self.windows

    def take(self, step: int, rank: int = 0, ranks: int = 1, device: torch.device | str = "cpu") -> PackedBatch:
        """Return the rows of one rank: the B rows of the step are cut into `ranks` equal blocks, in the order of the ranks."""
        if self.batch % ranks or not 0 <= rank < ranks:
            raise ValueError(f"batch={self.batch} must be a multiple of ranks={ranks}, and rank={rank} one of them")
        rows = self.batch // ranks
        starts = self._window_starts(step * self.batch + rank * rows + np.arange(rows))
        read = np.empty((rows, self.length + 1), self.corpus.dtype)
        for row, start in zip(read, starts.tolist(), strict=True):
            row[:] = self.corpus.read(start, self.length + 1)
        self._check_tokens(int(read.max()))
        tokens, targets = read[:, :-1].astype(np.int64), read[:, 1:].astype(np.int64)
        row, offset = self._document_starts(starts)
        targets[row, offset - 1] = IGNORED
        if not self.reset_documents:
            return PackedBatch(_moved(tokens, device), _moved(targets, device), None)
        inside = offset < self.length  # a document that begins at T begins with the next row, which is a bound anyway
        bounds = np.concatenate([np.arange(rows + 1) * self.length, (row * self.length + offset)[inside]])
        bounds = np.unique(bounds)  # a corpus may hold documents without a token
        return PackedBatch(
            _moved(tokens.reshape(1, -1), device), _moved(targets.reshape(1, -1), device), torch.from_numpy(bounds)
        )

    def _check_tokens(self, highest: int) -> None:
        """Raise if a token lies outside the vocabulary; on a GPU its lookup would end the whole process."""
        if highest >= self.corpus.vocab_size:
            raise ValueError(
                f"{self.corpus.folder}, split {self.corpus.name!r} holds token {highest}, outside of its vocabulary of "
                f"{self.corpus.vocab_size}: `eigentrack lm prepare --verify --out {self.corpus.folder}` names the damaged file"
            )

    def _window_starts(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        epochs, places = np.divmod(numbers, self.windows)
        starts = np.empty_like(numbers)
        for epoch in np.unique(epochs).tolist():
            chosen = epochs == epoch
            seed = derived_seed(self.seed, f"windows of epoch {epoch}")
            starts[chosen] = permuted(places[chosen], self.windows, seed) * self.length
        return starts

    def _document_starts(self, starts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return (row, offset) of every document that begins 1..T tokens after the first token of a row."""
        first = np.searchsorted(self.corpus.starts, starts, side="right")
        counts = np.searchsorted(self.corpus.starts, starts + self.length, side="right") - first
        row = np.repeat(np.arange(len(starts)), counts)
        within = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
        return row, self.corpus.starts[first[row] + within] - starts[row]


def _moved(array: NDArray[np.int64], device: torch.device | str) -> Tensor:
    """Copy an array to a device; the host does not wait for a GPU."""
    tensor = torch.from_numpy(array)
    if torch.device(device).type == "cuda":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


def permuted(numbers: NDArray[np.int64], size: int, seed: int) -> NDArray[np.int64]:
    """Return the images of the numbers under the permutation of 0..size-1 that `seed` names, without an array of all numbers.

    A Feistel network permutes the numbers of 2h bits, 4^h ≥ size: (left, right) → (right, left ⊕ mix(right + key)) in each
    round. A result that is not below `size` goes through again until it is (cycle walking), which keeps it a permutation.
    """
    half_bits = np.uint64(max(1, ((size - 1).bit_length() + 1) // 2))
    keys = [np.uint64(derived_seed(seed, f"round {number}")) for number in range(ROUNDS)]
    result = numbers.astype(np.uint64)
    outside = np.ones(result.shape, bool)
    while outside.any():
        result[outside] = _network(result[outside], half_bits, keys)
        outside = result >= size
    return result.astype(np.int64)


def _network(x: NDArray[np.uint64], half_bits: np.uint64, keys: list[np.uint64]) -> NDArray[np.uint64]:
    mask = (np.uint64(1) << half_bits) - np.uint64(1)
    left, right = x >> half_bits, x & mask
    for key in keys:
        left, right = right, left ^ (_mix(right + key) & mask)
    return (left << half_bits) | right


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    x = (x ^ (x >> np.uint64(30))) * _MULTIPLIERS[0]
    x = (x ^ (x >> np.uint64(27))) * _MULTIPLIERS[1]
    return x ^ (x >> np.uint64(31))
