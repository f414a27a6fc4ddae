"""Text → tokenizer → blocks of tokens → shards with an index: a corpus that training maps into memory.

Intermediate files lie in FOLDER/.preparing; index.json is written last. After a kill, the same call goes on where it was.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eigentrack.files import remove, write_json, written_together
from eigentrack.lm.blocks import BlockStore, cut_blocks, encode_blocks
from eigentrack.lm.corpus import INDEX_FILE, TOKENIZER_FOLDER, Corpus, CorpusIndex
from eigentrack.lm.documents import TRAIN, Documents, Place
from eigentrack.lm.shards import write_shards
from eigentrack.lm.tokenizer import TOKENIZER_FILE, NamedTokenizer, Tokenizer, TrainedBpe, load_tokenizer
from eigentrack.output_folder import Output, claimed

WORK_FOLDER, SETTINGS_FILE = ".preparing", "settings.json"
ENTRIES = (INDEX_FILE, WORK_FOLDER, TOKENIZER_FOLDER, "*.tokens", "*.starts")  # the entries of a corpus


@dataclass(frozen=True)
class Progress:
    """The progress of a preparation."""

    stage: str  # what is being done
    tokens: int  # encoded so far
    bytes_read: int
    total_bytes: int | None  # the size of the source; None if unknown


def prepare(
    documents: Documents,
    folder: Path,
    tokenizer: NamedTokenizer | TrainedBpe,
    *,
    overwrite: bool = False,
    processes: int = 1,
    report: Callable[[Progress], object] = lambda progress: None,
) -> CorpusIndex:
    """Prepare a corpus in a folder, or go on with one that was stopped, and return its index.

    A corpus that was prepared before with the same arguments is left as it is.

    Args:
        documents: the text.
        folder: where the corpus is written.
        tokenizer: a tokenizer by name, or a BPE that is trained on the text.
        overwrite: whether to delete another corpus in the folder, and to write beside other files in it.
        processes: how many processes encode.
        report: called with the progress from time to time.
    """
    if processes < 1:
        raise ValueError(f"processes={processes} must be at least 1")
    settings = json.loads(json.dumps({"documents": documents.identity(), "tokenizer": repr(tokenizer)}))
    work = folder / WORK_FOLDER
    is_half_done = (work / SETTINGS_FILE).exists() and json.loads((work / SETTINGS_FILE).read_text()) == settings
    with claimed(folder, Output("corpus", ENTRIES, settings), known=is_half_done, overwrite=overwrite):
        if not (folder / INDEX_FILE).exists():
            _open_work(folder, work, settings)
            store = BlockStore(work)
            try:
                loaded = _tokenizer(documents, tokenizer, work, report)
                dtype = "uint16" if loaded.vocab_size <= 2**16 else "uint32"
                _encode(documents, store, work / TOKENIZER_FOLDER, dtype, processes, report)
            except ValueError:
                if not store.count():  # a wrong value, and nothing to go on with
                    remove(work)
                raise
            splits = write_shards((store.load(number) for number in range(store.count())), folder, dtype)
            if not splits:
                _remove_work(work)
                raise ValueError("the sources hold no text: there is nothing to prepare")
            _copy_tokenizer(work / TOKENIZER_FOLDER, folder / TOKENIZER_FOLDER)
            index = CorpusIndex(dtype, loaded.vocab_size, loaded.end, loaded.fingerprint, splits)
            write_json(folder / INDEX_FILE, index.to_json())  # last: a folder with an index is complete
        if work.exists():
            _remove_work(work)
        return CorpusIndex.load(folder)


def verify_corpus(folder: Path) -> CorpusIndex:
    """Check every byte and token of a corpus, and the tokenizer that made them; raise if anything is wrong."""
    index = CorpusIndex.load(folder)
    for split in index.splits:
        Corpus.open(folder, split, verify=True)
    found = load_tokenizer(folder / TOKENIZER_FOLDER)
    expected = index.tokenizer_sha256, index.vocab_size, index.end_of_document
    if (found.fingerprint, found.vocab_size, found.end) != expected:
        raise ValueError(f"{folder / TOKENIZER_FOLDER} is not the tokenizer that made the corpus: copy or prepare it again")
    return index


def _open_work(folder: Path, work: Path, settings: dict[str, Any]) -> None:
    """Make the working folder, or check that it has the same settings."""
    path = work / SETTINGS_FILE
    is_same = path.exists() and json.loads(path.read_text()) == settings
    if work.exists() and not is_same:
        if BlockStore(work).count():
            raise ValueError(
                f"{folder} holds a half-done corpus of other sources or options: give the same ones to go on, "
                "or add --overwrite to start anew"
            )
        shutil.rmtree(work)  # the earlier preparation failed before it encoded anything
    work.mkdir(parents=True, exist_ok=True)
    write_json(path, settings)


def _copy_tokenizer(source: Path, target: Path) -> None:
    with written_together(target, last=TOKENIZER_FILE) as new:
        shutil.copytree(source, new, dirs_exist_ok=True)


def _remove_work(work: Path) -> None:
    """Remove the working folder, the settings last: they say to which preparation the remaining files belong."""
    for path in work.iterdir():
        if path.is_file() and path.name != SETTINGS_FILE:
            path.unlink()
    shutil.rmtree(work / TOKENIZER_FOLDER, ignore_errors=True)
    shutil.rmtree(work)


def _tokenizer(
    documents: Documents, choice: NamedTokenizer | TrainedBpe, work: Path, report: Callable[[Progress], object]
) -> Tokenizer:
    folder, unfinished = work / TOKENIZER_FOLDER, work / f"{TOKENIZER_FOLDER}.unfinished"
    if not folder.exists():
        shutil.rmtree(unfinished, ignore_errors=True)
        choice.write(unfinished, _training_text(documents, report))
        os.replace(unfinished, folder)
    return load_tokenizer(folder)


def _training_text(documents: Documents, report: Callable[[Progress], object]) -> Iterator[str]:
    empty = True
    for piece in documents.pieces():
        if piece.split == TRAIN:
            empty = False
            yield piece.text
        report(Progress("reading for the BPE", 0, piece.bytes_read, documents.total_bytes))
    if empty:
        raise ValueError(f"there is no text in the split {TRAIN!r} to train a BPE on")


def _encode(
    documents: Documents,
    store: BlockStore,
    tokenizer: Path,
    dtype: str,
    processes: int,
    report: Callable[[Progress], object],
) -> None:
    """Encode and store the blocks that are not stored yet."""
    done = store.count()
    tokens, place, bytes_read = sum(store.load(number).count_tokens() for number in range(done)), Place(), 0
    if done:
        last = store.load(done - 1)
        place, bytes_read = last.after, last.bytes_read
    report(Progress("encoding", tokens, bytes_read, documents.total_bytes))
    for number, block in enumerate(encode_blocks(cut_blocks(documents.pieces(place)), tokenizer, dtype, processes), done):
        store.save(number, block)
        tokens += block.count_tokens()
        report(Progress("encoding", tokens, block.bytes_read, documents.total_bytes))
