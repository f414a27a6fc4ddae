"""The Triton kernels at the sizes that models have, forward and backward, and over a million tokens: on a GPU only.

The exact values are those of the chunked form in float64, which `test_backends_agree.py` holds to the reference. Each test
takes less than about 60 GiB and 20 seconds on an H200, but for the one of offsets, which takes 70 GiB.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from eigentrack.ops import delta_rule, gated_linear
from tests.closeness import TOLERANCE, relative_error
from tests.ops.delta_rule import test_triton as delta
from tests.ops.gated_linear import test_triton as gated
from tests.ops.kernel_accuracy import Op, assert_as_accurate_as_plain_torch, plain_torch
from tests.ops.selective_scan import test_triton as scan

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: too large for the interpreter")
dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)

ODD_LENGTHS = tuple(i * i for i in range(61))  # 60 packed sequences, of 1, 3, 5, ..., 119 tokens

DELTA_RULE = [
    delta.Case(8, 2048, 8, 1, 128, 128),
    delta.Case(8, 2048, 16, 1, 128, 128),
    delta.Case(32, 2048, 8, 1, 128, 128, carried=False),
    delta.Case(1, 65536, 16, 1, 128, 128, carried=False),
    delta.Case(2, 8192, 16, 1, 64, 64),
    *(delta.Case(1024, 40, 4, 1, dim, dim, carried=carried) for dim in (32, 128) for carried in (False, True)),
    delta.Case(512, 32, 4, 1, 32, 32),
    delta.Case(8, 2048, 8, 1, 128, 128, gated=True),
    *(delta.Case(8, 2048, 8, n, 128, 128, gated=gate, carried=gate or n == 2) for n in (2, 3, 4) for gate in (False, True)),
    *(delta.Case(1, 3600, 8, 1, 128, 128, gated=gate, bounds=ODD_LENGTHS) for gate in (False, True)),
]
GATED_LINEAR = [
    *(gated.Case(8, 2048, *sizes, channel=channel) for sizes in ((32, 128, 64), (4, 128, 256)) for channel in (False, True)),
    gated.Case(1, 3600, 8, 128, 128, bounds=ODD_LENGTHS),
]
SELECTIVE_SCAN = [
    scan.Case(8, 2048, 2048, 16, scan.SIGNED),
    scan.Case(8, 2048, 2048, 16, scan.UNSIGNED, carried=False),
    scan.Case(8, 2048, 4096, 16, scan.SIGNED),
    scan.Case(1, 65536, 2048, 16, scan.SIGNED),
    scan.Case(1024, 40, 256, 16, scan.SIGNED),
    scan.Case(1024, 40, 256, 16, scan.SIGNED, carried=False),
    scan.Case(64, 300, 1024, 16, scan.SIGNED),  # programs of two blocks of channels, checkpoints, slots
    scan.Case(1, 3600, 2048, 16, scan.SIGNED, bounds=ODD_LENGTHS),
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


def test_offsets_beyond_32_bits() -> None:
    """Token 2²⁰ of v starts 2³¹ entries behind the first, and the states of half of the chunks lie behind that, too.

    The last tokens give what they give alone, from the state before them: outputs, last state, and gradients.
    """
    torch.cuda.empty_cache()
    if torch.cuda.mem_get_info()[0] < 100 * 2**30:
        pytest.skip("needs 100 GiB of free memory")
    heads, dim, read, tail = 16, 128, 256, 512  # a loss reads so many tokens; so many, from before token 2²⁰, are compared
    random = torch.Generator("cuda").manual_seed(0)

    def normal(*size: int) -> Tensor:
        rows = (1, MILLION + read, heads)
        return torch.randn(*rows, *size, dtype=torch.bfloat16, device="cuda", generator=random)

    k = torch.nn.functional.normalize(normal(1, dim), dim=-1)
    leaves = [normal(dim), k, normal(1, dim), normal(1).sigmoid() * 2, (normal() + 4).sigmoid()]
    assert leaves[2].numel() > 2**31
    with torch.no_grad():
        _, before = delta_rule(*(x[:, :-tail] for x in leaves), backend="triton")
    weights = torch.zeros(1, tail, heads, dim, dtype=torch.bfloat16, device="cuda")
    weights[:, -read:].normal_(generator=random)

    alone = [x[:, -tail:].detach().clone().requires_grad_() for x in leaves]
    y, last = delta_rule(*alone, initial_state=before, backend="triton")
    expected = [y, last, *torch.autograd.grad(y, alone, weights)]

    for x in leaves:
        x.requires_grad_()
    y, last = delta_rule(*leaves, backend="triton")
    whole = torch.autograd.grad(y, leaves, torch.nn.functional.pad(weights, (0, 0, 0, 0, MILLION + read - tail, 0)))
    assert not whole[0][:, :-read].any(), "gradients of queries that nobody reads"
    found = [y[:, -tail:], last, *(gradient[:, -tail:] for gradient in whole)]
    for ours, theirs in zip(found, expected, strict=True):
        assert theirs.abs().sum() > 0
        assert relative_error(ours, theirs) <= TOLERANCE[torch.bfloat16]


@dtypes
@pytest.mark.parametrize("channel", [False, True])
def test_a_million_tokens_of_gated_linear(channel: bool, dtype: torch.dtype) -> None:
    inputs = gated.Case(1, MILLION, 1, 128, 128, channel=channel).draw()
    compare_forward(lambda backend, *x: gated_linear(*x[:-1], initial_state=x[-1], backend=backend), inputs, dtype)


def test_a_million_tokens_of_the_selective_scan() -> None:
    case = scan.Case(1, MILLION, 16, 16, scan.SIGNED)
    compare_forward(lambda backend, *x: scan.run(backend, case, list(x)), case.draw(), torch.float32)
