"""Where commands print: results to `out`, progress and errors to `err`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

out, err = Console(), Console(stderr=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read, and nothing else.")]
