"""Each assumption of the theorem on certificates, broken alone: the closure holds, and the certificate names it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from eigentrack.automata import DFA
from eigentrack.compiler.assumptions import Assumption
from eigentrack.compiler.certificate import WatchedSteps, broken_assumptions, certify
from eigentrack.compiler.closure import explore
from eigentrack.compiler.plan import Alphabet
from eigentrack.layers import DeltaNet
from eigentrack.models import ModelConfig, SequenceModel
from eigentrack.spectrum import EigenRange

SWAP = DFA(letters=("a", "b"), transitions=((1, 0), (0, 1)), accepting=frozenset({0}), start=0)
BEGIN, FILLER = 2, 3
SETTLED = 1024.0
THIRD = [0.0, 0.0, 1.0]


class Network(NamedTuple):
    """A network whose state (1, 0, 0) or (0, 1, 0) is swapped by a; the third place is for what an assumption forbids."""

    model: SequenceModel
    alphabet: Alphabet

    @property
    def mixer(self) -> DeltaNet:
        return self.model.blocks[0].mixer

    def set_factor(self, token: int, place: int, key: list[float], value: float = 0.0) -> None:
        """Give a token a factor with b = 2 σ(0) = 1; all others have b = 2 σ(-1024) = 0."""
        mixer, channel = self.mixer, token + 1
        mixer.k_proj.weight.view(2, 3, -1)[place, :, channel] = torch.tensor(key)
        mixer.v_proj.weight.view(2, 1, -1)[place, :, channel] = value
        mixer.beta_proj.weight.view(2, -1)[place, channel] = SETTLED

    def broken(self) -> list[Assumption]:
        steps = WatchedSteps(self.model)
        with torch.no_grad():
            closure = explore(steps.step, SWAP, self.alphabet, 1000)
            steps.finish()
            assert closure.counterexample is None
            return [fault.assumption for fault in broken_assumptions(self.model, steps)]


def network(tokens_per_letter: int = 1, conv: int = 0) -> Network:
    options = {"heads": 1, "key_dim": 3, "value_dim": 1, "householders": 2, "learn_initial_state": True, "conv": conv}
    config = ModelConfig(
        4,
        8,
        1,
        mixer="deltanet",
        mixer_options={**options, "bare": True},
        eigenvalues=EigenRange(-1, 1),
        mlp_width=0,
        norm="none",
    )
    model = SequenceModel(config).eval()
    for parameter in model.parameters():
        parameter.requires_grad_(False).zero_()
    found = Network(model, Alphabet(2, tokens_per_letter))
    mixer = found.mixer
    model.embedding.weight[:, 0] = 1
    for token in range(4):
        model.embedding.weight[token, token + 1] = 1
    mixer.beta_proj.weight[:, 0] = -SETTLED
    found.set_factor(0, 0, [1.0, -1.0, 0.0])
    mixer.q_proj.weight[:, 0] = torch.tensor([1.0, -1.0, 0.0])
    mixer.initial_memory[0, 0, 0] = 1
    mixer.out_proj.weight[6, 0] = 1
    model.head.weight[0, 6] = 1
    model.head.weight[2:, 0] = -64
    return found


def rounded_step(found: Network) -> None:
    found.model.head.weight[0, 6] = 1.1


def halved_query(found: Network) -> None:
    found.mixer.q_proj.weight[2, 0] = 0.5


def enlarging_factor(found: Network) -> None:
    """1 - |k|² = -3 at the third place, which is always 0."""
    found.set_factor(1, 0, [0.0, 0.0, 2.0])


def large_start(found: Network) -> None:
    found.mixer.initial_memory[0, 2, 0] = 5
    found.set_factor(BEGIN, 0, THIRD, 0.0)


def large_sums(found: Network) -> None:
    """400 is written and erased within a token."""
    found.set_factor(1, 0, THIRD, 400.0)
    found.set_factor(1, 1, THIRD, 0.0)


def wide_operand(found: Network) -> None:
    found.mixer.q_proj.weight[:, 0] = torch.tensor([2047.0, -2.0, 0.0])
    found.model.head.weight[1, 0] = 1


@pytest.mark.parametrize(
    ("broken", "assumption"),
    [
        (rounded_step, Assumption.EXACT_STEPS),
        (halved_query, Assumption.WHOLE_NUMBERS),
        (enlarging_factor, Assumption.NORM),
        (large_start, Assumption.SMALL_STATES),
        (large_sums, Assumption.SUMS),
        (wide_operand, Assumption.OPERANDS),
    ],
)
def test_a_network_that_breaks_one_assumption(broken: Callable[[Network], None], assumption: Assumption) -> None:
    found = network()
    assert found.broken() == []
    broken(found)
    assert found.broken() == [assumption]
    certificate = certify(found.model, SWAP, found.alphabet)
    assert certificate.holds
    assert certificate.backends == ("reference",)


def test_a_layer_with_a_convolution_has_no_bound() -> None:
    found = network(conv=2)
    weight = next(weight for name, weight in found.mixer.named_parameters() if "conv" in name)
    weight[..., -1] = 1.0  # of the current token alone
    assert found.broken() == [Assumption.KNOWN_LAYERS]


def test_the_page_lists_every_assumption() -> None:
    page = (Path(__file__).parents[2] / "docs/derivations/certificates.md").read_text()
    listed = re.findall(r"^\| `([A-Z_]+)` \| ([^|]+) \|", page, re.MULTILINE)
    assert listed == [(assumption.name, assumption.value) for assumption in Assumption]


def test_a_state_that_is_large_inside_a_letter() -> None:
    found = network(tokens_per_letter=2)
    assert found.broken() == []
    found.set_factor(0, 1, THIRD, 5.0)  # with the letter
    found.set_factor(FILLER, 0, THIRD, 0.0)  # gone with the filler
    assert found.broken() == [Assumption.SMALL_STATES]


def test_what_acts_only_in_training_is_refused() -> None:
    found = network()
    found.model.head.register_forward_hook(lambda head, _, logits: logits + torch.rand_like(logits) if head.training else None)
    with pytest.raises(ValueError, match="answers otherwise in training mode"):
        certify(found.model, SWAP, found.alphabet)
    assert not found.model.training
