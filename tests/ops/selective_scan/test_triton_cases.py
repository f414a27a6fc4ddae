"""Which selective scans the Triton kernels take, how these are cut into programs, and that the interpreter agrees. No GPU."""

from __future__ import annotations

import itertools
import random
import re
from typing import Any

import pytest
import torch
from torch import Tensor

from eigentrack.ops.selective_scan.op import refusal, selective_scan
from eigentrack.spectrum import EigenRange
from tests.ops.test_triton_interpreted import interpreted

SIGNED = EigenRange(-1, 1)
ENDS = (SIGNED.low, SIGNED.high)


def plan_of(sequences: int, time: int, channels: int, itemsize: int = 2, packed: bool = False) -> Any:
    plans = pytest.importorskip("eigentrack.ops.selective_scan.plan")
    return plans.SelectiveScanPlan(1 if packed else sequences, sequences, time, channels, 16, packed, itemsize, *ENDS, True)


def inputs(dtype: torch.dtype = torch.float32, size: int = 4) -> tuple[Tensor, ...]:
    return tuple(torch.rand(1, 6, width, dtype=dtype) for width in (3, 3, size, size))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"dtype": torch.float64}, "takes float32 and bfloat16, and x is float64"),
        ({"size": 65}, "takes states of up to 64 entries a channel, and N=65"),
        ({"size": 64}, None),
        ({"dtype": torch.bfloat16}, None),
    ],
)
def test_what_the_kernels_refuse(changed: dict[str, Any], message: str | None) -> None:
    given = inputs(**changed)
    constants = {"log_decay": torch.rand(3, given[2].shape[-1]), "skip": None, "eigenvalues": SIGNED}
    assert refusal(*given, None, **constants, initial_state=None) == message


def test_wrong_bounds_are_an_error() -> None:
    constants = {"log_decay": torch.rand(3, 4), "eigenvalues": SIGNED}
    with pytest.raises(ValueError, match="must start at 0 and end at the number of tokens, 6"):
        selective_scan(*inputs(), **constants, cu_seqlens=torch.tensor([0, 5]))


