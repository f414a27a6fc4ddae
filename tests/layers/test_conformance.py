"""What holds for every layer: step ≡ forward, pieces ≡ whole, packed ≡ alone, backends agree, the state is the whole past."""

from __future__ import annotations

import inspect
import math
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from eigentrack.layers import MIXERS, LinearMixer
from eigentrack.layers.mixer import MixerState
from eigentrack.spectrum import EigenDisk, EigenPolygon, EigenRange
from tests.closeness import assert_close
from tests.layers.layer_cases import D_MODEL, LINEAR, OTHERS, build, case_name, started

every_layer = pytest.mark.parametrize(("name", "options"), [*LINEAR, *OTHERS], ids=case_name)
every_linear_layer = pytest.mark.parametrize(("name", "options"), LINEAR, ids=case_name)


def random_input(batch: int = 2, time: int = 70) -> Tensor:
    return torch.randn(batch, time, D_MODEL, dtype=torch.float64)


def test_the_cases_cover_every_layer() -> None:
    assert {name for name, _ in [*LINEAR, *OTHERS]} == set(MIXERS)


@every_layer
def test_steps_equal_forward(name: str, options: dict[str, Any]) -> None:
    mixer, x = build(name, options), random_input()
    whole, last = mixer(x)
    state, outputs = None, []
    for token in x.unbind(1):
        y, state = mixer.step(token, state)
        outputs.append(y)
    assert state is not None
    assert whole.std() > 1e-3  # there is something to compare
    assert_close(torch.stack(outputs, 1), whole)
    for ours, expected in zip(state.memory, last.memory, strict=True):
        assert ours.shape == expected.shape
    if name not in ("mlstm", "attention"):  # units of m; booleans
        for ours, expected in zip(state.memory, last.memory, strict=True):
            assert_close(ours, expected, "memory")


@every_layer
def test_pieces_equal_the_whole(name: str, options: dict[str, Any]) -> None:
    mixer, x = build(name, options), random_input()
    whole, _ = mixer(x)
    state, outputs = None, []
    for first, last in pairwise([0, 1, 3, 40, 70]):
        y, state = mixer(x[:, first:last], state)
        outputs.append(y)
    assert_close(torch.cat(outputs, 1), whole)


@every_layer
def test_packed_sequences_do_not_see_each_other(name: str, options: dict[str, Any]) -> None:
    mixer, x = build(name, options), random_input(1, 90)
    bounds = torch.tensor([0, 2, 3, 70, 90])
    packed, state = mixer(x, cu_seqlens=bounds)
    more, _ = mixer(x[:, :8], state, torch.tensor([0, 1, 4, 6, 8]))  # and the states carry on, each its own
    for n, (first, last) in enumerate(pairwise(bounds.tolist())):
        alone, alone_state = mixer(x[:, first:last])
        assert_close(packed[:, first:last], alone, f"sequence {n}")
        start, end = [(0, 1), (1, 4), (4, 6), (6, 8)][n]
        assert_close(more[:, start:end], mixer(x[:, start:end], alone_state)[0], f"continuation {n}")


@every_linear_layer
def test_backends_agree_on_values_and_parameter_gradients(name: str, options: dict[str, Any]) -> None:
    x = random_input()
    results = []
    for backend in ("reference", "chunked"):
        mixer = build(name, {**options, "backend": backend})
        leaf = x.clone().requires_grad_()
        y, state = mixer(leaf)
        weight = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)
        loss = (y * weight).sum() + sum(part.sin().sum() for part in state.memory[:1] if name != "mlstm")
        gradients = torch.autograd.grad(loss, [leaf, *mixer.parameters()])
        results.append([y, *gradients])
    names = ["y", "x", *(key for key, _ in mixer.named_parameters())]
    for key, reference, ours in zip(names, *results, strict=True):
        assert_close(ours, reference, key)
        assert reference.abs().max() > 0, f"{key} has no effect"


