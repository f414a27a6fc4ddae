"""Trained networks that are corrected: codes without labels, the proof, what it encloses, and what each assumption is for."""

import dataclasses
import json

import pytest
import torch

from eigentrack.analysis import InspectedNetwork
from eigentrack.analysis.correction.closing import ClosingConfig
from eigentrack.analysis.correction.codes import NoAutomaton, find_codes, state_of
from eigentrack.analysis.correction.correct import CorrectionConfig, NotCorrected, correct_network, spoken_language
from eigentrack.automata import language
from eigentrack.compiler.correction_proof import CorrectedBounds, Refuted, prove_correction
from eigentrack.compiler.kept_network import KeptNetwork, is_kept, load_kept, save_kept, verify_kept
from eigentrack.models import ModelConfig, SequenceModel
from eigentrack.tasks.tracking import dfa_recognition, parity

LENGTH = 24
CONFIG = CorrectionConfig(words=128, closing=ClosingConfig(steps=250))


@pytest.fixture(scope="session")
def kept(trained_parity) -> KeptNetwork:
    return correct_network(trained_parity, LENGTH, CONFIG).kept


def copied(kept: KeptNetwork) -> SequenceModel:
    """The network once more, whose weights a test may change."""
    model = SequenceModel(kept.model.config)
    model.load_state_dict(kept.model.state_dict())
    return model.eval()


def test_codes_are_found_without_labels(trained_parity):
    mute = dataclasses.replace(trained_parity, machine=dataclasses.replace(trained_parity.machine, outputs=(1, 1)))
    found = find_codes(mute, length=LENGTH, words=128, seed=0)
    assert torch.equal(found.targets, find_codes(trained_parity, length=LENGTH, words=128, seed=0).targets)
    assert len(found.codes) == 2
    assert found.answers.unique().tolist() == [0, 1]


def test_it_is_proved_and_right_far_beyond_its_training(trained_parity, kept):
    assert kept.proof.margin > 0
    assert kept.proof.reach < kept.proof.half_gap
    word = torch.randint(2, (20_000,), generator=torch.Generator().manual_seed(3))
    assert kept.run(word.tolist()) == (word.cumsum(0) % 2).tolist()
    ones = torch.ones(5_000, dtype=torch.int64)
    assert kept.run(ones.tolist()) == (ones.cumsum(0) % 2).tolist()


@torch.no_grad()
def test_the_bounds_enclose_what_the_network_does(trained_parity, kept):
    """Memories are drawn on the ball around each code, and moved in the worst direction: no bound may be exceeded."""
    bounds = CorrectedBounds(kept.model, kept.language)
    moves, codes = bounds.moves, torch.tensor(bounds.codes, dtype=torch.float32)
    generator, distance = torch.Generator().manual_seed(0), bounds.ball / 2
    claimed = bounds.margin(distance, 0.0)
    answers, least = torch.tensor(moves.answers), float("inf")
    bare = kept.model.without_correction()
    for _ in range(200):
        away = torch.randn(len(moves.codes), *codes.shape[1:], generator=generator)
        away = away / away.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
        before = codes[moves.codes] + distance * away
        _, after = bare.step(torch.tensor(moves.tokens), state_of(bare, before.flatten(1)))
        error = (after.parts[0] - codes[moves.targets]).flatten(1).norm(dim=1).max()
        assert error <= bounds.gain * distance + bounds.error
        # the answer for a memory near the code after the token: go back from there, as A is known only through the network
        transitions = bare.mixers[0].transitions(bare.blocks[0].mixer_norm(bare.embedding(torch.tensor(moves.tokens)))[:, None])
        written = codes[moves.targets] + distance * away
        source = torch.linalg.solve(transitions[:, 0].double(), written.double() - _writes(bare, moves.tokens).double())
        logits, reached = bare.step(torch.tensor(moves.tokens), state_of(bare, source.float().flatten(1)))
        if (reached.parts[0] - codes[moves.targets]).flatten(1).norm(dim=1).max() <= distance * 1.001:
            right = logits.gather(1, answers[:, None])[:, 0]
            others = logits[:, : kept.language.classes].scatter(1, answers[:, None], -torch.inf).amax(1)
            least = min(least, float((right - others).min()))
    assert least >= claimed - 1e-3


def _writes(model, tokens):
    _, after = model.step(
        torch.tensor(tokens), state_of(model, torch.zeros(len(tokens), model.initial_state(1).parts[0].numel()))
    )
    return after.parts[0]


@torch.no_grad()
def test_noise_just_below_the_proved_one_is_borne(kept):
    """After every token the memory is moved by 0.999 of the proved noise, away from the code or at random."""
    assert kept.proof.noise > 0
    model, generator = kept.model, torch.Generator().manual_seed(0)
    codes = model.correction.codes[0]
    state, parity_of = model.initial_state(8), torch.zeros(8, dtype=torch.int64)
    for _ in range(400):
        bits = torch.randint(2, (8,), generator=generator)
        logits, state = model.step(bits, state)
        parity_of = (parity_of + bits) % 2
        assert torch.equal(logits[:, :2].argmax(-1), parity_of)
        memory = state.parts[0]
        nearest = codes[model.correction.nearest([memory])]
        drift, other = memory - nearest, codes[1 - model.correction.nearest([memory])] - nearest
        away = torch.where(torch.rand(8, 1, 1, 1, generator=generator) < 0.5, drift + 1e-6 * other, torch.randn(memory.shape))
        away = away / away.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
        state = state.with_parts([memory + 0.999 * kept.proof.noise * away])


