"""Configurations in files: YAML or JSON in, plain values out, with errors that name the file and the entry."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from eigentrack.json_text import parse_json, refuse_repeats


def read_values(path: Path) -> Any:
    """From YAML if the file's name ends so, else from JSON."""
    try:
        text = path.read_text()
        return yaml.load(text, _Loader) if path.suffix in (".yaml", ".yml") else parse_json(text)
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is missing: there is no training run") from None
    except IsADirectoryError:
        raise ValueError(f"{path} is a folder: name a file in YAML or JSON") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} is no text: name a file in YAML or JSON") from None
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is not valid YAML ({' '.join(str(error).split())})") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


class _Loader(yaml.SafeLoader):
    """Reads 1e-3 and 1.5e2 as the numbers that they are; YAML 1.1, which PyYAML follows, asks for 1.0e-3 and 1.5e+2. Entries
    that are given twice are refused."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        refuse_repeats(key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode))
        return super().construct_mapping(node, deep)


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
