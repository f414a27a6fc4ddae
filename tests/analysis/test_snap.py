from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from eigentrack.analysis import InspectedNetwork, find_horizons, input_patterns, snap_to_exact
from eigentrack.analysis.exact_heads import ExactHead, exact_heads, factor, invariant_lines, swapped_points
from eigentrack.analysis.snap_agreement import Agreement, compare_with_trained
from eigentrack.automata import regex_dfa, same_language
from eigentrack.compiler import choose_plan, compile_network, save_compiled, verify
from eigentrack.compiler.plan import Move
from eigentrack.models import ModelConfig, SequenceModel
from eigentrack.spectrum import EigenRange
from eigentrack.tasks.tracking import flip_flop, parity, word_problem
from eigentrack.training import TrainingConfig, train


def test_moves_in_whole_numbers_are_the_delta_rule() -> None:
    random = np.random.default_rng(0)
    for key, beta in (((1, 0, -1), 1), ((0, 1, 0), 2), ((0, 0, 1), 1)):
        start, value = random.integers(-3, 4, (3, 2)), tuple(random.integers(-3, 4, 2).tolist())
        head = ExactHead("", tuple(map(tuple, start.tolist())), (Move((factor(key, beta, value),)),), 0.0)
        k, v = np.array(key)[:, None], np.array(value)[None]
        expected = (np.eye(3, dtype=int) - beta * k @ k.T) @ start + beta * k @ v
        assert np.array_equal(head.after(head.start, 0), expected)
        kept = head.without_column(0)
        assert np.array_equal(kept.after(kept.start, 0), expected[:, 1:])


