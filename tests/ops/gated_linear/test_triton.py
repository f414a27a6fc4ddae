"""Triton's gated linear attention against the float64 reference: values, last state and all gradients.

Runs on a GPU, or on a CPU under Triton's interpreter (TRITON_INTERPRET=1, float32 only), where
`test_triton_interpreted.py` starts it.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise, product

import pytest
import torch
from torch import Tensor

from eigentrack.ops import gated_linear
from tests.closeness import TOLERANCE, relative_error
from tests.ops import kernel_accuracy
from tests.ops.compilation import assert_no_graph_break, compilations_by_length, without_type_checks
from tests.ops.graph_replay import assert_a_graph_replays
from tests.ops.kernel_accuracy import assert_a_step_is_accurate, assert_as_accurate_as_plain_torch, cast, plain_torch
from tests.ops.poisoned_memory import poisoned_memory
from tests.ops.recomputation import assert_recomputation_changes_nothing

ON_GPU = torch.cuda.is_available()
pytestmark = [
    pytest.mark.skipif(not ON_GPU and os.environ.get("TRITON_INTERPRET") != "1", reason="needs a GPU, or TRITON_INTERPRET=1"),
    pytest.mark.filterwarnings("ignore:Conversion of an array with ndim > 0:DeprecationWarning"),  # in the interpreter
]
DEVICE = "cuda" if ON_GPU else "cpu"
GATE, STATE = 3, 4  # places among the inputs


@dataclass(frozen=True)
class Case:
    batch: int
    time: int
    heads: int
    key: int
    value: int
    channel: bool = False
    bounds: tuple[int, ...] | None = None
    carried: bool = True  # an initial state, and a gradient of the last one

    def __str__(self) -> str:
        sizes = f"B{self.batch} T{self.time} H{self.heads} K{self.key} V{self.value} {'channel' if self.channel else 'head'}"
        return sizes + (" carried" if self.carried else "") + (" packed" if self.bounds else "")

    @property
    def sequences(self) -> int:
        return self.batch if self.bounds is None else len(self.bounds) - 1

    @property
    def cu_seqlens(self) -> Tensor | None:
        return None if self.bounds is None else torch.tensor(self.bounds, device=DEVICE)

    def draw(self) -> list[Tensor | None]:
        """q, k, v, a, initial state in float64: gates of both signs, near 1, exactly 0 and ±1, and several zeros in a row."""
        random = torch.Generator(DEVICE).manual_seed(self.time)

        def normal(*size: int) -> Tensor:
            return torch.randn(size, dtype=torch.float64, generator=random, device=DEVICE)

        rows = (self.batch, self.time, self.heads)
        a = (normal(*rows, *([self.key] if self.channel else [])) * 3).tanh()
        for share, value in ((0.3, 1.0), (0.08, 0.0), (0.1, -1.0)):
            a[torch.rand(a.shape, generator=random, device=DEVICE) < share] = value
        a[:, 5:7] = 0.0
        state = normal(self.sequences, self.heads, self.key, self.value) if self.carried else None
        q, k = normal(*rows, self.key) * self.key**-0.5, normal(*rows, self.key)
        return [q, k, normal(*rows, self.value), a, state]

    def weights(self) -> list[Tensor | None]:
        """Of y and (if carried) of the last state in the number whose gradients are compared."""
        random = torch.Generator(DEVICE).manual_seed(1)
        sizes = [(self.batch, self.time, self.heads, self.value), (self.sequences, self.heads, self.key, self.value)]
        drawn = [torch.randn(size, device=DEVICE, generator=random).bfloat16().double() for size in sizes]
        return [drawn[0], drawn[1] if self.carried else None]


SHORT = [
    Case(2, 1, 1, 4, 3),
    Case(2, 1, 1, 4, 3, channel=True),
    Case(2, 9, 2, 7, 5),
    Case(2, 9, 2, 7, 5, channel=True),
    Case(1, 40, 1, 16, 32, carried=False),
    Case(1, 40, 1, 16, 32, channel=True, carried=False),
    Case(1, 64, 1, 20, 32),
    Case(1, 32, 1, 20, 32, channel=True),
]
LONG = [
    Case(1, 65, 1, 8, 8, carried=False),
    Case(1, 70, 1, 12, 40),
    Case(1, 40, 2, 40, 20),
    Case(1, 1, 1, 65, 5),
    Case(1, 20, 1, 65, 5, carried=False),
    Case(1, 65, 1, 8, 8, channel=True, carried=False),
    Case(1, 70, 1, 12, 40, channel=True),
    Case(1, 40, 2, 20, 40, channel=True),
    Case(1, 20, 1, 65, 5, channel=True, carried=False),
]
PACKED = [
    Case(1, 100, 1, 8, 8, bounds=(0, 1, 40, 100)),
    Case(1, 70, 1, 8, 8, bounds=(0, 32, 33, 70), carried=False),
    Case(1, 80, 1, 8, 8, channel=True, bounds=(0, 1, 40, 80)),
    Case(1, 33, 1, 160, 8, channel=True, bounds=(0, 16, 33)),  # two blocks of channels
]
ON_THE_CARD = [
    *(Case(2, 300, 3, 128, 128, channel=channel) for channel in (False, True)),
    *(Case(2, 300, 4, 128, 64, channel=channel) for channel in (False, True)),
    *(Case(2, 200, 2, 128, 256, channel=channel) for channel in (False, True)),
    *(Case(2, 129, 2, 100, 72, channel=channel) for channel in (False, True)),
    *(Case(1, 100, 2, 200, 40, channel=channel) for channel in (False, True)),
    *(Case(64, 70, 64, 16, 16, channel=channel, carried=False) for channel in (False, True)),
    *(Case(1024, 40, 4, 16, 32, channel=channel, carried=False) for channel in (False, True)),
    *(Case(1, 8200, 2, 128, 128, channel=channel) for channel in (False, True)),
    *(Case(128, 64, 4, 64, 64, channel=channel) for channel in (False, True)),
    *(Case(64, time, 4, 128, 128, channel=channel) for time in (1, 40) for channel in (False, True)),
    *(Case(1, 700, 2, 96, 96, channel=channel, bounds=(0, 3, 4, 69, 133, 134, 400, 699, 700)) for channel in (False, True)),
    # of 1, 3, 5, ..., 79 tokens
    *(Case(1, 1600, 2, 64, 64, channel=channel, bounds=tuple(i * i for i in range(41))) for channel in (False, True)),
]
CASES = [*SHORT, *LONG, *PACKED, *(ON_THE_CARD if ON_GPU else [])]
DTYPES = [torch.float32, *([torch.bfloat16] if ON_GPU else [])]


def outputs_and_gradients(
    backend: str, case: Case, inputs: list[Tensor | None], dtype: torch.dtype, pieces: int = 1, wide: Collection[int] = ()
) -> dict[str, Tensor]:
    def run(*given: Tensor | None) -> tuple[Tensor, Tensor]:
        return gated_linear(*given[:-1], initial_state=given[-1], cu_seqlens=case.cu_seqlens, backend=backend)

    found = kernel_accuracy.outputs_and_gradients(run, cast(inputs, dtype, wide), case.weights(), pieces)
    gradients = ["dq", "dk", "dv", "da", *["dturns"] * (len(inputs) == 6), *["dinitial"] * case.carried]
    return dict(zip(["y", "last state", *gradients], found, strict=True))


def compare(
    case: Case,
    dtype: torch.dtype,
    inputs: list[Tensor | None],
    exact: str = "reference",
    pieces: int = 1,
    wide: Collection[int] = (),
) -> None:
    """Values and gradients with float64 and with plain torch, in poisoned memory, and the bits of two runs.

    The inputs at the places `wide` stay float32.
    """
    inputs = [None if x is None else x.double() for x in cast(inputs, dtype, wide)]
    expected = outputs_and_gradients(exact, case, inputs, torch.float64, pieces)
    with plain_torch(dtype):
        plain = outputs_and_gradients("chunked", case, inputs, dtype, pieces, wide)
    with poisoned_memory():
        found = outputs_and_gradients("triton", case, inputs, dtype, wide=wide)
        again = outputs_and_gradients("triton", case, inputs, dtype, wide=wide) if ON_GPU else found
    assert (found["y"].dtype, found["last state"].dtype) == (dtype, torch.float32)
    assert_as_accurate_as_plain_torch(found, plain, expected, dtype)
    assert all(torch.equal(found[name], again[name]) for name in found), "two runs differ"


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_values_and_gradients(case: Case, dtype: torch.dtype) -> None:
    compare(case, dtype, case.draw())


@pytest.mark.skipif(not ON_GPU, reason="bfloat16 is wrong in the interpreter")
@pytest.mark.parametrize("wide", [(GATE,), (STATE,), (GATE, STATE)], ids=str)
@pytest.mark.parametrize("channel", [False, True])
@pytest.mark.parametrize("sizes", [(2, 150, 2, 64, 64), (4, 30, 8, 32, 32)], ids=str)
def test_mixed_precision(sizes: tuple[int, int, int, int, int], channel: bool, wide: tuple[int, ...]) -> None:
    """As under autocast: q, k and v in bfloat16, the others in float32, which keep all of their digits."""
    case = Case(*sizes, channel=channel)
    compare(case, torch.bfloat16, case.draw(), wide=wide)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("case", [Case(2, 9, 2, 6, 5, channel=True), PACKED[0]], ids=str)
def test_gates_that_turn(case: Case, dtype: torch.dtype) -> None:
    q, k, v, a, state = case.draw()
    assert a is not None
    turns = torch.randint(-64, 64, (case.batch, case.time, case.heads, case.key // 2), device=DEVICE).double() / 128
    compare(case, dtype, [q, k, v, a[..., ::2] if case.channel else a, turns, state])


@pytest.mark.parametrize(("carried", "channel"), [(False, False), (True, False), (True, True)])
def test_segments_of_a_long_sequence(carried: bool, channel: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few long sequences walk in segments, here of two chunks, the last of one."""
    from eigentrack.ops.gated_linear import plan as gated_linear_plan

    monkeypatch.setattr(gated_linear_plan, "SHORTEST_SEGMENT", 2)
    case = Case(1, 280, 1, 5, 3, channel=channel, carried=carried)
    inputs = case.draw()
    inputs[3] = inputs[3].abs() ** 0.1 * inputs[3].sign()  # so that a state outlives its segment
    plan = gated_linear_plan.GatedLinearPlan.of(*(x.float() for x in inputs[:4]), None, save=True)
    assert (plan.span, plan.segments) == (2, 5)
    compare(case, torch.float32, inputs)


