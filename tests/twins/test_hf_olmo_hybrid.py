"""OLMo-hybrid: gated DeltaNet layers, with and without negative eigenvalues, and an attention layer with its norms after it.

They divide keys and queries by √(|k|² + 1e-6), we by max(|k|, 1e-6): relative to one another these differ by 5e-7/|k|².
The filters of q and k are therefore scaled up here until |k|² > 1e6, where nothing of it is left.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from transformers import OlmoHybridConfig, OlmoHybridForCausalLM
from transformers.models.olmo_hybrid import modeling_olmo_hybrid

from eigentrack.lm.conversion import in_our_names
from eigentrack.lm.conversion.olmo_hybrid import OLMO_HYBRID
from eigentrack.models import SequenceModel
from eigentrack.ops.short_convolution.reference import unit
from eigentrack.spectrum import EigenRange

VOCABULARY, LAYERS, TIME, WIDTH, HEADS, KEY, VALUE = 19, 2, 70, 12, 3, 16, 6
TOKENS = torch.randint(VOCABULARY, (2, TIME), generator=torch.Generator().manual_seed(1))
RANGE = {True: EigenRange(-1, 1), False: EigenRange(0, 1)}  # by linear_allow_neg_eigval


@pytest.fixture
def peer(randomise, on_torch_path):
    on_torch_path(modeling_olmo_hybrid)

    def build(dtype: torch.dtype, negative: bool) -> OlmoHybridForCausalLM:
        config = OlmoHybridConfig(
            vocab_size=VOCABULARY,
            hidden_size=WIDTH,
            intermediate_size=20,
            num_hidden_layers=LAYERS + 1,
            layer_types=["linear_attention"] * LAYERS + ["full_attention"],
            num_attention_heads=HEADS,
            linear_key_head_dim=KEY,
            linear_value_head_dim=VALUE,
            linear_allow_neg_eigval=negative,
            rope_parameters={"rope_type": "default", "rope_theta": None},  # as released; rotary speeds are float32 in theirs
            rms_norm_eps=1e-2,  # large, so that the wrong one would show
            pad_token_id=None,
            eos_token_id=None,
            use_cache=False,
        )
        theirs = OlmoHybridForCausalLM(config).to(dtype)
        randomise(theirs)
        with torch.no_grad():
            for layer in theirs.model.layers[:LAYERS]:
                layer.linear_attn.conv1d.weight[: 2 * HEADS * KEY] *= 3000  # q and k: see the top
        return theirs

    return build


def our_model(theirs: OlmoHybridForCausalLM, eigenvalues: EigenRange) -> SequenceModel:
    config = replace(OLMO_HYBRID.to_ours(theirs.config.to_dict()), eigenvalues=eigenvalues)
    ours = SequenceModel(config).to(theirs.dtype)
    ours.load_state_dict(in_our_names(OLMO_HYBRID.names, theirs.state_dict(), ours))
    return ours


@pytest.mark.parametrize("negative", [True, False])
def test_layer_matches(peer, dtype, negative, peer_in, assert_same):
    model = peer(dtype, negative)
    theirs, ours = model.model.layers[0].linear_attn, our_model(model, RANGE[negative]).blocks[0].mixer
    x = torch.randn(2, TIME, WIDTH, generator=torch.Generator().manual_seed(1), dtype=dtype)
    with torch.no_grad(), peer_in(dtype):
        expected = theirs(x)
    assert expected.std() > 0.1
    assert_same(ours(x)[0], expected, "output")


@pytest.mark.parametrize("negative", [True, False])
def test_model_logits_match(peer, dtype, negative, peer_in, assert_same):
    theirs = peer(dtype, negative)
    with torch.no_grad(), peer_in(dtype):
        expected = theirs(TOKENS).logits
    assert expected.std() > 0.1
    assert_same(our_model(theirs, RANGE[negative])(TOKENS)[0], expected, "logits")
    other_range, _ = our_model(theirs, RANGE[not negative])(TOKENS)
    assert (other_range - expected).abs().max() > 0.1, "the range makes no difference"


@pytest.mark.parametrize("negative", [True, False])
def test_gradients_match_and_every_weight_matters(peer, negative, peer_in, assert_same_gradients):
    theirs = peer(torch.float64, negative)
    with peer_in(torch.float64):
        expected = theirs(TOKENS).logits
    ours = our_model(theirs, RANGE[negative])
    assert_same_gradients(ours, ours(TOKENS)[0], theirs, expected, lambda grads: in_our_names(OLMO_HYBRID.names, grads, ours))


@pytest.mark.parametrize("negative", [True, False])
@pytest.mark.parametrize("prefill", [0, 1, 64, TIME - 1])
def test_steps_after_a_prefill_match_their_whole_forward(
    peer, dtype, negative, prefill, prefill_then_steps, peer_in, assert_same
):
    theirs = peer(dtype, negative)
    with torch.no_grad(), peer_in(dtype):
        expected = theirs(TOKENS).logits
    with torch.no_grad():
        assert_same(prefill_then_steps(our_model(theirs, RANGE[negative]), TOKENS, prefill), expected, "logits")


def test_short_keys_part_the_twins():
    """β = 2 along a key of length 1e-3: we reflect (eigenvalue -1), they merely erase (eigenvalue 0)."""
    key = 1e-3 * torch.nn.functional.normalize(torch.ones(KEY, dtype=torch.float64), dim=0)
    assert 1 - 2 * unit(key).square().sum().item() == pytest.approx(-1)
    assert 1 - 2 * modeling_olmo_hybrid.l2norm(key).square().sum().item() == pytest.approx(0, abs=1e-12)
