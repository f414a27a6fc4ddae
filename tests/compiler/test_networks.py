"""Compiled networks do what the automaton does: on every backend, batch size and float type, and their proofs hold."""

from __future__ import annotations

import random
import re
from dataclasses import replace

import pytest
import torch

from eigentrack.automata import DFA, language, regex_dfa, word_problem_dfa
from eigentrack.compiler import ARCHITECTURES, DTYPES, Choice, Compiled, choose_plan, compile_network
from eigentrack.compiler.constructions import cascade_plan, dense_plan, diagonal_plan, permutation_plan
from eigentrack.compiler.cyclic import rotation_plan, two_layer_plan
from eigentrack.models import SequenceModel
from tests.compiler.automata_cases import random_dfa, random_regex, random_word, states_after_each_letter

NAMED = ["parity", "flip-flop", "aa", "aaa", "abab", "tomita3", "tomita4", "tomita7", "d3", "dyck2-2", "resettable-mod3", "t3"]

COUNTERS = {"aaa"}  # modulo 3 or more, for rotations
IMPOSSIBLE = {(name, "rotation") for name in NAMED if name not in COUNTERS}
IMPOSSIBLE |= {(name, "diagonal") for name in ("aaa", "resettable-mod3", "t3")}  # groups other than 2-groups
IMPOSSIBLE |= {(name, "deltanet") for name in ("abab", "tomita3", "resettable-mod3", "t3")}  # no construction with one factor


def compiled(dfa: DFA, architecture: str | None = None, dtype: str = "float32", spread: bool = False) -> Compiled:
    return compile_network(choose_plan(dfa, architecture, spread_factors=spread), DTYPES[dtype])


def on_backend(model: SequenceModel, backend: str) -> SequenceModel:
    other = SequenceModel(replace(model.config, backend=backend)).to(model.embedding.weight.dtype)
    other.load_state_dict(model.state_dict())
    return other.eval()


@pytest.mark.parametrize("architecture", [None, *ARCHITECTURES])
@pytest.mark.parametrize("name", NAMED)
def test_named_languages(name: str, architecture: str | None) -> None:
    """Where an architecture has a construction, it is proved and right; where it has none, the reason is given."""
    dfa = language(name)
    if (name, architecture) in IMPOSSIBLE:
        with pytest.raises(ValueError, match="network can be built for this language: "):
            choose_plan(dfa, architecture)
        return
    choice = choose_plan(dfa, architecture)
    for dtype in DTYPES if architecture is None else ["bfloat16"]:
        network = compile_network(choice, DTYPES[dtype])
        assert network.certificate.holds
        assert network.certificate.order_independent == (choice.plans[0].exact and architecture != "slstm")
        bound = network.certificate.length_bound
        word = random_word(random.Random(1), dfa, 300 if bound is None else min(300, bound))
        assert network.run(word) == states_after_each_letter(dfa, word)


