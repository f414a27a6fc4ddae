"""Architectures and hybrids by the names of layers, as a command line or a file gives them.

A name is that of a layer in `eigentrack layers`, or that of a kind of layer in `LAYERS`, such as "gated-deltanet". Eigenvalues
and numbers of factors are given once for all layers that take them, or once for each of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from eigentrack.expressivity.architecture import LAYERS, WITH_FACTORS, WITH_RANGE, Architecture
from eigentrack.expressivity.hybrid import Design, Hybrid
from eigentrack.spectrum import EigenDisk, EigenRange, Eigenvalues

DIAGONAL_MIXERS = ("mamba", "mamba2", "gla")
NAMES = (*DIAGONAL_MIXERS, *LAYERS)
_WHOLE_DISK = EigenDisk()
_TAKES_A_DISK = {"diagonal": "complex-diagonal", "s4d": "s4d"}  # kind → its kind with eigenvalues in the disk
_DEFAULT_RANGE = EigenRange(-1, 1)  # the same as in a model's configuration

Value = TypeVar("Value")


def named_design(
    names: Sequence[str],
    *,
    layers: int | None = None,
    any_depth: bool = False,
    eigenvalues: Sequence[Eigenvalues] = (),
    householders: Sequence[int | None] = (),
    precision: str = "finite",
) -> Design:
    """Return the architecture of layers of one name, or the hybrid of layers of several names.

    Args:
        names: one name for all layers, or one for each layer, the first layer first.
        layers: how many layers there are; None for as many as names, or, if there is one name, for any number.
        any_depth: whether the layers named may be repeated in any order.
        eigenvalues: one set for all layers that take one, or one for each of them; none for [-1, 1].
        householders: factors per token, likewise, None for any number; none for 1.
        precision: the model of arithmetic, a key of `PRECISIONS`.
    """
    if not names:
        raise ValueError("no layer is named: name at least one")
    if unknown := [name for name in names if name not in NAMES]:
        raise ValueError(f"layer {unknown[0]!r} is not known to theory; there are {', '.join(NAMES)}")
    if len(names) > 1 and layers is not None and layers != len(names):
        raise ValueError(f"{len(names)} layers are named for layers={layers}: name one, or one a layer")
    if any_depth and layers is not None:
        raise ValueError(f"layers={layers} and any depth are both asked for: choose one")
    sets = _shared_out("eigenvalues", eigenvalues, _DEFAULT_RANGE, [_takes_eigenvalues(name) for name in names], names)
    factors = _shared_out("householders", householders, 1, [name in WITH_FACTORS for name in names], names)
    kinds = [_kind(name, values, count, precision) for name, values, count in zip(names, sets, factors, strict=True)]
    if len(set(kinds)) > 1:
        return Hybrid(tuple(kinds), any_depth)
    if len(names) > 1 and layers is None and not any_depth:
        layers = len(names)
    return replace(kinds[0], layers=layers)


def _shared_out(
    what: str, given: Sequence[Value], default: Value, takes: Sequence[bool], names: Sequence[str]
) -> list[Value | None]:
    """Return the value of each layer; None for a layer that takes none."""
    takers = sum(takes)
    if given and not takers:
        raise ValueError(f"{what} are given, but none of {', '.join(dict.fromkeys(names))} takes them: leave them out")
    if len(given) > 1 and len(given) != takers:
        raise ValueError(f"{what} are given {len(given)} times for {takers} layers that take them: give one, or one a layer")
    values = iter(given if len(given) > 1 else [given[0] if given else default] * takers)
    return [next(values) if take else None for take in takes]


def _takes_eigenvalues(name: str) -> bool:
    return name in DIAGONAL_MIXERS or name == "s4d" or name in WITH_RANGE


def _kind(name: str, eigenvalues: Eigenvalues | None, householders: int | None, precision: str) -> Architecture:
    """Return the architecture of one layer."""
    layer = "diagonal" if name in DIAGONAL_MIXERS else name
    if eigenvalues is not None and eigenvalues.turns:
        if layer not in _TAKES_A_DISK:
            raise ValueError(f"layer {name!r} takes a range of eigenvalues, such as -1,1, not {eigenvalues}")
        if eigenvalues != _WHOLE_DISK:  # with less a layer cannot keep, forget, or count as far
            raise ValueError(f"eigenvalues {eigenvalues}: of complex eigenvalues theory knows the whole disk only; write disk")
        return Architecture(_TAKES_A_DISK[layer], layers=1, precision=precision)
    if isinstance(eigenvalues, EigenRange):
        layer = "s4d-real" if layer == "s4d" else layer
        eigenvalues = EigenRange(*eigenvalues.ends)  # an overshoot reaches its ends, and widens nothing
        return Architecture(layer, eigenvalues, layers=1, householders=householders, precision=precision)
    return Architecture(layer, layers=1, precision=precision)
