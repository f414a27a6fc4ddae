"""Blocks: the units of work when text is encoded.

The stream of pieces is cut into blocks by its text alone, a pool of processes encodes the blocks, and each becomes one file. So
any number of processes gives the same blocks, and a process that is killed loses none of the stored ones.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigentrack.files import write_atomically
from eigentrack.lm.corpus import STARTS
from eigentrack.lm.documents import Piece, Place
from eigentrack.lm.tokenizer import Tokenizer, load_tokenizer
from eigentrack.processes import Cause, Failure, Line, Pool

BLOCK_CHARACTERS = 4 << 20


@dataclass(frozen=True)
class EncodedBlock:
    """The tokens of one block of text."""

    tokens: dict[str, NDArray[Any]]  # the tokens of each split
    starts: dict[str, NDArray[np.int64]]  # where documents begin, by split, counted from the block's first token of the split
    after: Place  # where the next block begins
    bytes_read: int  # how much of the source was read, up to the end of the block

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
    """Encode the blocks in a pool of processes and yield them in order; the pool works only a few blocks ahead."""
    source, encoded, begun, yielded = iter(blocks), {}, 0, 0
    with Pool(processes) as pool:
        while True:
            while pool.has_room and begun - yielded <= 2 * processes and (block := next(source, None)) is not None:
                pool.begin(begun, _encode_in_process, block, tokenizer_folder, dtype)
                begun += 1
            if not pool.is_busy:
                return
            for number, event in pool.wait():
                if isinstance(event, Failure):
                    raise _error(event)
                encoded[number] = event.value
            while yielded in encoded:
                yield encoded.pop(yielded)
                yielded += 1


def _error(failure: Failure) -> Exception:
    if failure.cause is Cause.DIED:
        return OSError("a worker process died, of lack of memory perhaps: run the same command with fewer --processes")
    return failure.as_error()


_tokenizer = cache(load_tokenizer)


def _encode_in_process(line: Line, block: list[Piece], tokenizer_folder: Path, dtype: str) -> EncodedBlock:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the pool of processes is parallel already
    return encode_block(block, _tokenizer(tokenizer_folder), dtype)


class BlockStore:
    """Encoded blocks in a folder, one file each; stored blocks stay whole if the process is killed at any moment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, number: int) -> Path:
        return self.folder / f"block-{number:08d}.npz"

    def count(self) -> int:
        """Count the stored blocks, which are the first ones, as blocks are stored in order."""
        number = 0
        while self.path(number).exists():
            number += 1
        return number

    def save(self, number: int, block: EncodedBlock) -> None:
        arrays = {f"tokens:{split}": tokens for split, tokens in block.tokens.items()}
        arrays |= {f"starts:{split}": starts for split, starts in block.starts.items()}
        arrays |= {"after": np.array(block.after), "bytes_read": np.array(block.bytes_read)}

        def write(temporary: str) -> None:
            with open(temporary, "wb") as file:
                np.savez(file, allow_pickle=False, **arrays)

        write_atomically(self.path(number), write)

    def load(self, number: int) -> EncodedBlock:
        with np.load(self.path(number)) as arrays:
            names = [name.removeprefix("tokens:") for name in arrays.files if name.startswith("tokens:")]
            return EncodedBlock(
                {name: arrays[f"tokens:{name}"] for name in names},
                {name: arrays[f"starts:{name}"] for name in names},
                Place(*arrays["after"].tolist()),
                int(arrays["bytes_read"]),
            )
