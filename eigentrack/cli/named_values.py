"""Options written name=value, as often as the user likes."""

from __future__ import annotations

import json


def named_values(flag: str, given: list[str] | None) -> dict[str, object]:
    """name=value pairs; a value is read as JSON where it can be, else as text."""
    options: dict[str, object] = {}
    for text in given or []:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise ValueError(f"{flag} {text!r} must be written name=value")
        if name in options:
            raise ValueError(f"{flag} {name} is given twice")
        try:
            options[name] = json.loads(value)
        except json.JSONDecodeError:
            options[name] = value
    return options
