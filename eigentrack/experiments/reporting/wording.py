"""Small parts of sentences: names in a row, nested lists, counts with their noun, scores."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

MOST_NAMED = 6  # names in one sentence; a table has the others


def quoted(name: str) -> str:
    """Return the name in quotation marks where it has commas of its own, so that it stays one name in a sentence."""
    return f"“{name}”" if ", " in _without_brackets(name) else name


def joined(names: Iterable[str]) -> str:
    """Return the names with commas and a last "and"; with semicolons where one of them has commas of its own."""
    *first, last = names
    if not first:
        return last
    separator = "; " if any(", " in _without_brackets(name) for name in (*first, last)) else ", "
    return f"{separator.join(first)} and {last}"


def all_of(names: Iterable[str]) -> str:
    """Return the names of models or tasks in a row, each of them quoted where it has commas."""
    return joined(map(quoted, names))


def nested(sentence: str, items: Sequence[str]) -> str:
    """Return a line of a list, with a list of its own below it."""
    return "\n".join([sentence, *(f"    - {item}" for item in items)])


def named(names: Sequence[str], see: str = "see the table") -> str:
    """Return the names in a row, or, where there are more than one reads in a sentence, where to find them."""
    return all_of(names) if len(names) <= MOST_NAMED else see


def counted(number: int, noun: str) -> str:
    """Return the number with its noun: "1 field", "3 fields"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def verb(number: int, one: str = "is", several: str = "are") -> str:
    """Return the form of a verb that goes with so many things."""
    return one if number == 1 else several


def sentence(text: str) -> str:
    """Return the text with a capital letter in front."""
    return text[:1].upper() + text[1:]


def _without_brackets(name: str) -> str:
    """Return the name without what stands in brackets or quotation marks, as [-1, 1], whose commas confuse nobody."""
    return re.sub(r"\[[^\]]*\]|“[^”]*”|\([^)]*\)", "", name)


def rounded(score: float) -> str:
    """Return a score with three digits, without a sign in front of 0.000."""
    return f"{score:.3f}".replace("-0.000", "0.000")


def gain(difference: float) -> str:
    """Return the difference of two scores with three digits and its sign, or 0.000."""
    digits = f"{difference:+.3f}"
    return digits if float(digits) else "0.000"
