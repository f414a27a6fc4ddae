"""Configurations in files: YAML or JSON in, plain values out, with errors that name the file and the entry."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]


def read_values(path: Path) -> Any:
    """From YAML if the file's name ends so, else from JSON."""
    try:
        text = path.read_text()
        return yaml.load(text, _Loader) if path.suffix in (".yaml", ".yml") else json.loads(text)
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is missing: there is no training run") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not valid JSON ({error})") from None
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is not valid YAML ({' '.join(str(error).split())})") from None


class _Loader(yaml.SafeLoader):
    """Reads 1e-3 and 1.5e2 as the numbers that they are; YAML 1.1, which PyYAML follows, asks for 1.0e-3 and 1.5e+2."""


_NUMBER = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)[eE][-+]?[0-9]+$")
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _NUMBER, list("-+.0123456789"))


def check_keys(what: str, values: Any, kind: type) -> None:
    """The values fit the fields of the dataclass `kind`: none is unknown, none is missing."""
    fields = {item.name: item for item in dataclasses.fields(kind)}
    if not isinstance(values, dict):
        raise ValueError(f"the {what} configuration must be an object, got {values!r}")
    if unknown := sorted(str(name) for name in set(values) - set(fields)):
        raise ValueError(f"unknown {what} entry {unknown[0]!r}; known are {', '.join(fields)}")
    needed = [
        name
        for name, item in fields.items()
        if item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING and name not in values
    ]
    if needed:
        raise ValueError(f"the {what} configuration needs {needed[0]!r}")
