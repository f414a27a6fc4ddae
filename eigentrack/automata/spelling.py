"""A word as a user writes it, cut into letters."""

from __future__ import annotations

import json


def split_word(text: str, letters: tuple[str, ...]) -> list[str]:
    """Letter by letter; letters of more than one character are separated by commas, or written as a JSON list."""
    if all(len(letter) == 1 for letter in letters):
        return list(text)
    if text.startswith("["):
        try:
            return [str(letter) for letter in json.loads(text)]
        except json.JSONDecodeError as error:
            raise ValueError(f"the word {text!r} is not a JSON list of letters ({error})") from None
    return [part.strip() for part in text.split(",")] if text.strip() else []
