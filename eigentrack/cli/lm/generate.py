"""eigentrack lm generate."""

from __future__ import annotations

import sys
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from eigentrack.cli.options import Device, check_device


def generate(
    folder: Annotated[Path, typer.Argument(metavar="MODEL", help="A run's or a model's folder, with its tokenizer.")],
    prompt: Annotated[str, typer.Option(help="What the text begins with; - reads it from the standard input.")],
    tokens: Annotated[int, typer.Option(help="At most so many new tokens.")] = 100,
    temperature: Annotated[float, typer.Option(help="0 takes the likeliest token each time.")] = 0.8,
    top_k: Annotated[int, typer.Option(help="Choose among so many of the likeliest tokens.")] = 50,
    seed: Annotated[int, typer.Option(help="Another seed, another text.")] = 0,
    device: Device = "cpu",
) -> None:
    """Let a language model go on from a prompt; the text appears as it is made, and ends where the model ends it.

    Example: eigentrack lm generate runs/tiny --prompt "def main(" --temperature 0.5
    """
    from eigentrack.lm.generation import stream_text
    from eigentrack.lm.language_model import load_language_model

    check_device(device)
    given = sys.stdin.read() if prompt == "-" else prompt
    language_model = load_language_model(folder, device)
    text = stream_text(language_model, given, tokens, temperature=temperature, top_k=top_k, seed=seed)
    first = next(text)  # what is wrong with the prompt or the options is said before anything is printed
    for part in chain([given, first], text):
        print(part, end="", flush=True)
    print()
