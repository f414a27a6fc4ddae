"""The Triton selective scan against the float64 definition: values, last state and all gradients.

Runs on a GPU, or on a CPU under Triton's interpreter (TRITON_INTERPRET=1, float32 only), where `test_triton_interpreted.py`
starts it. Memory that the kernels allocate is filled with NaN first: what they do not write is seen.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from eigentrack.ops import selective_scan
from eigentrack.spectrum import EigenRange
from tests.closeness import KERNEL_FLOOR, TOLERANCE, relative_error
from tests.ops.graph_replay import assert_a_graph_replays
from tests.ops.kernel_accuracy import assert_a_step_is_accurate, assert_as_accurate_as_plain_torch, cast, plain_torch
from tests.ops.poisoned_memory import poisoned_memory

ON_GPU = torch.cuda.is_available()
pytestmark = [
    pytest.mark.skipif(not ON_GPU and os.environ.get("TRITON_INTERPRET") != "1", reason="needs a GPU, or TRITON_INTERPRET=1"),
    pytest.mark.filterwarnings("ignore:Conversion of an array with ndim > 0:DeprecationWarning"),  # in the interpreter
]
DEVICE = "cuda" if ON_GPU else "cpu"
UNSIGNED, SIGNED, INNER = EigenRange(0, 1), EigenRange(-1, 1), EigenRange(-0.5, 0.9)


@dataclass(frozen=True)
class Case:
    batch: int
    time: int
    channels: int
    size: int
    eigenvalues: EigenRange
    full: bool = True  # with z and skip
    carried: bool = True  # an initial state, and a gradient of the last one
    bounds: tuple[int, ...] | None = None

    @property
    def ends(self) -> tuple[float, float]:
        return self.eigenvalues.low, self.eigenvalues.high

    @property
    def cu_seqlens(self) -> Tensor | None:
        return None if self.bounds is None else torch.tensor(self.bounds, device=DEVICE)

    def draw(self) -> list[Tensor | None]:
        """x, dt, b, c, z, log_decay, skip, initial state in float64; gates over the whole range, and from Δ = 0 exactly."""
        random = torch.Generator(DEVICE).manual_seed(self.time)

        def normal(*size: int) -> Tensor:
            return torch.randn(*size, dtype=torch.float64, device=DEVICE, generator=random)

        def uniform(*size: int) -> Tensor:
            return torch.rand(*size, dtype=torch.float64, device=DEVICE, generator=random)

        row = (self.batch, self.time)
        dt = uniform(*row, self.channels) ** 3 * 20
        dt[:, 2:4] = 0.0
        sequences = self.batch if self.bounds is None else len(self.bounds) - 1
        return [
            *(normal(*row, self.channels), dt, normal(*row, self.size), normal(*row, self.size)),
            normal(*row, self.channels) if self.full else None,
            -uniform(self.channels, self.size),
            normal(self.channels) if self.full else None,
            normal(sequences, self.channels, self.size) if self.carried else None,
        ]


SMALL = [
    Case(2, 1, 5, 3, SIGNED),
    Case(1, 1, 1, 1, INNER, full=False, carried=False),
    Case(2, 7, 9, 1, UNSIGNED, carried=False),
    Case(1, 16, 33, 16, SIGNED, full=False),
    Case(1, 21, 5, 3, INNER),
    Case(1, 19, 40, 16, UNSIGNED),
    Case(1, 12, 70, 4, SIGNED, carried=False),
    Case(1, 6, 11, 64, INNER),
    Case(2, 9, 8, 20, SIGNED),
    Case(1, 25, 3, 2, EigenRange(-0.3, 1), full=False),
]
PACKED = [
    Case(1, 22, 7, 4, INNER, bounds=(0, 1, 18, 22)),
    Case(1, 21, 5, 16, SIGNED, bounds=(0, 1, 17, 19, 20, 21), carried=False),
]
ON_THE_CARD = [
    Case(1, 5000, 2048, 16, INNER),
    Case(4, 1000, 300, 4, UNSIGNED),
    Case(2, 333, 100, 64, INNER),
    Case(4096, 3, 48, 16, SIGNED),
    Case(1, 7000, 257, 16, INNER, bounds=(0, 3, 4, 69, 133, 134, 400, 699, 6999, 7000)),
    Case(1, 1600, 100, 16, SIGNED, bounds=tuple(i * i for i in range(41))),  # of 1, 3, 5, ..., 79 tokens
]
DTYPES = [torch.float32, *([torch.bfloat16] if ON_GPU else [])]
NAMES = ["y", "last state", "dx", "ddt", "db", "dc", "dz", "dlog_decay", "dskip", "dinitial"]


def run(backend: str, case: Case, inputs: list[Tensor | None]) -> tuple[Tensor, Tensor]:
    x, dt, b, c, z, log_decay, skip, state = inputs
    return selective_scan(
        *(x, dt, b, c, z),
        log_decay=log_decay,
        skip=skip,
        eigenvalues=case.eigenvalues,
        initial_state=state,
        cu_seqlens=case.cu_seqlens,
        backend=backend,
    )


def outputs_and_gradients(backend: str, case: Case, inputs: list[Tensor | None], dtype: torch.dtype) -> dict[str, Tensor]:
    """y, the last state, and the gradients of a random projection of y and (if carried) of the last state."""
    leaves = [None if x is None else x.detach().to(dtype).requires_grad_() for x in inputs]
    random = torch.Generator(DEVICE).manual_seed(1)
    y, last = run(backend, case, leaves)
    weights = [torch.randn(x.shape, device=DEVICE, generator=random).bfloat16().double() for x in (y, last)]
    loss = (y.double() * weights[0]).sum() + ((last.double() * weights[1]).sum() if case.carried else 0.0)
    gradients = iter(torch.autograd.grad(loss, [x for x in leaves if x is not None]))
    found = [y.detach(), last.detach(), *(None if x is None else next(gradients) for x in leaves)]
    return {name: x for name, x in zip(NAMES, found, strict=True) if x is not None}


def compare(case: Case, dtype: torch.dtype, definition: str) -> None:
    inputs = [None if x is None else x.to(dtype).double() for x in case.draw()]
    expected = outputs_and_gradients(definition, case, inputs, torch.float64)
    with plain_torch(dtype):
        plain = outputs_and_gradients("chunked", case, inputs, dtype)
    with poisoned_memory():
        found = outputs_and_gradients("triton", case, inputs, dtype)
        again = outputs_and_gradients("triton", case, inputs, dtype) if ON_GPU else found
    assert found["y"].dtype == dtype
    assert found["last state"].dtype == torch.float32
    assert_as_accurate_as_plain_torch(found, plain, expected, dtype)
    assert all(torch.equal(found[name], again[name]) for name in found), "two runs differ"


def test_eigenvalues_that_turn() -> None:
    case = Case(1, 22, 7, 4, UNSIGNED, bounds=(0, 1, 18, 22))
    x, dt, b, c, z, log_decay, skip, state = case.draw()
    assert log_decay is not None
    turns = torch.randint(-64, 64, (1, 22, 2), device=DEVICE).double() / 128
    found = {}
    for backend, dtype in (("reference", torch.float64), ("triton", torch.float32)):
        given = (x, dt, b, c, z, turns, log_decay[:, ::2], skip, state)
        leaves = [None if part is None else part.to(dtype).requires_grad_() for part in given]
        *sequences, decay, skipped, start = leaves
        y, last = selective_scan(
            *sequences,
            log_decay=decay,
            skip=skipped,
            eigenvalues=case.eigenvalues,
            initial_state=start,
            cu_seqlens=case.cu_seqlens,
            backend=backend,
        )
        loss = y.double().sin().sum() + last.double().sin().sum()
        found[backend] = [y, last, *torch.autograd.grad(loss, [leaf for leaf in leaves if leaf is not None])]
    for ours, reference in zip(found["triton"], found["reference"], strict=True):
        assert relative_error(ours, reference) <= TOLERANCE[torch.float32]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("case", [*SMALL, *PACKED], ids=str)
def test_values_and_gradients(case: Case, dtype: torch.dtype) -> None:
    compare(case, dtype, "reference")


@pytest.mark.skipif(not ON_GPU, reason="too large for the interpreter")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("case", ON_THE_CARD, ids=str)
def test_values_and_gradients_at_larger_sizes(case: Case, dtype: torch.dtype) -> None:
    compare(case, dtype, "chunked")


@pytest.mark.parametrize("eigenvalues", [UNSIGNED, SIGNED, INNER, EigenRange(-0.3, 1), EigenRange(0.1, 0.7)], ids=str)
@pytest.mark.parametrize("huge", [False, True])
def test_the_ends_of_the_range_are_exact(eigenvalues: EigenRange, huge: bool) -> None:
    """Δ = 0 multiplies the state by `high`, a huge Δ by `low`; the numbers are those of float32, to the last bit."""
    state, time = torch.tensor([[[3.0, -5.0], [7.0, 1.0], [2.0, 11.0]]], device=DEVICE), 5
    zeros = torch.zeros(1, time, 3, device=DEVICE)
    _, last = selective_scan(
        *(zeros, zeros + (1e4 if huge else 0.0), zeros[..., :2], zeros[..., :2]),
        log_decay=torch.full((3, 2), -1.0, device=DEVICE),
        eigenvalues=eigenvalues,
        initial_state=state,
        backend="triton",
    )
    expected = state
    for _ in range(time):
        expected = expected * (eigenvalues.low if huge else eigenvalues.high)
    assert torch.equal(last, expected)


def test_a_split_sequence_gives_the_same_answer() -> None:
    case = Case(2, 18, 5, 4, SIGNED)
    x, dt, b, c, z, log_decay, skip, state = (None if x is None else x.float() for x in case.draw())
    whole, last = run("triton", case, [x, dt, b, c, z, log_decay, skip, state])
    pieces = []
    for first, end in pairwise([0, 1, 18]):
        cut = [tensor[:, first:end] for tensor in (x, dt, b, c, z)]  # rows of two sequences that lie apart
        y, state = run("triton", case, [*cut, log_decay, skip, state])
        pieces.append(y)
    assert relative_error(torch.cat(pieces, 1), whole) <= TOLERANCE[torch.float32]
    assert relative_error(state, last) <= TOLERANCE[torch.float32]


def test_slices_of_one_projection() -> None:
    """A layer hands over parts of wide rows: they are read where they are, and give the same bits."""
    case = Case(2, 10, 6, 4, SIGNED)
    *sequences, log_decay, skip, state = (None if x is None else x.float() for x in case.draw())
    parts = torch.cat(sequences, dim=-1).requires_grad_()
    sliced = [*parts.split([6, 6, 4, 4, 6], dim=-1), log_decay, skip, state]
    whole = [*(x.requires_grad_() for x in sequences), log_decay, skip, state]
    (found, _), (expected, _) = run("triton", case, sliced), run("triton", case, whole)
    assert torch.equal(found, expected)
    (gradient,) = torch.autograd.grad(found.sum(), [parts])
    assert torch.equal(gradient, torch.cat(torch.autograd.grad(expected.sum(), sequences), dim=-1))


def test_a_single_token_with_time_first_in_memory() -> None:
    """The stride along a time of 1 is arbitrary, and contiguous() leaves it so."""
    case = Case(3, 1, 5, 4, SIGNED)
    *sequences, log_decay, skip, state = (None if x is None else x.float() for x in case.draw())
    turned = [x.transpose(0, 1).clone(memory_format=torch.contiguous_format).transpose(0, 1) for x in sequences]
    assert turned[0].stride() == (5, 15, 1)
    (found, last), (expected, wanted) = (run("triton", case, [*x, log_decay, skip, state]) for x in (turned, sequences))
    assert torch.equal(found, expected)
    assert torch.equal(last, wanted)


STEPS = [
    Case(3, 1, 70, 16, SIGNED),
    Case(4, 1, 5, 3, INNER),
    Case(1, 1, 33, 64, UNSIGNED, carried=False),
    Case(5, 1, 9, 1, EigenRange(-0.3, 1), full=False),
    *([Case(128, 1, 4096, 16, SIGNED), Case(1, 1, 4096, 16, UNSIGNED), Case(127, 1, 1000, 20, INNER)] if ON_GPU else []),
]


@pytest.fixture(params=[False, True], ids=["narrow", "wide"])
def wide(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[bool]:
    """Whether programs take wide steps, whatever the sizes. Plans are kept, so those of other settings are forgotten."""
    from eigentrack.ops.selective_scan import plan as plans

    monkeypatch.setattr(plans, "WIDE_STEPS_FROM", 0 if request.param else 2**40)
    plans._kept.cache_clear()
    yield request.param
    plans._kept.cache_clear()


def assert_steps_are(wide: bool, case: Case) -> None:
    from eigentrack.ops.selective_scan import plan as plans

    x, _, b, *_ = case.draw()
    settings = plans.WIDE_STEP if wide else plans.NARROW_STEP
    assert plans.WIDE_STEP["BS"] != plans.NARROW_STEP["BS"]
    assert plans.SelectiveScanPlan.of(x, b, None, *case.ends, save=False).step_settings["BS"] == settings["BS"]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("case", STEPS, ids=str)
def test_a_token_that_nobody_differentiates(
    case: Case, wide: bool, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has a kernel of its own: the others are not launched, and only the state may stay in float32."""
    from eigentrack.ops.selective_scan import launch as selective_scan_launch

    monkeypatch.setattr(selective_scan_launch, "forward_kernel", None)
    assert_steps_are(wide, case)
    assert_a_step_is_accurate(lambda backend, *given: run(backend, case, list(given)), case.draw(), dtype)


