"""Encoded blocks in a folder, one file each: what is stored survives a kill at any moment."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from eigentrack.lm.blocks import EncodedBlock
from eigentrack.lm.documents import Place
from eigentrack.models.storage import write_atomically


class BlockStore:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, number: int) -> Path:
        return self.folder / f"block-{number:08d}.npz"

    def count(self) -> int:
        """Blocks are stored in order, so those that are there are the first."""
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