def test_it_is_saved_and_proved_again(kept, tmp_path):
    save_kept(kept, tmp_path)
    assert is_kept(tmp_path)
    found = verify_kept(tmp_path)
    assert found.holds
    assert found.differences == ()
    assert load_kept(tmp_path).proof == kept.proof


def test_an_untrained_network_is_refused():
    torch.manual_seed(0)
    config = ModelConfig(vocab_size=3, d_model=16, layers=1, mixer="deltanet", mixer_options={"heads": 2, "conv": 0})
    network = InspectedNetwork.from_task(SequenceModel(config), parity())
    with pytest.raises(NotCorrected):
        correct_network(network, LENGTH, CONFIG)


def test_a_network_of_another_language_is_refused(trained_parity):
    other = InspectedNetwork.from_task(trained_parity.model, dfa_recognition(language("even-length")))
    with pytest.raises(NotCorrected, match=r"automaton|answer"):
        correct_network(other, LENGTH, CONFIG)


def test_codes_must_lie_near_their_images(kept):
    model = copied(kept)
    model.correction.codes[0][1] += 1.0
    with pytest.raises(Refuted):
        prove_correction(model, kept.language)


def test_successors_must_follow_the_automaton(kept):
    model = copied(kept)
    model.correction.successors.fill_(0)
    with pytest.raises(Refuted, match=r"two answers|away from"):
        prove_correction(model, kept.language)


def test_the_read_out_must_be_right_on_the_balls(kept):
    model = copied(kept)
    with torch.no_grad():
        model.head.weight[0] = model.head.weight[1]  # two answers always draw
    with pytest.raises(Refuted, match="not certain"):
        prove_correction(model, kept.language)


def test_balls_must_not_meet(kept):
    model = copied(kept)
    model.correct(list(model.correction.codes), model.correction.successors, 10**7)
    with pytest.raises(Refuted, match="C=10000000"):
        prove_correction(model, kept.language)


def test_the_answers_must_be_those_of_the_language(kept):
    swapped = dataclasses.replace(kept.language, outputs=(1, 0))
    with pytest.raises(Refuted, match="not certain"):
        prove_correction(kept.model, swapped)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"layers": 2, "mixer_options": {"heads": 2, "conv": 0}}, "one layer"),
        ({"mixer_options": {"heads": 2, "conv": 4}}, "short convolution"),
        ({"mixer": "rwkv7", "mixer_options": {"heads": 2}}, "no law"),
        ({"correction": None}, "no correction"),
    ],
)
def test_networks_outside_of_the_theorem_are_refused(kept, change, said):
    model = SequenceModel(dataclasses.replace(kept.model.config, **change)).eval()
    with pytest.raises(Refuted, match=said):
        prove_correction(model, kept.language)


def test_half_precision_and_huge_codes_are_refused(kept):
    with pytest.raises(Refuted, match="float32 or float64"):
        prove_correction(copied(kept).to(torch.bfloat16), kept.language)
    model = copied(kept)
    model.correction.codes[0][0] = 1e30
    with pytest.raises(Refuted, match="exceed"):
        prove_correction(model, kept.language)


def edited(folder, name, **values):
    path = folder / name
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("certificate.json", {"every": 1}),
        ("certificate.json", {"noise": 1e9}),
        ("certificate.json", {"backends": ["reference", "chunked", "triton"]}),
        ("certificate.json", {"more": 1}),
        ("certificate.json", {"margin": True}),
        ("language.json", {"outputs": [1, 0]}),
        ("language.json", {"start": 1}),
        ("language.json", {"letters": [1, 0]}),
    ],
)
def test_edited_files_are_noticed(kept, tmp_path, name, values):
    save_kept(kept, tmp_path)
    edited(tmp_path, name, **values)
    assert not verify_kept(tmp_path).holds


@pytest.mark.parametrize(
    "values",
    [
        {"start": 2},
        {"letters": [0, 0]},
        {"letters": [0, 99]},
        {"transitions": [[0, 1]]},
        {"outputs": [0, True]},
        {"classes": 0},
        {"names": ["a"]},
        {"opening": 0},
        {"transitions": 3},
        {"surplus": 1},
    ],
)
def test_malformed_languages_are_named(kept, tmp_path, values):
    save_kept(kept, tmp_path)
    edited(tmp_path, "language.json", **values)
    with pytest.raises(ValueError, match=r"language\.json"):
        verify_kept(tmp_path)


def test_layers_that_cannot_be_corrected_are_named(trained_parity):
    model = SequenceModel(ModelConfig(vocab_size=3, d_model=16, layers=1, mixer_options={"heads": 2, "conv": 4}))
    with pytest.raises(ValueError, match="short convolution"):
        find_codes(InspectedNetwork.from_task(model, parity()), length=8, words=8, seed=0)


def test_memories_without_an_automaton_are_named():
    """A network that answers by what it read many letters ago, differently for every word, has no few states."""
    torch.manual_seed(3)
    config = ModelConfig(vocab_size=8, d_model=16, layers=1, mixer="gla", mixer_options={"heads": 2})
    network = InspectedNetwork.from_task(SequenceModel(config), dfa_recognition(language("even-length")))
    with pytest.raises(NoAutomaton):
        find_codes(network, length=16, words=64, seed=0, limit=1)


def test_what_is_spoken_has_the_opening_of_the_task(trained_parity):
    spoken = spoken_language(trained_parity)
    assert (spoken.opening, spoken.letters, spoken.classes) == (None, (0, 1), 2)
