"""Memory that holds NaN before it is written, so that what a kernel leaves out is seen."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def poisoned_memory() -> Iterator[None]:
    """Torch fills what it allocates in its deterministic mode, whose warnings are about operators of torch's own."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*determinis")
        torch.use_deterministic_algorithms(True, warn_only=True)
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(False)
