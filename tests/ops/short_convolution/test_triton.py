"""The Triton convolution, with silu and rows of length one, against its definition in float64: values and all gradients.

Runs on a GPU, or on a CPU under Triton's interpreter (TRITON_INTERPRET=1), where `test_triton_interpreted.py` starts it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import pairwise

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from eigentrack.layers import DeltaNet, Mamba
from eigentrack.layers.short_convolution import ShortConvolution
from eigentrack.ops.short_convolution.reference import Part
from tests.closeness import TOLERANCE, relative_error
from tests.ops.compilation import assert_no_graph_break, without_type_checks
from tests.ops.graph_replay import assert_a_graph_replays
from tests.ops.recomputation import assert_recomputation_changes_nothing

ON_GPU = torch.cuda.is_available()
pytestmark = [
    pytest.mark.skipif(not ON_GPU and os.environ.get("TRITON_INTERPRET") != "1", reason="needs a GPU, or TRITON_INTERPRET=1"),
    pytest.mark.filterwarnings("ignore:Conversion of an array with ndim > 0:DeprecationWarning"),  # in the interpreter
]
DEVICE = "cuda" if ON_GPU else "cpu"
PRECISIONS = [torch.float32, torch.bfloat16]
ALLOWED = {torch.float32: TOLERANCE[torch.float32], torch.bfloat16: 1.5e-2}


@dataclass(frozen=True)
class Case:
    batch: int
    time: int
    channels: int
    width: int = 4
    lengths: tuple[int, ...] = ()  # of packed sequences
    bias: bool = False
    silu: bool = True
    unit: int = 0
    scale: float = 1.0

    def __str__(self) -> str:
        packed = f" packed {list(self.lengths)}" if self.lengths else ""
        flags = f"{' bias' * self.bias}{' silu' * self.silu}{f' unit {self.unit}' if self.unit else ''}"
        return f"B{self.batch} T{self.time} C{self.channels} W{self.width}{packed}{flags}"

    @property
    def bounds(self) -> Tensor | None:
        return torch.tensor([0, *self.lengths], device="cpu").cumsum(0) if self.lengths else None

    def draw(self, dtype: torch.dtype) -> list[Tensor]:
        """x, window, weight, bias as the given type can hold them, in float64."""
        generator = torch.Generator().manual_seed(self.time)
        shapes: list[tuple[int, ...]] = [(self.batch, self.time, self.channels)]
        shapes += [(len(self.lengths) or self.batch, self.width - 1, self.channels), (self.channels, self.width)]
        shapes += [(self.channels,)] if self.bias else []
        drawn = [torch.randn(shape, dtype=torch.float64, generator=generator, device="cpu") for shape in shapes]
        return [x.to(dtype).double() for x in drawn]

    def definition(self, x: Tensor, window: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """Sequence by sequence, row by row, tap by tap."""
        bounds = [0, *torch.tensor(self.lengths).cumsum(0).tolist()] if self.lengths else [0, self.time]
        rows = x.unbind(0) if not self.lengths else [x[0, start:end] for start, end in pairwise(bounds)]
        outputs = []
        for own, past in zip(rows, window, strict=True):
            extended = torch.cat([past, own])
            u = torch.stack(
                [
                    sum(extended[t + w] * weight[:, w] for w in range(self.width)) + torch.zeros_like(own[0])
                    for t in range(len(own))
                ]
            )
            z = u if bias is None else u + bias
            z = z * torch.sigmoid(z) if self.silu else z
            if self.unit:
                heads = z.reshape(len(own), -1, self.unit)
                z = (heads / heads.square().sum(-1, keepdim=True).sqrt().clamp_min(1e-6)).reshape(z.shape)
            outputs.append(self.scale * z)
        return torch.cat(outputs)[None] if self.lengths else torch.stack(outputs)

    def run(self, x: Tensor, window: Tensor, weight: Tensor, bias: Tensor | None = None) -> tuple[Tensor, Tensor]:
        from eigentrack.ops.short_convolution.autograd import KERNELS

        bounds, sequence_of = self.bounds, None
        if bounds is not None:
            bounds = bounds.to(DEVICE, torch.int32)
            sequence_of = torch.repeat_interleave(torch.tensor(self.lengths, device=DEVICE)).to(torch.int32)
        return KERNELS(x, window, weight, bias, bounds, sequence_of, self.silu, self.unit, self.scale)


CASES = [
    Case(1, 1, 1, width=1, silu=False),
    Case(2, 1, 129, bias=True),
    Case(2, 8, 64, width=2, bias=True),
    Case(2, 20, 70, width=3),
    Case(3, 9, 16, width=8, silu=False, bias=True),
    Case(4, 2, 5),
    Case(3, 12, 48, unit=24, bias=True),
    Case(2, 33, 10, unit=5, silu=False, scale=0.7),
    Case(6, 1, 12, unit=6),
    Case(1, 38, 6, lengths=(1, 1, 3, 2, 5, 6, 7, 4, 9), unit=3, bias=True),
    Case(1, 40, 130, lengths=(19, 2, 1, 18), silu=False),
    Case(1, 4, 8, lengths=(1, 1, 1, 1), width=5, bias=True),
]
IN_HALF = [Case(2, 8, 256, unit=256, scale=0.25), Case(1, 17, 32, lengths=(1, 2, 5, 9), unit=16), Case(1, 6, 8, lengths=(6,))]
LARGE = [
    Case(8, 500, 1024, unit=128, scale=128**-0.5),
    Case(3, 2048, 1024),
    Case(2, 300, 768, unit=96),
    Case(1, 3000, 512, lengths=(1, 999, 2, 1500, 498), unit=64),
    Case(128, 40, 128, unit=32),
]
ALL = [(case, torch.float32) for case in CASES] + [(case, torch.bfloat16) for case in IN_HALF]
ALL += [(case, dtype) for case in CASES + IN_HALF + LARGE for dtype in PRECISIONS] if ON_GPU else []


@pytest.mark.parametrize(("case", "dtype"), ALL, ids=str)
def test_it_is_the_definition(case: Case, dtype: torch.dtype) -> None:
    exact = [x.requires_grad_() for x in case.draw(dtype)]
    ours = [x.detach().to(DEVICE, dtype).requires_grad_() for x in exact]
    expected = case.definition(*exact)
    found, rounding = case.run(*ours)
    assert found.dtype == dtype
    assert rounding.shape == (case.batch, case.time, case.channels // case.unit if case.unit else 0)
    assert not rounding.requires_grad
    dy = torch.randn(expected.shape, dtype=torch.float64, device="cpu").to(dtype).double()
    wanted = torch.autograd.grad(expected, exact, dy)
    gradients = torch.autograd.grad(found, ours, dy.to(DEVICE, dtype))
    for name, one, other in zip(["y", "x", "window", "weight", "bias"], [found, *gradients], [expected, *wanted], strict=False):
        if other.numel():
            assert relative_error(one.cpu(), other) < ALLOWED[dtype], name


@pytest.mark.parametrize("dtype", PRECISIONS, ids=str)
def test_it_says_what_rounding_did_to_a_row(dtype: torch.dtype) -> None:
    case = Case(2, 30, 48, unit=24)
    given = case.draw(dtype)
    given[1][:] = 0
    given[0][0, :3] = 0  # all that its first rows see
    y, rounding = case.run(*(x.to(DEVICE, dtype) for x in given))
    heads = y.double().unflatten(-1, (-1, 24)).square().sum(-1)
    assert torch.equal(y[0, :3], torch.zeros_like(y[0, :3]))
    assert torch.equal(rounding[0, :3], torch.ones_like(rounding[0, :3]))
    assert (rounding * heads - 1)[heads > 0].abs().max() < 1e-6
    if dtype == torch.float32:
        assert torch.equal(rounding, torch.ones_like(rounding))
    else:
        assert (heads - 1)[heads > 0].abs().max() > 2**-12  # there was something to say


@pytest.mark.parametrize("value", [0.0, 1e-7])
def test_rows_shorter_than_the_smallest_length_are_divided_by_that(value: float) -> None:
    case = Case(1, 8, 4, width=1, silu=False, unit=4)
    x = torch.full((1, 8, 4), value, device=DEVICE, requires_grad=True)
    y, _ = case.run(x, torch.zeros(1, 0, 4, device=DEVICE), torch.ones(4, 1, device=DEVICE))
    (slope,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(y, torch.full_like(y, 1e6 * value))
    torch.testing.assert_close(slope, torch.full_like(slope, 1e6))


def test_a_part_of_a_wider_tensor_is_read_in_place() -> None:
    case = Case(2, 20, 16, unit=8)
    x, window, weight = (x.to(DEVICE, torch.float32) for x in case.draw(torch.float32))
    wide, wide_window = torch.cat([x, x + 1], -1), torch.cat([window + 1, window], -1)
    leaves = [wide.requires_grad_(), wide_window.requires_grad_()]
    y, _ = case.run(wide[..., :16], wide_window[..., 16:], weight)
    assert torch.equal(y, case.run(x, window, weight)[0])
    (slope, window_slope) = torch.autograd.grad(y[:, :, 0].sum(), leaves)
    assert slope[..., :16].abs().max() > 0
    assert not slope[..., 16:].any()
    assert window_slope[..., 16:].abs().max() > 0
    across_time = x.mT.contiguous().mT
    assert torch.equal(case.run(across_time, window, weight)[0], y)


def test_how_rows_are_cut_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long stretches and short ones; and with the same cut, the same bits."""
    from eigentrack.ops.short_convolution import launch as launch

    case = Case(1, 400, 96, lengths=(199, 1, 200), unit=96) if ON_GPU else Case(1, 20, 128, lengths=(9, 1, 10))
    leaves = [x.to(DEVICE, torch.float32).requires_grad_() for x in case.draw(torch.float32)]

    def run() -> list[Tensor]:
        y, _ = case.run(*leaves)
        return [y, *torch.autograd.grad(y.square().mul(torch.arange(case.channels, device=DEVICE)).sum(), leaves)]

    short, again = run(), run()
    monkeypatch.setattr(launch, "PROGRAMS", 1)
    long = run()
    assert all(torch.equal(one, other) for one, other in zip(short, again, strict=True))
    assert all(relative_error(one, other) < 1e-5 for one, other in zip(long, short, strict=True))
    assert torch.equal(long[0], short[0])


