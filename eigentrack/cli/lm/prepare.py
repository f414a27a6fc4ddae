"""eigentrack lm prepare."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eigentrack.cli.console import Bars, out
from eigentrack.cli.interruption import GOES_ON, saying
from eigentrack.cli.options import CHOOSE_FIELD, AsJson, Overwrite, TextField

if TYPE_CHECKING:
    from eigentrack.lm.corpus import CorpusIndex
    from eigentrack.lm.documents import Documents
    from eigentrack.lm.prepare import Progress as Prepared


def prepare(
    folder: Annotated[Path, typer.Option("--out", help="The corpus: shards of tokens, their index and the tokenizer.")],
    sources: Annotated[
        list[Path] | None, typer.Argument(help="Text, JSONL or Parquet files, or folders of them; .gz and .xz as well.")
    ] = None,
    dataset: Annotated[str | None, typer.Option(help="A dataset by name, streamed, instead of files.")] = None,
    subset: Annotated[str | None, typer.Option(help="Of the dataset, such as sample-10BT.")] = None,
    split: Annotated[str, typer.Option(help="The dataset's split to read.")] = "train",
    rows: Annotated[int | None, typer.Option(help="Of the dataset's split, the first so many; all if not given.")] = None,
    tokenizer: Annotated[str | None, typer.Option(help="A Hugging Face tokenizer: its name or its folder.")] = None,
    bpe: Annotated[
        int | None, typer.Option("--train-bpe", help="Train a byte-level BPE of so many tokens on the text.")
    ] = None,
    validation_share: Annotated[float, typer.Option(help="The share of documents that go to the split validation.")] = 0.01,
    split_by: Annotated[
        str | None, typer.Option(help="folder: the folder beneath SOURCE names the split (train, validation, ...).")
    ] = None,
    text_field: TextField = "text",
    processes: Annotated[int | None, typer.Option(help="Processes that encode. Default: one for each core.")] = None,
    overwrite: Overwrite = False,
    verify: Annotated[bool, typer.Option("--verify", help="Check every byte of the corpus in --out, and leave.")] = False,
    as_json: AsJson = False,
) -> None:
    """Turn text into a corpus for training. Killed at any moment, the same command goes on.

    Example: eigentrack lm prepare books/ notes.jsonl.gz --train-bpe 4096 --out corpus
    """
    from eigentrack.lm.prepare import prepare as prepare_corpus
    from eigentrack.lm.prepare import verify_corpus
    from eigentrack.lm.tokenizer import NamedTokenizer, TrainedBpe

    if verify:
        _print(folder, verify_corpus(folder), as_json, "every byte is as it was written")
        return
    if (tokenizer is None) == (bpe is None):
        raise ValueError("give one of --tokenizer NAME and --train-bpe VOCAB")
    choice = NamedTokenizer(tokenizer) if tokenizer is not None else TrainedBpe(bpe or 0)
    documents = _documents(sources, dataset, subset, split, rows, validation_share, split_by, text_field)
    workers = (os.cpu_count() or 1) if processes is None else processes
    with saying(GOES_ON), Bars() as bars:
        report = PreparationBar(bars).report
        index = prepare_corpus(documents, folder, choice, overwrite=overwrite, processes=workers, report=report)
    if isinstance(choice, TrainedBpe) and index.vocab_size < choice.vocab_size and not as_json:
        out.print(
            f"the text gives a BPE of {index.vocab_size:,} tokens only, not the {choice.vocab_size:,} of --train-bpe: "
            "no further pair of tokens occurs twice",
            highlight=False,
            soft_wrap=True,
        )
    _print(folder, index, as_json, "prepared")


def _documents(
    sources: list[Path] | None,
    dataset: str | None,
    subset: str | None,
    split: str,
    rows: int | None,
    validation_share: float,
    split_by: str | None,
    text_field: str,
) -> Documents:
    from eigentrack.lm.documents import FolderSplit, ShareSplit
    from eigentrack.lm.named_dataset import DatasetDocuments
    from eigentrack.lm.text_files import FileDocuments, find_files

    if split_by not in (None, "folder"):
        raise ValueError(f"--split-by {split_by} is not known; there is folder")
    share = ShareSplit(validation_share)
    if dataset is not None:
        if sources or split_by:
            raise ValueError("--dataset takes the place of files: leave out SOURCE and --split-by")
        return DatasetDocuments(dataset, subset, split, share, text_field, rows, remedy=CHOOSE_FIELD)
    if not sources:
        raise ValueError("give files or folders of text, or --dataset NAME")
    if rows is not None:
        raise ValueError(f"--rows {rows} goes with --dataset: files are read to their end")
    return FileDocuments(find_files(sources), FolderSplit() if split_by else share, text_field, CHOOSE_FIELD)


def _print(folder: Path, index: CorpusIndex, as_json: bool, done: str) -> None:
    if as_json:
        out.print_json(json.dumps(index.to_json()))
        return
    out.print(f"{folder}: {done}; vocabulary {index.vocab_size:,}, {index.dtype}", markup=False, highlight=False)
    for name, split in index.splits.items():
        out.print(f"  {name}: {split.tokens:,} tokens in {split.documents:,} documents", markup=False, highlight=False)
    if len(index.splits) == 1:
        out.print("  no document went to another split: give more documents, a larger --validation-share, or --split-by folder")


class PreparationBar:
    """The progress of a preparation: how much is read, the tokens so far, tokens per second and the time left."""

    def __init__(self, bars: Bars) -> None:
        self._bars = bars
        self._stage = ""
        self._began, self._tokens_before = 0.0, 0

    def report(self, progress: Prepared) -> None:
        is_new = progress.stage != self._stage  # what a killed run had encoded was not done just now
        if is_new:
            self._stage, self._began, self._tokens_before = progress.stage, time.monotonic(), progress.tokens
        seconds = time.monotonic() - self._began
        said = f"{progress.bytes_read / 1e6:.0f} MB"
        if progress.tokens and seconds:
            said += f"  {progress.tokens / 1e6:.1f}M tokens  {(progress.tokens - self._tokens_before) / seconds:,.0f} tokens/s"
        self._bars.show(self._stage, progress.bytes_read, progress.total_bytes, said, afresh=is_new)
