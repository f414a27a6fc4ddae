"""The tasks by name, and how to build one from a name and options."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from eigentrack.automata.dfa import read_dfa_values
from eigentrack.options import check_options
from eigentrack.tasks.counter_languages import CounterLanguage
from eigentrack.tasks.modular_arithmetic import ModularArithmetic, ModularArithmeticWithBrackets
from eigentrack.tasks.recall import AssociativeRecall
from eigentrack.tasks.task import Task
from eigentrack.tasks.tracking import cycle_navigation, flip_flop, parity, recognition, state_prediction, word_problem

TASKS: dict[str, Callable[..., Task]] = {
    "parity": parity,
    "cycle-navigation": cycle_navigation,
    "modular-arithmetic": ModularArithmetic,
    "modular-arithmetic-brackets": ModularArithmeticWithBrackets,
    "group": word_problem,
    "language": recognition,
    "language-state": state_prediction,
    "flip-flop": flip_flop,
    "counter-language": CounterLanguage,
    "recall": AssociativeRecall,
}


def make_task(name: str, options: dict[str, Any] | None = None) -> Task:
    if name not in TASKS:
        raise ValueError(f"task {name!r} is not known; there are {', '.join(TASKS)}")
    check_options(f"task {name!r}", TASKS[name], options or {})
    return TASKS[name](**(options or {}))


def self_contained(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options with the contents of files in place of their paths, so that the files are not needed any more."""
    dfa = options.get("dfa")
    return {**options, "dfa": read_dfa_values(Path(dfa))} if isinstance(dfa, str) else options


def describe(name: str) -> str:
    """Return what the task asks, in one line."""
    maker = TASKS[name]
    text = maker.description if isinstance(maker, type) and issubclass(maker, Task) else inspect.getdoc(maker) or ""
    return text.split("\n")[0]
