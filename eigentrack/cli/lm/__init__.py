"""eigentrack lm: prepare, train, evaluate, generate, convert."""

from __future__ import annotations

from collections.abc import Callable

import typer

from eigentrack.cli.console import with_verbosity
from eigentrack.cli.lm.convert import convert
from eigentrack.cli.lm.evaluate import evaluate
from eigentrack.cli.lm.generate import generate
from eigentrack.cli.lm.prepare import prepare
from eigentrack.cli.lm.train import train

lm_app = typer.Typer(name="lm", help="Language models, from a folder of text to a model that writes.", no_args_is_help=True)
LM_COMMANDS: dict[str, Callable[..., None]] = {
    "prepare": prepare,
    "train": train,
    "evaluate": evaluate,
    "generate": generate,
    "convert": convert,
}
for name, command in LM_COMMANDS.items():
    lm_app.command(name)(with_verbosity(command))