def test_a_step_keeps_what_is_not_finite_to_its_sequence(wide: bool) -> None:
    case = Case(3, 1, 9, 4, INNER)
    assert_steps_are(wide, case)
    inputs = [None if x is None else x.float() for x in case.draw()]
    clean, clean_last = run("triton", case, inputs)
    for tensor in (*inputs[:5], inputs[7]):
        tensor[1] = float("nan")
    y, last = run("triton", case, inputs)
    assert y[1].isnan().all()
    assert last[1].isnan().all()
    assert torch.equal(y[::2], clean[::2])
    assert torch.equal(last[::2], clean_last[::2])


@pytest.mark.skipif(not ON_GPU, reason="bfloat16 is wrong in the interpreter")
def test_mixed_precision() -> None:
    """As under autocast: activations in bfloat16, step sizes and weights in float32."""
    case = Case(4, 100, 64, 16, SIGNED)
    exact = [x.bfloat16().double() for x in case.draw()]
    half = {0, 2, 3, 4}
    leaves = [x.to(torch.bfloat16 if i in half else torch.float32).requires_grad_() for i, x in enumerate(exact)]
    y, _ = run("triton", case, leaves)
    doubles = [x.requires_grad_() for x in exact]
    expected, _ = run("chunked", case, doubles)
    gradients, theirs = torch.autograd.grad(y.sum(), leaves), torch.autograd.grad(expected.sum(), doubles)
    assert y.dtype == torch.bfloat16
    for leaf, found, wanted in zip([y, *leaves], [y, *gradients], [expected, *theirs], strict=True):
        assert found.dtype == leaf.dtype
        assert relative_error(found, wanted) <= KERNEL_FLOOR[torch.bfloat16]


@pytest.mark.skipif(not ON_GPU, reason="needs a GPU")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_cuda_graph_replays_a_step(wide: bool, dtype: torch.dtype) -> None:
    case = Case(4, 1, 64, 16, SIGNED)
    assert_steps_are(wide, case)
    *given, state = case.draw()
    inputs = [*cast(given, dtype), *cast([state], torch.float32)]
    assert_a_graph_replays(lambda: run("triton", case, inputs))