@pytest.mark.parametrize("case", [Case(2, 9, 12, bias=True), Case(1, 9, 12, lengths=(4, 5), unit=6)], ids=str)
def test_it_is_an_operator_of_torch(case: Case) -> None:
    """Schema, fake tensors, autograd: what torch.compile relies on."""
    leaves = [x.to(DEVICE, torch.float32).requires_grad_() for x in case.draw(torch.float32)]
    case.run(*leaves)  # loads the operator
    bounds = None if case.bounds is None else case.bounds.to(DEVICE, torch.int32)
    numbers = torch.repeat_interleave(torch.tensor(case.lengths)).to(DEVICE, torch.int32) if case.lengths else None
    bias = leaves[3] if case.bias else None
    checks = ("test_schema", "test_autograd_registration", "test_faketensor")
    arguments = (*leaves[:3], bias, bounds, numbers, case.silu, case.unit, case.scale, True)
    torch.library.opcheck(torch.ops.eigentrack.short_convolution, arguments, test_utils=checks)


@without_type_checks
def test_no_graph_break_under_compile() -> None:
    case = Case(2, 9, 12, bias=True, unit=6)
    leaves = [x.to(DEVICE, torch.float32).requires_grad_() for x in case.draw(torch.float32)]

    def loss(*leaves: Tensor) -> Tensor:
        y, rounding = case.run(*leaves)
        return (y * rounding.repeat_interleave(6, dim=-1)).square().mul(torch.arange(12, device=DEVICE)).sum()

    assert_no_graph_break(loss, leaves)


