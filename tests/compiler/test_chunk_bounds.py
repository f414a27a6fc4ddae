"""Numbers that a step takes exactly, and a tensor core does not: the certificate must not speak for the kernels there."""

from __future__ import annotations

import pytest
import torch

from eigentrack.automata import DFA
from eigentrack.compiler.certificate import certify
from eigentrack.compiler.plan import Alphabet
from eigentrack.models import ModelConfig, SequenceModel
from eigentrack.spectrum import EigenDisk, EigenRange

SWAP = DFA(letters=("a", "b"), transitions=((1, 0), (0, 1)), accepting=frozenset({0}), start=0)


def swaps(query: float, dtype: torch.dtype, gate: EigenDisk | None = None) -> SequenceModel:
    """S = (1, 0) or (0, 1), swapped by a with the key (1, -1); read by the query (q, -2), so that q·k = q + 2."""
    options = {"heads": 1, "key_dim": 2, "value_dim": 1, "learn_initial_state": True, "conv": 0, "bare": True, "gate": gate}
    config = ModelConfig(
        3, 4, 1, mixer="deltanet", mixer_options=options, eigenvalues=EigenRange(-1, 1), mlp_width=0, norm="none"
    )
    model = SequenceModel(config).to(dtype).eval()
    mixer = model.blocks[0].mixer
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.embedding.weight[:, 0] = 1
        model.embedding.weight[0, 1] = 1  # the letter a
        if gate is not None:
            mixer.gate_bias.fill_(-200.0)  # a gate of exactly 1
        mixer.beta_proj.weight[0, :2] = torch.tensor([-1024, 1024])  # b = 1 for a, else 0
        mixer.k_proj.weight[:, 1] = torch.tensor([1, -1])
        mixer.q_proj.weight[:, 0] = torch.tensor([query, -2])
        mixer.initial_memory[0, 0, 0] = 1
        mixer.out_proj.weight[3, 0] = 1
        model.head.weight[0, 3] = 1
        model.head.weight[1:, 0] = torch.tensor([-1.5, -64])
    return model


@pytest.mark.parametrize(
    ("query", "dtype", "wide"),
    [
        (254.0, torch.bfloat16, None),  # q·k = 256
        (255.0, torch.bfloat16, "factors of products may reach 257, and tensor cores keep 8 bits of them"),
        (255.0, torch.float32, None),
        (2046.0, torch.float32, None),
        (2047.0, torch.float32, "factors of products may reach 2049, and tensor cores keep 11 bits of them"),
        (2047.0, torch.float64, None),
    ],
)
def test_operands_that_tensor_cores_would_round(query: float, dtype: torch.dtype, wide: str | None) -> None:
    found = certify(swaps(query, dtype), SWAP, Alphabet(2))
    assert found.holds
    assert found.order_independent == (wide is None)
    assert ("triton" in found.backends) == (wide is None)
    if wide is not None:
        assert wide in found.faults[0]


def test_the_bounds_do_not_speak_of_gates_that_turn() -> None:
    found = certify(swaps(254.0, torch.float32, gate=EigenDisk()), SWAP, Alphabet(2))
    assert found.holds
    assert not found.order_independent
    assert found.faults[-1].endswith("there is no bound for gates that turn")
