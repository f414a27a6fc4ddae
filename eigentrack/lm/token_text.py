"""Text as one row of tokens in memory, for measuring: what a Corpus is to training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from eigentrack.lm.corpus import document_starts
from eigentrack.lm.documents import Documents
from eigentrack.lm.tokenizer import Tokenizer


class TokenRow(Protocol):
    """Documents end to end: a Corpus, or a text in memory."""

    @property
    def tokens(self) -> int: ...

    @property
    def starts(self) -> NDArray[np.int64]:
        """Where each document begins."""

    def read(self, position: int, length: int) -> NDArray[Any]: ...


@dataclass(frozen=True)
class TokenText:
    ids: NDArray[np.uint32]
    starts: NDArray[np.int64]

    @property
    def tokens(self) -> int:
        return len(self.ids)

    def read(self, position: int, length: int) -> NDArray[np.uint32]:
        return self.ids[position : position + length]


def read_token_text(documents: Documents, tokenizer: Tokenizer, most: int | None = None) -> TokenText:
    """Each document followed by the end token, where there is one; at most the first `most` tokens."""
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
