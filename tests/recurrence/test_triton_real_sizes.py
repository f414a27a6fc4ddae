"""The Triton kernels at the sizes that models have, forward and backward, and over a million tokens: on a GPU only.

The exact values are those of the chunked form in float64, which `test_backends_agree.py` holds to the reference. Each test
takes less than about 60 GiB and 20 seconds on an H200.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from eigentrack.recurrence import delta_rule, gated_linear
from tests.recurrence import test_triton_delta_rule as delta
from tests.recurrence import test_triton_gated_linear as gated
from tests.recurrence import test_triton_selective_scan as scan
from tests.recurrence.kernel_accuracy import Op, assert_as_accurate_as_plain_torch, plain_torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: too large for the interpreter")
dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)

DELTA_RULE = [
    delta.Case(8, 2048, 8, 1, 128, 128),
    delta.Case(8, 2048, 16, 1, 128, 128, carried=False),
    delta.Case(32, 2048, 8, 1, 128, 128, carried=False),
    delta.Case(1, 65536, 16, 1, 128, 128, carried=False),
    delta.Case(2, 8192, 16, 1, 64, 64),
    delta.Case(1024, 40, 4, 1, 32, 32, carried=False),
    delta.Case(512, 32, 4, 1, 32, 32),
    delta.Case(1024, 40, 4, 1, 128, 128, carried=False),
    delta.Case(8, 2048, 8, 1, 128, 128, gated=True),
    *(delta.Case(8, 2048, 8, n, 128, 128, gated=gate, carried=gate) for n in (2, 3, 4) for gate in (False, True)),
]
GATED_LINEAR = [
    gated.Case(8, 2048, *sizes, channel=channel) for sizes in ((32, 128, 64), (4, 128, 256)) for channel in (False, True)
]
SELECTIVE_SCAN = [
    scan.Case(8, 2048, 2048, 16, scan.SIGNED),
    scan.Case(8, 2048, 4096, 16, scan.SIGNED, carried=False),
    scan.Case(1, 65536, 2048, 16, scan.SIGNED, carried=False),
    scan.Case(1024, 40, 256, 16, scan.SIGNED),
]


@dtypes
@pytest.mark.parametrize("case", DELTA_RULE, ids=str)
def test_delta_rule(case: delta.Case, dtype: torch.dtype) -> None:
    pieces = -(-case.batch * case.time * case.heads * case.factors // 2**19)
    delta.compare(case, dtype, case.draw(), exact="chunked", pieces=pieces)


@dtypes
@pytest.mark.parametrize("case", GATED_LINEAR, ids=str)
def test_gated_linear(case: gated.Case, dtype: torch.dtype) -> None:
    gated.compare(case, dtype, case.draw(), exact="chunked", pieces=-(-case.batch * case.time * case.heads // 2**17))


@dtypes
@pytest.mark.parametrize("case", SELECTIVE_SCAN, ids=str)
def test_selective_scan(case: scan.Case, dtype: torch.dtype) -> None:
    scan.compare(case, dtype, "chunked")


MILLION = 2**20


def compare_forward(op: Op, inputs: list[Tensor | None], dtype: torch.dtype) -> None:
    """Every output and the last state, without gradients; `op` takes the backend first."""
    inputs = [None if x is None else x.to(dtype) for x in inputs]
    with torch.no_grad():
        expected = op("chunked", *(None if x is None else x.double() for x in inputs))
        with plain_torch(dtype):
            plain = op("chunked", *inputs)
        found = op("triton", *inputs)
    named = [dict(zip(("y", "last state"), outputs, strict=True)) for outputs in (found, plain, expected)]
    assert_as_accurate_as_plain_torch(*named, dtype)


@dtypes
@pytest.mark.parametrize("gate", [False, True])
def test_a_million_tokens_of_the_delta_rule(gate: bool, dtype: torch.dtype) -> None:
    """One head: without gradients too it runs in segments."""
    inputs = delta.Case(1, MILLION, 1, 1, 128, 128, gated=gate).draw()
    compare_forward(lambda backend, *x: delta_rule(*x[:-1], initial_state=x[-1], backend=backend), inputs, dtype)


@dtypes
@pytest.mark.parametrize("channel", [False, True])
def test_a_million_tokens_of_gated_linear(channel: bool, dtype: torch.dtype) -> None:
    inputs = gated.Case(1, MILLION, 1, 128, 128, channel=channel).draw()
    compare_forward(lambda backend, *x: gated_linear(*x[:-1], initial_state=x[-1], backend=backend), inputs, dtype)


def test_a_million_tokens_of_the_selective_scan() -> None:
    case = scan.Case(1, MILLION, 16, 16, scan.SIGNED)
    compare_forward(lambda backend, *x: scan.run(backend, case, list(x)), case.draw(), torch.float32)
