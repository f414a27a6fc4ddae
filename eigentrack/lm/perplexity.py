"""Perplexity by position: exp of the mean of -log p(token t | the t tokens before it in its window), over a bucket of t.

Windows of T + 1 tokens are read piece by piece with the model's state: the logits and states of a whole window are never held
together, so that the memory is the same for every T (except for attention's cache).

B windows at a time  T predictions per window  d model width
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from eigentrack.lm.corpus import document_starts
from eigentrack.lm.documents import Documents
from eigentrack.lm.tokenizer import Tokenizer
from eigentrack.models import SequenceModel
from eigentrack.models.sequence_model import in_evaluation_mode
from eigentrack.ops.cross_entropy.op import IGNORED, each_cross_entropy

PIECE = 1024  # tokens of a window that go through the model together
AT_ONCE = 8  # windows that are read together


class TokenRow(Protocol):
    """The tokens of documents end to end: a Corpus, or a text in memory."""

    @property
    def tokens(self) -> int: ...

    @property
    def starts(self) -> NDArray[np.int64]:
        """The positions at which documents begin."""

    def read(self, position: int, length: int) -> NDArray[Any]: ...


@dataclass(frozen=True)
class TokenText:
    """The tokens of a text in memory, and the positions at which its documents begin."""

    ids: NDArray[np.uint32]
    starts: NDArray[np.int64]

    @property
    def tokens(self) -> int:
        return len(self.ids)

    def read(self, position: int, length: int) -> NDArray[np.uint32]:
        return self.ids[position : position + length]


def read_token_text(documents: Documents, tokenizer: Tokenizer, most: int | None = None) -> TokenText:
    """Encode documents, each followed by the end token if there is one; keep at most the first `most` tokens (None: all)."""
    parts, starts, count = [np.empty(0, np.uint32)], [], 0
    end = np.array([] if tokenizer.end is None else [tokenizer.end], np.uint32)
    for piece in documents.pieces():
        if piece.opens:
            starts.append(count)
        (ids,) = tokenizer.encode([piece.text], "uint32")
        parts += [ids, end] if piece.closes else [ids]
        count += len(ids) + len(end) * piece.closes
        if most is not None and count >= most:
            break
    ids = np.concatenate(parts)[:most]
    return TokenText(ids, document_starts(np.array(starts, np.int64), len(ids)))


@dataclass(frozen=True)
class Windows:
    """The way in which a text is cut into windows."""

    length: int  # predictions per window
    most: int = 16  # windows
    whole: bool = False  # whether each window is the beginning of one document; if not, it may hold several documents

    def __post_init__(self) -> None:
        if self.length < 1 or self.most < 1:
            raise ValueError(f"length={self.length} and most={self.most} windows must both be at least 1")

    def starts(self, row: TokenRow) -> NDArray[np.int64]:
        """Return the positions at which windows begin: `most` of them, evenly spread over the text, if there are more."""
        if self.whole:
            lengths = np.diff(np.append(row.starts, row.tokens))
            found = row.starts[lengths > self.length]
            longest, what = int(lengths.max(initial=0)), "longest document"
        else:
            found = np.arange((row.tokens - 1) // self.length, dtype=np.int64) * self.length
            longest, what = row.tokens, "text"
        if not len(found):
            raise ValueError(
                f"the {what} has {longest} tokens, too few for a window of length={self.length} and its last target: "
                "choose a shorter --length, or more text"
            )
        return found[np.arange(min(self.most, len(found))) * len(found) // min(self.most, len(found))]


@dataclass(frozen=True)
class Bucket:
    """The summed loss at the positions first..last of all windows, counted from 1."""

    first: int
    last: int
    tokens: int  # predictions in the bucket
    nats: float  # the summed loss of these predictions

    @property
    def perplexity(self) -> float:
        return perplexity_of(self.nats, self.tokens)


@dataclass(frozen=True)
class PositionPerplexity:
    """The perplexity of a model by position."""

    windows: int
    buckets: tuple[Bucket, ...]
    bytes: int | None  # the bytes of the text that was predicted; None if unknown

    @property
    def tokens(self) -> int:
        return sum(bucket.tokens for bucket in self.buckets)

    @property
    def perplexity(self) -> float:
        return perplexity_of(sum(bucket.nats for bucket in self.buckets), self.tokens)

    @property
    def bits_per_byte(self) -> float | None:
        """The loss in bits per byte of text; the predictions of end tokens count, too, but have no bytes."""
        return sum(bucket.nats for bucket in self.buckets) / math.log(2) / self.bytes if self.bytes else None

    def to_json(self) -> dict[str, Any]:
        stretches = [
            {"first": bucket.first, "last": bucket.last, "tokens": bucket.tokens, "perplexity": bucket.perplexity}
            for bucket in self.buckets
        ]
        overall = {"perplexity": self.perplexity, "bits_per_byte": self.bits_per_byte}
        return {"windows": self.windows, "tokens": self.tokens, **overall, "buckets": stretches}


def perplexity_of(nats: float, tokens: int) -> float:
    if not tokens:
        return math.nan
    mean = nats / tokens
    return math.inf if mean > 709 else math.exp(mean)  # exp overflows beyond; a NaN stays a NaN


@torch.no_grad()
@in_evaluation_mode
def perplexity_by_position(
    model: SequenceModel,
    row: TokenRow,
    windows: Windows,
    *,
    buckets: int = 16,
    token_bytes: NDArray[np.int64] | None = None,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> PositionPerplexity:
    """Return the perplexity of a model by position.

    Args:
        model: the model to measure.
        row: the text.
        windows: how the text is cut into windows.
        buckets: into how many equal stretches the positions of a window are divided.
        token_bytes: the number of bytes of each token, for bits per byte; None: no bits per byte.
        report: called with the number of tokens done and of all tokens.
    """
    if not 1 <= buckets <= windows.length:
        raise ValueError(f"buckets={buckets} must lie between 1 and length={windows.length}")
    starts = windows.starts(row)
    bounds = np.arange(buckets + 1) * windows.length // buckets
    bucket_of = torch.from_numpy(np.repeat(np.arange(buckets), np.diff(bounds)))
    nats, counts = torch.zeros(buckets, dtype=torch.float64), torch.zeros(buckets, dtype=torch.int64)
    bytes_read = done = 0
    for first in range(0, len(starts), AT_ONCE):
        chosen, state = starts[first : first + AT_ONCE], None
        for begin in range(0, windows.length, PIECE):
            part = slice(begin, min(begin + PIECE, windows.length))
            tokens, targets = _read(row, chosen + begin, part.stop - begin)
            device = model.embedding.weight.device
            x, state = model.hidden(tokens.to(device), state)
            losses = each_cross_entropy(
                x.flatten(0, 1), model.head.weight, targets.flatten().to(device), backend=model.config.backend
            )
            nats.index_add_(0, bucket_of[part], losses.view_as(targets).sum(0, dtype=torch.float64).cpu())
            asked = targets != IGNORED
            counts.index_add_(0, bucket_of[part], asked.sum(0))
            if token_bytes is not None:
                bytes_read += int(token_bytes[targets[asked].numpy()].sum())
            done += tokens.numel()
            report(done, len(starts) * windows.length)
    stretches = zip(bounds[:-1].tolist(), bounds[1:].tolist(), counts.tolist(), nats.tolist(), strict=True)
    found = tuple(Bucket(low + 1, high, count, total) for low, high, count, total in stretches)
    return PositionPerplexity(len(starts), found, None if token_bytes is None else bytes_read)


def _read(row: TokenRow, starts: NDArray[np.int64], length: int) -> tuple[Int[Tensor, "B n"], Int[Tensor, "B n"]]:
    """Return tokens and their targets, the next tokens; the first token of a document is no target, as nothing predicts it."""
    read = np.stack([row.read(start, length + 1) for start in starts.tolist()]).astype(np.int64)
    targets = read[:, 1:].copy()
    for window, start in enumerate(starts.tolist()):
        inside = slice(*np.searchsorted(row.starts, [start + 1, start + length + 1]))
        targets[window, row.starts[inside] - start - 1] = IGNORED
    return torch.from_numpy(read[:, :-1].copy()), torch.from_numpy(targets)
