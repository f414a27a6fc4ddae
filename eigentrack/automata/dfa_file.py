"""An automaton in a JSON file: letters, transitions, accepting and, if not 0, start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from eigentrack.automata.dfa import DFA
from eigentrack.json_text import parse_json


def read_dfa_values(path: Path) -> dict[str, Any]:
    """What the file holds, which is known to be an automaton."""
    try:
        values = parse_json(path.read_text())
        DFA.from_json(values)
    except FileNotFoundError:
        raise ValueError(f"dfa={str(path)!r} is not there: give the path of an automaton in JSON") from None
    except UnicodeDecodeError:
        raise ValueError(f"dfa={str(path)!r} is no text: give the path of an automaton in JSON") from None
    except OSError as error:
        raise ValueError(f"dfa={str(path)!r} cannot be read ({error.strerror}): give the path of a file") from None
    except ValueError as error:
        raise ValueError(f"dfa={str(path)!r}: {error}") from None
    return values
