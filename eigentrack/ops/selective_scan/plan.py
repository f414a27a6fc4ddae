"""How a selective scan is cut into programs: blocks of channels, segments of time, and launch settings.

A unit is what one program walks through: a sequence, or where there are few and long ones, a segment of one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

from torch import Tensor

from eigentrack.ops.shared.launch import Compiled

# One warp a program: sums over channels and over the state stay inside it, and it waits for no other.
LAUNCH = {
    "forward": {"U": 4, "num_warps": 1, "num_stages": 1},
    "summary": {"U": 4, "num_warps": 1, "num_stages": 1},
    "backward": {"U": 2, "STRETCH": 8, "STRIDE": 4, "num_warps": 1, "num_stages": 1},
    "join": {"BLOCK": 128, "num_warps": 4, "num_stages": 1},
    "sum": {"ROWS": 8, "PARTS": 16, "num_warps": 4, "num_stages": 1},
}
# Tokens from one checkpoint to the next: multiples of every STRETCH, and that of U. With far ones a program of the backward
# pass needs slots to keep the states between them in.
NEAR, FAR = 16, 64
SLOTS = (4, 7)  # a program: for the starts of 5 and of 8 stretches, but for the first; kernels are compiled for each number
ENTRIES = 512  # of a program's state: 16 in each thread
WIDEST_BLOCK = 64  # of channels
PROGRAMS_AT_ONCE = 1056  # that the registers of an H200 hold: two warps for every scheduler
NEARLY = 0.95  # all of them
# A pass that has at most this many programs is cut into segments. That costs a look ahead at all gates: half as much again
# forward, but a fifth backward, which gains sooner from programs that fill each other's waiting time.
CUT_BELOW = {"forward": 264, "backward": 528}
SHORTEST_SEGMENT = 256
# A backward pass takes so many windows of time that the partial sums of one are about this share of y; but every window is two
# launches, which must be worth their time. Packed sequences have one window.
SHARE_OF_SUMS = 0.25
SMALLEST_SUMS = 2**23  # bytes
SHORTEST_WINDOW = 128  # tokens
# A single token: its programs are made wide, with less to do for each entry, where there are two for every multiprocessor.
WIDE_STEP = {"BS": 2, "entries": 1024, "num_warps": 2}
NARROW_STEP = {"BS": 1, "entries": 512, "num_warps": 4}
WIDE_STEPS_FROM = 264


@dataclass(frozen=True)
class Segments:
    """`count` segments a sequence of `length` tokens each, the last perhaps shorter; one for packed sequences."""

    count: int
    length: int


@dataclass(frozen=True)
class SelectiveScanPlan:
    batch: int
    sequences: int
    time: int
    channels: int
    size: int
    packed: bool
    itemsize: int  # of y, bytes
    low: float  # the range of the eigenvalues
    high: float
    save: bool  # for the backward pass

    @staticmethod
    def of(x: Tensor, b: Tensor, cu_seqlens: Tensor | None, low: float, high: float, save: bool) -> SelectiveScanPlan:
        """Made once for all calls of the same sizes."""
        return _kept(*_fields(x, b, cu_seqlens, low, high, save))

    @staticmethod
    def of_symbols(x: Tensor, b: Tensor, cu_seqlens: Tensor | None, low: float, high: float, save: bool) -> SelectiveScanPlan:
        """For torch.compile, whose sizes may be symbols: no table can keep those."""
        return SelectiveScanPlan(*_fields(x, b, cu_seqlens, low, high, save))

    @cached_property
    def compiled(self) -> Compiled:
        """The kernels that were launched for this plan."""
        return {}

    @cached_property
    def state_block(self) -> int:
        return _power_of_two(self.size)

    @cached_property
    def channel_block(self) -> int:
        return self._channels_of(ENTRIES)

    @cached_property
    def own_channels(self) -> int:
        """Of a block, those that one thread holds: each holds 4 neighbouring entries of a state, a warp 128 at a time."""
        return min(self.channel_block, max(1, self.channel_block * self.state_block // 128))

    @cached_property
    def channel_blocks(self) -> int:
        return -(-self.channels // self.channel_block)

    def segments(self, direction: str) -> Segments:
        return self._segments[direction]

    @cached_property
    def _segments(self) -> dict[str, Segments]:
        return {direction: self._cut(direction) for direction in CUT_BELOW}

    def _cut(self, direction: str) -> Segments:
        programs = self.sequences * self.channel_blocks
        if self.packed or programs > CUT_BELOW[direction]:
            return Segments(1, self.time)
        wanted = -(-self.time // (PROGRAMS_AT_ONCE // programs))
        length = max(SHORTEST_SEGMENT, -(-wanted // FAR) * FAR)  # checkpoints fall on the cuts
        return Segments(-(-self.time // length), length) if length < self.time else Segments(1, self.time)

    @cached_property
    def step(self) -> bool:
        """A single token for every sequence, which nobody differentiates."""
        return self.time == 1 and not self.packed and not self.save

    @cached_property
    def blocks_together(self) -> int:
        """Blocks of channels that one program of the backward pass takes, one after the other: they share their partial sums.

        As many as cost next to no time. Packed sequences may be of very different lengths: their programs should be short.
        """
        units, blocks = self.sequences * self.segments("backward").count, self.channel_blocks

        def programs(together: int) -> int:
            return units * -(-blocks // together)

        def time_taken(together: int) -> int:
            return together * -(-programs(together) // PROGRAMS_AT_ONCE)

        def is_free(together: int) -> bool:
            return programs(together) >= NEARLY * PROGRAMS_AT_ONCE and NEARLY * time_taken(together) <= time_taken(1)

        return 1 if self.packed else max(filter(is_free, range(2, blocks + 1)), default=1)

    @cached_property
    def groups(self) -> int:
        """Of such blocks."""
        return -(-self.channel_blocks // self.blocks_together)

    @cached_property
    def backward_programs(self) -> int:
        return self.sequences * self.segments("backward").count * self.groups

    @cached_property
    def chunk(self) -> int:
        """Tokens from one checkpoint to the next: whichever takes less memory, with the slots of one block a program."""
        if self._is_one_chunk(FAR):
            return NEAR if self._is_one_chunk(NEAR) else FAR
        slots = self.sequences * self.segments("backward").count * self._slots
        return FAR if self._checkpoints(FAR) + slots < self._checkpoints(NEAR) else NEAR

    @cached_property
    def slots(self) -> int:
        """Of a program of the backward pass. Many short sequences have none: they would be more memory than anything else."""
        few = self.backward_programs <= 2 * PROGRAMS_AT_ONCE
        return self._slots if self.chunk > NEAR and (few or not self._is_one_chunk(FAR)) else 0

    @property
    def _slots(self) -> int:
        return next(slots for slots in SLOTS if (slots + 1) * LAUNCH["backward"]["STRETCH"] >= min(FAR, self.time))

    @cached_property
    def checkpoints(self) -> int:
        return self._checkpoints(self.chunk)

    def _checkpoints(self, chunk: int) -> int:
        """Enough for packed sequences, whatever their lengths."""
        if self.packed:
            return self.time // chunk + self.sequences
        return 0 if self._is_one_chunk(chunk) else self.sequences * -(-self.time // chunk)

    def _is_one_chunk(self, length: int) -> bool:
        """Every sequence: they have no checkpoints, and start from the initial state."""
        return not self.packed and self.time <= length

    @cached_property
    def windows(self) -> Segments:
        """Of every unit, in the backward pass."""
        unit = self.segments("backward").length
        sums, y = 2 * self.groups * self.size * 4, self.channels * self.itemsize  # bytes a token
        worth = self.batch * self.time * sums // SMALLEST_SUMS
        wanted = max(1, min(math.ceil(sums / (SHARE_OF_SUMS * y)), worth))
        length = max(SHORTEST_WINDOW, -(-unit // wanted // FAR) * FAR)
        return Segments(1, unit) if self.packed or length >= unit else Segments(-(-unit // length), length)

    @cached_property
    def rows_of_sums(self) -> int:
        """Tokens whose partial sums are in memory at once, those of all units."""
        if self.packed:
            return self.time
        return self.sequences * self.segments("backward").count * self.windows.length

    def constants(self) -> dict[str, object]:
        """The compile-time arguments of all kernels that walk; a single token has other blocks of channels."""
        return {
            "D": self.channels,
            "N": self.size,
            "BD": self.channel_block,
            "BN": self.state_block,
            "LOW": self.low,
            "HIGH": self.high,
            "EXACT": all(
                (end * 2**22).is_integer() for end in (self.low, self.high)
            ),  # so are their difference, and its sum with low
        }

    def checkpointed(self) -> dict[str, object]:
        """Those of the two kernels that write and read checkpoints."""
        return {**self.constants(), "CHUNK": self.chunk, "PACKED": self.packed}

    def settings(self, kernel: str) -> dict[str, int]:
        found = LAUNCH[kernel]
        return {**found, "U": min(found["U"], _power_of_two(self.time))} if "U" in found else found

    @cached_property
    def step_settings(self) -> dict[str, int]:
        wide = self._step_of(**WIDE_STEP)
        return wide if self.step_programs(wide) >= WIDE_STEPS_FROM else self._step_of(**NARROW_STEP)

    def step_programs(self, settings: dict[str, int]) -> int:
        return -(-self.sequences // settings["BS"]) * -(-self.channels // settings["BD"])

    def _step_of(self, entries: int, **settings: int) -> dict[str, int]:
        return {"BD": self._channels_of(entries), **settings}

    def _channels_of(self, entries: int) -> int:
        """The block of channels whose states have so many entries."""
        return min(WIDEST_BLOCK, entries // self.state_block, max(8, _power_of_two(self.channels)))


def _fields(
    x: Tensor, b: Tensor, cu_seqlens: Tensor | None, low: float, high: float, save: bool
) -> tuple[int, int, int, int, int, bool, int, float, float, bool]:
    batch, time, channels = x.shape
    sequences = batch if cu_seqlens is None else cu_seqlens.shape[0] - 1
    return batch, sequences, time, channels, b.shape[-1], cu_seqlens is not None, x.element_size(), low, high, save


_kept = lru_cache(maxsize=1024)(SelectiveScanPlan)


def _power_of_two(size: int) -> int:
    return 1 << (size - 1).bit_length()
