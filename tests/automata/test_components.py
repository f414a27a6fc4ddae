"""Components of graphs against networkx."""

from __future__ import annotations

import networkx
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from eigentrack.automata.components import connected, strongly_connected

graphs = st.integers(1, 9).flatmap(
    lambda n: st.lists(st.lists(st.integers(0, n - 1), max_size=3), min_size=n, max_size=n)  # successors of every node
)


def classes(labels: list[int]) -> set[frozenset[int]]:
    return {frozenset(node for node, label in enumerate(labels) if label == chosen) for chosen in labels}


@settings(max_examples=200, deadline=None)
@given(graphs)
def test_components_are_networkxs(successors: list[list[int]]) -> None:
    graph = networkx.DiGraph(dict(enumerate(successors)))
    strong = strongly_connected(successors)
    assert classes(strong) == set(map(frozenset, networkx.strongly_connected_components(graph)))
    assert all(strong[target] <= strong[node] for node, targets in enumerate(successors) for target in targets)
    edges = np.array([(node, target) for node, targets in enumerate(successors) for target in targets], dtype=int).reshape(
        -1, 2
    )
    weak = connected(len(successors), edges[:, 0], edges[:, 1]).tolist()
    assert classes(weak) == set(map(frozenset, networkx.weakly_connected_components(graph)))
    assert list(dict.fromkeys(weak)) == sorted(set(weak))


def test_long_paths_need_no_recursion() -> None:
    n = 50_000
    assert strongly_connected([[node + 1] for node in range(n - 1)] + [[0]]) == [0] * n
    order = np.random.default_rng(0).permutation(n)
    assert not connected(n, order[:-1], order[1:]).any()
