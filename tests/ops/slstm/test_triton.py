"""Triton's sLSTM against the float64 definition: values, last state and all gradients.

Runs on a GPU, or on a CPU under Triton's interpreter (TRITON_INTERPRET=1), where `test_triton_cases.py` starts it.
Memory that the kernels allocate is filled with NaN first: what they do not write is seen.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from eigentrack.ops import slstm
from tests.closeness import TOLERANCE, relative_error
from tests.ops.compilation import assert_no_graph_break, without_type_checks
from tests.ops.graph_replay import assert_a_graph_replays

ON_GPU = torch.cuda.is_available()
pytestmark = [
    pytest.mark.skipif(not ON_GPU and os.environ.get("TRITON_INTERPRET") != "1", reason="needs a GPU, or TRITON_INTERPRET=1"),
    pytest.mark.filterwarnings("ignore:Conversion of an array with ndim > 0:DeprecationWarning"),  # in the interpreter
    pytest.mark.filterwarnings(
        "ignore:Deterministic behavior was enabled:UserWarning"
    ),  # of cuBLAS, which is not what is tested
]
DEVICE = "cuda" if ON_GPU else "cpu"
# all arithmetic is float32: what has fewer bits is rounded once
ROUNDED = {torch.bfloat16: 5e-3, torch.float16: 6e-4}
HALF = [torch.float16, *([torch.bfloat16] if ON_GPU else [])]  # bfloat16 is wrong in the interpreter
FLOOR = 1e-6  # of errors in float32
NAMES = ["y", "c", "n", "h", "m", "dgates", "drecurrent", "dc", "dn", "dh"]

Leaves = list[Tensor]  # gates, recurrent, and if carried c, n, h, m


@dataclass(frozen=True)
class Case:
    batch: int
    time: int
    heads: int
    width: int
    carried: bool = True  # an initial state, and gradients of the last one
    bounds: tuple[int, ...] | None = None

    @property
    def cu_seqlens(self) -> Tensor | None:
        return None if self.bounds is None else torch.tensor(self.bounds, device=DEVICE)

    def draw(self) -> Leaves:
        """In float64, with gates that are all but shut and all but open, and a memory that is empty in places (m = -inf)."""
        random = torch.Generator("cpu").manual_seed(self.time)

        def normal(*size: int) -> Tensor:
            return torch.randn(*size, dtype=torch.float64, device="cpu", generator=random)

        gates = 2 * normal(self.batch, self.time, self.heads, 4, self.width)
        gates[:, 1::5, :, 1] = -200.0
        gates[:, ::4, :, 2] += 20.0
        gates[:, 3::4, :, 2, ::2] -= 120.0  # the others remember all
        gates[:, 2::7, :, 3] = -100.0
        gates[:, ::3, :, 0] *= 1e-3  # where tanh z is all but z
        recurrent = (
            2 * torch.rand(self.heads, 4, self.width, self.width, dtype=torch.float64, device="cpu", generator=random) - 1
        )
        leaves = [gates, recurrent / self.width**0.5]
        if self.carried:
            sequences = self.batch if self.bounds is None else len(self.bounds) - 1
            c, n, h, m = (normal(sequences, self.heads, self.width) for _ in range(4))
            m[..., 0] = -torch.inf
            leaves += [c, n.abs() + 0.5, h, m]
        return [x.to(DEVICE) for x in leaves]


SMALL = [
    Case(1, 1, 1, 1),
    Case(3, 1, 2, 5, carried=False),
    Case(5, 8, 1, 3),
    Case(17, 3, 1, 20),
    Case(1, 5, 2, 48),
    Case(2, 3, 1, 64),
]
PACKED = [
    Case(1, 12, 1, 5, bounds=(0, 1, 8, 10, 11, 12)),
    Case(1, 9, 2, 16, bounds=(0, 6, 9), carried=False),
    Case(1, 22, 1, 3, bounds=(*range(18), 22)),
]
ON_THE_CARD = [
    Case(64, 40, 4, 32, carried=False),
    Case(1024, 40, 4, 32, carried=False),
    Case(4, 257, 2, 48),
    Case(128, 64, 8, 64),
    Case(3000, 5, 1, 16),
    Case(1, 1500, 4, 24, bounds=(0, 1, 3, 200, 201, 490, 1490, 1500)),
]


@contextmanager
def poisoned_memory() -> Iterator[None]:
    torch.use_deterministic_algorithms(True, warn_only=True)  # cuBLAS would ask for a setting of its own
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def run(backend: str, case: Case, leaves: Leaves) -> tuple[Tensor, tuple[Tensor, ...]]:
    gates, recurrent, *state = leaves
    return slstm(
        gates,
        recurrent=recurrent,
        initial_state=(state[0], state[1], state[2], state[3]) if state else None,
        cu_seqlens=case.cu_seqlens,
        backend=backend,
    )


def outputs_and_gradients(backend: str, case: Case, inputs: Leaves, dtype: torch.dtype) -> dict[str, Tensor]:
    """y, the last state, and the gradients of a random projection of y and (if carried) of the last c, n and h."""
    leaves = [x.detach().to(dtype).requires_grad_() for x in inputs]
    random = torch.Generator("cpu").manual_seed(1)
    y, last = run(backend, case, leaves)
    assert not last[3].requires_grad
    read = [y, *last[:3]] if case.carried else [y]
    weights = [torch.randn(x.shape, device="cpu", generator=random).bfloat16().to(DEVICE, torch.float64) for x in read]
    loss = sum(((x.double() * weight).sum() for x, weight in zip(read, weights, strict=True)), torch.zeros((), device=DEVICE))
    found = [y, *last, *torch.autograd.grad(loss, leaves[:5])]
    return dict(zip(NAMES, (x.detach() for x in found), strict=False))


def compare(case: Case, dtype: torch.dtype) -> None:
    inputs = [x.to(dtype).double() for x in case.draw()]
    expected = outputs_and_gradients("reference", case, inputs, torch.float64)
    plain = outputs_and_gradients("reference", case, inputs, torch.float32)
    with poisoned_memory():
        found = outputs_and_gradients("triton", case, inputs, dtype)
        again = outputs_and_gradients("triton", case, inputs, dtype) if ON_GPU else found
    for name, value in found.items():
        assert value.dtype == (torch.float32 if name in "cnhm" else dtype), name
        allowed = max(2 * relative_error(plain[name], expected[name]), FLOOR)
        if value.dtype != torch.float32:
            allowed = max(allowed, ROUNDED[dtype])
        error = relative_error(value, expected[name])
        assert error <= allowed, f"{name}: {error:.1e} > {allowed:.1e}"
        assert torch.equal(value, again[name]), f"{name}: two runs differ"


@pytest.mark.parametrize("case", [*SMALL, *PACKED], ids=str)
def test_values_and_gradients(case: Case) -> None:
    compare(case, torch.float32)


@pytest.mark.parametrize("dtype", HALF, ids=str)
@pytest.mark.parametrize("case", [SMALL[1], PACKED[1]], ids=str)
def test_values_and_gradients_in_half_precision(case: Case, dtype: torch.dtype) -> None:
    compare(case, dtype)


@pytest.mark.parametrize("case", [SMALL[3], PACKED[2]], ids=str)
def test_large_blocks_of_sequences_give_the_same_answer(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many sequences are taken 16 at a time; here few are, so that the last block is a part of one."""
    from eigentrack.ops.slstm import plan as slstm_plan

    monkeypatch.setattr(slstm_plan, "SMALL_BLOCKS_UP_TO", 0)
    compare(case, torch.float32)


