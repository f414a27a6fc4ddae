"""Which regular language a task is about: a named one, a regular expression, or an automaton in a file."""

from __future__ import annotations

from pathlib import Path

from eigentrack.automata import DFA, language
from eigentrack.automata.dfa import read_dfa_values


def chosen_automaton(name: str | None, regex: str | None, alphabet: str, dfa: dict | str | None) -> DFA:
    """Exactly one of name, regex and dfa; `dfa` is the path of a JSON file, or what such a file holds."""
    given = {option: value for option, value in (("name", name), ("regex", regex), ("dfa", dfa)) if value is not None}
    if len(given) != 1:
        raise ValueError(f"a language is given by one of name, regex and dfa, not by {' and '.join(given) or 'none of them'}")
    if alphabet and regex is None:
        raise ValueError(f"alphabet={alphabet!r} adds letters to a regex: a {next(iter(given))} has its own")
    if name is not None:
        return language(name)
    if regex is not None:
        from eigentrack.automata.regex import regex_dfa

        return regex_dfa(regex, alphabet)
    return DFA.from_json(read_dfa_values(Path(dfa)) if isinstance(dfa, str) else dfa)
