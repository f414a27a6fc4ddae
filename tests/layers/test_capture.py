"""A CUDA graph holds no value that is read on the host or copied from it: for a plain batch no layer does either."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.layers.layer_cases import D_MODEL, LINEAR, OTHERS, build, case_name

# `item` and `tolist`; `torch.tensor` and writing a number into a slice; sizes that depend on values
FORBIDDEN = ("_local_scalar_dense", "lift_fresh", "nonzero", "repeat_interleave.Tensor")


class Watch(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.add(str(func).removeprefix("aten."))
        return func(*args, **(kwargs or {}))

    def hazards(self) -> set[str]:
        return {op for op in self.seen if op.startswith(FORBIDDEN)}


@pytest.mark.parametrize(("name", "options"), [*LINEAR, *OTHERS], ids=case_name)
def test_nothing_passes_between_host_and_device(name: str, options: dict[str, Any]) -> None:
    mixer, x = build(name, options), torch.randn(2, 6, D_MODEL, dtype=torch.float64)
    with Watch() as watch:
        y, state = mixer(x)
        y.sum().backward()
        mixer.step(x[:, 0], state)
    assert len(watch.seen) > 10  # it sees what runs
    assert watch.hazards() == set()


@pytest.mark.parametrize(
    "hazard",
    [
        lambda x: torch.tensor([1.0, 2.0]) + x,
        lambda x: x.sum().item(),
        lambda x: torch.arange(2).repeat_interleave(x.long()),
        lambda x: torch.nonzero(x),
    ],
)
def test_the_watch_sees_hazards(hazard: Any) -> None:
    x = torch.ones(2)
    with Watch() as watch:
        hazard(x)
    assert watch.hazards()
