"""How a selective scan is cut into programs: blocks of channels, segments of time, and launch settings.

A unit is what one program walks through: a sequence, or where there are few and long ones, a segment of one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from eigentrack.spectrum import EigenRange

# One warp a program: sums over channels and over the state stay inside it, and no barrier is needed.
LAUNCH = {
    "forward": {"U": 8, "num_warps": 1, "num_stages": 1},
    "summary": {"U": 8, "num_warps": 1, "num_stages": 1},
    "backward": {"U": 4, "num_warps": 1, "num_stages": 1},
    "join": {"BLOCK": 128, "num_warps": 4, "num_stages": 1},
}
CHUNK = 16  # tokens from one checkpoint to the next: a multiple of every U
ENTRIES = 512  # of a program's state: 16 in each thread
WIDEST_BLOCK = 64  # of channels
PROGRAMS_WANTED = 528  # four for each multiprocessor of an H200: one warp for every scheduler
SHORTEST_SEGMENT = 256


@dataclass(frozen=True)
class Plan:
    batch: int
    sequences: int
    time: int
    channels: int
    size: int
    packed: bool
    eigenvalues: EigenRange

    @staticmethod
    def of(x: Tensor, b: Tensor, cu_seqlens: Tensor | None, eigenvalues: EigenRange) -> Plan:
        batch, time, channels = x.shape
        return Plan(
            batch=batch,
            sequences=batch if cu_seqlens is None else cu_seqlens.shape[0] - 1,
            time=time,
            channels=channels,
            size=b.shape[-1],
            packed=cu_seqlens is not None,
            eigenvalues=eigenvalues,
        )

    @cached_property
    def state_block(self) -> int:
        return _power_of_two(self.size)

    @cached_property
    def channel_block(self) -> int:
        return min(WIDEST_BLOCK, ENTRIES // self.state_block, max(8, _power_of_two(self.channels)))

    @cached_property
    def channel_blocks(self) -> int:
        return -(-self.channels // self.channel_block)

    @cached_property
    def segment_length(self) -> int:
        """All of the time, unless that leaves the GPU half idle; packed sequences are not cut."""
        missing = 2 * PROGRAMS_WANTED // (self.sequences * self.channel_blocks)
        if self.packed or missing < 4:  # with segments the gates are computed twice
            return self.time
        wanted = -(-self.time // missing)
        return min(self.time, max(SHORTEST_SEGMENT, -(-wanted // CHUNK) * CHUNK))

    @cached_property
    def segments(self) -> int:
        return -(-self.time // self.segment_length)

    @cached_property
    def units(self) -> int:
        return self.sequences * self.segments

    @cached_property
    def programs(self) -> int:
        return self.units * self.channel_blocks

    @cached_property
    def checkpoints(self) -> int:
        """Unit u, which starts at token t, has its own from place t // CHUNK + u on: enough for each, whatever the lengths."""
        return self.batch * self.time // CHUNK + self.units

    def constants(self) -> dict[str, object]:
        """The compile-time arguments that all kernels over time share."""
        low, high = self.eigenvalues.low, self.eigenvalues.high
        return {
            "D": self.channels,
            "N": self.size,
            "BD": self.channel_block,
            "BN": self.state_block,
            "LOW": low,
            "HIGH": high,
            "EXACT": all((end * 2**22).is_integer() for end in (low, high)),  # so are their difference, and its sum with low
        }

    def settings(self, kernel: str) -> dict[str, int]:
        found = LAUNCH[kernel]
        return {**found, "U": min(found["U"], _power_of_two(self.time))} if "U" in found else found


def _power_of_two(size: int) -> int:
    return 1 << (size - 1).bit_length()
