"""Blocks: the unit of work. The stream of pieces is cut into blocks by its text alone, a pool of processes encodes them,
and each is stored as one file: any number of processes gives the same blocks, and a kill loses none that is stored.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import connection, get_context, parent_process
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigentrack.lm.corpus import STARTS
from eigentrack.lm.documents import Piece, Place
from eigentrack.lm.tokenizer import Tokenizer, load_tokenizer

BLOCK_CHARACTERS = 4 << 20


@dataclass(frozen=True)
class EncodedBlock:
    tokens: dict[str, NDArray[Any]]  # by split
    starts: dict[str, NDArray[np.int64]]  # by split, counted from the block's first token
    after: Place  # where the next block begins
    bytes_read: int

    def count_tokens(self) -> int:
        return sum(len(tokens) for tokens in self.tokens.values())


def cut_blocks(pieces: Iterable[Piece], size: int = BLOCK_CHARACTERS) -> Iterator[list[Piece]]:
    block, characters = [], 0
    for piece in pieces:
        block.append(piece)
        characters += len(piece.text)
        if characters >= size:
            yield block
            block, characters = [], 0
    if block:
        yield block


def encode_block(block: list[Piece], tokenizer: Tokenizer, dtype: str) -> EncodedBlock:
    parts: dict[str, list[NDArray[Any]]] = {}
    starts: dict[str, list[int]] = {}
    end = np.array([] if tokenizer.end is None else [tokenizer.end], dtype=dtype)
    counts: dict[str, int] = {}
    for piece, tokens in zip(block, tokenizer.encode([piece.text for piece in block], dtype), strict=True):
        split = piece.split
        if piece.opens:
            starts.setdefault(split, []).append(counts.get(split, 0))
        whole = np.concatenate([tokens, end]) if piece.closes else tokens
        parts.setdefault(split, []).append(whole)
        counts[split] = counts.get(split, 0) + len(whole)
    joined = {split: np.concatenate(arrays) for split, arrays in parts.items()}
    numbers = {split: np.array(starts.get(split, []), dtype=STARTS) for split in parts}
    return EncodedBlock(joined, numbers, block[-1].after, block[-1].bytes_read)


def encode_blocks(blocks: Iterable[list[Piece]], tokenizer_folder: Path, dtype: str, processes: int) -> Iterator[EncodedBlock]:
    """In the order of the blocks, by a pool of processes that reads only a little ahead."""
    pool = ProcessPoolExecutor(
        processes, mp_context=get_context("spawn"), initializer=_start_worker, initargs=(tokenizer_folder, dtype)
    )
    pending: deque[Future[EncodedBlock]] = deque()
    try:
        for block in blocks:
            pending.append(pool.submit(_encode_in_worker, block))
            if len(pending) > 2 * processes:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    except BrokenProcessPool:
        raise OSError("a worker process died, of lack of memory perhaps: run the same command with fewer --processes") from None
    finally:
        pool.shutdown(cancel_futures=True)


_WORKER: dict[str, Any] = {}


def _start_worker(tokenizer_folder: Path, dtype: str) -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the processes are the parallelism
    _WORKER.update(tokenizer=load_tokenizer(tokenizer_folder), dtype=dtype)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A worker of a pool waits for ever when its parent was killed; this one does not."""
    parent = parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)


def _encode_in_worker(block: list[Piece]) -> EncodedBlock:
    return encode_block(block, **_WORKER)