@every_linear_layer
def test_transitions_are_what_forward_applies(name: str, options: dict[str, Any]) -> None:
    """H_t = A_t H_{t-1} + B_t: the difference of two memories is moved by the product of the A_t alone."""
    mixer, x = build(name, options), random_input(2, 5)
    assert isinstance(mixer, LinearMixer)
    start = mixer.initial_state(2)
    difference = torch.randn_like(start.memory[0])
    other = type(start)((start.memory[0] + difference, *start.memory[1:]), start.window)

    def memory_after(state: Any) -> Tensor:
        memory = mixer(x, state)[1].memory
        return memory[0] * memory[2].exp()[..., None, None] if name == "mlstm" else memory[0]

    moved = memory_after(other) - memory_after(start)
    if moved.ndim == 3:  # a memory of vectors
        moved, difference = moved[..., None], difference[..., None]
    for matrix in mixer.transitions(x).unbind(1):
        difference = matrix @ difference
    assert_close(moved, difference)


@every_linear_layer
def test_eigenvalues_lie_in_the_range(name: str, options: dict[str, Any]) -> None:
    mixer = build(name, options)
    assert isinstance(mixer, LinearMixer)
    with torch.no_grad():
        eigenvalues = torch.linalg.eigvals(mixer.transitions(10 * random_input()))
    if mixer.eigenvalues is None:  # the unbounded baselines: nothing holds their eigenvalues
        assert eigenvalues.abs().max() > 1
        return
    assert eigenvalues.abs().max() <= 1 + 1e-7
    if name == "pd_ssm":  # the set bounds D; the eigenvalues of P D are roots of products of its entries
        span = mixer.eigenvalues.radial
        assert eigenvalues.abs().max() <= max(-span.low, span.high) + 1e-7
        return
    if isinstance(mixer.eigenvalues, EigenDisk):
        assert eigenvalues.imag.abs().max() > 0.1
        assert eigenvalues.abs().min() >= mixer.eigenvalues.inner - 1e-7
        assert eigenvalues.abs().max() <= mixer.eigenvalues.outer + 1e-7
        return
    if isinstance(mixer.eigenvalues, EigenPolygon):
        edges = torch.exp(2j * torch.pi * (torch.arange(mixer.eigenvalues.corners).double() + 0.5) / mixer.eigenvalues.corners)
        apothem = math.cos(math.pi / mixer.eigenvalues.corners)  # how far the middle of an edge is from 0
        assert (eigenvalues[..., None] * edges.conj()).real.max() <= apothem + 1e-7
        assert eigenvalues.imag.abs().max() > 0.1
        return
    low, high = mixer.eigenvalues.low, mixer.eigenvalues.high
    if name in ("dense", "sd_ssm"):  # in the disk whose diameter is the range
        assert (eigenvalues - (low + high) / 2).abs().max() <= (high - low) / 2 + 1e-9
    elif options.get("gate") is None and options.get("householders", 1) == 1:
        assert eigenvalues.imag.abs().max() < 1e-7
        one_or_inside = (eigenvalues.real >= low - 1e-7) & (eigenvalues.real <= high + 1e-7)
        if name == "deltanet":  # all but the one along the key are 1
            one_or_inside |= (eigenvalues.real - 1).abs() < 1e-7
        assert one_or_inside.all()


@every_layer
def test_states_can_be_selected_and_detached(name: str, options: dict[str, Any]) -> None:
    mixer, x = build(name, options), random_input(3, 10)
    _, state = mixer(x)
    rows = torch.tensor([2, 0, 2])
    token = torch.randn(3, D_MODEL, dtype=torch.float64)
    expected = torch.stack([mixer.step(token[i : i + 1], state.select(rows[i : i + 1]))[0][0] for i in range(3)])
    found, after = mixer.step(token, state.select(rows).detach())
    assert_close(found, expected)
    assert after.sequences == 3
    assert not any(part.requires_grad for part in state.detach().memory)


@every_layer
def test_half_precision_layers_keep_a_float32_memory(name: str, options: dict[str, Any]) -> None:
    mixer, x = build(name, options, torch.bfloat16), random_input().bfloat16()
    y, state = mixer(x)
    exact, _ = build(name, options, torch.bfloat16).double()(x.double())
    assert y.dtype == torch.bfloat16
    if name not in ("attention", "convolution"):  # their memory is a window on the input
        assert state.memory[0].dtype == torch.float32
    assert (y.double() - exact).norm() / exact.norm() < 0.05


