"""Loading of what `inspect` can open: the folder of a training run, of a saved model, or of a compiled network."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eigentrack.analysis.inspected_network import InspectedNetwork
from eigentrack.automata import group, language
from eigentrack.compiler import load_compiled
from eigentrack.compiler.compiled import CERTIFICATE
from eigentrack.models import SequenceModel, load_model
from eigentrack.models.storage import CONFIG_FILE, WRAPPED_CONFIG
from eigentrack.tasks import TrackingTask
from eigentrack.tasks.registry import make_task
from eigentrack.tasks.tracking import chosen_automaton
from eigentrack.training.run import MODEL, RUN_FILE, load_run

COMPILED = "compiled network"


@dataclass(frozen=True)
class Loaded:
    """A model that was opened for inspection."""

    model: SequenceModel
    kind: str  # "training run", "saved model" or "compiled network"
    task: str
    network: InspectedNetwork | None  # None if no automaton says what the model should do
    trained_to: int | None  # letters of the longest word in training; None if unknown


def load_inspected(folder: Path, task: str | None, options: dict[str, Any], device: str) -> Loaded:
    """Open a folder for inspection.

    Args:
        folder: a training run, a saved model or a compiled network.
        task: the name of the task that the model should do; None: the run's own; leave it None for a compiled network.
        options: of the task; must be empty without a task.
        device: where the model computes.
    """
    if not folder.is_dir():
        raise ValueError(f"{folder} is no folder: name a training run, a saved model or a compiled network")
    if task is None and options:
        raise ValueError("task options need a task")
    if (folder / CERTIFICATE).exists():
        if task is not None:
            raise ValueError(f"{folder} is a compiled network, which knows its language: leave the task out")
        compiled = load_compiled(folder)
        compiled.model.to(device)
        return Loaded(compiled.model, COMPILED, "its automaton", InspectedNetwork.from_compiled(compiled), None)
    trained_to, kind, home = None, "saved model", folder
    if (folder / RUN_FILE).exists():
        run = load_run(folder)
        trained_to, kind, home = run.training.lengths[1], "training run", folder / MODEL
        if task is None:
            task, options = run.task, run.task_options
    elif not (folder / CONFIG_FILE).exists():
        raise ValueError(
            f"{folder} holds no {RUN_FILE}, {CONFIG_FILE} or {CERTIFICATE}: it is no run, model or compiled network"
        )
    _check_is_ours(home)
    model = load_model(home, device).eval()
    if task is None:
        return Loaded(model, kind, "none", None, trained_to)
    made = make_task(task, options)
    if not isinstance(made, TrackingTask):
        return Loaded(model, kind, task, None, trained_to)
    return Loaded(model, kind, task, InspectedNetwork.from_task(model, made, _letter_names(task, options)), trained_to)


def _check_is_ours(folder: Path) -> None:
    """Raise if the folder holds another project's model; load_model reports everything else that is wrong."""
    try:
        values = json.loads((folder / CONFIG_FILE).read_text())
    except (OSError, ValueError):
        return
    if isinstance(values, dict) and "model_type" in values and WRAPPED_CONFIG not in values:
        raise ValueError(
            f"{folder} holds a {values['model_type']} of transformers: `eigentrack lm convert` makes it ours first"
        )


def _letter_names(task: str, options: dict[str, Any]) -> tuple[str, ...] | None:
    """Return the names that the language or the group gives to the letters; None if the task only numbers them."""
    if task in ("language", "language-state"):
        about = {name: options.get(name) for name in ("name", "regex", "dfa")}
        return chosen_automaton(about["name"], about["regex"], options.get("alphabet", ""), about["dfa"]).letters
    if task == "flip-flop":
        return language("flip-flop").letters
    if task == "group":
        chosen = group(options.get("name", "S5"))
        return tuple(chosen.names[element] for element in chosen.subset(options.get("inputs", "all")))
    return None
