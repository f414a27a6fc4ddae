"""The test of a trained language model, perplexity by position on several texts or lm-eval's tasks; and the texts' sources."""

from __future__ import annotations

import json
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eigentrack.files import write_text
from eigentrack.lm.documents import Documents, ShareSplit
from eigentrack.lm.harness import evaluate_with_harness, require_harness, unknown_tasks
from eigentrack.lm.language_model import LanguageModel
from eigentrack.lm.named_dataset import DatasetDocuments
from eigentrack.lm.perplexity import PositionPerplexity, Windows, perplexity_by_position, read_token_text
from eigentrack.lm.probe import draw_program
from eigentrack.lm.text_files import FileDocuments, find_files
from eigentrack.lm.tokenizer import bytes_of_tokens

STANDARD_LIBRARY = "stdlib:"  # a file of Python's own: text that every machine has
PROGRAMS = "swap_programs"  # a task of our own, made where it is asked for
PROGRAM_LENGTHS, PROGRAMS_EACH = (1, 2, 4, 8), 50


@dataclass(frozen=True)
class TextSource:
    """The source of a text: a dataset by name, or files and folders."""

    label: str
    files: tuple[str, ...] = ()
    dataset: str | None = None  # streamed, in place of files
    subset: str | None = None
    split: str = "train"
    field: str = "text"
    first: int | None = None  # rows of the dataset

    def documents(self, validation_share: float = 0.0) -> Documents:
        rule = ShareSplit(validation_share)
        if self.dataset is not None:
            remedy = f"give files of your own with --data {self.label}=PATH"
            return DatasetDocuments(self.dataset, self.subset, self.split, rule, self.field, self.first, remedy)
        files = find_files([_resolved(name) for name in self.files])
        return FileDocuments(files, rule, self.field, f"rename the one that holds the text to {self.field!r}")

    @property
    def shown(self) -> str:
        return self.dataset or ", ".join(self.files)


def _resolved(name: str) -> Path:
    if name.startswith(STANDARD_LIBRARY):
        return Path(sysconfig.get_path("stdlib")) / name.removeprefix(STANDARD_LIBRARY)
    return Path(name)


@dataclass(frozen=True)
class LanguageTest:
    """A test: perplexity on `texts` in windows of `length` tokens, and lm-eval's `tasks` on `limit` documents of each."""

    texts: tuple[TextSource, ...] = ()
    length: int = 16_384
    buckets: int = 32
    windows: int = 64
    tasks: tuple[str, ...] = ()
    limit: int | None = None

    def check(self) -> None:
        """Raise before any training if a text cannot be read, or if lm-eval is not installed and there are tasks for it."""
        for text in self.texts:
            if next(text.documents().pieces(), None) is None:
                raise ValueError(
                    f"the test text {text.label} ({text.shown}) holds no text: give another --data {text.label}=PATH"
                )
        if self.tasks:
            require_harness()

    def perplexity(self, language_model: LanguageModel, text: TextSource) -> PositionPerplexity:
        needed = self.length * self.windows + 1
        row = read_token_text(text.documents(), language_model.tokenizer, needed)
        return perplexity_by_position(
            language_model.model,
            row,
            Windows(self.length, self.windows),
            buckets=self.buckets,
            token_bytes=bytes_of_tokens(language_model.tokenizer),
        )

    def scores(
        self, language_model: LanguageModel, folder: Path, device: str, say: Callable[[str], None]
    ) -> dict[str, dict[str, Any]]:
        """Return the values by task and metric, without tasks unknown to lm-eval; `folder` takes the files of our own task."""
        if not self.tasks:
            return {}
        write_program_task(folder)
        unknown = unknown_tasks(self.tasks, folder)
        if unknown:
            say(f"lm-eval does not know {', '.join(unknown)}: left out")
        tasks = [task for task in self.tasks if task not in unknown]
        return evaluate_with_harness(language_model.folder, tasks, limit=self.limit, device=device, task_folder=folder)


def write_program_task(folder: Path) -> None:
    """Write programs of swaps (eigentrack.lm.probe) as a multiple-choice task for lm-eval."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for statements in PROGRAM_LENGTHS:
        for number in range(PROGRAMS_EACH):
            program = draw_program(statements, number)
            choices = [f" {value}" for value in program.values]
            rows.append({"text": program.text, "choices": choices, "label": program.values.index(program.answer)})
    data = folder / f"{PROGRAMS}.jsonl"
    write_text(data, "".join(json.dumps(row) + "\n" for row in rows))
    task = {
        "task": PROGRAMS,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(data.resolve())}},
        "test_split": "test",
        "output_type": "multiple_choice",
        "doc_to_text": "{{text}}",
        "doc_to_choice": "{{choices}}",
        "doc_to_target": "label",
        "target_delimiter": "",
        "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
    }
    write_text(folder / f"{PROGRAMS}.yaml", json.dumps(task))  # JSON is YAML
