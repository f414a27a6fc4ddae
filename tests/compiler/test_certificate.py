"""Certificates hold for what is right, fail for what is not, and cannot be forged."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from eigentrack.automata import language, regex_dfa, word_problem_dfa
from eigentrack.compiler import (
    Compiled,
    certificate,
    certify,
    choose_plan,
    compile_network,
    load_compiled,
    save_compiled,
    verify,
)
from eigentrack.compiler.certificate import WatchedSteps, certify_up_to_a_length
from eigentrack.compiler.exactness import ExactnessCheck
from eigentrack.compiler.plan import ALWAYS, Alphabet, letter_channel
from eigentrack.models import SequenceModel
from tests.compiler.automata_cases import random_dfa


@pytest.fixture
def network() -> Compiled:
    return compile_network(choose_plan(language("abab"), "deltaproduct"))


@pytest.fixture
def folder(network: Compiled, tmp_path: Path) -> Path:
    save_compiled(network, tmp_path / "net")
    return tmp_path / "net"


def edit(path: Path, **changes: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_saved_network_is_verified_from_its_files(network: Compiled, folder: Path) -> None:
    found = verify(folder)
    assert found.holds
    assert found.differences == ()
    assert found.certificate == network.certificate
    assert load_compiled(folder).run(list("ababa")) == network.run(list("ababa"))


def test_the_wrong_automaton_is_refuted_by_a_shortest_word(network: Compiled) -> None:
    """(ab)* is back at its start after ab, (abab)* is not."""
    found = certify(network.model, regex_dfa("(ab)*"), Alphabet(2))
    assert not found.holds
    assert found.counterexample == ("a", "b")


def test_an_automaton_with_more_states_than_answers_is_refused(network: Compiled) -> None:
    with pytest.raises(ValueError, match="the automaton has 61 states, the network 5 answers"):
        certify(network.model, regex_dfa("(a{60})*", "b"), Alphabet(2))


@pytest.mark.parametrize("name", ["k_proj", "beta_proj", "q_proj"])
def test_weights_of_the_recurrence_must_be_exact(network: Compiled, name: str) -> None:
    """Once a key, a beta or a query is a little off, states do not close, answers are wrong, or values are rounded."""
    weight = getattr(network.model.blocks[0].mixer, name).weight
    for place in map(tuple, torch.nonzero(weight).tolist()[:3]):
        with torch.no_grad():
            before = weight[place].item()
            weight[place] = before + 0.3
            assert not still_proved(network), place
            weight[place] = before
    assert still_proved(network)


def still_proved(network: Compiled) -> bool:
    try:
        found = certify(network.model, network.dfa, network.alphabet, state_limit=100)
    except ValueError:  # its states do not close
        return False
    return found.holds and found.order_independent


def test_a_drifting_network_is_not_certified() -> None:
    """Parity with the eigenvalue -0.9 is right for some words, but its states never close, or it forgets."""
    network = compile_network(choose_plan(language("parity")))
    mixer = network.model.blocks[0].mixer
    with torch.no_grad():
        mixer.beta_proj.weight[mixer.beta_proj.weight > 1024] -= 1021.0  # 2σ(3) = 1.905
    found = certify(network.model, network.dfa, network.alphabet, state_limit=5000)
    assert not (found.holds and found.order_independent)


def test_a_limit_is_named(network: Compiled) -> None:
    with pytest.raises(ValueError, match=r"more than 2 joint states: raise --state-limit"):
        certify(network.model, network.dfa, network.alphabet, state_limit=2)


def test_tampered_weights_are_found(folder: Path) -> None:
    path = folder / "model" / "model.safetensors"
    weights = load_file(path)
    weights["head.weight"] = -weights["head.weight"]
    save_file(weights, path)
    found = verify(folder)
    assert not found.certificate.holds
    assert any("weights_sha256" in difference for difference in found.differences)


def test_a_tampered_certificate_is_found(folder: Path) -> None:
    edit(folder / "certificate.json", reachable_states=4)
    differences = verify(folder).differences
    assert differences == ("reachable_states is 5, the certificate says 4",)


def test_a_tampered_automaton_is_found(folder: Path) -> None:
    edit(folder / "automaton.json", accepting=[0, 1])
    differences = verify(folder).differences
    assert len(differences) == 1
    assert "automaton_sha256" in differences[0]


@pytest.mark.parametrize(
    "name", ["automaton.json", "plan.json", "certificate.json", "model/config.json", "model/model.safetensors"]
)
def test_missing_and_damaged_files_are_named(folder: Path, name: str) -> None:
    (folder / name).write_bytes(b"{ damaged")
    with pytest.raises(ValueError, match=Path(name).name):
        verify(folder)
    (folder / name).unlink()
    with pytest.raises(FileNotFoundError, match=Path(name).name):
        verify(folder)


def test_foreign_letters_are_named(network: Compiled) -> None:
    with pytest.raises(ValueError, match="letter 'c' is not in the alphabet a, b"):
        network.run(list("abc"))


def test_answers_that_are_no_numbers_prove_nothing(network: Compiled) -> None:
    with torch.no_grad():
        network.model.head.weight.fill_(torch.nan)
    found = certify(network.model, network.dfa, network.alphabet)
    assert not found.holds
    assert not found.order_independent


def test_a_layer_with_its_own_convolution_has_no_bound_for_chunks() -> None:
    """Its keys are not what `k_proj` gives: here they are twice as long, and the factor is -3 instead of 0."""
    network = compile_network(choose_plan(language("flip-flop"), "deltanet"))
    (options,) = network.model.config.options
    config = replace(network.model.config, mixer_options=({**options, "conv": 1},))
    model = SequenceModel(config)
    weights = network.model.state_dict() | {"blocks.0.mixer.convolution.weight": torch.full((3, 1), 2.0)}
    model.load_state_dict(weights)
    assert not certify(model.eval(), network.dfa, network.alphabet, state_limit=50).order_independent


def test_length_bounds_are_for_the_compilers_own_rotations_only() -> None:
    network = compile_network(choose_plan(word_problem_dfa("Z5"), "rotation"))
    assert certify_up_to_a_length(network.model, network.dfa, network.alphabet).length_bound == network.certificate.length_bound
    with torch.no_grad():
        network.model.head.weight[0, 0] += 0.5  # a bias towards state 0
    with pytest.raises(ValueError, match="these weights are others"):
        certify_up_to_a_length(network.model, network.dfa, network.alphabet)


def test_the_plan_is_bound_by_the_certificate(folder: Path) -> None:
    edit(folder / "plan.json", householders=0)
    differences = verify(folder).differences
    assert differences[0].startswith("plan_sha256 is")
    assert differences[1:] == ("householders is 4, plan.json says 0",)
    edit(folder / "plan.json", tokens_per_letter=10**9)
    with pytest.raises(ValueError, match="tokens_per_letter must lie between 1 and 1000"):
        verify(folder)


def test_mixed_float_types_are_refused(folder: Path) -> None:
    path = folder / "model" / "model.safetensors"
    weights = load_file(path)
    save_file({**weights, "head.weight": weights["head.weight"].double()}, path)
    with pytest.raises(ValueError, match="mixes float types"):
        verify(folder)


def test_dense_networks_have_as_many_joint_states_as_the_automaton() -> None:
    dfa = random_dfa(3, states=9, letters=2)
    assert compile_network(choose_plan(dfa, "dense")).certificate.reachable_states == dfa.states


@pytest.fixture
def gated_network() -> Compiled:
    return compile_network(choose_plan(language("resettable-mod3"), "gated"))


@pytest.mark.parametrize("batch", [1, 3, 1000])
def test_what_rounds_in_one_step_is_found(gated_network: Compiled, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The letter r is given a beta of 2σ(1), and comes only in the step before the last."""
    monkeypatch.setattr(certificate, "STEP_BATCH", batch)
    count, reset = (gated_network.dfa.letters.index(letter) for letter in "1r")
    mixer = gated_network.model.blocks[0].mixer
    logits = mixer.beta_proj.weight[:, ALWAYS] + mixer.beta_proj.weight[:, letter_channel(reset)]
    with torch.no_grad():
        mixer.beta_proj.weight[int((logits == 0).nonzero()[0]), letter_channel(reset)] += 1
        for letters, expected in (([count] * 5, False), ([count, count, count, reset, count], True)):
            steps, alone = WatchedSteps(gated_network.model), ExactnessCheck(gated_network.model.parameters())
            state = plain = None
            for token in (gated_network.alphabet.begin, *letters):
                logits, state = steps.step(torch.tensor([token]), state)
                with alone:
                    expected_logits, plain = gated_network.model.step(torch.tensor([token]), plain)
                assert torch.equal(logits, expected_logits)
            steps.finish()
            assert bool(steps.check.faults) == expected
            assert set(steps.check.faults) == set(alone.faults)


def test_the_inputs_of_all_steps_are_recorded(gated_network: Compiled) -> None:
    steps = WatchedSteps(gated_network.model)
    with torch.no_grad():
        _, state = steps.step(torch.tensor([gated_network.alphabet.begin]), None)
        for letter in range(len(gated_network.dfa.letters)):
            _, state = steps.step(torch.tensor([letter]), state)
        assert len(steps.record.seen[0]) == 1
        steps.finish()
    assert len(steps.record.seen[0]) == 1 + len(gated_network.dfa.letters)
