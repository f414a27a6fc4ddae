"""Packages that only some commands need: asked for where they are used, with an error that says what to install."""

from __future__ import annotations

import importlib.util


def require(package: str, purpose: str, extra: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise ValueError(f"{package} {purpose}, and is not installed: pip install 'eigentrack[{extra}]'")
