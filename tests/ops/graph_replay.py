"""What an op must give when a CUDA graph replays it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def assert_a_graph_replays(run: Callable[[], tuple[Tensor, ...]], change: Callable[[], object] = lambda: None) -> None:
    """Captured and replayed over poisoned memory, it gives the same bits as when it is called.

    `change` writes other values into the inputs, in place: a graph that is captured before gives what is right after it.
    """
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = [x.detach() for x in run()]  # an autograd graph kept alive would tie the leaves to this stream
    change()
    expected = [x.detach() for x in run()]
    for x in found:
        x.fill_(torch.nan)
    graph.replay()
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
