"""Components of graphs, and a union-find forest.

Nodes are strongly connected if they reach each other, and connected if edges of any direction lead from one to the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def root(forest: list[int], node: int) -> int:
    """Return the representative of the node's set, where `forest[node]` is another node of the set or the node itself."""
    while forest[node] != node:
        forest[node] = node = forest[forest[node]]
    return node


def strongly_connected(successors: Sequence[Sequence[int]]) -> list[int]:
    """Return the strong component of every node; edges lead to equal or smaller numbers (Tarjan, without recursion)."""
    nodes = len(successors)
    component, order, low = [-1] * nodes, [-1] * nodes, [0] * nodes
    components = visited = 0
    unfinished: list[int] = []
    for root in range(nodes):
        if order[root] >= 0:
            continue
        path = [(root, iter(successors[root]))]
        while path:
            node, edges = path[-1]
            if order[node] < 0:
                order[node] = low[node] = visited
                visited += 1
                unfinished.append(node)
            for target in edges:
                if order[target] < 0:
                    path.append((target, iter(successors[target])))
                    break
                if component[target] < 0:
                    low[node] = min(low[node], order[target])
            else:
                path.pop()
                if low[node] == order[node]:
                    while component[node] < 0:
                        component[unfinished.pop()] = components
                    components += 1
                if path:
                    parent = path[-1][0]
                    low[parent] = min(low[parent], low[node])
    return component


def connected(nodes: int, sources: NDArray[np.integer], targets: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the component of every node, numbered by smallest members; each round handles all edges at once."""
    leader = np.arange(nodes)
    while True:
        smaller = np.minimum(leader[sources], leader[targets])
        hooked = leader.copy()
        np.minimum.at(hooked, leader[sources], smaller)
        np.minimum.at(hooked, leader[targets], smaller)
        while not np.array_equal(shorter := hooked[hooked], hooked):
            hooked = shorter
        if np.array_equal(hooked, leader):
            return np.unique(leader, return_inverse=True)[1]
        leader = hooked