@torch.no_grad()
@every_layer
def test_autocast_leaves_the_products_of_the_memory_alone(name: str, options: dict[str, Any]) -> None:
    """Projections are rounded, one by one and together to the same bits; what steps and forward make of them is not."""
    mixer, x = build(name, options, torch.float32), random_input(2, 20).float()
    state = None
    with torch.autocast(x.device.type, torch.bfloat16):
        _, whole = mixer(x)
        for token in x.unbind(1):
            _, state = mixer.step(token, state)
    assert state is not None
    # a GPU rounds other bits of a projection for one token than for many, and its kernels multiply bfloat16 as they get it
    precision = torch.float32 if x.device.type == "cpu" else torch.bfloat16
    for ours, expected in zip(state.memory, whole.memory, strict=True):
        assert_close(ours, expected, "memory", precision)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("deltanet", {"heads": 5}, "d_model=12 must be a multiple of heads=5"),
        ("deltanet", {"householders": 0}, "householders=0 must be a whole number of at least 1"),
        ("deltanet", {"conv": -1}, "width=-1 must be a whole number of at least 1"),
        ("deltanet", {"key_dim": 0}, "key_dim=0 must be a whole number of at least 1"),
        ("deltanet", {"backend": "cuda"}, "backend='cuda' is not known; there are auto, reference, chunked"),
        ("mamba", {"dt_rank": 0}, "dt_rank=0 must be a whole number of at least 1"),
        ("gla", {"gate_temperature": 0.0}, "gate_temperature=0.0 must be a positive number"),
        ("gla", {"gate_temperature": float("nan")}, "gate_temperature=nan must be a positive number"),
        ("gla", {"writes": False, "learn_initial_state": True, "key_norm": True}, "key_norm=True needs keys"),
        ("rwkv7", {"heads": D_MODEL}, f"heads={D_MODEL} leaves 1 of d_model={D_MODEL} channels to each, and its norm needs 2"),
        (
            "gla",
            {"key_dim": 4, "gate_rank": 8, "eigenvalues": EigenPolygon(5)},
            "gate_rank=8 is for gates in a range or a disk; polygon 5",
        ),
        (
            "gla",
            {"key_dim": 4, "initial": {"gates": [0.5, 0.9]}, "eigenvalues": EigenPolygon(5)},
            r"initial gates=\[0.5, 0.9\] are for gates in a range",
        ),
        ("gla", {"initial": {"gates": [0.9]}}, r"gates=\[0.9\] must be two numbers"),
        ("gla", {"initial": {"gates": [0.9, 1.0]}}, r"eigenvalue 1 must lie inside of \[-1, 1\], without its ends"),
        ("mamba", {"state_size": 0}, "state_size=0 must be"),
        ("mamba2", {"heads": 7}, r"expand\*d_model=24 must be a multiple of heads=7"),
        ("mamba2", {"heads": 4, "groups": 3}, "heads=4, and heads of groups=3"),
        ("attention", {"heads": 4}, "d_model/heads=3 must be even"),
        (
            "gla",
            {"heads": 2, "key_dim": 3, "eigenvalues": EigenDisk()},
            "key_dim=3 must be even: complex eigenvalues turn pairs",
        ),
        ("gla", {"heads": 2, "key_dim": 3, "eigenvalues": EigenPolygon(3)}, "key_dim=3 must be even: complex eigenvalues turn"),
        ("gla", {"heads": 2, "writes": False}, "writes=False needs learn_initial_state=True"),
        ("mamba2", {"eigenvalues": EigenPolygon(3)}, "Mamba2: eigenvalues=polygon 3 must be an EigenRange or EigenDisk$"),
        ("mamba", {"state_size": 5, "eigenvalues": EigenDisk()}, "state_size=5 must be even"),
        ("mamba2", {"state_size": 5, "eigenvalues": EigenDisk()}, "state_size=5 must be even"),
        ("s4d", {"state_size": 5, "eigenvalues": EigenDisk()}, "state_size=5 must be even"),
        ("pd_ssm", {"dictionary": 0}, "dictionary=0 must be a whole number of at least 1"),
        ("pd_ssm", {"initial": {"gates": [0.9, 1.0]}}, r"eigenvalue 1 must lie inside of \[-1, 1\], without its ends"),
        ("pd_ssm", {"eigenvalues": EigenPolygon(3)}, "PDSSM: eigenvalues=polygon 3 must be an EigenRange or EigenDisk$"),
        ("sd_ssm", {"norm_power": 1.2}, r"norm_power=1.2 bounds no eigenvalue: leave it out for eigenvalues=\[-1, 1\]"),
        ("sd_ssm", {"norm_power": 0.5, "eigenvalues": None}, "norm_power=0.5 must be at least 1"),
        ("rwkv7", {"heads": 3, "norm_eps": -1.0}, "norm_eps=-1.0 must be a positive number"),
        ("gla", {"key_dim": 4, "eigenvalues": EigenDisk(), "widened_from": EigenRange(0, 1)}, "eigenvalues=disk has angles"),
    ],
)
def test_bad_sizes_are_named(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        started(name, D_MODEL, **options)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("gla", {"initial": {"gates": 0.9}}, "gates=0.9 must be two numbers"),
        (
            "deltanet",
            {"gate": EigenRange(0, 1), "initial": {"gates": ["a", 0.9]}},
            r"gates=\['a', 0.9\] must be two numbers",
        ),
        ("deltanet", {"initial": {"eigenvalue": [0.5]}}, r"eigenvalue=\[0.5\] must be a number"),
    ],
)
def test_what_is_no_number_is_named(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        started(name, D_MODEL, **options)


@pytest.mark.parametrize("name", ["deltanet", "rwkv7", "mlstm", "dense", "sd_ssm"])
def test_layers_with_real_gates_and_factors_refuse_a_disk(name: str) -> None:
    mixer = MIXERS[name]
    unchecked = inspect.unwrap(vars(mixer)["__init__"])  # users have no type checker in between
    with pytest.raises(
        ValueError, match=f"{mixer.__name__}: its gates and factors are real, so eigenvalues=disk must be a range"
    ):
        unchecked(mixer.__new__(mixer), D_MODEL, heads=2, eigenvalues=EigenDisk())


@pytest.mark.parametrize("name", sorted(name for name, mixer in MIXERS.items() if issubclass(mixer, LinearMixer)))
def test_only_full_matrices_do_without_a_bound(name: str) -> None:
    mixer = MIXERS[name]
    unchecked = inspect.unwrap(vars(mixer)["__init__"])
    built = mixer.__new__(mixer)
    if name in ("dense", "sd_ssm"):
        unchecked(built, D_MODEL, eigenvalues=None)
        return
    with pytest.raises(ValueError, match="eigenvalues=None must be an EigenRange"):
        unchecked(built, D_MODEL, eigenvalues=None)


@pytest.mark.parametrize("name", ["gla", "mamba", "mamba2", "s4d"])
def test_an_input_without_tokens_is_named(name: str) -> None:
    mixer = MIXERS[name](D_MODEL, eigenvalues=EigenDisk(), **({"heads": 3} if name == "gla" else {}))
    with pytest.raises(ValueError, match="batch=2 and time=0: both must be at least 1"):
        mixer(torch.zeros(2, 0, D_MODEL))


def test_inputs_and_states_that_do_not_fit_are_named() -> None:
    mixer = build("deltanet", {"heads": 3, "eigenvalues": EigenRange(-1, 1)})
    with pytest.raises(ValueError, match=r"expected \[batch, time, 12\]"):
        mixer(torch.zeros(2, 5, 13, dtype=torch.float64))
    with pytest.raises(ValueError, match=r"a step takes \[batch, 12\]"):
        mixer.step(torch.zeros(2, 13, dtype=torch.float64))
    with pytest.raises(ValueError, match="the state holds 3 sequences, the input 2"):
        mixer(random_input(), mixer.initial_state(3))
    other = build("deltanet", {"heads": 2, "eigenvalues": EigenRange(-1, 1)})
    with pytest.raises(
        ValueError, match=r"DeltaNet: the state's memory is \(2, 6, 6\) for a sequence, this layer's \(3, 4, 4\)"
    ):
        mixer(random_input(), other.initial_state(2))


def test_states_without_the_window_that_belongs_to_them_are_named() -> None:
    mixer = build("deltanet", {"heads": 3, "eigenvalues": EigenRange(-1, 1), "conv": 4})
    whole = mixer.initial_state(2)
    with pytest.raises(ValueError, match="DeltaNet: the state has no window for the convolution"):
        mixer(random_input(), MixerState(whole.memory))
    with pytest.raises(ValueError, match="1 of 2 states have a window: states of one layer belong together"):
        MixerState.stack([whole, MixerState(whole.memory)])
