"""The partial order of architectures: one contains another if each network of the other can be copied by one of its own.

What a smaller architecture can recognise, every architecture that contains it can; what a larger one cannot, no architecture
in it can. Containment holds in these cases (docs/theory.md, section 1):

depth      more layers contain fewer, since a layer may hand its input on
factors    more factors per token contain fewer: surplus factors act on a dimension of the state that nobody reads
range      a wider range contains a narrower one, since a layer's matrices are all those whose eigenvalues lie in the range
kind       a layer contains another whose matrices are among its own, as `_wider_kinds` lists them
hybrids    a stack contains another if the layers of the other, in their order, are contained in layers of its own

Arithmetic is the same on both sides. mLSTM is compared with itself only, as its stabilised form rounds in a way of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache

from eigentrack.expressivity.architecture import LINEAR, WITH_FACTORS, WITH_RANGE, Architecture
from eigentrack.expressivity.hybrid import Design, Hybrid
from eigentrack.spectrum import EigenRange

_FORGET, _FLIP = EigenRange(0, 1), EigenRange(-1, 1)
_DEEPEST = 4  # the most layers, and the most factors, that a rule asks for by itself
_PARTS = (Architecture("s4d-real", _FLIP, layers=1), Architecture("diagonal", _FORGET, layers=1))  # the parts of "s4d-mamba"
_BESIDE_DENSE = frozenset({"dense", "open-diagonal", "mlstm"})  # linear layers that are not compared with dense ones


def contains(outer: Design, inner: Design) -> bool:
    """Return whether `outer` is known to contain `inner`."""
    if outer.precision != inner.precision:
        return False
    if outer.any_depth:
        return all(_some_layer_contains(outer, layer) for layer in set(inner.kinds))
    if inner.any_depth:
        return False
    left = iter(outer.kinds)
    return all(any(_layer_contains(layer, wanted) for layer in left) for wanted in inner.kinds)


@lru_cache(maxsize=4096)
def narrower(architecture: Architecture) -> tuple[Architecture, ...]:
    """Return architectures inside of this one, nearest first: of fewer layers and factors, of other kinds, in [0, 1]."""
    return _closure(architecture, _next_narrower)


@lru_cache(maxsize=4096)
def wider(architecture: Architecture) -> tuple[Architecture, ...]:
    """Return architectures that contain this one, nearest first: of other kinds, any depth, any number of factors, [-1, 1]."""
    return _closure(architecture, _next_wider)


@lru_cache(maxsize=1024)
def stacks_inside(hybrid: Hybrid) -> tuple[Architecture, ...]:
    """Return stacks of one kind of layer inside of a hybrid, each with as many layers as the hybrid has for it."""
    kinds = [kind for layer in dict.fromkeys(hybrid.kinds) for kind in (layer, *narrower(layer))]
    found = [Architecture("s4d-mamba", precision=hybrid.precision)] if hybrid.any_depth else []
    for kind in dict.fromkeys(kinds):
        layers = sum(_layer_contains(layer, kind) for layer in hybrid.kinds)
        found.append(replace(kind, layers=None if hybrid.any_depth else layers))
    return tuple(stack for stack in found if contains(hybrid, stack))


@lru_cache(maxsize=1024)
def stacks_around(hybrid: Hybrid) -> tuple[Architecture, ...]:
    """Return stacks of one kind of layer that contain a hybrid, of the same depth."""
    ranges = [layer.eigenvalues for layer in hybrid.kinds if layer.eigenvalues is not None]
    hulls = dict.fromkeys([_hull(*ranges), _hull(_FORGET, *ranges), _FLIP]) if ranges else {_FLIP: None}
    factors = [layer.householders for layer in hybrid.kinds if layer.layer in WITH_FACTORS]
    most = None if None in factors else max((count for count in factors if count is not None), default=1)
    depth = None if hybrid.any_depth else len(hybrid.kinds)
    found = [
        Architecture(
            layer, eigenvalues, depth, householders=most if layer in WITH_FACTORS else None, precision=hybrid.precision
        )
        for layer in sorted(LINEAR - {"open-diagonal"})
        for eigenvalues in (hulls if layer in WITH_RANGE else [None])
    ]
    return tuple(stack for stack in found if contains(stack, hybrid))


def _some_layer_contains(outer: Design, layer: Architecture) -> bool:
    if layer.layer == "s4d-mamba" and len(outer.kinds) > 1:
        parts = [replace(part, precision=layer.precision) for part in _PARTS]
        if all(any(_layer_contains(kind, part) for kind in outer.kinds) for part in parts):
            return True
    return any(_layer_contains(kind, layer) for kind in outer.kinds)


@lru_cache(maxsize=65536)
def _layer_contains(outer: Architecture, inner: Architecture) -> bool:
    return any(_within(kind, outer) for kind in (inner, *_closure(inner, _wider_kinds)) if kind.layer == outer.layer)


def _within(inner: Architecture, outer: Architecture) -> bool:
    """Return whether a layer has its range inside of another's of the same kind, and no more factors."""
    if inner.eigenvalues is not None and outer.eigenvalues is not None:
        low, high = outer.eigenvalues.ends
        if not low <= inner.eigenvalues.low or not inner.eigenvalues.high <= high:
            return False
    return outer.householders is None or (inner.householders is not None and inner.householders <= outer.householders)


