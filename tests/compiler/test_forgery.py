"""Forgeries: networks, automata and certificates with one edit and repaired hashes. None that `verify` accepts may be wrong.

The oracle is the automaton on all short words and on long random ones, by `step`, and, where the certificate speaks for every
backend, by `forward` on each backend that runs here and under splits of the sequence.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path

import pytest
import torch

from eigentrack.automata import DFA, language, regex_dfa, word_problem_dfa
from eigentrack.compiler import Compiled, certify, choose_plan, compile_network, save_compiled, verify
from eigentrack.compiler.closure import TooManyJointStates
from eigentrack.compiler.plan import Alphabet
from eigentrack.models import SequenceModel, load_model
from tests.compiler.forger import repair_hashes

pytest.importorskip("automata", reason="regular expressions need the package automata-lib")

NETWORKS = ("products", "gated", "gates", "matrices", "delay", "spread", "bfloat16")
EDITS, SLOW_EDITS = 30, 1000  # of each network
STATE_LIMIT = 100  # joint states of a forged network; the originals have fewer
LETTERS, LONG = 4, 75  # of all short words, and of a random one: more than a chunk
VALUES = (0.0, 1.0, -1.0, 2.0, 0.5, 3.0, 64.0, 257.0, 1024.0, -1024.0, 4099.0, 2.0**23, 2.0**30, 1e-3, 1e-30, 1e38)


@cache
def original(name: str) -> Compiled:
    if name == "spread":
        return compile_network(choose_plan(word_problem_dfa("S3", "generators"), spread_factors=True))
    dfa, architecture = {
        "products": (regex_dfa("(ab|ba)*"), "deltaproduct"),
        "gated": (language("tomita4"), "gated"),
        "gates": (language("tomita4"), "diagonal"),
        "matrices": (regex_dfa("(a|bb)*"), "dense"),
        "delay": (regex_dfa("(aa)*"), "deltaproduct"),
        "bfloat16": (regex_dfa("(ab|ba)*"), "deltaproduct"),
    }[name]
    dtype = torch.bfloat16 if name == "bfloat16" else torch.float32
    return compile_network(choose_plan(dfa, architecture), dtype)


def edited(model: SequenceModel, chance: random.Random) -> SequenceModel:
    """A copy of the model with one number changed: another value, a neighbour, or the old one shifted or scaled."""
    forged = copy.deepcopy(model)
    weights = [weight for weight in forged.parameters() if weight.numel()]
    weight = chance.choices(weights, [len(weights) + weight.numel() for weight in weights])[0]
    flat = weight.data.view(-1)
    place = chance.randrange(len(flat))
    before = float(flat[place])
    flat[place] = chance.choice(
        [chance.choice(VALUES), before + chance.choice(VALUES), -before, before * 2, before * 1.0009765625]
    )
    return forged


def states_of(dfa: DFA, word: tuple[int, ...]) -> list[int]:
    states = [dfa.start]
    for letter in word:
        states.append(dfa.transitions[states[-1]][letter])
    return states


def words(dfa: DFA, chance: random.Random) -> Iterator[list[tuple[int, ...]]]:
    letters = range(len(dfa.letters))
    yield list(product(letters, repeat=LETTERS))
    yield [tuple(chance.choices(letters, k=LONG)) for _ in range(3)]


def answers(model: SequenceModel, tokens: torch.Tensor, by: str) -> torch.Tensor:
    if by == "step":
        found, state = [], None
        for token in tokens.unbind(1):
            logits, state = model.step(token, state)
            found.append(logits)
        return torch.stack(found, 1).argmax(-1)
    backend, _, split = by.partition(" ")
    if backend == "triton":
        model, tokens = copy.deepcopy(model).cuda(), tokens.cuda()
    for mixer in model.mixers:
        mixer.backend = backend
    if not split:
        return model(tokens)[0].argmax(-1).cpu()
    first, state = model(tokens[:, : int(split)])
    rest, _ = model(tokens[:, int(split) :], state)
    return torch.cat([first, rest], 1).argmax(-1).cpu()


def assert_right(model: SequenceModel, dfa: DFA, alphabet: Alphabet, ways: tuple[str, ...], chance: random.Random) -> None:
    for chosen in words(dfa, chance):
        tokens = torch.tensor([alphabet.tokens(list(word)) for word in chosen])
        wanted = torch.tensor([states_of(dfa, word) for word in chosen])
        for way in ways:
            found = answers(model, tokens, way)[:, :: alphabet.tokens_per_letter]
            assert torch.equal(found, wanted), f"accepted, and wrong by {way}"


def forge_weights(name: str, seed: int, count: int) -> tuple[int, int]:
    """Try so many edits; return how many were accepted, and how many of these for every backend."""
    network, chance = original(name), random.Random(seed)
    accepted = everywhere = 0
    for _ in range(count):
        model = edited(network.model, chance)
        try:
            found = certify(model, network.dfa, network.alphabet, STATE_LIMIT)
        except TooManyJointStates:
            continue
        if not found.holds:
            continue
        accepted += 1
        ways: tuple[str, ...] = ("step",)
        if found.order_independent:
            everywhere += 1
            ways = (
                "step",
                "reference",
                "chunked",
                f"chunked {chance.randrange(1, LETTERS)}",
                f"reference {chance.randrange(1, LETTERS)}",
                *(["triton", f"triton {chance.randrange(1, LETTERS)}"] if torch.cuda.is_available() else []),
            )
        with torch.no_grad():
            assert_right(model, network.dfa, network.alphabet, ways, chance)
    return accepted, everywhere


@pytest.mark.parametrize("name", NETWORKS)
def test_no_edited_weight_is_accepted_and_wrong(name: str) -> None:
    accepted, everywhere = forge_weights(name, 0, EDITS)
    assert 0 < accepted < EDITS  # some edits change nothing that counts
    assert everywhere <= accepted


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_none_of_a_thousand_edited_weights_is_accepted_and_wrong(name: str) -> None:
    accepted, everywhere = forge_weights(name, 1, SLOW_EDITS)
    assert 0 < everywhere <= accepted < SLOW_EDITS


@pytest.mark.parametrize("name", NETWORKS)
def test_no_edited_automaton_is_accepted(name: str) -> None:
    network = original(name)
    dfa, chance = network.dfa, random.Random(0)
    for _ in range(20):
        rows = [list(row) for row in dfa.transitions]
        state, letter = chance.randrange(dfa.states), chance.randrange(len(dfa.letters))
        rows[state][letter] = chance.choice([target for target in range(dfa.states) if target != rows[state][letter]])
        wrong = replace(dfa, transitions=tuple(map(tuple, rows)))
        assert not certify(network.model, wrong, network.alphabet).holds


@pytest.mark.parametrize("name", NETWORKS)
def test_every_edited_entry_of_a_certificate_is_found(name: str, tmp_path: Path) -> None:
    save_compiled(original(name), tmp_path)
    path = tmp_path / "certificate.json"
    stored = json.loads(path.read_text())
    wrong = {
        "holds": 1,
        "order_independent": not stored["order_independent"],
        "backends": ["triton"],
        "tokens_per_letter": 7,
        "reachable_states": stored["reachable_states"] + 1,
        "margin": stored["margin"] / 2,
        "weights_dtype": "float64",
        "state_dtype": "float16",
        "faults": ["none"],
    }
    for key, value in wrong.items():
        path.write_text(json.dumps(stored))
        repair_hashes(tmp_path, **{key: value})
        assert not verify(tmp_path).holds, key


@pytest.mark.parametrize("name", ["products", "gates", "matrices"])
def test_edits_of_the_configuration_are_right_or_refused(name: str, tmp_path: Path) -> None:
    """The network that the edited configuration makes is proved anew, whatever it says."""
    network, chance = original(name), random.Random(0)
    save_compiled(network, tmp_path)
    path = tmp_path / "model" / "config.json"
    stored = json.loads(path.read_text())
    edits = [("norm", "rms"), ("norm_place", "after"), ("backend", "chunked"), ("tie_embeddings", True), ("norm_eps", 1.0)]
    edits += [("eigenvalues", {"low": 0.0, "high": 1.0}), ("eigenvalues", {"low": -1.0, "high": 0.5})]
    options = stored["mixer_options"]
    options = options[0] if isinstance(options, list) else options
    edits += [("mixer_options", {**options, key: value}) for key, value in (("bare", False), ("learn_initial_state", False))]
    tried = 0
    for key, value in edits:
        path.write_text(json.dumps({**stored, key: value}))
        try:
            repair_hashes(tmp_path)
            found = verify(tmp_path)
        except (ValueError, TypeError):
            continue
        tried += 1
        if found.holds:
            model = load_model(tmp_path / "model")
            ways = ("step", "reference", "chunked") if found.certificate.order_independent else ("step",)
            with torch.no_grad():
                assert_right(model, network.dfa, network.alphabet, ways, chance)
    assert tried >= 3
