"""The writer of the files that `Corpus` reads: shards of equal length, and the starts of documents.

Documents without a token are left out, and so are splits without a token.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigentrack.files import write_atomically
from eigentrack.lm.blocks import EncodedBlock
from eigentrack.lm.corpus import DTYPES, Split, StoredFile, document_starts

SHARD_TOKENS = 1 << 26  # 128 MiB of uint16


def write_shards(
    blocks: Iterable[EncodedBlock], folder: Path, dtype: str, shard_tokens: int = SHARD_TOKENS
) -> dict[str, Split]:
    writers: dict[str, _SplitWriter] = {}
    for block in blocks:
        for name, tokens in block.tokens.items():
            if name not in writers:
                writers[name] = _SplitWriter(name, folder, DTYPES[dtype], shard_tokens)
            writers[name].add(tokens, block.starts[name])
    return {name: writers[name].finish() for name in sorted(writers) if writers[name].tokens}


class _SplitWriter:
    def __init__(self, name: str, folder: Path, dtype: np.dtype[Any], shard_tokens: int) -> None:
        self._name, self._folder, self._shard_tokens = name, folder, shard_tokens
        self._shard, self._filled = np.empty(shard_tokens, dtype), 0
        self.tokens = 0
        self._starts: list[NDArray[np.int64]] = []
        self._files: list[StoredFile] = []

    def add(self, tokens: NDArray[Any], starts: NDArray[np.int64]) -> None:
        self._starts.append(starts + self.tokens)
        self.tokens += len(tokens)
        while len(tokens):
            taken = tokens[: self._shard_tokens - self._filled]
            self._shard[self._filled : self._filled + len(taken)] = taken
            self._filled += len(taken)
            tokens = tokens[len(taken) :]
            if self._filled == self._shard_tokens:
                self._close_shard()

    def finish(self) -> Split:
        if self._filled:
            self._close_shard()
        starts = self._store(f"{self._name}.starts", document_starts(np.concatenate(self._starts), self.tokens))
        return Split(self.tokens, starts.entries, self._shard_tokens, tuple(self._files), starts)

    def _close_shard(self) -> None:
        self._files.append(self._store(f"{self._name}-{len(self._files):05d}.tokens", self._shard[: self._filled]))
        self._filled = 0

    def _store(self, name: str, entries: NDArray[Any]) -> StoredFile:
        write_atomically(self._folder / name, lambda temporary: entries.tofile(temporary))
        return StoredFile(name, len(entries), hashlib.sha256(entries.data).hexdigest())
