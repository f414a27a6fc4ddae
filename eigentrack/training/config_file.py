"""Reading of configurations from YAML or JSON files, with errors that name the file and the entry."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from eigentrack.json_text import parse_json, refuse_repeats


def read_values(path: Path) -> Any:
    """Return the values in a file, read as YAML if its name ends in .yaml or .yml, else as JSON."""
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
    """A YAML loader that reads 1e-3 and 1.5e2 as numbers and refuses entries that are given twice.

    PyYAML follows YAML 1.1, in which these numbers must be written 1.0e-3 and 1.5e+2.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        refuse_repeats(key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode))
        return super().construct_mapping(node, deep)


_NUMBER = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)[eE][-+]?[0-9]+$")
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _NUMBER, list("-+.0123456789"))


def check_keys(what: str, values: Any, kind: type) -> None:
    """Raise unless `values` has all required fields of the dataclass `kind`, and no others; `what` names it in errors."""
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
