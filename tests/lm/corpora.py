"""Small corpora with known tokens, written without a tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from eigentrack.files import write_json
from eigentrack.lm.blocks import EncodedBlock
from eigentrack.lm.corpus import INDEX_FILE, STARTS, Corpus, CorpusIndex
from eigentrack.lm.documents import Place
from eigentrack.lm.shards import write_shards

VOCAB = 100_000


def write_corpus(folder: Path, documents: Sequence[int], *, shard_tokens: int = 50, dtype: str = "uint32") -> Corpus:
    """Documents of the given lengths; token number n of the split has the id n, so that each says where it comes from."""
    folder.mkdir(parents=True, exist_ok=True)
    tokens = np.arange(sum(documents), dtype=dtype)
    starts = np.cumsum([0, *documents[:-1]]).astype(STARTS)
    block = EncodedBlock({"train": tokens}, {"train": starts}, Place(), 0)
    splits = write_shards([block], folder, dtype, shard_tokens)
    write_json(folder / INDEX_FILE, CorpusIndex(dtype, VOCAB, None, "", splits).to_json())
    return Corpus.open(folder, "train")
