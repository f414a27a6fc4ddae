"""The plan of a selective-scan call: blocks of channels, segments of time, and launch settings.

A unit is what one program walks through: a sequence or, where sequences are few and long, a segment of one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

from torch import Tensor

from eigentrack.ops.shared.batch_invariance import is_batch_invariant
from eigentrack.ops.shared.launch import Compiled

# One warp per program: sums over channels and over the state stay inside the warp, and it waits for no other.
LAUNCH = {
    "forward": {"U": 4, "num_warps": 1, "num_stages": 1},
    "summary": {"U": 4, "num_warps": 1, "num_stages": 1},
    "backward": {"U": 2, "STRETCH": 8, "STRIDE": 4, "num_warps": 1, "num_stages": 1},
    "join": {"BLOCK": 128, "num_warps": 4, "num_stages": 1},
    "sum": {"ROWS": 8, "PARTS": 16, "num_warps": 4, "num_stages": 1},
}
# Tokens from one checkpoint to the next: multiples of STRETCH, which is a multiple of U. Where checkpoints are FAR apart, a
# program of the backward pass needs slots for the states between them.
NEAR, FAR = 16, 64
SLOTS = (4, 7)  # per program: for the starts of 5 or 8 stretches except the first; kernels are compiled for each number
ENTRIES = 512  # entries of the state per program: 16 per thread
WIDEST_BLOCK = 64  # channels
PROGRAMS_AT_ONCE = 1056  # the number that the registers of an H200 hold: two warps per scheduler
NEARLY = 0.95  # what share of the programs at once, or of a time, counts as all of it
# A pass with at most this many programs is cut into segments. That costs another pass over all gates first: half as much again
# forward, but only a fifth backward, which gains sooner from programs that fill each other's waiting time.
CUT_BELOW = {"forward": 264, "backward": 528}
SHORTEST_SEGMENT = 256  # tokens
# A backward pass has so many windows of time that the partial sums of one window take about this share of the memory of y; but
# every window is two launches, which must be worth their time. Packed sequences have one window.
SHARE_OF_SUMS = 0.25
SMALLEST_SUMS = 2**23  # bytes
SHORTEST_WINDOW = 128  # tokens
# For a single token, programs are wide, with less work per entry, if there are still two programs per multiprocessor.
WIDE_STEP = {"BS": 2, "entries": 1024, "num_warps": 2}
NARROW_STEP = {"BS": 1, "entries": 512, "num_warps": 4}
WIDE_STEPS_FROM = 264


@dataclass(frozen=True)
class Segments:
    """The cut of a sequence into `count` segments of `length` tokens, the last perhaps shorter; one for packed sequences."""

    count: int
    length: int


@dataclass(frozen=True)
class SelectiveScanPlan:
    """The sizes of a call, and how the kernels cut it into programs."""

    batch: int
    sequences: int
    time: int
    channels: int
    size: int  # N, entries of the state per channel
    packed: bool
    itemsize: int  # bytes per entry of y
    low: float  # the range of the eigenvalues
    high: float
    save: bool  # whether a backward pass will follow
    invariant: bool = False  # whether the bits of a sequence may not depend on the others

    @staticmethod
    def of(x: Tensor, b: Tensor, cu_seqlens: Tensor | None, low: float, high: float, save: bool) -> SelectiveScanPlan:
        """Return the plan of a call, which is made once for all calls of the same sizes."""
        return _kept(*_fields(x, b, cu_seqlens, low, high, save))

    @staticmethod
    def of_symbols(x: Tensor, b: Tensor, cu_seqlens: Tensor | None, low: float, high: float, save: bool) -> SelectiveScanPlan:
        """Return the plan of a call under torch.compile, whose sizes may be symbols, which no cache can keep."""
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
        """The channels of a block that one thread holds: it has 4 neighbouring entries of a state at a time, a warp 128."""
        return min(self.channel_block, max(1, self.channel_block * self.state_block // 128))

    @cached_property
    def channel_blocks(self) -> int:
        return -(-self.channels // self.channel_block)

    def segments(self, direction: str) -> Segments:
        """Return the segments of every sequence in the "forward" or "backward" pass."""
        return self._segments[direction]

    @cached_property
    def _segments(self) -> dict[str, Segments]:
        return {direction: self._cut(direction) for direction in CUT_BELOW}

    def _cut(self, direction: str) -> Segments:
        programs = self.sequences * self.channel_blocks
        if self.packed or programs > CUT_BELOW[direction]:
            return Segments(1, self.time)
        wanted = -(-self.time // (PROGRAMS_AT_ONCE // programs))
        length = max(SHORTEST_SEGMENT, -(-wanted // FAR) * FAR)  # a multiple of FAR, so that cuts fall on checkpoints
        return Segments(-(-self.time // length), length) if length < self.time else Segments(1, self.time)

    @cached_property
    def step(self) -> bool:
        """Whether the call is a single token per sequence without a backward pass."""
        return self.time == 1 and not self.packed and not self.save

    @cached_property
    def blocks_together(self) -> int:
        """The number of channel blocks that one program of the backward pass takes one after the other, with one partial sum.

        It is the largest that costs next to no time. For packed sequences, whose lengths may differ much, it is 1, to keep
        programs short.
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
        """The number of groups of channel blocks; each group is one program per unit in the backward pass."""
        return -(-self.channel_blocks // self.blocks_together)

    @cached_property
    def backward_programs(self) -> int:
        return self.sequences * self.segments("backward").count * self.groups

    @cached_property
    def chunk(self) -> int:
        """The number of tokens from one checkpoint to the next: NEAR or FAR, whichever takes less memory, slots included."""
        if self.invariant:
            return FAR
        if self._is_one_chunk(FAR):
            return NEAR if self._is_one_chunk(NEAR) else FAR
        slots = self.sequences * self.segments("backward").count * self._slots
        return FAR if self._checkpoints(FAR) + slots < self._checkpoints(NEAR) else NEAR

    @cached_property
    def slots(self) -> int:
        """The number of slots per program of the backward pass.

        Many short sequences have none, since slots would take more memory than anything else.
        """
        few = self.backward_programs <= 2 * PROGRAMS_AT_ONCE
        return self._slots if self.chunk > NEAR and (few or not self._is_one_chunk(FAR)) else 0

    @property
    def _slots(self) -> int:
        return next(slots for slots in SLOTS if (slots + 1) * LAUNCH["backward"]["STRETCH"] >= min(FAR, self.time))

    @cached_property
    def checkpoints(self) -> int:
        """The number of checkpoints of all sequences."""
        return self._checkpoints(self.chunk)

    def _checkpoints(self, chunk: int) -> int:
        """Return the number of checkpoints for chunks of `chunk` tokens; enough for packed sequences of any lengths."""
        if self.packed:
            return self.time // chunk + self.sequences
        return 0 if self._is_one_chunk(chunk) else self.sequences * -(-self.time // chunk)

    def _is_one_chunk(self, length: int) -> bool:
        """Return whether no sequence is longer than `length`: then there are no checkpoints, only the initial state."""
        return not self.packed and self.time <= length

    @cached_property
    def windows(self) -> Segments:
        """The windows into which the backward pass cuts every unit."""
        unit = self.segments("backward").length
        sums, y = 2 * self.groups * self.size * 4, self.channels * self.itemsize  # bytes per token
        worth = self.batch * self.time * sums // SMALLEST_SUMS
        wanted = max(1, min(math.ceil(sums / (SHARE_OF_SUMS * y)), worth))
        length = max(SHORTEST_WINDOW, -(-unit // wanted // FAR) * FAR)
        return Segments(1, unit) if self.packed or length >= unit else Segments(-(-unit // length), length)

    @cached_property
    def rows_of_sums(self) -> int:
        """The number of tokens, over all units, whose partial sums are in memory at once."""
        if self.packed:
            return self.time
        return self.sequences * self.segments("backward").count * self.windows.length

    def constants(self) -> dict[str, object]:
        """Return the compile-time arguments of all kernels that walk; the step kernel has other blocks of channels."""
        return {
            "D": self.channels,
            "N": self.size,
            "BD": self.channel_block,
            "BN": self.state_block,
            "LOW": self.low,
            "HIGH": self.high,
            "EXACT": all(
                (end * 2**22).is_integer() for end in (self.low, self.high)
            ),  # then their difference, and its sum with low, are exact in float32
        }

    def checkpointed(self) -> dict[str, object]:
        """Return the compile-time arguments of the two kernels that write and read checkpoints."""
        return {**self.constants(), "CHUNK": self.chunk, "PACKED": self.packed}

    def settings(self, kernel: str) -> dict[str, int]:
        found = LAUNCH[kernel]
        short = "U" in found and not self.invariant
        return {**found, "U": min(found["U"], _power_of_two(self.time))} if short else found

    @cached_property
    def step_settings(self) -> dict[str, int]:
        wide = self._step_of(**WIDE_STEP)
        fits = self.step_programs(wide) >= WIDE_STEPS_FROM and not self.invariant
        return wide if fits else self._step_of(**NARROW_STEP)

    def step_programs(self, settings: dict[str, int]) -> int:
        return -(-self.sequences // settings["BS"]) * -(-self.channels // settings["BD"])

    def _step_of(self, entries: int, **settings: int) -> dict[str, int]:
        return {"BD": self._channels_of(entries), **settings}

    def _channels_of(self, entries: int) -> int:
        """Return the size of a block of channels whose states have at most `entries` entries."""
        return min(WIDEST_BLOCK, entries // self.state_block, max(8, _power_of_two(self.channels)))


def _fields(
    x: Tensor, b: Tensor, cu_seqlens: Tensor | None, low: float, high: float, save: bool
) -> tuple[int, int, int, int, int, bool, int, float, float, bool, bool]:
    batch, time, channels = x.shape
    sequences = batch if cu_seqlens is None else cu_seqlens.shape[0] - 1
    sizes = (batch, sequences, time, channels, b.shape[-1])
    return *sizes, cu_seqlens is not None, x.element_size(), low, high, save, is_batch_invariant()


_kept = lru_cache(maxsize=1024)(SelectiveScanPlan)


def _power_of_two(size: int) -> int:
    return 1 << (size - 1).bit_length()
