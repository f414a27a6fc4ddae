from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from eigentrack.analysis import LayerSpectrum, layer_spectra
from eigentrack.analysis.inspected_network import model_mixers
from eigentrack.analysis.spectra import TOLERANCE, sampled_words
from eigentrack.automata import regex_dfa, word_problem_dfa
from eigentrack.compiler import choose_plan, compile_network
from eigentrack.models import ModelConfig, SequenceModel
from eigentrack.spectrum import EigenDisk, EigenRange


def spectra(model: SequenceModel, letters: int, opening: tuple[int, ...] = ()) -> tuple[LayerSpectrum, ...]:
    words = sampled_words(list(range(letters)), opening, rows=12, length=9, seed=0)
    return layer_spectra(model, words, {letter: str(letter) for letter in range(letters)})


def test_every_letter_alone_and_random_words_after_the_opening() -> None:
    words = sampled_words([2, 5], (7,), rows=3, length=4, seed=0)
    assert words.shape == (5, 5)
    assert words[:2].tolist() == [[7, 2, 2, 2, 2], [7, 5, 5, 5, 5]]
    assert set(words[2:, 1:].flatten().tolist()) == {2, 5}


def test_compiled_parity_keeps_on_one_letter_and_flips_on_the_other() -> None:
    compiled = compile_network(choose_plan(regex_dfa("(a*ba*b)*a*"), "deltanet"))
    (layer,) = spectra(compiled.model, 2, (2,))
    keep, flip = layer.tokens
    for head in keep.heads:
        assert (head.from_one, head.to_minus_one, head.orthogonality_defect, head.context_spread) == (0, 2, 0, 0)
    assert min(head.to_minus_one for head in flip.heads) == 0
    assert max(head.orthogonality_defect for head in flip.heads) == 0
    assert layer.may_flip
    assert not layer.may_count
    assert max(layer.key_ranks) == 1


def test_a_rotation_may_count() -> None:
    compiled = compile_network(choose_plan(word_problem_dfa("Z3", "generators"), "deltaproduct"))
    (layer,) = spectra(compiled.model, len(compiled.dfa.letters), (compiled.alphabet.begin,))
    assert layer.may_count
    values = [value for token in layer.tokens for value in token.eigenvalues]
    third = complex(-0.5, math.sqrt(3) / 2)
    assert min(abs(value - third) for value in values) < 1e-6
    assert min(abs(value - third.conjugate()) for value in values) < 1e-6


@pytest.mark.parametrize("mixer", ["gla", "mamba", "mamba2", "s4d"])
def test_a_disk_may_count(mixer: str) -> None:
    options = {"gla": {"key_dim": 4}, "mamba2": {"state_size": 4}}.get(mixer, {"state_size": 4, "expand": 1})
    model = SequenceModel(ModelConfig(3, 8, 1, mixer=mixer, mixer_options=options, eigenvalues=EigenDisk(0.5, 1)))
    (layer,) = spectra(model, 3)
    assert layer.eigenvalue_range == "annulus 0.5 1"
    assert layer.may_count
    assert layer.may_flip
    assert 0.5 < layer.histograms["eigenvalue"]["modulus"] <= 1


@pytest.mark.parametrize("mixer", ["mamba", "gla", "mamba2", "mlstm", "deltanet", "dense"])
@pytest.mark.parametrize("low", [0.0, -1.0])
def test_numbers_agree_with_numpy_matrix_by_matrix(mixer: str, low: float) -> None:
    options = {} if mixer == "mamba" else {"heads": 2}
    if mixer == "dense":
        options |= {"eigenvalues": EigenRange(low, 1), "state_size": 3}
    model = SequenceModel(
        ModelConfig(vocab_size=3, d_model=8, layers=2, mixer=mixer, mixer_options=options, eigenvalues=EigenRange(low, 1))
    )
    words = sampled_words([0, 1, 2], (), rows=4, length=6, seed=0)
    found = layer_spectra(model, words, {1: "one"})
    assert len(found) == 2
    seen: list[torch.Tensor] = []
    second = model_mixers(model)[1]
    hook = second.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    with torch.no_grad():
        model(words)
        matrices = second.transitions(seen[0]).double()
    hook.remove()
    ours = matrices[words == 1].numpy()
    (token,) = found[1].tokens
    assert token.contexts == len(ours) == int((words == 1).sum())
    for number, head in enumerate(token.heads):
        values = np.array([np.linalg.eigvals(matrix) for matrix in ours[:, number]])
        assert head.to_minus_one == pytest.approx(np.abs(values + 1).min(), abs=1e-7)
        assert head.from_one == pytest.approx(np.abs(values - 1).max(), abs=1e-7)
        assert head.largest_modulus == pytest.approx(np.abs(values).max(), abs=1e-7)
        defects = [np.linalg.norm(matrix.T @ matrix - np.eye(len(matrix)), 2) for matrix in ours[:, number]]
        assert head.orthogonality_defect == pytest.approx(max(defects), abs=1e-7)
        spread = [np.linalg.norm(matrix - ours[:, number].mean(0), 2) for matrix in ours[:, number]]
        assert head.context_spread == pytest.approx(max(spread), abs=1e-7)
    pairs = [
        matrices[b, t + 1, h] @ matrices[b, t, h] for b in range(len(words)) for t in range(5) for h in range(len(token.heads))
    ]
    lowest = min(np.linalg.eigvals(pair.numpy()).real.min() for pair in pairs)
    assert found[1].words[1].lowest_real == pytest.approx(lowest, abs=1e-6)
    if low == 0 and mixer != "dense":  # one factor with eigenvalues in [0, 1], or a diagonal: never off the axis
        assert not any(layer.may_flip for layer in found)
    if low == 0 and mixer in ("mamba", "gla", "mamba2", "mlstm"):
        assert not any(word.off_the_nonnegative_axis for layer in found for word in layer.words)


def test_theorem_two_looks_at_products_of_two_in_the_second_layer() -> None:
    """Reflections have real eigenvalues, the product of two is a rotation: only the second layer may count."""
    torch.manual_seed(3)
    config = ModelConfig(vocab_size=4, d_model=8, layers=2, mixer_options={"heads": 1, "conv": 0})
    model = SequenceModel(config)
    with torch.no_grad():
        for mixer in model_mixers(model):
            mixer.beta_proj.weight.normal_(std=4)
    first, second = spectra(model, 4)
    assert not first.may_count
    assert second.may_count
    assert second.words[1].complex_eigenvalues


def test_only_linear_layers_have_spectra() -> None:
    model = SequenceModel(ModelConfig(vocab_size=3, d_model=8, layers=3, mixer=("lstm", "gla", "attention")))
    seen: list[int] = []
    found = layer_spectra(model, torch.randint(3, (2, 5)), {0: "a", 7: "never seen"}, lambda: seen.append(1))
    assert [(layer.layer, layer.mixer) for layer in found] == [(2, "gla")]
    assert [token.token for token in found[0].tokens] == ["a"]
    assert len(seen) == 3


def test_the_rank_of_the_keys() -> None:
    """Keys in two of four directions, whatever the token."""
    model = SequenceModel(ModelConfig(vocab_size=5, d_model=8, layers=1, mixer_options={"heads": 2, "conv": 0}))
    (mixer,) = model_mixers(model)
    with torch.no_grad():
        mixer.k_proj.weight.view(2, 4, 8)[0, 2:] = 0
    (layer,) = spectra(model, 5)
    assert layer.key_ranks == (2, 4)
    assert layer.state_size == 4
    assert sum(layer.histograms["beta"]["counts"]) == 17 * 9 * 2
    assert TOLERANCE < 1e-3