def reflections(keys: np.ndarray, noise: float, centre: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A and B of letters that reflect at mirrors through the centre, none of them quite."""
    betas = 2 - noise * np.arange(1, len(keys) + 1) / len(keys)
    matrices = np.eye(keys.shape[1]) - betas[:, None, None] * keys[:, :, None] * keys[:, None, :]
    writes = betas[:, None, None] * keys[:, :, None] * (keys @ centre)[:, None, :]
    return matrices[:, None], writes[:, None]


@pytest.mark.parametrize("points", [3, 4, 5])
def test_reflections_in_any_position_become_swaps(points: int) -> None:
    """The roots of S_n, turned at random and moved to any centre."""
    random = np.random.default_rng(points)
    pairs = list(combinations(range(points), 2))
    roots = np.array([np.eye(points)[i] - np.eye(points)[j] for i, j in pairs]) / math.sqrt(2)
    turn = np.linalg.qr(random.normal(size=(points + 1, points)))[0]
    signs = random.choice([-1, 1], len(pairs))[:, None]
    centre, start = random.normal(size=(points + 1, 6)), random.normal(size=(points + 1, 6))
    matrices, writes = reflections(signs * roots @ turn.T, 0.02, centre)
    (head,) = exact_heads(matrices, writes, start[None], levels=8)
    assert head.moved == pytest.approx(0.02, abs=0.005)
    swaps = []
    for move in head.moves:
        (one,) = move.factors
        assert sorted(one.key) == [-1.0] + [0.0] * (points - 2) + [1.0]
        swaps.append(frozenset(np.nonzero(one.key)[0].tolist()))
    # letters that share a point still do, those that share none still share none, and no two are the same
    assert len(set(swaps)) == len(pairs)
    for (x, a), (y, b) in combinations(zip(pairs, swaps, strict=True), 2):
        assert len(set(x) & set(y)) == len(a & b)


def test_inner_products_of_no_roots() -> None:
    assert swapped_points(np.array([[2, 1, 1], [1, 2, 1], [1, 1, 2]])) is not None
    hexagon = np.array([[2, 1, 1, 1, 1], [1, 2, 1, 1, 1], [1, 1, 2, 1, 1], [1, 1, 1, 2, -1], [1, 1, 1, -1, 2]])
    assert swapped_points(hexagon) is None


def test_angles_of_45_degrees_are_left_alone() -> None:
    keys = np.array([[1.0, 0.0], [math.sqrt(0.5), math.sqrt(0.5)]])
    matrices, writes = reflections(keys, 0.0, np.zeros((2, 3)))
    assert exact_heads(matrices, writes, np.ones((1, 2, 3)), levels=1) == []


def test_a_trained_network_becomes_exact(trained_parity: InspectedNetwork, tmp_path: Path) -> None:
    before = find_horizons(trained_parity, input_patterns(trained_parity, 32, 8, 0), 20_000, seed=0)
    snapped = snap_to_exact(trained_parity)
    proof = snapped.compiled.certificate
    assert proof.holds
    assert proof.order_independent
    assert proof.length_bound is None
    assert proof.reachable_states == 2
    assert 0 < snapped.moved < 0.3
    assert same_language(snapped.compiled.dfa, regex_dfa("0*10*(10*10*)*")) is None
    exact = InspectedNetwork.from_compiled(snapped.compiled)
    after = find_horizons(exact, input_patterns(exact, 8, 4, 0), 20_000, seed=0)
    assert min(item.letters for item in before) < 20_000 == min(item.letters for item in after)
    save_compiled(snapped.compiled, tmp_path)
    assert verify(tmp_path).holds


def test_what_cannot_be_snapped_is_said() -> None:
    def untrained(**options) -> InspectedNetwork:
        return InspectedNetwork.from_task(SequenceModel(ModelConfig(vocab_size=3, d_model=16, **options)), parity())

    with pytest.raises(ValueError, match="one linear layer can be made exact"):
        snap_to_exact(untrained(layers=2))
    with pytest.raises(ValueError, match="one linear layer can be made exact"):
        snap_to_exact(untrained(layers=1, mixer="lstm"))
    for sees_the_token_before in ({}, {"mixer": "rwkv7"}):
        with pytest.raises(ValueError, match=r"train a layer that sees no token before it \(conv=0, no rwkv7\)"):
            snap_to_exact(untrained(layers=1, **sees_the_token_before))
    with pytest.raises(ValueError, match=r"near an exact one|exact heads nearby"):
        snap_to_exact(untrained(layers=1, mixer_options={"conv": 0}))
    with pytest.raises(ValueError, match="carries 3 memories"):
        snap_to_exact(untrained(layers=1, mixer="mlstm", mixer_options={"conv": 0}))


def test_a_compiled_network_snaps_to_itself() -> None:
    dfa = regex_dfa("(a*ba*b)*a*")
    inspected = InspectedNetwork.from_compiled(compile_network(choose_plan(dfa, "deltanet")))
    snapped = snap_to_exact(inspected)
    assert snapped.moved == 0
    assert snapped.compiled.certificate.holds


def written_flip_flop(forgets: float) -> InspectedNetwork:
    """A flip-flop written as ±1 into one channel whose gate is σ(-forgets) on a write, from a memory that starts empty."""
    options = {"heads": 1, "key_dim": 1, "value_dim": 1, "gate_rank": 1, "gate_temperature": 1.0, "bare": True}
    config = ModelConfig(4, 4, 1, "gla", EigenRange(0, 1), options, mlp_width=0, norm="none")
    model = SequenceModel(config)
    (block,) = model.blocks
    with torch.no_grad():
        model.embedding.weight.copy_(torch.eye(4))
        block.mixer.k_proj.weight[0] = torch.tensor([0.9, 1.1, 0.0, 0.0])
        block.mixer.v_proj.weight[0] = torch.tensor([-1.0, 1.0, 0.0, 0.0])
        block.mixer.gate_proj[0].weight[0] = torch.tensor([-forgets, -forgets, 4.0, 0.0])
        block.mixer.gate_proj[1].weight.fill_(1)
        block.mixer.gate_proj[1].bias.zero_()
    return InspectedNetwork.from_task(model, flip_flop())


def test_a_start_that_never_comes_back_is_replaced() -> None:
    """The empty memory stands for 0 as well as -1 does."""
    snapped = snap_to_exact(written_flip_flop(3))
    assert snapped.compiled.certificate.holds
    assert snapped.compiled.certificate.reachable_states == 2
    assert snapped.moved == pytest.approx(1 / (1 + math.exp(3)), abs=1e-6)  # the gate that should be 0


def test_a_trained_network_is_shown_to_agree(trained_parity: InspectedNetwork) -> None:
    found = compared(trained_parity, letters=40)
    assert found.holds
    assert found.words > 256
    assert found.letters == 40
    assert (
        found.told
        == f"the trained network has the same automaton, and the same answers on {found.words} words of up to 40 letters"
    )


def test_a_network_of_another_language_is_said_to_disagree(trained_parity: InspectedNetwork) -> None:
    """The states of parity serve for the complement as well, with another read-out."""
    machine = trained_parity.machine
    other = replace(trained_parity, machine=replace(machine, outputs=tuple(1 - output for output in machine.outputs)))
    found = compared(other, letters=40)
    assert not found.holds
    assert found.difference is not None
    assert len(found.difference) == 1
    assert found.told == f"the trained network disagrees: it answers {found.difference[0]!r} otherwise"


def test_an_untrained_read_out_is_said_to_disagree() -> None:
    found = compared(written_flip_flop(3), letters=1)
    assert not found.holds
    assert "the trained network disagrees: it answers" in found.told


def test_equal_answers_on_words_are_not_enough(trained_parity: InspectedNetwork) -> None:
    snapped = snap_to_exact(trained_parity).compiled
    found = compare_with_trained(trained_parity, snapped, letters=20, same_automaton=False, seed=0)
    assert not found.holds
    assert found.told == "the trained network disagrees: no equal automaton could be read off it"


def compared(network: InspectedNetwork, letters: int) -> Agreement:
    return compare_with_trained(network, snap_to_exact(network).compiled, letters=letters, same_automaton=True, seed=0)


def test_what_is_too_far_away_says_how_far() -> None:
    with pytest.raises(ValueError, match=r"the nearest exact network is 0\.35 away, farther than 0\.3: train it longer"):
        snap_to_exact(written_flip_flop(0.6))  # σ(-0.6) = 0.354


def householder(beta: float, key: np.ndarray) -> np.ndarray:
    return np.eye(len(key)) - beta * np.outer(key, key)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 6), st.booleans())
def test_lines_that_all_letters_keep_are_found(seed: int, size: int, twice: bool) -> None:
    """Two lines u, v at right angles, which letters reset, reflect or keep, while all else moves at random, once or twice."""
    random = np.random.default_rng(seed)
    frame = np.linalg.qr(random.normal(size=(size, size)))[0].T
    u, v, others = frame[0], frame[1], frame[2:]

    def move(beta: float, key: np.ndarray) -> np.ndarray:
        rest = random.normal(size=len(others)) @ others if len(others) else np.zeros(size)
        norm = np.linalg.norm(rest) or 1.0
        return householder(beta, key) @ (householder(random.uniform(0.2, 0.4), rest / norm) if twice else np.eye(size))

    letters = [(1.0, u), (2.0, u), (1.0, v), (0.0, v)]
    lines = invariant_lines(np.array([move(beta, key) for beta, key in letters]))
    for key in (u, v):
        assert max(abs(line @ key) for line in lines) == pytest.approx(1, abs=1e-6)


def test_keys_that_are_not_quite_parallel_are_one_line() -> None:
    """A flip-flop with three keys, none parallel, none at right angles: the writes share a line that the third leaves alone."""
    keys = np.array([[1.0, 0.15, 0.0], [1.0, -0.2, 0.05], [0.12, 0.1, 1.0]])
    keys /= np.linalg.norm(keys, axis=1)[:, None]
    betas, values = [1.1, 0.9, 0.8], [1.0, -1.0, 0.3]
    matrices = np.array([householder(beta, key) for beta, key in zip(betas, keys, strict=True)])[:, None]
    writes = np.einsum("a,ai,a->ai", betas, keys, values)[:, None, :, None]
    heads = exact_heads(matrices, writes, np.zeros((1, 3, 1)), levels=1)
    written = [[factor.value for factor in move.factors] for move in heads[0].moves]
    assert written in ([[(1.0,)], [(-1.0,)], []], [[(-1.0,)], [(1.0,)], []])  # a line points either way
    assert 0.1 < heads[0].moved < 0.3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "mixer", "options", "eigenvalues", "training", "states"),
    [
        (flip_flop(), "mamba", {"state_size": 4, "conv": 0}, EigenRange(0, 1), {"steps": 200, "lengths": (3, 40)}, 2),
        (flip_flop(), "deltanet", {"heads": 4, "conv": 0}, EigenRange(-1, 1), {"steps": 300, "lengths": (3, 40)}, 2),
        (
            word_problem("S5", "swaps"),
            "deltanet",
            {"heads": 1, "key_dim": 8, "value_dim": 32, "conv": 0},
            EigenRange(-1, 1),
            {"steps": 1200, "lengths": (3, 20), "learning_rate": 5e-3},
            120,
        ),
    ],
    ids=["flip-flop, Mamba", "flip-flop, DeltaNet", "S5 swaps"],
)
def test_more_trained_networks_become_exact(task, mixer, options, eigenvalues, training, states: int) -> None:
    torch.manual_seed(0)
    width = 64 if states > 2 else 32
    config = ModelConfig(task.model_vocab_size, width, 1, mixer, eigenvalues, options)
    model = SequenceModel(config)
    smoothing = 0.0 if states > 2 else 0.1
    train(model, task, TrainingConfig(**{"batch": 128, "learning_rate": 1e-2, "label_smoothing": smoothing, **training}))
    snapped = snap_to_exact(InspectedNetwork.from_task(model, task))
    assert snapped.compiled.certificate.holds
    assert snapped.compiled.certificate.order_independent
    assert snapped.compiled.certificate.reachable_states == states
