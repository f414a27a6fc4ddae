"""What a trained language model is tested on: perplexity by position on several texts, or lm-eval's tasks."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eigentrack.experiments.text_source import TextSource
from eigentrack.lm.harness import evaluate_with_harness, require_harness, unknown_tasks
from eigentrack.lm.language_model import LanguageModel
from eigentrack.lm.perplexity import PositionPerplexity, Windows, perplexity_by_position, read_token_text
from eigentrack.lm.probe import draw_program
from eigentrack.lm.tokenizer import bytes_of_tokens

PROGRAMS = "swap_programs"  # a task of our own, made where it is asked for
PROGRAM_LENGTHS, PROGRAMS_EACH = (1, 2, 4, 8), 50


@dataclass(frozen=True)
class LanguageTest:
    """Perplexity on `texts` in windows of `length` tokens; lm-eval's `tasks`, the first `limit` documents of each."""

    texts: tuple[TextSource, ...] = ()
    length: int = 16_384
    buckets: int = 32
    windows: int = 64
    tasks: tuple[str, ...] = ()
    limit: int | None = None

    def check(self) -> None:
        """What would else be found out only after the training: every text can be read, and lm-eval is there for the tasks."""
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
        """Task → metric → value; `folder` takes the files of our own task. A task that lm-eval does not know is left out."""
        if not self.tasks:
            return {}
        write_program_task(folder)
        unknown = unknown_tasks(self.tasks, folder)
        if unknown:
            say(f"lm-eval does not know {', '.join(unknown)}: left out")
        tasks = [task for task in self.tasks if task not in unknown]
        return evaluate_with_harness(language_model.folder, tasks, limit=self.limit, device=device, task_folder=folder)


def write_program_task(folder: Path) -> None:
    """Programs of swaps (eigentrack.lm.probe) as a multiple-choice task for lm-eval."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for statements in PROGRAM_LENGTHS:
        for number in range(PROGRAMS_EACH):
            program = draw_program(statements, number)
            choices = [f" {value}" for value in program.values]
            rows.append({"text": program.text, "choices": choices, "label": program.values.index(program.answer)})
    data = folder / f"{PROGRAMS}.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
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
    (folder / f"{PROGRAMS}.yaml").write_text(json.dumps(task))  # JSON is YAML
