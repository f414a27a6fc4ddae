"""The --text-field option, and the hint that names it."""

from __future__ import annotations

from typing import Annotated

import typer

TextField = Annotated[str, typer.Option(help="Where a row of JSONL, Parquet or a dataset holds its text.")]
CHOOSE_FIELD = "choose with --text-field"
