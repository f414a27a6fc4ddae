"""JSON as people write it: what json itself would pass over in silence, or name by its own limits, is named here."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any


def parse_json(text: str) -> Any:
    """A ValueError for what is no JSON, and for an entry that is given twice."""
    try:
        return json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        raise ValueError(f"not valid JSON ({error})") from None
    except RecursionError:
        raise ValueError("not valid JSON (too deep)") from None


def refuse_repeats(names: Iterable[Any]) -> None:
    seen = set()
    for name in names:
        if name in seen:
            raise ValueError(f"{name!r} is given twice")
        seen.add(name)


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    refuse_repeats(name for name, _ in pairs)
    return dict(pairs)
