"""What is proved about noise: by boxes for non-linear layers, by theorem for linear ones, and nothing where neither speaks."""

from __future__ import annotations

import pytest
import torch

from eigentrack.analysis import InspectedNetwork, certified_noise, noise_tolerance
from eigentrack.analysis.moore_machine import MooreMachine
from eigentrack.analysis.noise import proved_boxes
from eigentrack.automata import language
from eigentrack.compiler import choose_plan, compile_network
from eigentrack.compiler.boxes import BoxCertificate, Undecided
from eigentrack.models import ModelConfig, SequenceModel
from eigentrack.tasks import TrackingTask
from eigentrack.tasks.automaton_walk import AutomatonWalk
from eigentrack.tasks.registry import make_task


@pytest.mark.parametrize("name", ["flip-flop", "parity", "tomita2"])
def test_a_robust_network_is_proved_as_by_the_compiler_and_bears_that_noise(name: str) -> None:
    network = compile_network(choose_plan(language(name), "slstm"))
    assert network.robustness is not None
    inspected = InspectedNetwork.from_compiled(network)
    found = certified_noise(inspected)
    assert found.epsilon == network.robustness.epsilon
    assert found.reason == f"proved by {network.robustness.boxes} boxes"
    assert found.epsilon <= noise_tolerance(inspected, 50, rows=8, seed=0).noise


@pytest.mark.parametrize(("name", "word"), [("parity", "0"), ("flip-flop", "i")])
def test_linear_networks_that_remember_bear_none(name: str, word: str) -> None:
    found = certified_noise(InspectedNetwork.from_compiled(compile_network(choose_plan(language(name), "diagonal"))))
    assert found.epsilon == 0
    assert found.reason == f"a robust linear recurrence is contracting, but {word} repeated keeps the states 0 and 1 apart"


def test_where_the_last_letters_decide_the_theorem_is_silent() -> None:
    found = certified_noise(InspectedNetwork.from_compiled(compile_network(choose_plan(language("ends-ab"), "dense"))))
    assert found.epsilon is None
    assert "the last few letters decide" in found.reason


@pytest.mark.parametrize("mixer", ["slstm", "lstm"])
def test_an_untrained_network_is_not_decided(mixer: str) -> None:
    task = make_task("language", {"name": "parity"})
    assert isinstance(task, TrackingTask)
    torch.manual_seed(0)
    inspected = InspectedNetwork.from_task(SequenceModel(ModelConfig(vocab_size=4, d_model=8, layers=1, mixer=mixer)), task)
    found = certified_noise(inspected)
    assert found.epsilon is None
    assert found.reason.startswith("not decided at this resolution: ")


def test_layers_that_cannot_be_enclosed_are_named() -> None:
    task = make_task("language", {"name": "parity"})
    assert isinstance(task, TrackingTask)
    config = ModelConfig(vocab_size=4, d_model=8, layers=2, mixer=("slstm", "deltanet"))
    found = certified_noise(InspectedNetwork.from_task(SequenceModel(config), task))
    assert (found.epsilon, found.reason) == (None, "there is no enclosure for a layer of DeltaNet")


def test_boxes_are_labelled_by_the_machine() -> None:
    inspected = InspectedNetwork.from_compiled(compile_network(choose_plan(language("tomita2"), "slstm", "flip-flop-cascade")))
    found = proved_boxes(inspected, 0.1)
    assert isinstance(found, BoxCertificate)
    for box, row in enumerate(found.successors):
        assert [found.labels[into] for into in row] == list(inspected.machine.transitions[found.labels[box]])
    assert isinstance(proved_boxes(inspected, 0.6), Undecided)


@pytest.mark.parametrize("right", [True, False])
def test_the_empty_word_counts_where_a_token_comes_before_it(right: bool) -> None:
    """The network tells its input, a letter or the token before the first, and remembers it without need."""
    letters, begin = (0, 1), 2
    machine = MooreMachine(("b", "a"), ((0, 1), (0, 1)), outputs=(0, 1), start=0)  # does the word end with a?
    options = {"channels": 1, "width": 2}
    config = ModelConfig(
        vocab_size=3, d_model=2, layers=1, mixer="convolution", mixer_options=options, mlp_width=0, norm="none"
    )
    model = SequenceModel(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.embedding.weight[letters, letters] = 1
        model.embedding.weight[begin] = torch.tensor([1.0, 0.0] if right else [1.0, 3.0])
        model.head.weight[letters, letters] = 1
        model.blocks[0].mixer.in_proj.weight[0] = torch.tensor([0.0, 1.0])  # type: ignore[union-attr, index]
    walk = AutomatonWalk(machine.transitions, None, frozenset({0, 1}), 0.0, None)
    found = proved_boxes(InspectedNetwork(model.eval(), machine, (begin,), ((0,), (1,)), walk), 0.1)
    if right:
        assert isinstance(found, BoxCertificate)
    else:
        assert found == Undecided("the answer to the empty word is not certain")