@pytest.mark.skipif(not ON_GPU, reason="too large for the interpreter")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("case", ON_THE_CARD, ids=str)
def test_values_and_gradients_at_real_sizes(case: Case, dtype: torch.dtype) -> None:
    compare(case, dtype)


def test_a_split_sequence_gives_the_same_answer() -> None:
    case = Case(2, 7, 2, 5)
    gates, recurrent, *state = (x.float() for x in case.draw())
    whole, last = run("triton", case, [gates, recurrent, *state])
    pieces = []
    for first, end in pairwise([0, 1, 7]):
        y, state = run("triton", case, [gates[:, first:end], recurrent, *state])  # rows of two sequences that lie apart
        pieces.append(y)
    for ours, theirs in zip([torch.cat(pieces, 1), *state], [whole, *last], strict=True):
        assert relative_error(ours, theirs) <= FLOOR


def test_a_forget_gate_that_is_all_but_open_still_forgets() -> None:
    """log σ(8) = -3·10⁻⁴ to all digits: 1 + e^-8 in float32 has lost four of them."""
    case = Case(1, 3, 1, 2)
    gates, recurrent, c, n, h, m = (torch.zeros_like(x, dtype=torch.float32) for x in case.draw())
    gates[:, :, :, 1], gates[:, :, :, 2] = -50.0, 8.0
    _, last = run("triton", case, [gates, recurrent, c, n + 1, h, m])
    expected = 3 * torch.nn.functional.logsigmoid(torch.tensor(8.0, dtype=torch.float64, device=DEVICE))
    assert (last[3] / expected - 1).abs().max() < 1e-6


