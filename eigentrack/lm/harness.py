"""Evaluation of a saved language model on the tasks of lm-eval: accuracy, perplexity and the like, as others report them."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from eigentrack.lm.optional_packages import require
from eigentrack.models import load_model

# Table 4 of the paper: LAMBADA, PIQA, HellaSwag, WinoGrande, ARC, WikiText; then recall: SWDE, SQuAD, FDA
TABLE_4 = ("wikitext", "lambada_openai", "piqa", "hellaswag", "winogrande", "arc_easy", "arc_challenge")
TABLE_4_RECALL = ("swde", "squad_completion", "fda")


def evaluate_with_harness(
    folder: str | Path,
    tasks: Sequence[str],
    *,
    limit: int | None = None,
    batch_size: int = 8,
    device: str = "cpu",
    task_folder: str | Path | None = None,
    few_shot: int | None = None,
) -> dict[str, dict[str, Any]]:
    """Evaluate a saved model and return task → metric → value.

    Args:
        folder: holds the model and its tokenizer, in our format or in Hugging Face's.
        tasks: the names of lm-eval's tasks.
        limit: how many documents of each task are used; None: all.
        batch_size: documents that are evaluated together.
        device: where the model computes.
        task_folder: holds further tasks in YAML; None: no further tasks.
        few_shot: how many examples precede each document; None: as many as the task says.
    """
    folder = Path(folder)
    if not any((folder / name).exists() for name in ("tokenizer.json", "tokenizer_config.json")):
        raise ValueError(f"{folder} has no tokenizer.json: the benchmarks are text, save the tokenizer beside the model")
    require_harness()
    from eigentrack.lm.hugging_face import EigentrackForCausalLM

    # imported by name, as the package has no types
    lm_eval, hugging_face = (importlib.import_module(f"lm_eval{part}") for part in ("", ".models.huggingface"))
    logging.getLogger("lm_eval").setLevel(logging.ERROR)  # it would warn that the model is already loaded, which is intended
    manager = _task_manager(task_folder)
    if unknown := _unknown(tasks, manager):
        raise ValueError(f"task {unknown[0]!r} is not known to lm-eval; `lm-eval ls tasks` lists them")
    wrapped = EigentrackForCausalLM.around(load_model(folder, device)).eval()
    model = hugging_face.HFLM(pretrained=wrapped, backend="causal", tokenizer=str(folder), batch_size=batch_size)
    outcome = lm_eval.simple_evaluate(
        model=model, tasks=list(tasks), num_fewshot=few_shot, limit=limit, task_manager=manager, bootstrap_iters=0
    )
    return {task: _metrics(values) for task, values in outcome["results"].items()}


def require_harness() -> None:
    require("lm_eval", "runs the benchmarks", "eval")


def unknown_tasks(tasks: Sequence[str], task_folder: str | Path | None = None) -> list[str]:
    """Return the tasks that lm-eval does not know; `task_folder` holds further tasks in YAML."""
    require_harness()
    return _unknown(tasks, _task_manager(task_folder))


def _task_manager(task_folder: str | Path | None) -> Any:
    return importlib.import_module("lm_eval.tasks").TaskManager(include_path=None if task_folder is None else str(task_folder))


def _unknown(tasks: Sequence[str], manager: Any) -> list[str]:
    return sorted(set(tasks) - set(manager.all_tasks))


def _metrics(values: dict[str, Any]) -> dict[str, Any]:
    """Return the metrics by shorter names: "acc,none" → "acc"; the second word names a filter, and "none" is dropped."""
    kept = {name: value for name, value in values.items() if isinstance(value, int | float)}
    return {name.removesuffix(",none").replace(",", " "): value for name, value in kept.items()}
