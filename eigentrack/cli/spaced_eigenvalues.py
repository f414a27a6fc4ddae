"""--eigenvalues -1 1, as people type it, is --eigenvalues=-1,1, for every command that has the option; so are annulus 0.5 1
and polygon 5."""

from __future__ import annotations

from collections.abc import Sequence

OPTION = "--eigenvalues"
NUMBERS_AFTER = {"annulus": 2, "disk": 1, "polygon": 1}  # after a first number comes one more


def join_eigenvalues(arguments: Sequence[str]) -> list[str]:
    """The command line with the numbers that belong to the option in one word with it."""
    joined, rest = [], list(arguments)
    while rest:
        word = rest.pop(0)
        if word == OPTION and rest:
            parts = [rest.pop(0)]
            most = NUMBERS_AFTER.get(parts[0], 1 if _is_number(parts[0]) else 0)
            while rest and len(parts) <= most and _is_number(rest[0]):
                parts.append(rest.pop(0))
            word = f"{OPTION}={' '.join(parts)}"
        joined.append(word)
    return joined


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
