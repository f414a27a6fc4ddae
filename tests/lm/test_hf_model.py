"""EigentrackForCausalLM against the SequenceModel in it: logits, padding, cache, generation, loss, storage."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import torch
from safetensors.torch import save_file
from torch.nn import functional as F
from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache

from eigentrack import EigentrackForCausalLM, ModelConfig, SequenceModel, load_model, save_model
from eigentrack.layers import scheduled
from eigentrack.lm.hugging_face import RecurrentCache
from eigentrack.spectrum import EigenDisk, EigenPolygon, EigenRange
from tests.closeness import assert_close

VOCABULARY, PAD = 11, 0
MIXERS = ["deltanet", "mamba", ("mamba2", "attention"), ("convolution", "gla")]


def wrapped(mixer: str | tuple[str, ...] = "deltanet", **options) -> EigentrackForCausalLM:
    model = SequenceModel(ModelConfig(vocab_size=VOCABULARY, d_model=16, layers=2, mixer=mixer, **options)).double()
    return EigentrackForCausalLM.around(model, pad_token_id=PAD).eval()


def prompts() -> tuple[torch.Tensor, torch.Tensor, list[torch.Tensor]]:
    """Three prompts of different lengths: padded on the left, their mask, and each alone."""
    alone = [torch.randint(1, VOCABULARY, (1, length)) for length in (7, 2, 5)]
    padded = torch.cat([F.pad(prompt, (7 - prompt.shape[1], 0), value=PAD) for prompt in alone])
    return padded, (padded != PAD).long(), alone


@pytest.mark.parametrize("mixer", MIXERS, ids=str)
def test_logits_are_those_of_the_model_with_and_without_cache(mixer):
    model, tokens = wrapped(mixer), torch.randint(VOCABULARY, (2, 9))
    whole = model(tokens, use_cache=False)
    assert whole.past_key_values is None
    assert torch.equal(whole.logits, model.model(tokens)[0])
    assert torch.equal(model(tokens, logits_to_keep=2).logits, whole.logits[:, -2:])
    pieces, cache = [], None
    for piece in tokens.split([4, 1, 3, 1], dim=1):
        out = model(piece, past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        pieces.append(out.logits)
    assert cache.get_seq_length() == 9
    assert_close(torch.cat(pieces, 1), whole.logits)


@pytest.mark.parametrize("side", ["left", "right", "both", "within"])
@pytest.mark.parametrize("mixer", MIXERS, ids=str)
def test_padding_touches_no_logit_and_no_state(mixer, side):
    model, tokens = wrapped(mixer), torch.randint(1, VOCABULARY, (2, 9))
    mask = torch.ones_like(tokens)
    mask[0, {"left": [0, 1, 2], "right": [7, 8], "both": [0, 8], "within": [3, 4, 6]}[side]] = 0
    padded = model(tokens, attention_mask=mask, use_cache=True)
    step = model(tokens[:, :1], attention_mask=F.pad(mask, (0, 1), value=1), past_key_values=padded.past_key_values)
    for row, (counts, text) in enumerate(zip(mask.bool(), tokens, strict=True)):
        alone = torch.cat([text[counts], text[:1]])[None]
        expected = model(alone).logits[0]
        assert_close(padded.logits[row, counts], expected[:-1])
        assert_close(step.logits[row, 0], expected[-1])


@pytest.mark.parametrize("mixer", MIXERS, ids=str)
@pytest.mark.parametrize("search", [{"num_beams": 1}, {"num_beams": 3}], ids=["greedy", "beam"])
def test_batched_generation_is_that_of_each_prompt_alone(mixer, search):
    model, (padded, mask, alone) = wrapped(mixer), prompts()
    options = {"max_new_tokens": 6, "do_sample": False, **search}
    batch = model.generate(padded, attention_mask=mask, **options)
    for row, prompt in zip(batch, alone, strict=True):
        by_hand = model.generate(prompt, use_cache=False, **options)  # the whole text again for every token
        assert torch.equal(row[-6:], by_hand[0, -6:])


def test_loaded_in_half_precision_the_angles_of_a_disk_stay_exact(tmp_path):
    model = wrapped("gla", eigenvalues=EigenDisk(), mixer_options={"key_dim": 2}).float()
    model.save_pretrained(tmp_path)
    half = EigentrackForCausalLM.from_pretrained(tmp_path, dtype=torch.bfloat16)
    ours, theirs = (part.model.blocks[0].mixer for part in (model, half))
    assert torch.equal(theirs.turn_proj.weight, ours.turn_proj.weight)
    assert theirs.q_proj.weight.dtype == half(torch.zeros(1, 3).long()).logits.dtype == torch.bfloat16


def test_loaded_in_half_precision_the_logits_of_corners_stay_exact(tmp_path):
    model = wrapped("gla", eigenvalues=EigenPolygon(5, sharp_after=3), mixer_options={"key_dim": 2}).float()
    for module in scheduled(model):
        module.at_step(3)
    model.save_pretrained(tmp_path)
    half = EigentrackForCausalLM.from_pretrained(tmp_path, dtype=torch.bfloat16)
    ours, theirs = (part.model.blocks[0].mixer.corner_proj for part in (model, half))
    assert torch.equal(theirs.logits.weight, ours.logits.weight)
    assert int(theirs.steps) == 3


def test_greedy_generation_is_that_of_the_model():
    model, tokens = wrapped(), torch.randint(1, VOCABULARY, (2, 5))
    assert torch.equal(
        model.generate(tokens, max_new_tokens=8, do_sample=False)[:, 5:], model.model.generate(tokens, 8, temperature=0)
    )


def test_beam_search_finds_the_likeliest_continuation():
    """With as many beams as there are prefixes it is exhaustive: compared with all VOCABULARY² continuations."""
    model, prompt = wrapped(), torch.randint(1, VOCABULARY, (1, 4))
    with torch.no_grad():
        model.model.head.weight *= 3  # far from uniform
        pairs = torch.cartesian_prod(torch.arange(VOCABULARY), torch.arange(VOCABULARY))
        log_p = model(torch.cat([prompt.expand(len(pairs), -1), pairs], 1)).logits.log_softmax(-1)
    score = log_p[:, 3].gather(1, pairs[:, :1]) + log_p[:, 4].gather(1, pairs[:, 1:])
    found = model.generate(prompt, max_new_tokens=2, num_beams=VOCABULARY, do_sample=False)
    assert found[0, 4:].tolist() == pairs[score.argmax()].tolist()


def test_sampling_follows_the_distribution():
    model, prompt = wrapped(), torch.randint(1, VOCABULARY, (1, 4))
    drawn = model.generate(prompt.expand(4000, -1), max_new_tokens=2, do_sample=True, top_k=0)[:, 5]
    with torch.no_grad():
        first = model(prompt).logits[0, -1].softmax(-1)
        second = (
            model(torch.cat([prompt.expand(VOCABULARY, -1), torch.arange(VOCABULARY)[:, None]], 1)).logits[:, -1].softmax(-1)
        )
    frequency = torch.bincount(drawn, minlength=VOCABULARY) / len(drawn)
    assert (frequency - first @ second).abs().max() < 0.03


def test_the_cache_does_not_grow_and_can_be_forked():
    model, tokens = wrapped("mamba"), torch.randint(VOCABULARY, (2, 9))

    def size(cache: RecurrentCache) -> int:
        return sum(part.numel() for layer in cache.state.layers for part in (*layer.memory, layer.window))

    cache = model(tokens, use_cache=True).past_key_values
    short = size(cache)
    cache = model(tokens.repeat(1, 20), past_key_values=cache, use_cache=True).past_key_values
    assert (size(cache), cache.get_seq_length(), cache.batch_size) == (short, 189, 2)
    cache.batch_repeat_interleave(3)
    cache.batch_select_indices(torch.tensor([5, 0]))
    again = model(tokens[:, :1], past_key_values=cache).logits
    history = torch.cat([tokens.repeat(1, 21)[[1, 0]], tokens[:, :1]], 1)
    assert_close(again[:, 0], model(history).logits[:, -1])
    with pytest.raises(ValueError, match="cannot forget its last 2 tokens"):
        cache.crop(2)
    cache.reset()
    assert_close(model(tokens, past_key_values=cache).logits, model(tokens).logits)


def test_loss_is_the_shifted_cross_entropy_without_ignored_labels():
    model, tokens = wrapped().train(), torch.randint(VOCABULARY, (2, 9))
    labels = tokens.clone()
    labels[0, :4] = -100
    logits = model.model(tokens)[0].float()
    total, count = 0.0, 0
    for row in range(2):
        for t in range(8):
            if labels[row, t + 1] != -100:
                total -= logits[row, t].log_softmax(-1)[labels[row, t + 1]]
                count += 1
    out = model(tokens, labels=labels)
    assert out.past_key_values is None
    assert_close(out.loss, total / count, dtype=torch.float32)
    assert_close(model(tokens, labels=labels, return_dict=False)[0], out.loss)


def test_gradient_checkpointing_is_that_of_the_model():
    model, tokens = wrapped().train(), torch.randint(VOCABULARY, (2, 9))
    parameters = list(model.parameters())
    plain = torch.autograd.grad(model(tokens, labels=tokens).loss, parameters)
    model.gradient_checkpointing_enable()
    assert model.is_gradient_checkpointing
    assert model.model.activation_checkpointing
    again = torch.autograd.grad(model(tokens, labels=tokens).loss, parameters)
    assert all(torch.equal(one, other) for one, other in zip(plain, again, strict=True))
    model.gradient_checkpointing_disable()
    assert not model.model.activation_checkpointing


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_saved_folders_are_read_by_all(tmp_path, tied, dtype):
    options = ({"gate": EigenRange(0, 1)}, {"heads": 2})
    model = wrapped(("deltanet", "mamba2"), tie_embeddings=tied, mixer_options=options).to(dtype)
    tokens = torch.randint(VOCABULARY, (2, 9))
    expected = model(tokens).logits
    model.save_pretrained(tmp_path)
    for again in (AutoModelForCausalLM.from_pretrained(tmp_path), EigentrackForCausalLM.from_pretrained(tmp_path)):
        assert type(again) is EigentrackForCausalLM
        assert again.dtype == dtype
        assert (again.model.head.weight is again.model.embedding.weight) == tied
        assert torch.equal(again.eval()(tokens).logits, expected)
    assert torch.equal(load_model(tmp_path)(tokens)[0], expected)
    config = AutoConfig.from_pretrained(tmp_path)
    assert config.model_config == model.model.config
    assert (config.vocab_size, config.hidden_size, config.num_hidden_layers) == (VOCABULARY, 16, 2)


def test_shards_are_read_by_all(tmp_path):
    model = wrapped()
    model.save_pretrained(tmp_path, max_shard_size="4KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 1
    expected = model.model.state_dict()
    for again in (AutoModelForCausalLM.from_pretrained(tmp_path).model.state_dict(), load_model(tmp_path).state_dict()):
        assert again.keys() == expected.keys()
        assert all(torch.equal(again[name], tensor) for name, tensor in expected.items())


def test_a_checkpoint_cut_short_is_refused(tmp_path):
    model = wrapped()
    model.save_pretrained(tmp_path)
    weights = model.state_dict()
    del weights["model.blocks.1.mixer.q_proj.weight"]
    save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(ValueError, match=r"the checkpoint lacks model.blocks.1.mixer.q_proj.weight"):
        AutoModelForCausalLM.from_pretrained(tmp_path)


def test_a_new_model_from_a_configuration_is_not_drawn_again():
    config = wrapped().config
    torch.manual_seed(3)
    ours = SequenceModel(config.model_config)
    torch.manual_seed(3)
    theirs = EigentrackForCausalLM(config)
    for name, weight in ours.state_dict().items():
        assert torch.equal(weight, theirs.model.state_dict()[name]), name


@pytest.mark.slow
def test_a_process_that_never_imported_the_package_loads_and_saves(tmp_path):
    """trust_remote_code finds the installed package, and a folder saved again is as good as the first."""
    model, tokens = wrapped(), torch.arange(1, 8)[None]
    model.save_pretrained(tmp_path / "first")
    program = f"""
