"""DeviceTables: what a sampler looks up, copied to each device once. A CUDA graph cannot hold a copy from the host."""

from __future__ import annotations

import torch
from torch import Tensor


class DeviceTables:
    def __init__(self, *tables: Tensor) -> None:
        self._on: dict[torch.device, tuple[Tensor, ...]] = {}
        self._tables = tables

    def on(self, device: torch.device) -> tuple[Tensor, ...]:
        """The tables, in the order in which they were given."""
        if device not in self._on:
            self._on[device] = tuple(table.to(device) for table in self._tables)
        return self._on[device]
