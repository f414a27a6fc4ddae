"""The Triton delta rule against the float64 reference: values, last state and all gradients.

Runs on a GPU, or on a CPU under Triton's interpreter (TRITON_INTERPRET=1, products of float32 only), where
`test_triton_interpreted.py` starts it.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass, replace
from itertools import pairwise, product

import pytest
import torch
from torch import Tensor

from eigentrack.ops import delta_rule
from eigentrack.ops.delta_rule.op import DELTA_RULE
from eigentrack.spectrum import EigenDisk
from tests.closeness import KERNEL_FLOOR, TOLERANCE, relative_error
from tests.layers.layer_cases import D_MODEL, build
from tests.ops import kernel_accuracy
from tests.ops.kernel_accuracy import assert_a_step_is_accurate, assert_as_accurate_as_plain_torch, cast, plain_torch
from tests.ops.poisoned_memory import poisoned_memory

ON_GPU = torch.cuda.is_available()
pytestmark = [
    pytest.mark.skipif(not ON_GPU and os.environ.get("TRITON_INTERPRET") != "1", reason="needs a GPU, or TRITON_INTERPRET=1"),
    pytest.mark.filterwarnings("ignore:Conversion of an array with ndim > 0:DeprecationWarning"),  # in the interpreter
]
DEVICE = "cuda" if ON_GPU else "cpu"
BETA, GATE, STATE = 3, 4, 5  # places among the inputs
TURNS = 5  # where there are some, and the state comes behind


@dataclass(frozen=True)
class Case:
    batch: int
    time: int
    heads: int
    factors: int
    key: int
    value: int
    gated: bool = False
    bounds: tuple[int, ...] | None = None
    carried: bool = True  # an initial state, and a gradient of the last one
    alike: bool = False  # a run of equal keys

    @property
    def sequences(self) -> int:
        return self.batch if self.bounds is None else len(self.bounds) - 1

    @property
    def cu_seqlens(self) -> Tensor | None:
        return None if self.bounds is None else torch.tensor(self.bounds, device=DEVICE)

    def draw(self) -> list[Tensor | None]:
        """q, k, v, beta, gate, initial state in float64: zero keys, b of 0 and 2, gates of 0 and ±1."""
        random = torch.Generator(DEVICE).manual_seed(self.time)

        def normal(*size: int) -> Tensor:
            size = (self.batch, self.time, self.heads, *size)
            return torch.randn(size, dtype=torch.float64, device=DEVICE, generator=random)

        def chance(x: Tensor, share: float) -> Tensor:
            return torch.rand(x.shape, device=DEVICE, generator=random) < share

        k = torch.nn.functional.normalize(normal(self.factors, self.key), dim=-1)
        if self.alike:
            k[:, 3:20] = k[:, 3:4].clone()
        k[:, 5:6] = 0.0
        beta = normal(self.factors).sigmoid() * 2
        beta[chance(beta, 0.3)] = 2.0
        beta[chance(beta, 0.1)] = 0.0
        gate = None
        if self.gated:
            gate = normal().tanh()
            for share, value in ((0.3, 1.0), (0.1, 0.0), (0.1, -1.0)):
                gate[chance(gate, share)] = value
        size = (self.sequences, self.heads, self.key, self.value)
        state = torch.randn(size, dtype=torch.float64, device=DEVICE, generator=random) if self.carried else None
        return [normal(self.key), k, normal(self.factors, self.value), beta, gate, state]

    def weights(self) -> list[Tensor | None]:
        """Of y and (if carried) of the last state in the number whose gradients are compared."""
        random = torch.Generator(DEVICE).manual_seed(1)
        sizes = [(self.batch, self.time, self.heads, self.value), (self.sequences, self.heads, self.key, self.value)]
        drawn = [torch.randn(size, device=DEVICE, generator=random).bfloat16().double() for size in sizes]
        return [drawn[0], drawn[1] if self.carried else None]


SHORT = [
    Case(2, 1, 1, 1, 4, 3),
    Case(1, 9, 2, 2, 7, 5),
    Case(1, 16, 2, 1, 16, 16),
    Case(2, 20, 2, 1, 16, 16, gated=True),
    Case(1, 40, 1, 1, 32, 32, carried=False),
    Case(1, 13, 2, 3, 5, 7, gated=True),
    Case(1, 50, 1, 1, 33, 20, gated=True),
    Case(2, 64, 1, 1, 32, 64, gated=True, carried=False),
    Case(1, 40, 2, 1, 16, 16, gated=True, carried=False),  # chunks of 32 and 16 rows
    Case(1, 21, 1, 3, 5, 7),  # three of them, 10 tokens a chunk
]
LONG = [
    Case(1, 65, 1, 1, 8, 8, carried=False),
    Case(1, 70, 1, 1, 12, 70),
    Case(1, 100, 1, 1, 72, 20, gated=True),
    Case(1, 50, 1, 3, 12, 20, gated=True, carried=False),
    Case(1, 1, 1, 1, 65, 5, gated=True),
    Case(1, 20, 1, 1, 65, 5, carried=False),
    Case(1, 20, 1, 1, 65, 5, gated=True, carried=False),
]
PACKED = [
    Case(1, 150, 1, 2, 8, 8, gated=True, bounds=(0, 1, 40, 110, 150)),
    Case(1, 90, 1, 1, 8, 8, bounds=(0, 64, 65, 90), carried=False),
]
ON_THE_CARD = [
    Case(2, 300, 3, 1, 128, 128),
    Case(2, 300, 3, 1, 128, 128, gated=True),
    Case(2, 129, 2, 4, 100, 72, gated=True),
    Case(3, 200, 2, 2, 64, 64, carried=False),
    Case(2, 200, 2, 1, 32, 32, gated=True),
    Case(1, 100, 2, 1, 128, 200, gated=True),
    Case(64, 70, 64, 1, 16, 16, gated=True),
    Case(1, 700, 2, 1, 96, 96, gated=True, bounds=(0, 3, 4, 69, 133, 134, 400, 699, 700)),
    Case(1, 700, 2, 3, 32, 32, bounds=(0, 3, 4, 69, 133, 134, 400, 699, 700)),
    Case(64, 64, 4, 1, 64, 64, gated=True),
    Case(64, 50, 4, 1, 32, 64, carried=False),
    *(Case(4, 40, 8, 1, dim, dim, gated=gated) for dim in (32, 128) for gated in (False, True)),
    *(Case(64, 1, 4, 1, 128, 128, gated=gated) for gated in (False, True)),
    *(Case(4, 500, 8, factors, dim, dim, gated=gated) for factors, dim in ((1, 128), (3, 64)) for gated in (False, True)),
    Case(1, 1600, 2, 1, 64, 64, gated=True, bounds=tuple(i * i for i in range(41))),  # of 1, 3, 5, ..., 79 tokens
]
CASES = [*SHORT, *LONG, *PACKED, *(ON_THE_CARD if ON_GPU else [])]
DTYPES = [torch.float32, *([torch.bfloat16] if ON_GPU else [])]


def outputs_and_gradients(
    backend: str, case: Case, inputs: list[Tensor | None], dtype: torch.dtype, pieces: int = 1, wide: Collection[int] = ()
) -> dict[str, Tensor]:
    def run(*given: Tensor | None) -> tuple[Tensor, Tensor]:
        return delta_rule(*given[:-1], initial_state=given[-1], cu_seqlens=case.cu_seqlens, backend=backend)

    found = kernel_accuracy.outputs_and_gradients(run, cast(inputs, dtype, wide), case.weights(), pieces)
    gradients = [
        "dq",
        "dk",
        "dv",
        "dbeta",
        *["dgate"] * case.gated,
        *["dturns"] * (len(inputs) == 7),
        *["dinitial"] * case.carried,
    ]
    return dict(zip(["y", "last state", *gradients], found, strict=True))


def compare(
    case: Case,
    dtype: torch.dtype,
    inputs: list[Tensor | None],
    exact: str = "reference",
    pieces: int = 1,
    wide: Collection[int] = (),
    products: torch.dtype | None = None,
) -> None:
    """Values and gradients with float64 and with plain torch, in poisoned memory, and the bits of two runs.

    The inputs at the places `wide` stay float32. `products`: what plain torch multiplies in, where that is not `dtype`.
    """
    inputs = [None if x is None else x.double() for x in cast(inputs, dtype, wide)]
    expected = outputs_and_gradients(exact, case, inputs, torch.float64, pieces)
    with plain_torch(products or dtype):
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
@pytest.mark.parametrize("wide", [(BETA,), (GATE,), (STATE,), (BETA, GATE, STATE)], ids=str)
@pytest.mark.parametrize("case", [Case(2, 150, 2, 1, 64, 64, gated=True), Case(4, 40, 8, 1, 32, 32, gated=True)], ids=str)
def test_mixed_precision(case: Case, wide: tuple[int, ...]) -> None:
    """As under autocast: q, k and v in bfloat16, some of the others in float32, which keep all of their digits."""
    compare(case, torch.bfloat16, case.draw(), wide=wide)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("case", [SHORT[2], SHORT[5], LONG[1], PACKED[0]], ids=str)
def test_a_run_of_equal_keys(case: Case, dtype: torch.dtype) -> None:
    """At b = 2 nothing is damped, and errors add up over the run: in bfloat16 one head may be lucky, in torch or here."""
    case = replace(case, heads=4 if dtype == torch.bfloat16 else case.heads, alike=True)
    compare(case, dtype, case.draw())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("case", [SHORT[2], SHORT[5], LONG[2]], ids=str)
def test_the_gradient_of_a_vanishing_beta(case: Case, dtype: torch.dtype) -> None:
    """It is found as dv·x / b, and dv vanishes with b."""
    q, k, v, beta, *rest = case.draw()
    tiny = torch.tensor([0.0, 1e-30, 1e-12, -1e-12, 1e-3, 2.0], dtype=torch.float64, device=DEVICE)
    compare(case, dtype, [q, k, v, tiny.repeat(beta.numel())[: beta.numel()].view_as(beta), *rest])


SEGMENTED = [Case(2, 35, 1, 2, 5, 7, gated=True), Case(1, 32, 1, 1, 4, 3, carried=False)]


@pytest.mark.parametrize("case", SEGMENTED, ids=str)
def test_segments_give_the_same_answer(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few long sequences are cut; here short ones are, the first with tokens left over behind the last segment."""
    from eigentrack.ops.delta_rule import segments as cut

    for name, value in {"CHUNK": 8, "SHORTEST_SEGMENT": 8, "WALKERS_WANTED": 12}.items():
        monkeypatch.setattr(cut, name, value)
    _, k, v, *_ = case.draw()
    assert cut.segment_length(k, v) == 8
    test_values_and_gradients(case, torch.float32)


