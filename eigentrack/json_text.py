"""Stricter JSON: reading refuses repeated keys, and `plain_json` replaces values that not every reader of JSON accepts."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any


def parse_json(text: str) -> Any:
    """Return the value of a JSON text; raise a ValueError if it is not valid JSON or an object has the same key twice."""
    try:
        return json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        raise ValueError(f"not valid JSON ({error})") from None
    except RecursionError:
        raise ValueError("not valid JSON (too deep)") from None


def refuse_repeats(names: Iterable[Any]) -> None:
    """Raise a ValueError if a name occurs twice."""
    seen = set()
    for name in names:
        if name in seen:
            raise ValueError(f"{name!r} is given twice")
        seen.add(name)


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    refuse_repeats(name for name, _ in pairs)
    return dict(pairs)


def plain_json(value: Any) -> Any:
    """Return the value in plain JSON types: a complex number as [real, imaginary], an infinity or NaN as None."""
    if isinstance(value, complex):
        return [plain_json(value.real), plain_json(value.imag)]
    if isinstance(value, dict):
        return {key: plain_json(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_json(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
