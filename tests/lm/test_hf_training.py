"""transformers' Trainer and PEFT's LoRA train the model, and what they save is a model of ours."""

from __future__ import annotations

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import Trainer, TrainingArguments

from eigentrack.lm.hugging_face import EigentrackForCausalLM
from eigentrack.models import ModelConfig, SequenceModel, load_model
from eigentrack.spectrum import EigenRange

VOCABULARY = 8
# counting up from a random start: the next token is certain
TEXTS = [(torch.arange(12) + start) % VOCABULARY for start in range(VOCABULARY)]
TOKENS = torch.stack(TEXTS)
LORA_TARGETS = {"deltanet": ["q_proj", "v_proj", "out_proj"], "mamba2": ["in_proj", "out_proj"], "attention": ["qkv_proj"]}


def small_model(mixer: str = "deltanet", **options) -> EigentrackForCausalLM:
    config = ModelConfig(vocab_size=VOCABULARY, d_model=16, layers=1, mixer=mixer, eigenvalues=EigenRange(-1, 1), **options)
    return EigentrackForCausalLM.around(SequenceModel(config), pad_token_id=0)


def loss(model) -> float:
    with torch.no_grad():
        return model(TOKENS, labels=TOKENS).loss.item()


@pytest.mark.parametrize("checkpointing", [False, True])
def test_the_trainer_lowers_the_loss_and_resumes(tmp_path, checkpointing):
    data = [{"input_ids": text, "labels": text, "attention_mask": torch.ones_like(text)} for text in TEXTS]
    settings = {
        **{
            "output_dir": str(tmp_path),
            "per_device_train_batch_size": 4,
            "learning_rate": 1e-2,
            "lr_scheduler_type": "constant",
        },
        **{"use_cpu": True, "report_to": [], "save_steps": 12, "disable_tqdm": True, "logging_steps": 6},
        **{"gradient_checkpointing": checkpointing, "eval_strategy": "steps", "eval_steps": 12, "dataloader_pin_memory": False},
    }
    model = small_model(tie_embeddings=True)
    before = loss(model)
    trainer = Trainer(model, TrainingArguments(max_steps=12, **settings), train_dataset=data, eval_dataset=data)
    trainer.train()
    after = loss(model)
    assert after < 0.8 * before
    assert trainer.state.log_history[-2]["eval_loss"] == pytest.approx(after, rel=1e-4)
    assert model.model.activation_checkpointing == checkpointing
    saved, _ = load_model(tmp_path / "checkpoint-12")(TOKENS)
    assert torch.equal(saved, model.eval()(TOKENS).logits)

    again = Trainer(small_model(tie_embeddings=True), TrainingArguments(max_steps=18, **settings), None, data, data)
    again.train(resume_from_checkpoint=True)
    assert again.state.global_step == 18
    assert loss(again.model) < after


@pytest.mark.parametrize("mixer", LORA_TARGETS)
def test_lora_trains_only_its_own_weights_and_merges(tmp_path, mixer):
    base = small_model(mixer)
    untouched = {name: weight.clone() for name, weight in base.state_dict().items()}
    before = loss(base)
    options = LoraConfig(r=4, lora_alpha=16, target_modules=LORA_TARGETS[mixer], task_type="CAUSAL_LM")
    model = get_peft_model(base, options)
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    assert len(trained) == 2 * len(LORA_TARGETS[mixer])
    optimizer = torch.optim.AdamW(trained, lr=3e-2)
    for _ in range(12):
        optimizer.zero_grad()
        model(input_ids=TOKENS, labels=TOKENS).loss.backward()
        assert all(weight.grad is not None for weight in trained)
        optimizer.step()
    model.eval()
    assert loss(model) < 0.95 * before
    for name, weight in untouched.items():
        parts = name.rsplit(".", 1)
        home = model.base_model.model.get_submodule(parts[0])
        assert torch.equal(getattr(getattr(home, "base_layer", home), parts[1]), weight), name
    drawn = model.generate(input_ids=TOKENS[:2, :3], max_new_tokens=4, do_sample=False)
    model.save_pretrained(tmp_path / "adapter")
    fresh = small_model(mixer)
    fresh.load_state_dict(untouched)
    loaded = PeftModel.from_pretrained(fresh, tmp_path / "adapter").eval()
    assert torch.equal(loaded.generate(input_ids=TOKENS[:2, :3], max_new_tokens=4, do_sample=False), drawn)
    logits = model(input_ids=TOKENS).logits
    merged = loaded.merge_and_unload()
    assert (merged(TOKENS).logits - logits).abs().max() < 1e-4
