"""Geometry of the states, noise on them, and other precisions."""

from __future__ import annotations

import math
from itertools import combinations

import pytest
import torch

from eigentrack.analysis import InspectedNetwork, noise_tolerance, precision_sweep, state_geometry
from eigentrack.analysis.horizon import FLUSHED
from eigentrack.analysis.inspected_network import state_vector
from eigentrack.analysis.state_geometry import merging_time
from eigentrack.analysis.word_patterns import Pattern
from eigentrack.automata import word_problem_dfa
from eigentrack.compiler import choose_plan, compile_network
from eigentrack.models import ModelConfig, SequenceModel
from eigentrack.spectrum import EigenRange
from eigentrack.tasks.tracking import flip_flop, parity
from tests.analysis.scripted import scripted


@torch.no_grad()
def test_a_compiled_network_has_one_point_for_each_state() -> None:
    inspected = InspectedNetwork.from_compiled(compile_network(choose_plan(word_problem_dfa("S3", "swaps"))))
    points = {}
    state = inspected.begin(1)[1]
    torch.manual_seed(1)
    q = inspected.machine.start
    for letter in torch.randint(len(inspected.machine.letters), (60,)).tolist():
        _, state = inspected.step(torch.tensor([letter]), state)
        q = inspected.machine.transitions[q][letter]
        points[q] = state_vector(state)[0]
    assert len(points) == 6
    gap = min(float((x - y).norm()) for x, y in combinations(points.values(), 2))
    looks = state_geometry(inspected, 100, rows=64, seed=0)
    assert [look.length for look in looks] == [8, 16, 32, 64]
    for look in looks:
        assert look.labels == 6
        assert look.gap == pytest.approx(gap)
        assert look.radius == pytest.approx(0, abs=1e-9)
        assert look.margin > 0


def test_the_gap_of_a_leaking_memory_shrinks_as_it_leaks() -> None:
    """b flips the sign of a memory that every letter scales by 0.99: the gap after n letters is 2 · 0.99ⁿ."""
    move = lambda x, letter: torch.where(x == 0, 1.0, x) * 0.99 * (1 - 2 * letter)  # noqa: E731
    inspected = scripted(((0, 1), (1, 0)), (0, 1), move, lambda x: (x < 0).long())
    for look in state_geometry(inspected, 128, rows=32, seed=0):
        assert look.gap == pytest.approx(2 * 0.99**look.length, rel=1e-9)
        assert look.radius <= 0.99 ** (look.length - 7) - 0.99**look.length
        assert look.margin == 1


@pytest.mark.parametrize(("diameter", "gap", "noise"), [(2.0, 1.0, 0.01), (5.0, 0.1, 0.3), (1.0, 1.0, 0.2)])
def test_merging_time_bounds_the_slowest_robust_contraction(diameter: float, gap: float, noise: float) -> None:
    """On an interval of width M, x ↦ (1 - 2ε/M) x is the least contraction whose image leaves ε on both sides."""
    steps, width = 0, diameter
    while width >= gap * (1 + 1e-12):
        width *= 1 - 2 * noise / diameter
        steps += 1
    assert steps <= merging_time(diameter, gap, noise) <= 1.5 * steps + 1


def test_noise_that_turns_the_second_answer() -> None:
    """Two letters: one shift of ±ε before the second answer, wrong beyond 1/2."""
    inspected = scripted(((0, 1), (1, 0)), (0, 1), lambda x, letter: (x - letter).abs(), lambda x: (x > 0.5).long())
    found = noise_tolerance(inspected, 2, rows=64, seed=0)
    assert 0.5 * 2 ** (-24 / 256) <= found.noise <= 0.5
    longer = noise_tolerance(inspected, 200, rows=64, seed=0)
    assert 0.5 / 200 < longer.noise < found.noise / 4  # a random walk: about 1 / (2 √200) at best
    assert longer.state_norm == pytest.approx(0.5, abs=0.05)
    assert noise_tolerance(inspected, 200, rows=64, seed=0) == longer


def test_a_network_that_errs_bears_no_noise() -> None:
    inspected = scripted(((0, 1), (1, 0)), (0, 1), lambda x, _: x, lambda x: x.long())
    assert noise_tolerance(inspected, 20, rows=8, seed=0).noise == 0


def test_a_contracting_memory_bears_more_than_one_that_keeps_everything(trained_parity: InspectedNetwork) -> None:
    """The last letter, with a state that forgets at once: only one shift counts, however long the word."""
    forgets = scripted(((0, 1), (0, 1)), (0, 1), lambda x, letter: letter.double(), lambda x: (x > 0.5).long())
    assert noise_tolerance(forgets, 100, rows=8, seed=0).relative > 200
    found = noise_tolerance(trained_parity, 24, seed=0)
    assert 0 < found.relative < 1


def three_quarter_flip_flop() -> InspectedNetwork:
    """h ← ¾ h on the ignored letter, ±1 when written; the logits are ∓h."""
    options = {"heads": 1, "key_dim": 1, "value_dim": 1, "gate_rank": 1, "gate_temperature": 1.0, "bare": True}
    model = SequenceModel(
        ModelConfig(
            vocab_size=4,
            d_model=5,
            layers=1,
            mixer="gla",
            mixer_options=options,
            mlp_width=0,
            norm="none",
            eigenvalues=EigenRange(0, 1),
            backend="reference",  # letter by letter: a chunk would multiply the gates first
        )
    )
    (block,) = model.blocks
    layer = block.mixer
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.embedding.weight[:, :4] = torch.eye(4)
        layer.q_proj.weight[0, :4] = 1
        layer.k_proj.weight[0, :2] = 1
        layer.v_proj.weight[0, :2] = torch.tensor([-1.0, 1.0])
        layer.gate_proj[0].weight[0, :3] = torch.tensor([-2000.0, -2000.0, math.log(3)])
        layer.gate_proj[1].weight.fill_(1)
        layer.out_proj.weight[4, 0] = 1
        model.head.weight[0, 4], model.head.weight[1, 4] = -1, 1
    return InspectedNetwork.from_task(model, flip_flop())


def test_precisions_fail_where_their_smallest_number_is() -> None:
    inspected = three_quarter_flip_flop()
    ignore = Pattern("ignored", 32, (2,))
    found = {item.precision: item.worst for item in precision_sweep(inspected, [ignore], 700, seed=0)}
    assert found["float64"].is_open
    assert found["float32"].is_open  # the last subnormal times ¾ rounds to itself
    halvings = math.log(0.75) / math.log(0.5)
    if FLUSHED in found:
        assert found[FLUSHED].letters == pytest.approx(126 / halvings + 32 / 2, abs=17)  # 304, and the lead-in's last letters
    assert found["float16"].letters < 25 / halvings + 32
    # the flag is down again
    assert float(torch.tensor(2.0**-149) * 1) > 0


def test_attention_has_no_joint_state() -> None:
    inspected = InspectedNetwork.from_task(
        SequenceModel(ModelConfig(vocab_size=3, d_model=8, layers=1, mixer="attention")), parity()
    )
    for look in (lambda: noise_tolerance(inspected, 5, seed=0), lambda: state_geometry(inspected, 50, seed=0)):
        with pytest.raises(ValueError, match="attention's state grows"):
            look()
