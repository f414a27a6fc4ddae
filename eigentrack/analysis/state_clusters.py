"""Clusters by single linkage: at resolution r two points are together if steps of at most r lead from one to the other.

The edges of a minimum spanning tree say it for every r: those longer than r are cut.

n points  D numbers of a point
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Linkage:
    """The edges of the spanning tree, longest first."""

    lengths: NDArray[np.float64]
    ends: Numbers  # n-1 2

    @property
    def resolutions(self) -> list[float]:
        """Where the clusters change, coarse to fine: all in one, then ever more clusters, down to equal points only."""
        return sorted({*self.lengths.tolist(), 0.0}, reverse=True)

    def clusters(self, resolution: float) -> Numbers:
        """The number of the cluster of every point."""
        leader = list(range(len(self.lengths) + 1))

        def find(point: int) -> int:
            while leader[point] != point:
                leader[point] = point = leader[leader[point]]
            return point

        for x, y in self.ends[self.lengths <= resolution].tolist():
            leader[find(x)] = find(y)
        _, numbers = np.unique([find(point) for point in range(len(leader))], return_inverse=True)
        return numbers


def single_linkage(points: Points) -> Linkage:
    """Prim's algorithm: n rounds over n distances."""
    count = len(points)
    if count == 0:
        raise ValueError("there are no points to link")
    squares = (points**2).sum(1)
    nearest, parent = np.full(count, np.inf), np.zeros(count, dtype=np.int64)
    outside = np.ones(count, dtype=bool)
    lengths, ends, newest = [], [], 0
    for _ in range(count - 1):
        outside[newest] = False
        distance = squares + squares[newest] - 2 * points @ points[newest]
        closer = outside & (distance < nearest)
        nearest[closer], parent[closer] = distance[closer], newest
        newest = int(np.argmin(np.where(outside, nearest, np.inf)))
        # again without cancellation: equal points are at distance 0
        lengths.append(float(np.linalg.norm(points[newest] - points[parent[newest]])))
        ends.append((newest, int(parent[newest])))
    order = np.argsort(lengths)[::-1]
    return Linkage(np.array(lengths)[order], np.array(ends, dtype=np.int64).reshape(-1, 2)[order])
