"""The options that name a regular language: a regex, a name, a JSON file, or the word problem of a group."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from eigentrack.automata import DFA

ALL_ELEMENTS = "all"
Regex = Annotated[str | None, typer.Argument(help="A regular expression, such as '(ab|ba)*'.")]
Alphabet = Annotated[str, typer.Option(help="Letters beyond those in the regex, such as abc.")]
Named = Annotated[str | None, typer.Option("--language", help="A named language of `eigentrack tasks`.")]
DfaFile = Annotated[Path | None, typer.Option("--dfa", help="A JSON file: letters, transitions, accepting, start.")]
GroupName = Annotated[str | None, typer.Option("--group", help="The word problem of a group: S5, A5, Z60, D4, Q8, Z2xZ3.")]
Letters = Annotated[str | None, typer.Option(help="With --group: all, swaps, upto3 or generators.", show_default=ALL_ELEMENTS)]

ImageLimit = Annotated[int | None, typer.Option(help="Give up the cascade beyond so many image sets.")]


def image_limit_or_default(image_limit: int | None) -> int:
    """Return the limit that is given, or the default of the algebra."""
    from eigentrack.automata.image_sets import DEFAULT_LIMIT

    check_limit("--image-limit", image_limit)
    return DEFAULT_LIMIT if image_limit is None else image_limit


def read_automaton(
    regex: str | None, alphabet: str, named: str | None, file: Path | None, group: str | None, letters: str | None
) -> DFA:
    """Return the complete minimal DFA of the one language that is given."""
    from eigentrack.automata import DFA, language, minimal, regex_dfa, word_problem_dfa
    from eigentrack.automata.dfa import read_dfa_values

    given = [
        name
        for name, value in (("REGEX", regex), ("--language", named), ("--dfa", file), ("--group", group))
        if value is not None
    ]
    if len(given) != 1:
        raise ValueError(f"give one of REGEX, --language, --dfa and --group; got {' and '.join(given) or 'none'}")
    if alphabet and regex is None:
        raise ValueError("--alphabet goes with a REGEX only")
    if letters is not None and group is None:
        raise ValueError(f"--letters {letters} goes with --group only")
    if regex is not None:
        return regex_dfa(regex, alphabet)
    if named is not None:
        return language(named)
    if group is not None:
        return word_problem_dfa(group, letters or ALL_ELEMENTS)
    assert file is not None
    return minimal(DFA.from_json(read_dfa_values(file)))


def check_limit(flag: str, value: int | None) -> None:
    if value is not None and value < 1:
        raise ValueError(f"{flag} {value} must be at least 1")