@pytest.mark.parametrize(("bias", "bounds"), [(False, None), (True, (0, 1, 3, 10, 12))], ids=str)
def test_the_layer_in_the_kernel_is_the_layer(bias: bool, bounds: tuple[int, ...] | None) -> None:
    """Values, the window that follows, and the gradients of both."""
    layer = ShortConvolution(24, 4, bias).to(DEVICE)
    batch, time = (2, 12) if bounds is None else (1, 12)
    sequences = batch if bounds is None else len(bounds) - 1
    widths, rows, scales = (8, 6, 10), (4, 6, 0), (0.5, 1.0, 1.0)
    leaves = [torch.randn(batch, time, width, device=DEVICE, requires_grad=True) for width in widths]
    window = torch.randn(sequences, 3, 24, device=DEVICE, requires_grad=True)
    factors = [torch.randn(batch, time, width, device=DEVICE) for width in widths] + [torch.randn_like(window)]
    cu_seqlens = None if bounds is None else torch.tensor(bounds, device=DEVICE)

    def run(backend: str) -> list[Tensor]:
        parts = [Part(*given) for given in zip(leaves, rows, scales, strict=True)]
        found, last, roundings = layer(parts, window, cu_seqlens, silu=True, backend=backend)
        assert roundings == [None, None, None]  # float32
        values = [*found, last]
        loss = sum((value * factor).sum() for value, factor in zip(values, factors, strict=True))
        return [*values, *torch.autograd.grad(loss, [*leaves, window, *layer.parameters()])]

    for ours, expected in zip(run("triton"), run("reference"), strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("name", "pieces"), [("deltanet", (2,)), ("mamba", (1, 2))], ids=str)
