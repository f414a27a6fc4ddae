from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from eigentrack.analysis import InspectedNetwork, MooreMachine, extract_machine
from eigentrack.analysis.moore_machine import first_difference, minimal_machine
from eigentrack.analysis.reachable_states import single_linkage
from eigentrack.automata import language, regex_dfa, word_problem_dfa
from eigentrack.compiler import choose_plan, compile_network
from eigentrack.models import ModelConfig, SequenceModel
from eigentrack.tasks.tracking import flip_flop, parity, word_problem
from eigentrack.training import TrainingConfig, train
from tests.analysis.scripted import exact_parity, scripted


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=25), st.floats(0, 12))
def test_clusters_are_the_components_of_the_graph_of_short_distances(points: list[tuple[int, int]], resolution: float) -> None:
    array = np.array(points, dtype=float)
    found = single_linkage(array).clusters(resolution)
    near = np.linalg.norm(array[:, None] - array, axis=2) <= resolution
    reach = near
    for _ in points:
        reach = reach @ near
    assert np.array_equal(found[:, None] == found, reach)


def test_resolutions_go_from_one_cluster_to_all() -> None:
    linkage = single_linkage(np.array([[0.0], [1.0], [3.0], [3.0]]))
    assert linkage.resolutions == [2.0, 1.0, 0.0]
    assert [int(linkage.clusters(r).max()) + 1 for r in (2.0, 1.0, 0.5)] == [1, 2, 3]


@pytest.mark.parametrize(
    "dfa",
    [regex_dfa("(ab|ba)*"), regex_dfa("(abab)*"), word_problem_dfa("S4", "swaps"), language("flip-flop"), language("tomita4")],
    ids=["(ab|ba)*", "(abab)*", "S4", "flip-flop", "tomita4"],
)
def test_the_automaton_of_a_compiled_network_is_the_one_it_was_compiled_from(dfa) -> None:
    inspected = InspectedNetwork.from_compiled(compile_network(choose_plan(dfa)))
    found = extract_machine(inspected, length=30, seed=0)
    assert found.is_equal
    assert found.machine == minimal_machine(inspected.machine)
    assert found.fidelity == 1


def test_a_trained_network(trained_parity: InspectedNetwork) -> None:
    found = extract_machine(trained_parity, length=24, seed=0)
    assert found.is_equal
    assert found.machine == MooreMachine(("0", "1"), ((0, 1), (1, 0)), (0, 1))
    assert found.fidelity == 1
    assert found.clusters <= found.joint_states


def test_a_wrong_network_is_told_by_a_shortest_word() -> None:
    """A network of even a, judged as if it should be a multiple of 3."""
    right = InspectedNetwork.from_compiled(compile_network(choose_plan(regex_dfa("(aa)*"))))
    truth = MooreMachine(("a",), ((1,), (2,), (0,)), (0, 1, 0))
    judged = InspectedNetwork(right.model, truth, right.opening, right.spelling, right.walk)
    found = extract_machine(judged, length=10, seed=0)
    assert not found.is_equal
    assert found.difference == first_difference(right.machine, truth, with_empty_word=True) == ("a", "a", "a")
    assert found.network_errs
    assert found.fidelity == 1


def test_a_counter_is_no_automaton() -> None:
    inspected = scripted(((0, 1), (1, 0)), (0, 1), lambda x, letter: x + letter, lambda x: (x % 2).long())
    found = extract_machine(inspected, length=20, seed=0, limit=50)
    assert found.machine is None
    assert found.obstacle is not None
    assert "more than 50 joint states at resolution" in found.obstacle
    assert not found.is_equal


def test_states_that_lie_too_close_are_not_invented() -> None:
    """Parity in a sum that drifts by a tiny step with every letter: no two states lie together, and in time they overlap."""
    inspected = scripted(
        ((0, 1), (1, 0)),
        (0, 1),
        lambda x, letter: (x + 0.9 * letter + 1e-3) % 1.7,
        lambda x: (x > 0.85).long(),
    )
    found = extract_machine(inspected, length=200, seed=0, limit=200)
    assert found.machine is None
    assert "not deterministic at resolution" in (found.obstacle or "")
    assert "lead to one cluster, but" in (found.obstacle or "")


def test_an_unasked_answer_does_not_add_a_state() -> None:
    found = extract_machine(exact_parity(), length=10, seed=0)
    assert found.machine is not None
    assert found.machine.states == 2
    assert found.is_equal


def test_an_untrained_network_is_not_parity() -> None:
    model = SequenceModel(ModelConfig(vocab_size=3, d_model=16, layers=1, mixer_options={"heads": 2}))
    found = extract_machine(InspectedNetwork.from_task(model, parity()), length=20, seed=0, limit=300)
    assert not found.is_equal
    assert found.machine is None or found.network_errs


def test_bad_values() -> None:
    with pytest.raises(ValueError, match="length=0"):
        extract_machine(exact_parity(), length=0, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize(("task", "householders"), [(flip_flop(), 1), (word_problem("S3"), 2)], ids=["flip-flop", "S3"])
def test_more_trained_networks(task, householders: int) -> None:
    torch.manual_seed(0)
    options = {"heads": 4, "conv": 0, "householders": householders}
    model = SequenceModel(
        ModelConfig(vocab_size=task.model_vocab_size, d_model=32, layers=1, mixer="deltanet", mixer_options=options)
    )
    train(model, task, TrainingConfig(steps=300, batch=128, lengths=(3, 32), learning_rate=1e-2, label_smoothing=0.1))
    found = extract_machine(InspectedNetwork.from_task(model, task), length=20, seed=0)
    assert found.is_equal
    assert found.fidelity == 1
