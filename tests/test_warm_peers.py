"""The shares in which the peers' configurations are compiled: together all of them, and none is timed."""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("triton")
from triton.runtime.autotuner import Autotuner, Config
from triton.runtime.errors import PTXASError

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def warm_peers(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    for name in ("_bench", "check_disk_cache"):  # put back afterwards
        monkeypatch.setattr(Autotuner, name, getattr(Autotuner, name))
    return importlib.import_module("warm_peers")


@dataclass
class Kernel:
    """Stands for a kernel with its tuner: writes down what it is asked for."""

    configs: list[Config]
    asked: list[dict[str, Any]] = field(default_factory=list)

    @property
    def fn(self) -> Kernel:
        return self

    def run(self, *args: Any, **options: Any) -> None:
        if options["BLOCK"] == 13:
            raise PTXASError("does not compile")
        if options["BLOCK"] == 666:
            raise TypeError("a mistake of ours")
        self.asked.append(options)


@pytest.mark.parametrize(("configs", "shares"), [(5, 2), (3, 3), (2, 4), (1, 3)])
def test_shares_are_all_of_it_and_none_is_empty(warm_peers: ModuleType, configs: int, shares: int) -> None:
    kernel = Kernel([Config({"BLOCK": size}) for size in range(configs)])
    for share in range(shares):
        before = len(kernel.asked)
        warm_peers.compile_share(share, shares)
        times = [Autotuner._bench(kernel, 7, config=config, grid=1, warmup=False) for config in kernel.configs]  # type: ignore[arg-type]
        assert sum(math.isfinite(time[0]) for time in times) == len(kernel.asked) - before >= 1
    assert {options["BLOCK"] for options in kernel.asked} == set(range(configs))
    assert all(options["warmup"] for options in kernel.asked), "warm-up compiles and does not run"


def test_what_does_not_compile_is_never_chosen(warm_peers: ModuleType) -> None:
    warm_peers.compile_share(0, 1)
    kernel = Kernel([Config({"BLOCK": 13}), Config({"BLOCK": 4})])
    first, second = (Autotuner._bench(kernel, config=config, warmup=False)[0] for config in kernel.configs)  # type: ignore[arg-type]
    assert (first, second) == (math.inf, 1.0)


def test_our_own_mistakes_are_not_taken_for_configurations(warm_peers: ModuleType) -> None:
    warm_peers.compile_share(0, 1)
    kernel = Kernel([Config({"BLOCK": 666})])
    with pytest.raises(TypeError, match="a mistake of ours"):
        Autotuner._bench(kernel, config=kernel.configs[0], warmup=False)  # type: ignore[arg-type]
