"""Mamba-2: with the same weights, transformers' Mamba2ForCausalLM and our SequenceModel give the same logits and gradients."""

from __future__ import annotations

import pytest
import torch
from transformers import Mamba2Config, Mamba2ForCausalLM
from transformers.models.mamba2 import modeling_mamba2

from eigentrack.lm.conversion import in_our_names
from eigentrack.lm.conversion.mamba import MAMBA2
from eigentrack.models import SequenceModel

VOCABULARY, LAYERS, TIME = 19, 2, 70
TOKENS = torch.randint(VOCABULARY, (2, TIME), generator=torch.Generator().manual_seed(1))


@pytest.fixture
def twins(randomise, on_torch_path):
    on_torch_path(modeling_mamba2)

    def build(
        dtype: torch.dtype, groups: int, tied: bool = False, conv_bias: bool = True
    ) -> tuple[SequenceModel, Mamba2ForCausalLM]:
        theirs = Mamba2ForCausalLM(
            Mamba2Config(
                vocab_size=VOCABULARY,
                hidden_size=12,
                num_hidden_layers=LAYERS,
                num_heads=6,
                head_dim=4,
                state_size=5,
                n_groups=groups,
                chunk_size=16,  # five chunks
                use_conv_bias=conv_bias,
                tie_word_embeddings=tied,
                layer_norm_epsilon=1e-2,  # large, so that the wrong one would show
                use_cache=False,
            )
        ).to(dtype)
        randomise(theirs)
        ours = SequenceModel(MAMBA2.to_ours(theirs.config.to_dict())).to(dtype)
        ours.load_state_dict(in_our_names(MAMBA2.names, theirs.state_dict(), ours), strict=not tied)
        return ours, theirs

    return build


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("conv_bias", [True, False], ids=["conv_bias", "no_conv_bias"])
def test_logits_match(twins, dtype, groups, tied, conv_bias, peer_in, assert_same):
    ours, theirs = twins(dtype, groups, tied, conv_bias)
    with peer_in(dtype):
        expected = theirs(TOKENS).logits
    assert expected.std() > 0.1
    assert_same(ours(TOKENS)[0], expected, "logits")


@pytest.mark.parametrize("groups", [1, 2])
def test_gradients_match_and_every_weight_matters(twins, groups, peer_in, assert_same_gradients):
    ours, theirs = twins(torch.float64, groups)
    with peer_in(torch.float64):
        expected = theirs(TOKENS).logits
    assert_same_gradients(ours, ours(TOKENS)[0], theirs, expected, lambda grads: in_our_names(MAMBA2.names, grads, ours))


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("prefill", [0, 1, 3, 64, TIME - 1])
def test_steps_after_a_prefill_match_their_whole_forward(
    twins, dtype, groups, prefill, prefill_then_steps, peer_in, assert_same
):
    ours, theirs = twins(dtype, groups)
    with torch.no_grad(), peer_in(dtype):
        expected = theirs(TOKENS).logits
    with torch.no_grad():
        assert_same(prefill_then_steps(ours, TOKENS, prefill), expected, "logits")