@pytest.mark.parametrize(
    ("batch", "time", "heads", "factors", "length"),
    [
        (1, 2**20, 1, 1, 2**16),
        (1, 2**20, 2, 1, 2**17),
        (1, 2**20, 16, 1, 0),
        (1, 4096, 1, 1, 0),
        (1, 10_000, 1, 1, 2048),
        (2, 2**16, 1, 4, 2**13),
    ],
)
def test_only_a_few_long_sequences_are_cut(batch: int, time: int, heads: int, factors: int, length: int) -> None:
    from eigentrack.ops.delta_rule.segments import segment_length

    key = torch.empty(batch, time, heads, factors, 128, device="meta")
    assert segment_length(key, key) == length


STEPS = [
    Case(3, 1, 2, 1, 40, 50, carried=False),
    Case(3, 1, 2, 1, 40, 50, gated=True),
    Case(3, 1, 2, 2, 40, 50),
    Case(3, 1, 2, 2, 40, 50, gated=True),
    *(
        Case(batch, 1, 16, 1, 128, 128, gated=gated, carried=carried)
        for batch, gated, carried in product((1, 128), (False, True), (False, True))
        if ON_GPU
    ),
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("case", STEPS, ids=str)
def test_a_single_token_without_gradients(case: Case, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decoding has a kernel of its own: the others are not launched."""
    from eigentrack.ops.delta_rule import launch as delta_rule_launch

    for other in ("short_forward_kernel", "prepare_kernel", "walk_kernel"):
        monkeypatch.setattr(delta_rule_launch, other, None)
    assert_a_step_is_accurate(
        lambda backend, *given: delta_rule(*given[:-1], initial_state=given[-1], backend=backend), case.draw(), dtype
    )


TURNING = [
    Case(2, 20, 2, 2, 8, 5, gated=True),
    Case(1, 70, 4, 1, 8, 8),
    Case(1, 22, 2, 1, 8, 8, gated=True, bounds=(0, 1, 18, 22)),
]


def some_turns(case: Case) -> Tensor:
    random = torch.Generator(DEVICE).manual_seed(2)
    size = (case.batch, case.time, case.heads, case.key // 2)
    return torch.randint(-64, 64, size, device=DEVICE, generator=random).double() / 128


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("case", [*TURNING, *([Case(2, 300, 3, 2, 128, 128, gated=True)] if ON_GPU else [])], ids=str)
def test_gates_that_turn(case: Case, dtype: torch.dtype) -> None:
    """In a frame that turns with the state: the reference turns the state. Products are float32, in the interpreter too."""
    *sequences, state = case.draw()
    compare(case, dtype, [*sequences, some_turns(case), state], wide=(TURNS,), products=torch.float32)


@pytest.mark.parametrize("case", TURNING, ids=str)
def test_keys_that_turn_are_not_rounded_again(case: Case) -> None:
    """q, k and v in bfloat16, as under autocast. What comes out in float32 is as exact as if they had been float32."""
    *sequences, state = case.draw()
    wide = (BETA, GATE, TURNS, TURNS + 1)
    inputs = [None if x is None else x.double() for x in cast([*sequences, some_turns(case), state], torch.bfloat16, wide)]
    expected = outputs_and_gradients("reference", case, inputs, torch.float64)
    found = outputs_and_gradients("triton", case, inputs, torch.bfloat16, wide=wide)
    for name, ours in found.items():
        allowed = TOLERANCE[torch.float32] if ours.dtype == torch.float32 else KERNEL_FLOOR[torch.bfloat16]
        assert relative_error(ours, expected[name]) <= allowed, name
    assert {name for name, ours in found.items() if ours.dtype == torch.float32} >= {"last state", "dbeta", "dturns"}


@torch.no_grad()
@pytest.mark.skipif(ON_GPU, reason="a GPU rounds other bits of a projection for one token than for many")
def test_a_layer_that_turns_is_the_same_token_by_token_under_autocast() -> None:
    options = {"heads": 3, "householders": 2, "gate": EigenDisk(), "initial": {"gates": [0.9, 0.99]}}
    mixer = build("deltanet", options, torch.float32)
    x, state = torch.randn(2, 20, D_MODEL), None
    with torch.autocast(DEVICE, torch.bfloat16):
        _, whole = mixer(x)
        for token in x.unbind(1):
            _, state = mixer.step(token, state)
    assert state is not None
    assert relative_error(state.memory[0], whole.memory[0]) <= TOLERANCE[torch.float32]


def test_a_single_token_that_turns() -> None:
    case = Case(3, 1, 2, 2, 8, 8, gated=True)
    *sequences, state = (x.float() for x in case.draw() if x is not None)
    turns = torch.rand(3, 1, 2, 4, device=DEVICE)
    with torch.no_grad():
        found, exact = (delta_rule(*sequences, turns, initial_state=state, backend=name) for name in ("triton", "reference"))
    for ours, reference in zip(found, exact, strict=True):
        assert relative_error(ours, reference) <= TOLERANCE[torch.float32]


@pytest.mark.parametrize("time", [40, 192])
def test_equal_keys_at_beta_two_are_exact(time: int) -> None:
    """Reflections along one key, in short and in long sequences: every number is a small integer, and none is rounded."""
    key = torch.zeros(1, time, 1, 1, 4, device=DEVICE)
    key[..., 0] = 1.0
    start = torch.tensor([[[[3.0], [5.0], [7.0], [11.0]]]], device=DEVICE)
    y, state = delta_rule(
        torch.ones(1, time, 1, 4, device=DEVICE),
        key,
        torch.zeros(1, time, 1, 1, 1, device=DEVICE),
        torch.full((1, time, 1, 1), 2.0, device=DEVICE),
        initial_state=start,
        backend="triton",
    )
    assert torch.equal(state, start)
    assert torch.equal(y.flatten().cpu(), torch.tensor([20.0, 26.0], device="cpu").repeat(time // 2))


@pytest.mark.parametrize("time", [40, 100])
def test_a_gate_of_one_is_no_gate(time: int) -> None:
    """Everywhere, at b = 2: values, last state and gradients."""
    q, k, v, beta, _, state = (None if x is None else x.float() for x in Case(1, time, 1, 2, 8, 8).draw())
    inputs = [q, k, v, torch.full_like(beta, 2.0), state]  # type: ignore[arg-type]
    found = []
    for gate in (None, torch.ones(1, time, 1, device=DEVICE)):
        *sequences, start = leaves = [x.clone().requires_grad_() for x in inputs]  # type: ignore[union-attr]
        y, last = delta_rule(*sequences, gate, initial_state=start, backend="triton")
        found.append([y, last, *torch.autograd.grad(y.square().sum() + last.square().sum(), leaves)])
    for ungated, gated in zip(*found, strict=True):
        assert relative_error(gated, ungated) <= TOLERANCE[torch.float32]


@pytest.mark.parametrize(("time", "dim"), [(30, 8), (100, 8), (70, 40)])
def test_nearly_equal_keys_at_beta_two(time: int, dim: int) -> None:
    """Not exact any more, so that a Neumann series at 16 rows would already lose five digits."""
    case = Case(1, time, 4, 1, dim, 8)
    q, k, v, beta, _, state = case.draw()
    k = torch.nn.functional.normalize(k[:, :1] + 1e-3 * k, dim=-1)
    compare(case, torch.float32, [q, k, v, torch.full_like(beta, 2.0), None, state])


@pytest.mark.parametrize("time", [40, 100])
def test_a_gate_of_zero_forgets_everything(time: int) -> None:
    reset = time - 17
    q, k, v, beta, gate, _ = Case(1, time, 1, 1, 8, 8, gated=True).draw()
    assert gate is not None
    gate[:, reset] = 0.0
    inputs = [x.float() for x in (q, k, v, beta, gate) if x is not None]
    _, state = delta_rule(*inputs, initial_state=torch.full((1, 1, 8, 8), 1e30, device=DEVICE), backend="triton")
    _, tail = DELTA_RULE.backends["reference"](
        *(x[:, reset:].double() for x in inputs),
        initial_state=torch.zeros(1, 1, 8, 8, device=DEVICE, dtype=torch.float64),
        packing=None,
    )
    assert relative_error(state, tail) <= TOLERANCE[torch.float32]


def test_a_split_sequence_gives_the_same_answer() -> None:
    *sequences, state = (None if x is None else x.float() for x in Case(1, 150, 1, 1, 8, 8, gated=True).draw())
    whole, last = delta_rule(*sequences, initial_state=state, backend="triton")
    pieces = []
    for first, end in pairwise([0, 1, 64, 77, 150]):
        y, state = delta_rule(*(x[:, first:end] for x in sequences), initial_state=state, backend="triton")
        pieces.append(y)
    assert relative_error(torch.cat(pieces, 1), whole) <= TOLERANCE[torch.float32]
    assert relative_error(state, last) <= TOLERANCE[torch.float32]


@pytest.mark.parametrize("time", [20, 70])
def test_strided_inputs(time: int) -> None:
    """A layer hands over slices of one projection: rows that are not next to one another."""
    case = Case(1, time, 2, 1, 8, 8)
    q, k, v, beta, *_ = (None if x is None else x.float() for x in case.draw())
    wide = torch.cat([q.flatten(2), v.flatten(2)], dim=-1)
    sliced_q, sliced_v = wide.split([16, 16], dim=-1)
    found = delta_rule(sliced_q.unflatten(-1, (2, 8)), k, sliced_v.unflatten(-1, (2, 1, 8)), beta, backend="triton")
    expected = delta_rule(q, k, v, beta, backend="triton")
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
