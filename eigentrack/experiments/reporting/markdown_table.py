"""A table in Markdown. Regular languages have bars in their names, which would end a field: they are escaped."""

from __future__ import annotations

from collections.abc import Iterable


def markdown_table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """Return the lines of the table."""
    first, *others = ([field.replace("|", r"\|") for field in row] for row in (head, *rows))
    return [_line(first), "|---" * len(first) + "|", *map(_line, others)]


def _line(fields: list[str]) -> str:
    return f"| {' | '.join(fields)} |"
