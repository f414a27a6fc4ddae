"""PD-SSM and SD-SSM with a matrix for every letter follow any automaton of as many states, in one layer and exactly."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from eigentrack.automata import DFA, word_problem_dfa
from eigentrack.automata.languages import language
from eigentrack.layers import PDSSM, SDSSM
from eigentrack.spectrum import EigenRange

SATURATED = 200.0  # a logit whose softmax or sigmoid is exactly 1 in float32, and that of its negative exactly 0
TIME = 1000


@pytest.mark.parametrize("name", ["S5", "cerny4", "resettable-mod3"])
@pytest.mark.parametrize("backend", ["reference", "chunked"])
@pytest.mark.parametrize("kind", ["pd_ssm", "pd_ssm in [0, 1]", "sd_ssm"])
def test_one_layer_holds_every_state_for_ever(kind: str, backend: str, name: str) -> None:
    dfa = word_problem_dfa("S5", "swaps") if name == "S5" else language(name)
    letters, options = len(dfa.letters), {"dictionary": len(dfa.letters), "state_size": dfa.states, "backend": backend}
    mixer = (
        _pd_ssm(letters, kind, options) if kind.startswith("pd_ssm") else SDSSM(letters, **options, learn_initial_state=True)
    )
    _set_transitions(mixer, dfa)
    word = torch.randint(letters, (TIME,))
    _, state = mixer(torch.eye(letters)[word][None])
    expected = dfa.start
    for letter in word.tolist():
        expected = dfa.transitions[expected][letter]
    assert torch.equal(state.memory[0][0, 0], torch.eye(dfa.states)[expected])


def _pd_ssm(letters: int, kind: str, options: dict[str, Any]) -> PDSSM:
    eigenvalues = EigenRange(0, 1) if "0" in kind else EigenRange(-1, 1)
    mixer = PDSSM(letters, **options, eigenvalues=eigenvalues, writes=False, learn_initial_state=True)
    mixer.scale_proj.bias.data.fill_(SATURATED)
    return mixer


@torch.no_grad()
def _set_transitions(mixer: PDSSM | SDSSM, dfa: DFA) -> None:
    mixer.dictionary.matrices.zero_()
    for state, row in enumerate(dfa.transitions):
        for letter, following in enumerate(row):
            mixer.dictionary.matrices[0, letter, following, state] = 1.0
    mixer.dictionary.choice_proj.weight.copy_(SATURATED * torch.eye(len(dfa.letters)))
    mixer.dictionary.choice_proj.bias.zero_()
    assert mixer.initial_memory is not None
    mixer.initial_memory.zero_()
    mixer.initial_memory[0, dfa.start] += 1.0
    if isinstance(mixer, PDSSM):
        mixer.initial_memory[0, 0] -= 1.0  # which is where it starts otherwise
    else:
        mixer.in_proj.weight.zero_()
