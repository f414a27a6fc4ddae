"""eigentrack lm evaluate."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from eigentrack.cli.console import Bars, out
from eigentrack.cli.options import CHOOSE_FIELD, AsJson, Device, TextField, check_device

if TYPE_CHECKING:
    from eigentrack.lm.language_model import LanguageModel
    from eigentrack.lm.perplexity import TokenRow


def evaluate(
    folder: Annotated[Path, typer.Argument(metavar="MODEL", help="A run's or a model's folder, with its tokenizer.")],
    corpus: Annotated[Path | None, typer.Option(help="Perplexity on a corpus made by `eigentrack lm prepare`.")] = None,
    split: Annotated[str, typer.Option(help="The corpus's split.")] = "validation",
    text: Annotated[
        list[Path] | None,
        typer.Option(
            help="Perplexity on text, JSONL or Parquet; may be repeated. All its tokens are held in memory: prepare a large "
            "text, and give it as --corpus."
        ),
    ] = None,
    text_field: TextField = "text",
    length: Annotated[int, typer.Option(help="Tokens a window: as many as you like beyond the training length.")] = 16_384,
    buckets: Annotated[int, typer.Option(help="Stretches of positions, each with a perplexity of its own.")] = 16,
    windows: Annotated[int, typer.Option(help="At most so many windows, spread evenly over the text.")] = 16,
    whole: Annotated[
        bool, typer.Option("--whole-documents", help="Only beginnings of documents that are longer than a window.")
    ] = False,
    harness: Annotated[
        str | None, typer.Option(help="lm-eval's tasks, such as piqa,arc_easy; table4: the paper's; table4-recall: its others.")
    ] = None,
    include_path: Annotated[Path | None, typer.Option(help="A folder with YAML tasks of your own for --harness.")] = None,
    limit: Annotated[int | None, typer.Option(help="The first so many documents of each task of --harness.")] = None,
    probe: Annotated[bool, typer.Option("--probe", help="State tracking: programs of swaps and assignments.")] = False,
    programs: Annotated[int, typer.Option(help="How many of each length for --probe.")] = 100,
    device: Device = "cpu",
    as_json: AsJson = False,
) -> None:
    """Measure perplexity by position, far beyond the training length, in constant memory; lm-eval's tasks; a probe.

    Example: eigentrack lm evaluate runs/tiny --corpus corpora/mine --length 4096 --buckets 8
    """
    from eigentrack.json_text import plain_json
    from eigentrack.lm.language_model import load_language_model

    if corpus is not None and text:
        raise ValueError("give one of --corpus and --text")
    if corpus is None and not text and harness is None and not probe:
        raise ValueError("say what to evaluate on: --corpus FOLDER, --text FILE, --harness TASKS or --probe")
    check_device(device)
    language_model = load_language_model(folder, device)
    found: dict[str, Any] = {}
    if corpus is not None or text:
        row = _token_row(language_model, corpus, split, text or [], text_field)
        found["perplexity"] = _perplexity(language_model, row, length, buckets, windows, whole)
    if probe:
        found["probe"] = _probe(language_model, programs)
    if harness is not None:
        found["harness"] = _harness(language_model.folder, harness, include_path, limit, device)
    if as_json:
        out.print_json(json.dumps(plain_json(found)))
        return
    tables: dict[str, Callable[[Any], Table]] = {"perplexity": _perplexities, "probe": _answers, "harness": _scores}
    for name, result in found.items():
        out.print(_summary(name, result), highlight=False)
        out.print(tables[name](result))


def _token_row(language_model: LanguageModel, corpus: Path | None, split: str, text: list[Path], text_field: str) -> TokenRow:
    from eigentrack.lm.corpus import TOKENIZER_FOLDER, Corpus
    from eigentrack.lm.documents import ShareSplit
    from eigentrack.lm.perplexity import read_token_text
    from eigentrack.lm.text_files import FileDocuments, find_files
    from eigentrack.lm.tokenizer import load_tokenizer

    if corpus is None:
        documents = FileDocuments(find_files(text), ShareSplit(0.0), text_field, CHOOSE_FIELD)
        return read_token_text(documents, language_model.tokenizer)
    opened = Corpus.open(corpus, split)
    made_with = load_tokenizer(corpus / TOKENIZER_FOLDER)
    if made_with.rust.get_vocab() != language_model.tokenizer.rust.get_vocab():  # transformers rewrites files, not vocabularies
        raise ValueError(f"{corpus} was made with another tokenizer than the model's: give the text itself, with --text")
    return opened


def _perplexity(
    language_model: LanguageModel, row: TokenRow, length: int, buckets: int, windows: int, whole: bool
) -> dict[str, Any]:
    from eigentrack.lm.perplexity import Windows, perplexity_by_position
    from eigentrack.lm.tokenizer import bytes_of_tokens

    with _bar("perplexity") as report:
        return perplexity_by_position(
            language_model.model,
            row,
            Windows(length, windows, whole),
            buckets=buckets,
            token_bytes=bytes_of_tokens(language_model.tokenizer),
            report=report,
        ).to_json()


def _probe(language_model: LanguageModel, programs: int) -> list[dict[str, Any]]:
    from eigentrack.lm.probe import probe

    with _bar("programs") as report:
        return [dataclasses.asdict(result) for result in probe(language_model, programs=programs, report=report)]


def _harness(folder: Path, tasks: str, include_path: Path | None, limit: int | None, device: str) -> dict[str, Any]:
    from eigentrack.lm.harness import TABLE_4, TABLE_4_RECALL, evaluate_with_harness

    names = {"table4": TABLE_4, "table4-recall": TABLE_4_RECALL}.get(tasks, tuple(tasks.split(",")))
    return evaluate_with_harness(folder, names, limit=limit, device=device, task_folder=include_path)


@contextmanager
def _bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """Return the function that moves a new progress bar."""
    with Bars() as bars:
        yield lambda done, total: bars.show(what, done, total, f"{done:,}/{total:,}")


def _summary(name: str, found: Any) -> str:
    if name == "perplexity":
        bits = f", {found['bits_per_byte']:.3f} bits a byte" if found["bits_per_byte"] is not None else ""
        return f"{found['windows']} windows, {found['tokens']:,} tokens: perplexity {found['perplexity']:.4g}{bits}"
    if name == "probe":
        return f"share of right answers in {found[0]['programs']} programs each; a guess has {found[0]['chance']:.2f}"
    return "lm-eval"


def _perplexities(found: dict[str, Any]) -> Table:
    table = Table()
    for column in ("positions", "tokens", "perplexity"):
        table.add_column(column, justify="right")
    for bucket in found["buckets"]:
        table.add_row(f"{bucket['first']:,}–{bucket['last']:,}", f"{bucket['tokens']:,}", f"{bucket['perplexity']:.4g}")
    return table


def _answers(found: list[dict[str, Any]]) -> Table:
    kinds = list(dict.fromkeys(result["kind"] for result in found))
    table = Table()
    for column in ("statements", *kinds):
        table.add_column(column, justify="right")
    for count in dict.fromkeys(result["statements"] for result in found):
        row = {result["kind"]: result["accuracy"] for result in found if result["statements"] == count}
        table.add_row(str(count), *(f"{row[kind]:.2f}" for kind in kinds))
    return table


def _scores(found: dict[str, Any]) -> Table:
    table = Table()
    for column in ("task", "metric", "value"):
        table.add_column(column, justify="right" if column == "value" else "left")
    for task, metrics in found.items():
        for metric, value in metrics.items():
            table.add_row(escape(task), escape(metric), f"{value:.4g}")
    return table
