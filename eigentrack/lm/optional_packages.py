"""Packages that only some commands need; if one is missing, an error says what to install."""

from __future__ import annotations

import importlib.util


def require(package: str, purpose: str, extra: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise ValueError(f"{package} {purpose}, and is not installed: pip install 'eigentrack[{extra}]'")