STEPS = [
    Case(*sizes, channel=channel, carried=carried)
    for sizes in [(3, 1, 2, 40, 50), *([(1, 1, 16, 128, 128), (128, 1, 16, 128, 128)] if ON_GPU else [])]
    for channel, carried in product((False, True), (False, True))
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("case", STEPS, ids=str)
def test_a_single_token_without_gradients(case: Case, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decoding has a kernel of its own: the others are not launched."""
    from eigentrack.ops.gated_linear import launch as gated_linear_launch

    for other in ("short_forward_kernel", "walk_kernel", "output_kernel"):
        monkeypatch.setattr(gated_linear_launch, other, None)
    assert_a_step_is_accurate(
        lambda backend, *given: gated_linear(*given[:-1], initial_state=given[-1], backend=backend), case.draw(), dtype
    )


@pytest.mark.parametrize("channel", [False, True])
@pytest.mark.parametrize("time", [40, 100])
def test_gates_of_one_are_a_sum(time: int, channel: bool) -> None:
    """Everywhere: S_t is the sum of all k vᵀ so far. Values, last state and gradients, that of the gates included."""
    q, k, v, a, start = (x.float() for x in Case(1, time, 1, 8, 4, channel).draw() if x is not None)
    found = []
    for backend in ("triton", "reference"):
        leaves = [x.clone().requires_grad_() for x in (q, k, v, torch.ones_like(a), start)]
        y, last = gated_linear(*leaves[:-1], initial_state=leaves[-1], backend=backend)
        found.append([y, last, *torch.autograd.grad(y.square().sum() + last.square().sum(), leaves)])
    assert relative_error(found[0][1], start + torch.einsum("bthk,bthv->bhkv", k, v)) <= TOLERANCE[torch.float32]
    for ours, reference in zip(*found, strict=True):
        assert relative_error(ours, reference) <= TOLERANCE[torch.float32]


@pytest.mark.parametrize("channel", [False, True])
@pytest.mark.parametrize("time", [40, 100])
def test_signs_and_resets_are_exact(time: int, channel: bool) -> None:
    """Gates of 0 and ±1 and small integers: nothing is rounded, neither values nor the gradient of a gate that is zero."""
    random = torch.Generator("cpu").manual_seed(time)

    def integers(*size: int) -> Tensor:
        return torch.randint(-2, 3, (1, time, 1, *size), generator=random, device="cpu").to(DEVICE, torch.float32)

    q, k, v = integers(4), integers(4), integers(4)
    signs = 2 * (torch.rand(1, time, 1, *([4] if channel else []), generator=random, device="cpu") < 0.5) - 1
    a = signs.to(DEVICE, torch.float32)
    a[:, time // 2] = 0.0
    leaves = [x.requires_grad_() for x in (q, k, v, a)]
    found, expected = (
        (lambda y, last: [y, last, *torch.autograd.grad(y.sum() + last.sum(), leaves)])(*gated_linear(*leaves, backend=backend))
        for backend in ("triton", "reference")
    )
    assert all(torch.equal(ours, reference) for ours, reference in zip(found, expected, strict=True))
    assert found[5][:, time // 2].abs().sum() > 0


@pytest.mark.parametrize("channel", [False, True])
@pytest.mark.parametrize("time", [20, 100])
def test_a_gate_of_zero_forgets_everything(time: int, channel: bool) -> None:
    q, k, v, a, _ = (None if x is None else x.float() for x in Case(1, time, 1, 8, 8, channel=channel).draw())
    reset = time - 7
    a[:, reset] = 0.0
    huge = torch.full((1, 1, 8, 8), 1e30, device=DEVICE)
    y, state = gated_linear(q, k, v, a, initial_state=huge, backend="triton")
    tail, tail_state = gated_linear(*(x[:, reset:].double() for x in (q, k, v, a)), backend="reference")
    assert relative_error(y[:, reset:], tail) <= TOLERANCE[torch.float32]
    assert relative_error(state, tail_state) <= TOLERANCE[torch.float32]


@pytest.mark.parametrize("channel", [False, True])
def test_a_split_sequence_gives_the_same_answer(channel: bool) -> None:
    *sequences, state = (None if x is None else x.float() for x in Case(1, 100, 1, 8, 8, channel=channel).draw())
    whole, last = gated_linear(*sequences, initial_state=state, backend="triton")
    pieces = []
    for first, end in pairwise([0, 1, 64, 77, 100]):
        y, state = gated_linear(*(x[:, first:end] for x in sequences), initial_state=state, backend="triton")
        pieces.append(y)
    assert relative_error(torch.cat(pieces, 1), whole) <= TOLERANCE[torch.float32]
    assert relative_error(state, last) <= TOLERANCE[torch.float32]


@pytest.mark.parametrize("time", [20, 70])
def test_strided_inputs(time: int) -> None:
    """A layer hands over slices of one projection: rows that are not next to one another."""
    q, k, v, a, _ = (None if x is None else x.float() for x in Case(1, time, 2, 8, 8).draw())
    wide = torch.cat([q.flatten(2), v.flatten(2)], dim=-1)
    sliced_q, sliced_v = (x.unflatten(-1, (2, 8)) for x in wide.split([16, 16], dim=-1))
    found = gated_linear(sliced_q, k, sliced_v, a, backend="triton")
    expected = gated_linear(q, k, v, a, backend="triton")
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


@pytest.mark.parametrize(("time", "channel"), [(20, False), (70, True)])
def test_it_is_an_operator_of_torch(time: int, channel: bool) -> None:
    """Schema, fake tensors, autograd: what torch.compile relies on."""
    leaves = [None if x is None else x.float().requires_grad_() for x in Case(1, time, 1, 8, 8, channel=channel).draw()]
    gated_linear(*leaves[:4], initial_state=leaves[4], backend="triton")  # loads the operator
    checks = ("test_schema", "test_autograd_registration", "test_faketensor")
    torch.library.opcheck(torch.ops.eigentrack.gated_linear, (*leaves, None, True), test_utils=checks)


@without_type_checks
@pytest.mark.parametrize("time", [20, 70])
def test_no_graph_break_under_compile(time: int) -> None:
    leaves = [x.float().requires_grad_() for x in Case(1, time, 1, 8, 8, channel=time == 70).draw() if x is not None]

    def loss(*leaves: Tensor) -> Tensor:
        y, last = gated_linear(*leaves[:4], initial_state=leaves[4], backend="triton")
        return y.square().sum() + last.square().sum()

    assert_no_graph_break(loss, leaves)


@without_type_checks
def test_one_compilation_takes_many_lengths() -> None:
    """Sizes are symbols then."""
    draws = (
        [x.float().requires_grad_() for x in Case(1, time, 1, 8, 8, channel=True).draw() if x is not None]
        for time in (65, 40, 100)
    )
    counts = compilations_by_length(lambda *leaves: gated_linear(*leaves[:4], initial_state=leaves[4], backend="triton"), draws)
    assert counts[0] > 0
    assert counts[2] == counts[1]


@pytest.mark.parametrize("as_operator", [False, True])
def test_activation_checkpointing(as_operator: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    leaves = [x.float().requires_grad_() for x in Case(1, 70, 1, 5, 3).draw() if x is not None]
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: as_operator)
    assert_recomputation_changes_nothing(
        lambda *given: gated_linear(*given[:4], initial_state=given[4], backend="triton"), leaves
    )


@pytest.mark.skipif(not ON_GPU, reason="needs a GPU")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("channel", [False, True])
@pytest.mark.parametrize("time", [30, 300])
def test_a_cuda_graph_replays_it(time: int, channel: bool, dtype: torch.dtype) -> None:
    leaves = [x.to(dtype).requires_grad_() for x in Case(4, time, 2, 32, 32, channel=channel).draw() if x is not None]

    def run() -> tuple[Tensor, ...]:
        y, last = gated_linear(*leaves[:4], initial_state=leaves[4], backend="triton")
        return y, last, *torch.autograd.grad(y.sum() + last.sum(), leaves)

    assert_a_graph_replays(run)


@pytest.mark.skipif(not ON_GPU, reason="needs a GPU")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("channel", [False, True])
def test_a_cuda_graph_replays_a_step(channel: bool, dtype: torch.dtype) -> None:
    *sequences, state = cast(Case(4, 1, 2, 32, 32, channel=channel).draw(), dtype, wide=[STATE])
    assert_a_graph_replays(lambda: gated_linear(*sequences, initial_state=state, backend="triton"))
