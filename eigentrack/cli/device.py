"""The --device option."""

from __future__ import annotations

from typing import Annotated

import typer

Device = Annotated[str, typer.Option(help="cpu or cuda.")]


def check_device(device: str) -> None:
    import torch

    try:
        usable = not torch.empty(1, device=device).is_meta  # which holds no numbers
    except (RuntimeError, AssertionError):
        usable = False
    if not usable:
        raise ValueError(f"--device {device} is not to be had here; cpu always is")