def test_checkpoints_of_packed_sequences_never_meet() -> None:
    """Sequence s, from token t on, has its checkpoints from t // CHUNK + s on: the claim that the kernels rely on."""
    plans = pytest.importorskip("eigentrack.ops.selective_scan.plan")
    choose = random.Random(0)
    seen = set()
    for _ in range(200):
        lengths = [choose.choice([1, 2, 15, 16, 17, 31, 32, 33, 64, 65, 300, 1000]) for _ in range(choose.randint(1, 30))]
        bounds = [0, *itertools.accumulate(lengths)]
        x, b = torch.empty(1, bounds[-1], 32), torch.empty(1, bounds[-1], 16)
        plan = plans.SelectiveScanPlan.of(x, b, torch.tensor(bounds), *ENDS, save=True)
        free = 0
        for sequence, length in enumerate(lengths):
            start = bounds[sequence] // plan.chunk + sequence
            assert start >= free
            free = start + -(-length // plan.chunk)
        assert plan.checkpoints >= free
        seen.add(plan.chunk)
    assert seen == {plans.NEAR, plans.FAR}


@pytest.mark.parametrize(
    ("batch", "time", "channels", "forward", "backward"),
    [
        (8, 2048, 4096, 1, 1),
        (8, 2048, 2048, 1, 2),
        (1024, 40, 256, 1, 1),
        (1, 65536, 2048, 16, 16),
        (1, 1, 2048, 1, 1),
        (1, 300, 64, 2, 2),
    ],
)
def test_only_few_long_sequences_are_cut(batch: int, time: int, channels: int, forward: int, backward: int) -> None:
    plans = pytest.importorskip("eigentrack.ops.selective_scan.plan")
    plan = plan_of(batch, time, channels)
    for direction, expected in (("forward", forward), ("backward", backward)):
        cut = plan.segments(direction)
        assert cut.count == expected
        assert cut.count * cut.length >= time > (cut.count - 1) * cut.length
        assert cut.count == 1 or cut.length % plans.FAR == 0


@pytest.mark.parametrize(
    ("batch", "time", "channels", "itemsize", "chunk", "windows"),
    [
        (8, 2048, 2048, 2, 64, 8),
        (8, 2048, 2048, 4, 64, 4),
        (1, 65536, 2048, 2, 64, 8),
        (1024, 40, 256, 2, 64, 1),
        (1024, 16, 256, 2, 16, 1),  # one chunk, so no checkpoints and no slots either
        (2, 2048, 64, 2, 64, 1),  # small: not worth the launches
    ],
)
def test_long_sequences_save_memory(batch: int, time: int, channels: int, itemsize: int, chunk: int, windows: int) -> None:
    plans = pytest.importorskip("eigentrack.ops.selective_scan.plan")
    plan = plan_of(batch, time, channels, itemsize)
    assert plan.chunk == chunk
    assert plan.windows.count == windows
    unit = plan.segments("backward").length
    assert plan.windows.count * plan.windows.length >= unit > (plan.windows.count - 1) * plan.windows.length
    assert windows == 1 or plan.windows.length % chunk == 0
    sums = 2 * plan.groups * plan.rows_of_sums * 16 * 4
    assert windows == 1 or sums <= plans.SHARE_OF_SUMS * batch * time * channels * itemsize


@pytest.mark.parametrize(
    ("batch", "time", "channels", "packed", "together"),
    [
        (1024, 40, 256, False, 8),
        (1024, 40, 256, True, 1),  # of unknown lengths
        (8, 2048, 2048, False, 1),
        (8, 2048, 4096, False, 1),
        (33, 2048, 2048, False, 2),
        (34, 2048, 2048, False, 1),  # 2,176 programs: of two blocks each one round would be full and one all but empty
        (23, 2048, 2048, False, 1),  # 1,472: two blocks each would leave a third of the card empty
        (1024, 2048, 2048, False, 64),
    ],
)
def test_programs_take_many_blocks_where_that_costs_no_time(
    batch: int, time: int, channels: int, packed: bool, together: int
) -> None:
    assert plan_of(batch, time, channels, packed=packed).blocks_together == together


@pytest.mark.parametrize(
    ("batch", "time", "channels", "checkpoints", "slots"),
    [
        (1024, 16, 256, 0, 0),
        (1024, 40, 256, 0, 4),
        (1024, 41, 256, 0, 7),
        (1024, 64, 256, 0, 7),
        (8192, 40, 32, 0, 0),  # as many programs as sequences
        (1024, 65, 256, 1024 * 5, 0),
        (1024, 1024, 256, 1024 * 16, 7),
        (8192, 1024, 32, 8192 * 16, 7),
    ],
)
def test_states_that_are_kept(batch: int, time: int, channels: int, checkpoints: int, slots: int) -> None:
    plan = plan_of(batch, time, channels)
    assert (plan.checkpoints, plan.slots) == (checkpoints, slots)


@pytest.mark.parametrize(
    ("sequences", "channels", "size", "together", "programs"),
    [(128, 4096, 16, 2, 4096), (127, 4096, 16, 2, 4096), (1, 4096, 16, 1, 128), (1, 3, 2, 1, 1), (9, 4096, 64, 2, 1280)],
)
def test_steps_are_wide_where_there_are_many(sequences: int, channels: int, size: int, together: int, programs: int) -> None:
    plans = pytest.importorskip("eigentrack.ops.selective_scan.plan")
    plan = plans.SelectiveScanPlan(sequences, sequences, 1, channels, size, False, 2, *ENDS, False)
    settings = plan.step_settings
    assert settings["BS"] == together
    assert plan.step_programs(settings) == programs
    assert programs * settings["BS"] * settings["BD"] >= sequences * channels


def test_a_step_is_one_token_of_whole_sequences_without_gradients() -> None:
    plans = pytest.importorskip("eigentrack.ops.selective_scan.plan")
    for time, packed, save, is_step in (
        (1, False, False, True),
        (1, False, True, False),
        (2, False, False, False),
        (1, True, False, False),
    ):
        assert plans.SelectiveScanPlan(1, 1, time, 8, 4, packed, 2, *ENDS, save).step == is_step


@pytest.mark.skipif(torch.cuda.is_available(), reason="the tests run on the GPU itself")
def test_the_kernels_hold_under_the_interpreter() -> None:
    pytest.importorskip("triton")
    options = ["-q", "-p", "no:xdist", "-p", "no:cacheprovider", "--tb=short"]
    paths = [f"tests/ops/selective_scan/{file}.py" for file in ("test_triton", "test_triton_plans", "test_triton_in_torch")]
    report = interpreted("-m", "pytest", *paths, *options)
    passed = re.search(r"(\d+) passed", report)
    assert passed is not None, "nothing ran"
    assert int(passed[1]) >= 20
    module = "tests.ops.selective_scan.test_triton_in_torch"
    interpreted("-c", f"from {module} import *; test_no_graph_break_under_compile(); test_one_compilation_takes_many_lengths()")
