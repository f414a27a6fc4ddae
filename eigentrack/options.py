"""Checks of options that a command line or a file gives by name, against the signature of the function that takes them."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any


def accepted_options(call: Callable[..., object], without: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the default of every option of `call` except those in `without`.

    The value is `inspect.Parameter.empty` for an option without a default.
    """
    parameters = inspect.signature(call).parameters
    return {name: parameter.default for name, parameter in parameters.items() if name not in without}


def check_options(owner: str, call: Callable[..., object], given: Mapping[str, Any], without: tuple[str, ...] = ()) -> None:
    """Raise a ValueError that names an unknown, missing or wrongly typed option.

    Args:
        owner: what takes the options, for the error message.
        call: the function or class that takes the options.
        given: the options to check, by name.
        without: parameters of `call` that are no options.
    """
    accepted = accepted_options(call, without)
    if unknown := sorted(set(given) - set(accepted)):
        raise ValueError(f"{owner} has no option {unknown[0]!r}; it takes {', '.join(accepted) or 'none'}")
    for name, default in accepted.items():
        if default is inspect.Parameter.empty and name not in given:
            raise ValueError(f"{owner} needs the option {name!r}")
    hints = typing.get_type_hints(inspect.unwrap(vars(call)["__init__"]) if isinstance(call, type) else call)
    for name, value in given.items():
        allowed = _plain_types(hints[name])
        if allowed and not _fits(value, allowed):
            wanted = " or ".join("None" if kind is type(None) else kind.__name__ for kind in allowed)
            raise ValueError(f"{owner}: option {name}={value!r} must be of type {wanted}")


def _plain_types(hint: Any) -> tuple[type, ...]:
    """Return the types of a hint: (int, NoneType) for int | None.

    The result is empty for hints such as tuple[int, ...], which the owner of the option checks itself.
    """
    parts = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    return tuple(part for part in parts if isinstance(part, type)) if all(isinstance(p, type) for p in parts) else ()


def _fits(value: Any, allowed: tuple[type, ...]) -> bool:
    if isinstance(value, bool):
        return bool in allowed
    return isinstance(value, allowed) or (isinstance(value, int) and float in allowed)
