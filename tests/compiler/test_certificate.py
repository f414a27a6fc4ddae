"""Certificates hold for what is right, fail for what is not, and cannot be forged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from eigentrack.automata import language, regex_dfa
from eigentrack.compiler import Compiled, certify, choose_plan, compile_network, load_compiled, save_compiled, verify
from eigentrack.compiler.closure import Alphabet


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
    found, differences = verify(folder)
    assert differences == []
    assert found == network.certificate
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
    found, differences = verify(folder)
    assert not found.holds
    assert any("weights_sha256" in difference for difference in differences)


def test_a_tampered_certificate_is_found(folder: Path) -> None:
    edit(folder / "certificate.json", reachable_states=4)
    _, differences = verify(folder)
    assert differences == ["reachable_states is 5, the certificate says 4"]


def test_a_tampered_automaton_is_found(folder: Path) -> None:
    edit(folder / "automaton.json", accepting=[0, 1])
    _, differences = verify(folder)
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
