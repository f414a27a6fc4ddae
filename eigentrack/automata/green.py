"""Green's relations on a transition monoid M: which elements multiplication leads to from each other.

x R y: xM = yM   x L y: Mx = My   H = R ∩ L   D = R ∘ L, which in a finite monoid is J: MxM = MyM

x·m is in the R-class of x if and only if the image set of x·m leads back to that of x: if im(x·m·n) = im(x), then m·n permutes
that set, and a power of m·n fixes it point by point. So the strong components of the image sets, which are few, decide which
edges of the Cayley graph stay in an R-class, and these edges connect the class. For L-classes, kernels (the partitions of the
states by their images under x) take the place of image sets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eigentrack.automata.components import connected, strongly_connected
from eigentrack.automata.transition_monoid import Integers, TransitionMonoid, row_keys

_CHUNK_BYTES = 2**24


@dataclass(frozen=True, eq=False)
class GreenRelations:
    """The R-, L-, H- and D-class of every element, each numbered by first occurrence, and the idempotent elements."""

    r: Integers  # [elements]
    l: Integers  # noqa: E741, its name in every textbook
    h: Integers
    d: Integers
    idempotents: Integers  # the elements e with e·e = e

    @property
    def regular(self) -> Integers:
        """The D-classes that are regular, which is to say that they contain an idempotent."""
        return np.unique(self.d[self.idempotents])


def green_relations(monoid: TransitionMonoid) -> GreenRelations:
    """Return Green's relations on `monoid`."""
    r = _mutually_reachable(monoid.right, _numbered(monoid.elements, _image_rows))
    l = _mutually_reachable(monoid.left, _numbered(monoid.elements, _kernel_rows))  # noqa: E741
    r_classes = int(r.max()) + 1
    h = _by_first_occurrence(r.astype(np.int64) * (int(l.max()) + 1) + l)
    d = connected(r_classes + int(l.max()) + 1, r, r_classes + l)[r]
    idempotents = np.concatenate([_is_idempotent(part) for part in _chunks(monoid.elements)])
    return GreenRelations(r, l, h, d, np.flatnonzero(idempotents))


def _chunks(elements: Integers) -> Iterator[Integers]:
    rows = max(1, _CHUNK_BYTES // (8 * elements.shape[1]))
    return (elements[i : i + rows] for i in range(0, len(elements), rows))


def _image_rows(elements: Integers) -> NDArray[np.uint8]:
    """Return the image set of each element, one bit per state: [elements, bytes]."""
    met = np.zeros(elements.shape, dtype=bool)
    np.put_along_axis(met, elements.astype(np.int64), True, axis=1)
    return np.packbits(met, axis=1)


def _kernel_rows(elements: Integers) -> Integers:
    """Return the kernel of each element: for every state the last state with the same image, [elements, states]."""
    rows = np.arange(len(elements))
    last = np.zeros_like(elements)
    for state in range(elements.shape[1]):
        last[rows, elements[:, state]] = state
    return np.take_along_axis(last, elements.astype(np.int64), axis=1)


def _is_idempotent(elements: Integers) -> NDArray[np.bool_]:
    return (np.take_along_axis(elements, elements.astype(np.int64), axis=1) == elements).all(axis=1)


def _numbered(elements: Integers, shapes: Callable[[Integers], Integers]) -> Integers:
    """Number the elements by their rows of `shapes`: equal rows get equal numbers, in the order of first occurrence."""
    number: dict[bytes, int] = {}
    numbers: list[int] = []
    for part in _chunks(elements):
        numbers += [number.setdefault(key, len(number)) for key in row_keys(shapes(part))]
    return np.array(numbers)


def _by_first_occurrence(labels: Integers) -> Integers:
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def _mutually_reachable(cayley: Integers, shape: Integers) -> Integers:
    """Return the strong component of every element in the Cayley graph.

    `shape` is the number of each element's image set or kernel; the letters act on these as well.
    """
    member = np.unique(shape, return_index=True)[1]
    component = np.array(strongly_connected(shape[cayley[member]].tolist()))[shape]
    source, letter = np.nonzero(component[cayley] == component[:, None])
    return connected(len(cayley), source, cayley[source, letter])