def test_what_is_not_finite_stays_in_its_sequence() -> None:
    case = Case(3, 4, 2, 5)
    leaves = [x.float() for x in case.draw()]
    clean, clean_last = run("triton", case, leaves)
    leaves[0][1] = float("nan")
    y, last = run("triton", case, leaves)
    assert y[1].isnan().all()
    assert torch.equal(y[::2], clean[::2])
    assert all(torch.equal(ours[::2], theirs[::2]) for ours, theirs in zip(last, clean_last, strict=True))


def test_a_loss_that_reads_one_part_of_the_last_state() -> None:
    case, found = Case(2, 5, 1, 4), {}
    for backend, dtype in (("reference", torch.float64), ("triton", torch.float32)):
        leaves = [x.to(dtype).requires_grad_() for x in case.draw()]
        _, last = run(backend, case, leaves)
        found[backend] = torch.autograd.grad(last[1].square().sum(), leaves[:5], allow_unused=True, materialize_grads=True)
    for ours, theirs in zip(found["triton"], found["reference"], strict=True):
        assert relative_error(ours, theirs) <= TOLERANCE[torch.float32]


def test_mixed_precision() -> None:
    """As under autocast: gates in half precision, weights and state in float32."""
    case = Case(2, 6, 2, 5)
    exact = [x.half().double() for x in case.draw()]
    leaves = [x.to(torch.float32 if place else torch.float16).requires_grad_() for place, x in enumerate(exact)]
    doubles = [x.requires_grad_() for x in exact]
    (y, _), (expected, _) = run("triton", case, leaves), run("reference", case, doubles)
    weight = torch.linspace(-1, 1, y.numel(), device=DEVICE).half().double().view_as(y)
    gradients, theirs = (
        torch.autograd.grad((x.double() * weight).sum(), of[:5]) for x, of in ((y, leaves), (expected, doubles))
    )
    for leaf, ours, wanted in zip([y, *leaves[:5]], [y, *gradients], [expected, *theirs], strict=True):
        assert ours.dtype == leaf.dtype
        assert relative_error(ours, wanted) <= (TOLERANCE if leaf.dtype == torch.float32 else ROUNDED)[leaf.dtype]


def test_they_are_operators_of_torch() -> None:
    """Schema, fake tensors, autograd: what torch.compile relies on."""
    case = Case(1, 4, 2, 3, bounds=(0, 1, 4))
    *leaves, m = (x.float().requires_grad_() for x in case.draw())
    y, last = run("triton", case, [*leaves, m])  # loads the operators
    inputs = (*leaves, m.detach(), case.cu_seqlens)
    checks = ("test_schema", "test_autograd_registration", "test_faketensor")
    torch.library.opcheck(torch.ops.eigentrack.slstm, (*inputs, True), test_utils=checks)
    torch.library.opcheck(torch.ops.eigentrack.slstm, (*inputs, False), test_utils="test_faketensor")
    with torch.no_grad():
        *_, gates, states = torch.ops.eigentrack.slstm(*inputs, True)
    forgotten = (None,) * 4  # c, n, h, m
    wanted = [True] * 5 + [False] * 2
    doutputs = (y.detach(), None, last[1].detach(), None, None)
    given = (*doutputs, gates, states, None, leaves[1].detach(), *forgotten, case.cu_seqlens, wanted)
    torch.library.opcheck(torch.ops.eigentrack.slstm_backward, given, test_utils=("test_schema", "test_faketensor"))


@without_type_checks
def test_no_graph_break_under_compile() -> None:
    case = Case(2, 5, 2, 4)
    leaves = [x.float().requires_grad_() for x in case.draw()]

    def loss(*leaves: Tensor) -> Tensor:
        y, last = run("triton", case, list(leaves))
        return y.square().sum() + last[0].square().sum()

    assert_no_graph_break(lambda *given: loss(*given, *leaves[5:]), leaves[:5])


@pytest.mark.skipif(not ON_GPU, reason="needs a GPU")
@pytest.mark.parametrize("case", [Case(64, 40, 4, 32), Case(3, 7, 2, 48)], ids=str)
def test_a_cuda_graph_replays_it(case: Case) -> None:
    leaves = [x.float().requires_grad_() for x in case.draw()]

    def step() -> tuple[Tensor, ...]:
        y, last = run("triton", case, leaves)
        return y, last[0], *torch.autograd.grad(y.sum() + last[0].sum(), leaves[:5])

    assert_a_graph_replays(step)