@pytest.mark.parametrize("backend", ["reference", "chunked"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("name", "architecture"),
    [("abab", "deltaproduct"), ("abab", "dense"), ("tomita4", "diagonal"), ("t3", "gated"), ("resettable-mod3", "gated")],
)
def test_the_same_bits_on_every_backend_and_batch(name: str, dtype: str, backend: str, architecture: str) -> None:
    """Nothing is rounded, so logits by steps, in one piece, alone and in a batch are equal, not close."""
    dfa = language(name)
    network = compiled(dfa, architecture, dtype)
    tokens = torch.randint(len(dfa.letters), (5, 70))
    tokens[:, 0] = network.alphabet.begin
    model = on_backend(network.model, backend)
    with torch.no_grad():
        whole, _ = model(tokens)
        state, steps = None, []
        for token in tokens.unbind(1):
            logits, state = network.model.step(token, state)
            steps.append(logits)
        assert torch.equal(torch.stack(steps, 1), whole)
        assert torch.equal(model(tokens[2:3])[0][0], whole[2])


@pytest.mark.parametrize("seed", range(8))
def test_random_automata(seed: int) -> None:
    dfa = random_dfa(seed, states=3 + seed % 2, letters=2)
    rng = random.Random(seed)
    for architecture in (None, ["deltaproduct", "gated"][seed % 2]):
        network = compiled(dfa, architecture, ["float32", "bfloat16"][seed % 2])
        assert network.certificate.holds
        assert network.certificate.order_independent
        word = random_word(rng, dfa, 200)
        assert network.run(word) == states_after_each_letter(dfa, word)


@pytest.mark.parametrize("seed", range(12))
def test_random_regexes_agree_with_re(seed: int) -> None:
    rng = random.Random(seed)
    pattern = random_regex(rng)
    network = compiled(regex_dfa(pattern, "ab"))
    for length in [0, 1, 2, 3, 4, 5, 8, 13]:
        word = random_word(rng, network.dfa, length)
        accepted = network.run(word)[-1] in network.dfa.accepting
        assert accepted == (re.fullmatch(pattern, "".join(word)) is not None), (pattern, word)


def test_group_word_problems_use_the_fewest_factors() -> None:
    """S5 from swaps with one factor; a permutation of rank k with k; Z60 as heads of 3, 4 and 5 points."""
    for group, letters, factors, state_size in [
        ("S3", "all", 2, 3 * 2 * 2),
        ("S5", "swaps", 1, 5 * 4 * 3),
        ("Z60", "generators", 4, 5 * 3 + 4 * 2 + 3 * 2),
        ("A5", "generators", 2, None),
    ]:
        network = compiled(word_problem_dfa(group, letters), "deltaproduct")
        assert network.certificate.holds
        assert network.certificate.order_independent
        assert network.summary["householders"] == factors, group
        if group != "Z60":  # heads of one layer share their shape: the smaller ones are padded
            assert state_size is None or network.summary["state_size"] == state_size, group


def test_one_factor_a_token_by_spreading() -> None:
    dfa = word_problem_dfa("S4", "all")
    network = compiled(dfa, spread=True)
    assert network.summary["householders"] == 1
    assert network.summary["tokens_per_letter"] == 3
    assert network.certificate.holds
    assert network.certificate.order_independent
    word = random_word(random.Random(0), dfa, 100)
    assert network.run(word) == states_after_each_letter(dfa, word)


@pytest.mark.parametrize("modulus", [2, 3, 4, 5, 6, 7, 12])
def test_counting_with_one_factor_takes_two_layers(modulus: int) -> None:
    dfa = word_problem_dfa(f"Z{modulus}", "all")
    network = compile_network(choose_plan(dfa, "deltanet")) if modulus > 2 else compiled(dfa, "deltanet")
    assert network.summary["householders"] == 1
    assert network.summary["layers"] == (1 if modulus == 2 else 2)
    assert network.certificate.holds
    assert (network.certificate.length_bound is None) == (12 % modulus == 0)


def test_rotations_are_right_up_to_their_bound() -> None:
    """In bfloat16 the bound is short enough to be reached; the network is right there on adversarial and on random words."""
    dfa = word_problem_dfa("Z7", "all")
    for plan in (rotation_plan(dfa), two_layer_plan(dfa)):
        assert not plan.exact
    network = compiled(dfa, "rotation", "bfloat16")
    bound = network.certificate.length_bound
    assert bound is not None
    assert bound > 10
    for word in [[letter] * bound for letter in dfa.letters] + [random_word(random.Random(s), dfa, bound) for s in range(20)]:
        assert network.run(word) == states_after_each_letter(dfa, word)
    assert compiled(dfa, "rotation", "float32").certificate.length_bound > 10_000


def test_sizes_are_what_the_model_has() -> None:
    network = compiled(language("tomita3"), "gated")
    assert network.summary["parameters"] == sum(parameter.numel() for parameter in network.model.parameters())
    assert network.summary["layers"] == len(network.model.blocks)
    _, state = network.model.step(torch.tensor([network.alphabet.begin]))
    parts = [part for layer in state.layers for part in (*layer.memory, layer.window) if part is not None]
    assert network.summary["state_size"] == sum(part.numel() for part in parts)


def test_the_smallest_exact_plan_is_chosen() -> None:
    dfa = language("resettable-mod3")
    sizes = []
    for plan in (permutation_plan(dfa, True), permutation_plan(dfa, False), cascade_plan(dfa, True), dense_plan(dfa)):
        sizes.append(compile_network(Choice((plan,), "")).summary["parameters"])
    assert compiled(dfa).summary["parameters"] == min(sizes)


@pytest.mark.parametrize(
    ("name", "architecture", "message"),
    [
        ("aaa", "diagonal", "no 2-group \\(Z3\\)"),
        ("flip-flop", "rotation", "does not count modulo a number"),
        ("cycle5", "banana", "architecture 'banana' is not known; there are deltanet,"),
        ("cerny6", "gated", "the automaton has more than 3 image sets: raise --image-limit"),
    ],
)
def test_impossible_wishes_are_named(name: str, architecture: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        choose_plan(language(name), architecture, image_limit=3)


def test_a_construction_can_be_asked_for() -> None:
    dfa = language("abab")
    assert choose_plan(dfa, "deltaproduct", "cascade-products").plans[0].construction == "cascade-products"
    assert [plan.architecture for plan in choose_plan(dfa, construction="permutation").plans] == ["deltaproduct", "gated"]
    with pytest.raises(ValueError, match=r"'dense' is not known for gated; there are permutation, cascade-gated"):
        choose_plan(dfa, "gated", "dense")
    with pytest.raises(ValueError, match="no gated permutation network can be built for this language: a letter merges states"):
        choose_plan(language("t3"), "gated", "permutation")
    with pytest.raises(ValueError, match="--spread gives a deltanet"):
        choose_plan(dfa, "gated", spread_factors=True)


def test_a_plan_whose_proof_is_too_large_is_passed_over() -> None:
    """t3: the cascade's joint states are 6, those of the dense network 3."""
    dfa = language("t3")
    small, large = dense_plan(dfa), cascade_plan(dfa, gated=True)
    found = compile_network(Choice((large, small), "two plans"), state_limit=4)
    assert found.summary["construction"] == "dense"
    assert found.summary["why"] == "two plans; passed over: cascade-gated (gated), more than 4 joint states"
    assert found.certificate.holds
    assert compile_network(Choice((large, small), "two plans")).summary["why"] == "two plans"
    with pytest.raises(ValueError, match="more than 2 joint states: raise --state-limit"):
        compile_network(Choice((large, small), "two plans"), state_limit=2)


def test_one_state_is_enough_for_a_trivial_language() -> None:
    network = compiled(regex_dfa("(a|b)*"))
    assert network.certificate.holds
    assert network.run(list("abba")) == [0] * 5


def test_the_delay_matters() -> None:
    """A cascade whose levels read the states above AFTER the letter, as in the printed proof, gets .*a. wrong."""
    dfa = regex_dfa("(a|b)*a(a|b)")
    plan = cascade_plan(dfa, gated=True)
    assert compile_network(Choice((plan,), "")).certificate.holds
    blocks = []
    for block in plan.blocks:
        lines = getattr(block.mixer, "lines", None)
        if lines is not None:
            block = replace(block, mixer=replace(block.mixer, lines=tuple((source, target, 0) for source, target, _ in lines)))
        blocks.append(block)
    naive = replace(plan, blocks=tuple(blocks))
    certificate = compile_network(Choice((naive,), "")).certificate
    assert not certificate.holds
    assert certificate.counterexample is not None
    assert len(certificate.counterexample) <= 3


def test_diagonal_networks_need_negative_eigenvalues_only_for_groups() -> None:
    star_free = compile_network(Choice((diagonal_plan(language("tomita4")),), ""))
    ranges = {options["eigenvalues"].low for options in star_free.model.config.options if "eigenvalues" in options}
    assert ranges == {0.0}
    with_group = compiled(language("tomita3"), "diagonal")
    assert -1.0 in {options["eigenvalues"].low for options in with_group.model.config.options if "eigenvalues" in options}


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_thousands_of_random_languages(block: int) -> None:
    rng = random.Random(10_000 + block)
    for case in range(60):
        pattern = random_regex(rng, depth=4)
        network = compiled(regex_dfa(pattern, "ab"), dtype=rng.choice(list(DTYPES)))
        assert network.certificate.holds
        assert network.certificate.order_independent
        for length in [*range(6), 10, 30]:
            word = random_word(rng, network.dfa, length)
            accepted = network.run(word)[-1] in network.dfa.accepting
            assert accepted == (re.fullmatch(pattern, "".join(word)) is not None), (pattern, word)
        dfa = random_dfa(1000 * block + case, states=rng.randint(2, 6), letters=rng.randint(1, 3))
        network = compiled(dfa, rng.choice([None, "gated", "deltaproduct", "dense"]))
        assert network.certificate.holds
        word = random_word(rng, dfa, 10_000 if case % 20 == 0 else 200)
        assert network.run(word) == states_after_each_letter(dfa, word)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["reference", "chunked"])
@pytest.mark.parametrize("batch", [1, 3, 64])
@pytest.mark.parametrize(("name", "architecture"), [("shell-game5", "deltaproduct"), ("tomita3", "gated"), ("d4", "diagonal")])
def test_long_words_on_every_backend_and_batch(name: str, architecture: str, batch: int, backend: str) -> None:
    dfa = language(name)
    network = compiled(dfa, architecture, "bfloat16")
    rng = random.Random(batch)
    words = [random_word(rng, dfa, 10_000) for _ in range(batch)]
    tokens = torch.tensor([network.alphabet.tokens([dfa.letters.index(letter) for letter in word]) for word in words])
    with torch.no_grad():
        logits, _ = on_backend(network.model, backend)(tokens)
    assert logits.argmax(-1).tolist() == [states_after_each_letter(dfa, word) for word in words]