def test_a_mixer_in_the_kernel_is_the_mixer(name: str, pieces: tuple[int, ...]) -> None:
    """With the state from piece to piece: the window of a sequence that is shorter than the filter is part of it."""
    chosen = DeltaNet(6, heads=1, householders=2) if name == "deltanet" else Mamba(6)
    mixer, given = chosen.to(DEVICE), [torch.randn(2, time, 6, device=DEVICE) for time in pieces]

    def run(backend: str) -> list[Tensor]:
        mixer.backend = backend
        outputs, state = [], None
        for x in given:
            y, state = mixer(x, state)
            outputs.append(y)
        assert state is not None
        assert state.window is not None
        loss = sum(y.pow(3).sum() for y in outputs)
        return [*outputs, state.window, *torch.autograd.grad(loss, list(mixer.parameters()))]

    for ours, expected in zip(run("triton"), run("reference"), strict=True):
        assert relative_error(ours, expected) < 1e-4


def test_half_precision_keys_keep_the_eigenvalue_in_its_range() -> None:
    mixer = DeltaNet(12, heads=3, backend="triton").to(DEVICE, torch.bfloat16)
    with torch.no_grad():
        eigenvalue = mixer.gates((30 * torch.randn(4, 50, 12, device=DEVICE)).to(torch.bfloat16))["eigenvalue"]
    assert eigenvalue.abs().max() < 1 + 1e-6
    assert eigenvalue.min() < -1 + 1e-3


@pytest.mark.parametrize("as_operator", [False, True])
@pytest.mark.parametrize("case", [Case(2, 9, 12, bias=True), Case(1, 9, 12, lengths=(4, 5), unit=6)], ids=str)
def test_activation_checkpointing(case: Case, as_operator: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    leaves = [x.to(DEVICE, torch.float32).requires_grad_() for x in case.draw(torch.float32)]
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: as_operator)
    assert_recomputation_changes_nothing(lambda *given: case.run(*given)[:1], leaves)


@pytest.mark.skipif(not ON_GPU, reason="needs a GPU")
def test_a_cuda_graph_replays_it() -> None:
    case = Case(4, 100, 256, unit=64)
    leaves = [x.to(DEVICE, torch.bfloat16).requires_grad_() for x in case.draw(torch.bfloat16)]

    def run() -> tuple[Tensor, ...]:
        y, rounding = case.run(*leaves)
        return y, rounding, *torch.autograd.grad(F.silu(y).sum(), leaves)

    assert_a_graph_replays(run)
