"""The options that name an architecture of one's own: its layers, their eigenvalues and factors, and how many there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from eigentrack.expressivity.hybrid import Design

ANY = "any"
LayerNames = Annotated[
    list[str] | None,
    typer.Option("--layer", help="Judge an architecture of such layers; for a hybrid one a layer, as s4d,mamba or repeated."),
]
EigenvaluesOfLayers = Annotated[
    list[str] | None,
    typer.Option("--eigenvalues", help="Of --layer: low,high or disk; may be repeated, one a layer.", show_default="-1,1"),
]
Depth = Annotated[
    str | None, typer.Option("--layers", help="How many of --layer, or any.", show_default="any, or those of a hybrid")
]
Factors = Annotated[
    list[str] | None,
    typer.Option("--householders", help="Factors a token of --layer, or any; may be repeated.", show_default="1"),
]
Precision = Annotated[
    str | None,
    typer.Option(help="Of --layer: finite, ieee, log, robust, eta-finite or constrained.", show_default="finite"),
]


def read_design(
    layer: list[str] | None,
    eigenvalues: list[str] | None,
    layers: str | None,
    householders: list[str] | None,
    precision: str | None,
) -> Design | None:
    """Return the architecture or the hybrid that is given; None if none is."""
    from eigentrack.expressivity import named_design
    from eigentrack.spectrum import parse_eigenvalues

    if not layer:
        given = {"--eigenvalues": eigenvalues, "--layers": layers, "--householders": householders, "--precision": precision}
        if alone := [flag for flag, value in given.items() if value]:
            raise ValueError(f"{alone[0]} goes with --layer only: name a layer, such as --layer deltanet")
        return None
    depth = _number("--layers", layers) if layers is not None else None
    return named_design(
        [name.strip() for text in layer for name in text.split(",")],
        layers=depth,
        any_depth=layers is not None and depth is None,
        eigenvalues=[parse_eigenvalues(text) for text in eigenvalues or []],
        householders=[_number("--householders", text) for value in householders or [] for text in value.split(",")],
        precision=precision or "finite",
    )


def _number(flag: str, text: str) -> int | None:
    """Return a number of at least 1, or None for any number."""
    if text.strip() == ANY:
        return None
    if not text.strip().isdecimal() or int(text) < 1:
        raise ValueError(f"{flag} {text!r} must be a whole number of at least 1, or {ANY}")
    return int(text)