def _closure(start: Architecture, following: Callable[[Architecture], Iterator[Architecture]]) -> tuple[Architecture, ...]:
    found = {start: None}
    waiting = [start]
    for architecture in waiting:
        new = [other for other in dict.fromkeys(following(architecture)) if other not in found]
        found.update(dict.fromkeys(new))
        waiting += new
    return tuple(found)[1:]


def _next_narrower(architecture: Architecture) -> Iterator[Architecture]:
    yield from _narrower_kinds(architecture)
    if architecture.layers is None:
        yield replace(architecture, layers=_DEEPEST)
    elif architecture.layers > 1:
        yield replace(architecture, layers=min(architecture.layers - 1, _DEEPEST))
    if architecture.layer in WITH_FACTORS:
        if architecture.householders is None:
            yield replace(architecture, householders=_DEEPEST)
        elif architecture.householders > 1:
            yield replace(architecture, householders=min(architecture.householders - 1, _DEEPEST))
    if architecture.eigenvalues is not None and _contains_range(architecture.eigenvalues, _FORGET):
        yield replace(architecture, eigenvalues=_FORGET)


def _next_wider(architecture: Architecture) -> Iterator[Architecture]:
    yield from _wider_kinds(architecture)
    if architecture.layers is not None:
        yield replace(architecture, layers=None)
    if architecture.householders is not None:
        yield replace(architecture, householders=None)
    if architecture.eigenvalues is not None:
        yield replace(architecture, eigenvalues=_FLIP)


def _narrower_kinds(architecture: Architecture) -> Iterator[Architecture]:
    """Yield the largest layers of other kinds inside of a layer, at the same depth."""
    kind, eigenvalues = architecture.layer, architecture.eigenvalues
    if kind == "diagonal":
        yield replace(architecture, layer="s4d-real")
    if kind in ("complex-diagonal", "dense"):
        yield replace(architecture, layer="diagonal", eigenvalues=_FLIP)
        yield replace(architecture, layer="s4d")
    if kind in ("s4d", "s4d-mamba"):
        yield replace(architecture, layer="s4d-real", eigenvalues=_FLIP)
    if kind == "s4d-mamba":
        yield replace(architecture, layer="diagonal", eigenvalues=_FORGET)
    if kind in ("deltanet", "channel-gated-deltanet", "rwkv7"):
        yield replace(architecture, layer="diagonal", householders=None)
    if kind == "gated-deltanet":
        yield replace(architecture, layer="deltanet")
    if kind == "kda":
        yield replace(architecture, layer="gated-deltanet")
    if eigenvalues is not None and eigenvalues.high == 1:
        if kind == "channel-gated-deltanet":
            yield replace(architecture, layer="deltanet")
        if kind == "rwkv7":
            yield replace(architecture, layer="deltanet", householders=1)
    if kind == "channel-gated-deltanet" and eigenvalues is not None and _contains_range(eigenvalues, _FORGET):
        yield replace(architecture, layer="kda")


def _wider_kinds(architecture: Architecture) -> Iterator[Architecture]:
    """Yield the smallest layers of other kinds that contain a layer, at the same depth."""
    kind, eigenvalues = architecture.layer, architecture.eigenvalues
    if kind == "s4d-real":
        yield replace(architecture, layer="s4d-mamba", eigenvalues=None)
        yield replace(architecture, layer="diagonal")
        yield replace(architecture, layer="s4d", eigenvalues=None)
    if kind == "s4d-mamba":
        yield replace(architecture, layer="diagonal", eigenvalues=_FLIP)
    if kind == "s4d":
        yield replace(architecture, layer="complex-diagonal")
    if kind == "diagonal" and eigenvalues is not None:
        if eigenvalues.low >= 0:
            yield replace(architecture, layer="s4d-mamba", eigenvalues=None)
        yield replace(architecture, layer="complex-diagonal", eigenvalues=None)
        yield replace(architecture, layer="deltanet", householders=1)
        yield replace(architecture, layer="channel-gated-deltanet", householders=1)
        yield replace(architecture, layer="rwkv7")
    if kind == "deltanet" and eigenvalues is not None:
        to_one = EigenRange(eigenvalues.low, 1)
        yield replace(architecture, layer="gated-deltanet")
        yield replace(architecture, layer="channel-gated-deltanet", eigenvalues=to_one)
        if architecture.householders == 1:
            yield replace(architecture, layer="rwkv7", eigenvalues=to_one, householders=None)
    if kind == "gated-deltanet":
        yield replace(architecture, layer="kda")
    if kind == "kda" and eigenvalues is not None:
        yield replace(architecture, layer="channel-gated-deltanet", eigenvalues=_hull(_FORGET, eigenvalues))
    if kind in LINEAR - _BESIDE_DENSE:
        yield replace(architecture, layer="dense", eigenvalues=None, householders=None)


def _contains_range(outer: EigenRange, inner: EigenRange) -> bool:
    return outer.low <= inner.low and inner.high <= outer.high


def _hull(*ranges: EigenRange) -> EigenRange:
    return EigenRange(min(each.low for each in ranges), max(each.high for each in ranges))
