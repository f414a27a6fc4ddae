"""Watched steps: they are the model's own, and none escapes the check, however they are gathered."""

from __future__ import annotations

import pytest
import torch

from eigentrack.automata import language
from eigentrack.compiler import Compiled, choose_plan, compile_network, watched_steps
from eigentrack.compiler.exactness import ExactnessCheck
from eigentrack.compiler.plan import ALWAYS, letter_channel
from eigentrack.compiler.watched_steps import WatchedSteps


@pytest.fixture
def network() -> Compiled:
    return compile_network(choose_plan(language("resettable-mod3"), "gated"))


@pytest.mark.parametrize("batch", [1, 3, 1000])
def test_what_rounds_in_one_step_is_found(network: Compiled, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The letter r is given a beta of 2σ(1), and comes only in the step before the last."""
    monkeypatch.setattr(watched_steps, "STEP_BATCH", batch)
    count, reset = (network.dfa.letters.index(letter) for letter in "1r")
    mixer = network.model.blocks[0].mixer
    logits = mixer.beta_proj.weight[:, ALWAYS] + mixer.beta_proj.weight[:, letter_channel(reset)]
    with torch.no_grad():
        mixer.beta_proj.weight[int((logits == 0).nonzero()[0]), letter_channel(reset)] += 1
        for letters, expected in (([count] * 5, False), ([count, count, count, reset, count], True)):
            steps, alone = WatchedSteps(network.model), ExactnessCheck(network.model.parameters())
            state = plain = None
            for token in (network.alphabet.begin, *letters):
                logits, state = steps.step(torch.tensor([token]), state)
                with alone:
                    expected_logits, plain = network.model.step(torch.tensor([token]), plain)
                assert torch.equal(logits, expected_logits)
            steps.finish()
            assert bool(steps.check.faults) == expected
            assert set(steps.check.faults) == set(alone.faults)


def test_the_inputs_of_all_steps_are_recorded(network: Compiled) -> None:
    steps = WatchedSteps(network.model)
    with torch.no_grad():
        _, state = steps.step(torch.tensor([network.alphabet.begin]), None)
        for letter in range(len(network.dfa.letters)):
            _, state = steps.step(torch.tensor([letter]), state)
        assert len(steps.record.seen[0]) == 1
        steps.finish()
    assert len(steps.record.seen[0]) == 1 + len(network.dfa.letters)
