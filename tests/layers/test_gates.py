"""What `gates` says of A(x_t) is what the matrices of `transitions` have."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from eigentrack.layers import GLA, INITIALISERS, MIXERS, DeltaNet, LinearMixer
from eigentrack.spectrum import EigenDisk, EigenRange, Eigenvalues
from tests.closeness import TOLERANCE
from tests.layers.layer_cases import D_MODEL, LINEAR, build, case_name, started

every_linear_layer = pytest.mark.parametrize(("name", "options"), LINEAR, ids=case_name)


@every_linear_layer
def test_the_eigenvalues_are_those_of_the_transitions(name: str, options: dict[str, Any]) -> None:
    """Every eigenvalue that is named is one of A's; every one of A's is named, but for those that equal the gate."""
    mixer, x = build(name, options), torch.randn(2, 6, D_MODEL, dtype=torch.float64)
    assert isinstance(mixer, LinearMixer)
    with torch.no_grad():
        gates, expected = mixer.gates(x), torch.linalg.eigvals(mixer.transitions(x))  # [B, T, H, n]
    named = gates["eigenvalue"].to(expected.dtype)
    named = named if named.ndim == 4 else named[..., None]
    distance = (named[..., :, None] - expected[..., None, :]).abs()  # named, of A
    assert distance.amin(-1).max() < 1e-6
    is_gate = torch.zeros_like(expected).bool()
    if isinstance(mixer, DeltaNet) and not mixer.gate_per_channel:
        gate = gates.get("gate", torch.ones(expected.shape[:3], dtype=torch.float64))
        is_gate = (expected - gate[..., None]).abs() < 1e-6
    assert ((distance.amin(-2) < 1e-6) | is_gate).all()


@every_linear_layer
def test_gates_follow_the_state_as_forward_does(name: str, options: dict[str, Any]) -> None:
    mixer, x = build(name, options), torch.randn(2, 9, D_MODEL, dtype=torch.float64)
    assert isinstance(mixer, LinearMixer)
    _, state = mixer(x[:, :5])
    for gate, whole in mixer.gates(x).items():
        torch.testing.assert_close(mixer.gates(x[:, 5:], state)[gate].abs().sum(-1), whole[:, 5:].abs().sum(-1))


@torch.no_grad()
@pytest.mark.parametrize("householders", [1, 2])
def test_under_autocast_no_eigenvalue_is_named_outside_of_the_range(householders: int) -> None:
    """Keys that are rounded once more, after b was fitted to their length, would show -1.004."""
    mixer = build("deltanet", {"heads": 1, "conv": 0, "householders": householders}, torch.float32)
    assert isinstance(mixer, DeltaNet)
    mixer.beta_proj.weight.mul_(100)  # b of 0 and 2
    with torch.autocast(mixer.beta_proj.weight.device.type, torch.bfloat16):
        x = torch.randn(2, 50, D_MODEL)
        named, matrices = mixer.gates(x)["eigenvalue"], mixer.transitions(x)
    assert named.real.min() < -0.99
    assert named.abs().max() < 1 + 1e-5
    assert torch.linalg.matrix_norm(matrices, ord=2).max() < 1 + 1e-5


@pytest.mark.parametrize("overshoot", [0.0, 0.05])
@pytest.mark.parametrize(("low", "high", "first"), [(-1, 1, 0.5), (0, 1, 0.9), (-1, 1, None), (0, 1, None)])
def test_eigenvalues_start_where_they_are_asked_to(low: float, high: float, first: float | None, overshoot: float) -> None:
    mixer = DeltaNet(D_MODEL, heads=2, eigenvalues=EigenRange(low, high, overshoot))
    if first is not None:
        INITIALISERS["eigenvalue"](mixer, first)
    with torch.no_grad():
        found = mixer.gates(torch.zeros(1, 3, D_MODEL))["beta"]
    torch.testing.assert_close(1 - found, torch.full_like(found, (low + high) / 2 if first is None else first))


@pytest.mark.parametrize("temperature", [1.0, 16.0])
@pytest.mark.parametrize(
    ("eigenvalues", "first", "last"),
    [(EigenRange(-1, 1), 0.9, 0.99), (EigenRange(-1, 1), -0.3, -0.3), (EigenRange(0, 1), 0.9, 0.5), (EigenDisk(), 0.5, 0.9)],
    ids=str,
)
def test_gla_starts_where_it_is_asked_to(eigenvalues: Eigenvalues, first: float, last: float, temperature: float) -> None:
    mixer = GLA(D_MODEL, heads=2, key_dim=6, eigenvalues=eigenvalues, gate_temperature=temperature)
    INITIALISERS["gates"](mixer, [first, last])
    with torch.no_grad():
        found = mixer.gates(torch.zeros(1, 3, D_MODEL))["eigenvalue"]  # [1, 3, H, K], of a pair in a disk both
    found = found.abs() if eigenvalues.turns else found
    torch.testing.assert_close(found.amin(-1), torch.full_like(found[..., 0], min(first, last)))
    torch.testing.assert_close(found.amax(-1), torch.full_like(found[..., 0], max(first, last)))
    if not eigenvalues.turns:
        torch.testing.assert_close(found[..., [0, -1]], found.new_tensor([first, last]).expand(1, 3, 2, 2))


@pytest.mark.parametrize(
    ("eigenvalues", "options", "temperature", "first"),
    [
        (EigenRange(0, 1), {}, 16, None),
        (EigenDisk(), {}, 16, None),
        (EigenRange(-1, 1), {}, 1, 2 ** (-1 / 16)),
        (EigenRange(-0.5, 0.9), {}, 1, 0.2 + 0.7 * 2 ** (-1 / 16)),
        (EigenRange(-1, 1), {"initial": {"gates": [0.5, 0.5]}}, 1, 0.5),
        (EigenRange(-1, 1), {"gate_temperature": 2.0}, 2, None),
        (EigenRange(-1, 1), {"widened_from": EigenRange(0, 1)}, 16, None),
    ],
)
def test_gla_is_steep_and_starts_near_one_where_it_can_flip(
    eigenvalues: Eigenvalues, options: dict[str, Any], temperature: float, first: float | None
) -> None:
    mixer = started("gla", D_MODEL, heads=2, key_dim=4, eigenvalues=eigenvalues, **options)
    assert isinstance(mixer, GLA)
    assert mixer.gate_temperature == temperature
    with torch.no_grad():
        gates = mixer.gates(torch.zeros(1, 1, D_MODEL))["eigenvalue"]
    if first is None:  # as the bias is drawn
        assert gates.abs().unique().numel() > 1
    else:
        torch.testing.assert_close(gates, torch.full_like(gates, first))


def test_an_eigenvalue_starts_inside_of_its_range() -> None:
    with pytest.raises(ValueError, match=r"eigenvalue -0\.5 must lie inside of \[0, 1\]"):
        started("deltanet", D_MODEL, heads=2, eigenvalues=EigenRange(0, 1), initial={"eigenvalue": -0.5})


@pytest.mark.parametrize(
    ("name", "initial", "message"),
    [
        ("mamba", {"gates": [0.5, 0.9]}, r"initial gates=\[0.5, 0.9\]: Mamba has no gates that can start there"),
        ("gla", {"eigenvalue": 0.5}, "initial eigenvalue=0.5: GLA has no factors whose eigenvalue can start there"),
    ],
)
def test_a_layer_without_what_should_start_somewhere_says_so(name: str, initial: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        started(name, D_MODEL, initial=initial)


def test_an_overshoot_takes_b_to_both_ends_of_its_range() -> None:
    mixer = DeltaNet(D_MODEL, heads=2, eigenvalues=EigenRange(-1, 1, overshoot=0.05))
    with torch.no_grad():
        mixer.beta_proj.weight.mul_(10)  # logits of ±3 and more, of which a sigmoid makes 0.95
        found = mixer.gates(torch.randn(2, 200, D_MODEL))["beta"]
    assert {0.0, 2.0} <= set(found.flatten().tolist())
    assert ((found > 0) & (found < 2)).any()


@pytest.mark.parametrize("rounded", [False, True])
def test_an_overshoot_leaves_eigenvalues_in_their_range(rounded: bool) -> None:
    mixer = DeltaNet(D_MODEL, heads=2, conv=0, eigenvalues=EigenRange(-1, 1, overshoot=2.0))
    with torch.no_grad(), torch.autocast(mixer.beta_proj.weight.device.type, torch.bfloat16, enabled=rounded):
        found = mixer.gates(torch.randn(2, 200, D_MODEL))["eigenvalue"]
    assert found.min() == pytest.approx(-1, abs=TOLERANCE[torch.float32])
    assert found.max() == 1


@pytest.mark.parametrize("name", sorted({name for name, _ in LINEAR} - {"deltanet"}))
def test_layers_without_b_refuse_an_overshoot(name: str) -> None:
    with pytest.raises(
        ValueError, match=r"its eigenvalues come from no b that could overshoot: eigenvalues=\[0, 1\] overshoot 2"
    ):
        MIXERS[name](D_MODEL, eigenvalues=EigenRange(0, 1, overshoot=2.0))


def test_neither_a_gate_nor_a_range_that_is_widened_to_overshoots() -> None:
    with pytest.raises(ValueError, match=r"gate=EigenRange\(.*\) must be an EigenRange without overshoot"):
        DeltaNet(D_MODEL, heads=2, gate=EigenRange(0, 1, overshoot=2.0))
    with pytest.raises(
        ValueError, match=r"eigenvalues=\[-1, 1\] overshoot 2: the overshoot of a widened layer belongs to widened_f"
    ):
        DeltaNet(D_MODEL, heads=2, eigenvalues=EigenRange(-1, 1, overshoot=2.0), widened_from=EigenRange(0, 1))


def test_widening_keeps_a_layer_with_an_overshoot() -> None:
    narrow = DeltaNet(D_MODEL, heads=2, eigenvalues=EigenRange(0, 1, overshoot=2.0))
    wide = DeltaNet(D_MODEL, heads=2, eigenvalues=EigenRange(-1, 1), widened_from=EigenRange(0, 1, overshoot=2.0))
    wide.load_state_dict(narrow.state_dict(), strict=False)
    x = torch.randn(1, 50, D_MODEL)
    with torch.no_grad():
        assert torch.equal(wide.gates(x)["beta"], narrow.gates(x)["beta"])


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize(("low", "first", "last"), [(0, 0.9, 0.999), (-1, 0.5, 0.5), (-1, -0.5, 0.5)])
def test_gates_start_where_they_are_asked_to(low: float, first: float, last: float, per_channel: bool) -> None:
    mixer = DeltaNet(D_MODEL, heads=3, gate=EigenRange(low, 1), gate_per_channel=per_channel)
    INITIALISERS["gates"](mixer, [first, last])
    with torch.no_grad():
        found = mixer.gates(torch.zeros(1, 1, D_MODEL))["gate"][0, 0]  # [H] or [H, K]
    rows = found if per_channel else found[None]
    torch.testing.assert_close(rows[:, 0], torch.full_like(rows[:, 0], first))
    torch.testing.assert_close(rows[:, -1], torch.full_like(rows[:, -1], last))
    assert (rows.diff(dim=-1) >= -1e-6).all()


def test_a_gate_starts_inside_of_its_range() -> None:
    with pytest.raises(ValueError, match=r"eigenvalue 1 must lie inside of \[0, 1\]"):
        started("deltanet", D_MODEL, heads=2, gate=EigenRange(0, 1), initial={"gates": [0.9, 1.0]})
    with pytest.raises(ValueError, match=r"initial gates=\[0\.9, 0\.99\] need the gate's range"):
        started("deltanet", D_MODEL, heads=2, initial={"gates": [0.9, 0.99]})
    with pytest.raises(ValueError, match=r"gates=\[0\.9\] must be two numbers"):
        started("deltanet", D_MODEL, heads=2, gate=EigenRange(0, 1), initial={"gates": [0.9]})


def test_delta_net_names_beta_and_gate() -> None:
    wide = {"heads": 2, "householders": 2}
    x = torch.randn(1, 3, D_MODEL, dtype=torch.float64)
    plain, gated = build("deltanet", wide), build("deltanet", {**wide, "gate": LINEAR[0][1]["eigenvalues"]})
    assert isinstance(plain, DeltaNet)
    assert isinstance(gated, DeltaNet)
    assert set(plain.gates(x)) == {"eigenvalue", "beta"}
    assert set(gated.gates(x)) == {"eigenvalue", "beta", "gate"}
    assert gated.gates(x)["beta"].shape == (1, 3, 2, 2)
    assert gated.gates(x)["gate"].shape == (1, 3, 2)


def test_a_signed_gate_per_channel_turns_with_one_factor() -> None:
    """Times one symmetric factor, a gate per head or in [0, 1] leaves the eigenvalues real; signed ones make them complex."""
    x = 10 * torch.randn(4, 20, D_MODEL, dtype=torch.float64)
    wide, narrow = LINEAR[1][1]["eigenvalues"], LINEAR[0][1]["eigenvalues"]
    for options, turns in [
        ({"gate": wide}, False),
        ({"gate": narrow, "gate_per_channel": True}, False),
        ({"gate": wide, "gate_per_channel": True}, True),
    ]:
        mixer = build("deltanet", {"heads": 3, **options})
        assert isinstance(mixer, DeltaNet)
        imaginary = torch.linalg.eigvals(mixer.transitions(x)).imag.abs().max()
        assert imaginary > 0.1 if turns else imaginary < 1e-6


def test_a_range_that_is_widened_from_overshoots_only_where_there_is_b() -> None:
    with pytest.raises(ValueError, match=r"widened_from=\[0, 1\] overshoot 2: the eigenvalues of this layer come from no b"):
        MIXERS["gla"](D_MODEL, heads=2, eigenvalues=EigenRange(-1, 1), widened_from=EigenRange(0, 1, overshoot=2.0))