import sys, torch
from transformers import AutoModelForCausalLM
assert "eigentrack" not in sys.modules
for source, target in (("first", "second"), ("second", "third")):
    model = AutoModelForCausalLM.from_pretrained("{tmp_path}/" + source, trust_remote_code=True)
    model.save_pretrained("{tmp_path}/" + target)
print(model(torch.arange(1, 8)[None]).logits[0, -1].tolist())
"""
    environment = {**os.environ, "HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == pytest.approx(model(tokens).logits[0, -1].tolist())
    files = [sorted(path.name for path in (tmp_path / folder).iterdir()) for folder in ("first", "third")]
    assert files[0] == files[1] == ["config.json", "eigentrack_model.py", "generation_config.json", "model.safetensors"]


def test_resizing_the_vocabulary_keeps_the_old_logits(tmp_path):
    wrapped().save_pretrained(tmp_path)
    model, tokens = EigentrackForCausalLM.from_pretrained(tmp_path).eval(), torch.randint(VOCABULARY, (2, 9))
    before = model(tokens).logits
    model.resize_token_embeddings(VOCABULARY + 3)
    assert model(torch.tensor([[VOCABULARY + 2]])).logits.shape == (1, 1, VOCABULARY + 3)
    assert_close(model(tokens).logits[..., :VOCABULARY], before)


def test_bad_calls_are_named(tmp_path):
    model, tokens = wrapped(), torch.ones(2, 3, dtype=torch.long)
    with pytest.raises(ValueError, match="row 1 of attention_mask is 0 throughout"):
        model(tokens, attention_mask=torch.tensor([[0, 1, 1], [0, 0, 0]]))
    with pytest.raises(ValueError, match=r"attention_mask has shape \[2, 1, 3, 3\], expected one 0 or 1 a token, \[2, 3\]"):
        model(tokens, attention_mask=torch.ones(2, 1, 3, 3))
    with pytest.raises(ValueError, match="past_key_values is a DynamicCache: leave it out"):
        model(tokens, past_key_values=DynamicCache())
    with pytest.raises(ValueError, match="position_ids is not supported by EigentrackForCausalLM: leave it out"):
        model(tokens, position_ids=tokens)
    save_model(model.model, tmp_path)
    with pytest.raises(ValueError, match="model_type"):
        AutoModelForCausalLM.from_pretrained(tmp_path)
