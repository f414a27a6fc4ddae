"""Checkpoints of transformers → ours → back: the same logits on the way, the same tensors at the end, refusals by name.

tests/twins compares logits and gradients in float64; here whole folders go through `convert`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    Mamba2Config,
    Mamba2ForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    OlmoHybridConfig,
    OlmoHybridForCausalLM,
)
from typer.testing import CliRunner

from eigentrack.cli import app
from eigentrack.lm.conversion import convert
from eigentrack.models import ModelConfig, SequenceModel, load_model, save_model
from eigentrack.spectrum import EigenRange
from tests.lm.small_language_models import write_language_model

SIZES = {"vocab_size": 19, "hidden_size": 12, "num_hidden_layers": 2}
TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
NARROW, WIDE = EigenRange(0, 1), EigenRange(-1, 1)


def olmo(**changes) -> OlmoHybridForCausalLM:
    sizes = {"intermediate_size": 20, "num_attention_heads": 6, "linear_num_key_heads": 3, "linear_num_value_heads": 3}
    kinds = {"layer_types": ["full_attention", "linear_attention", "linear_attention"], "num_hidden_layers": 3}
    heads = {"linear_key_head_dim": 16, "linear_value_head_dim": 4}
    as_released = {"rope_parameters": {"rope_type": "default", "rope_theta": None}}
    return OlmoHybridForCausalLM(OlmoHybridConfig(**SIZES | TOKENS | sizes | kinds | heads | as_released | changes))


PEERS = {
    "mamba": lambda: MambaForCausalLM(MambaConfig(**SIZES, **TOKENS, state_size=5)),
    "mamba, untied": lambda: MambaForCausalLM(
        MambaConfig(**SIZES, **TOKENS, time_step_rank=3, expand=3, use_conv_bias=False, tie_word_embeddings=False)
    ),
    "mamba2": lambda: Mamba2ForCausalLM(
        Mamba2Config(**SIZES, **TOKENS, num_heads=6, head_dim=4, state_size=5, n_groups=2, chunk_size=16)
    ),
    "olmo_hybrid": olmo,
    "olmo_hybrid, rotary, shared heads, [0, 1]": lambda: olmo(
        rope_parameters={"rope_type": "default", "rope_theta": 100.0}, num_key_value_heads=2, linear_allow_neg_eigval=False
    ),
}


def randomised(name: str) -> torch.nn.Module:
    """Weights of gain one, so that no parameter is without influence."""
    peer = PEERS[name]()
    with torch.no_grad():
        for weight in peer.parameters():
            weight.copy_(torch.randn_like(weight) * weight[0].numel() ** -0.5)
        for layer in peer.model.layers if "olmo" in name else ():
            if layer.__class__.__name__.startswith("OlmoHybridLinear"):
                layer.linear_attn.conv1d.weight[:96] *= 3000  # q and k: they put 1e-6 under the root of |k|, we do not
    return peer.eval()


@pytest.mark.parametrize("name", PEERS)
def test_there_and_back(name, tmp_path):
    peer, tokens = randomised(name), torch.randint(19, (2, 40))
    peer.save_pretrained(tmp_path / "theirs")
    (tmp_path / "theirs" / "tokenizer.json").write_text("{}")
    expected = peer(tokens, use_cache=False).logits
    kind = name.split(",")[0]

    done = convert(tmp_path / "theirs", tmp_path / "ours")
    (check,) = done.comparisons
    assert (done.source, done.target) == (kind, "eigentrack")
    assert done.eigenvalues == (WIDE if name == "olmo_hybrid" else NARROW)
    assert check.largest > 0.1
    assert check.worst < 1e-4 * check.largest
    ours = AutoModelForCausalLM.from_pretrained(tmp_path / "ours")
    assert (ours(tokens).logits - expected).abs().max() < 1e-4 * expected.abs().max()
    assert ours.config.eos_token_id == 2
    assert (tmp_path / "ours" / "tokenizer.json").exists()

    back = convert(tmp_path / "ours", tmp_path / "back", to=kind)
    assert back.comparisons[0].worst < 1e-4 * check.largest
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "back")
    assert (again(tokens, use_cache=False).logits - expected).abs().max() < 1e-5 * expected.abs().max()
    if "shared" not in name:  # those come back one for each
        for key, tensor in peer.state_dict().items():
            assert torch.equal(again.state_dict()[key], tensor), key


NEEDS_A_GPU = """
from types import SimpleNamespace as Module

def kernel(*given, **named):
    raise RuntimeError("expected a tensor on a GPU")

causal_conv1d_fn = causal_conv1d_update = kernel
ops = Module(
    selective_scan_interface=Module(selective_scan_fn=kernel, mamba_inner_fn=kernel),
    triton=Module(
        selective_state_update=Module(selective_state_update=kernel),
        ssd_combined=Module(mamba_chunk_scan_combined=kernel, mamba_split_conv1d_scan_combined=kernel),
    ),
)
"""


def test_installed_kernels_that_need_a_gpu_are_left_alone(tmp_path):
    """transformers looks for them when it is imported, hence a process of its own; warnings as errors would hide
    flash-linear-attention from it."""
    packages = tmp_path / "packages"
    for package in ("mamba_ssm", "causal_conv1d"):
        (packages / package).mkdir(parents=True)
        (packages / package / "__init__.py").write_text(NEEDS_A_GPU)
    script = "from eigentrack.lm.conversion import convert"
    for name in ("mamba", "mamba2", "olmo_hybrid"):
        randomised(name).save_pretrained(tmp_path / name)
        folders = str(tmp_path / name), str(tmp_path / f"our {name}")
        script += f"\nprint(*(check.skipped or check.worst / check.largest < 1e-4 for check in convert{folders}.comparisons))"
    paths = os.pathsep.join([str(packages), *sys.path])
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True
    )
    assert run.stdout.split("\n") == ["True", "True", "True", ""], run.stdout + run.stderr[-2000:]


def test_a_peer_that_cannot_run_is_no_refusal(tmp_path, monkeypatch):
    randomised("mamba").save_pretrained(tmp_path / "theirs")
    monkeypatch.setattr(MambaForCausalLM, "forward", lambda *_, **__: 1 / 0)
    (check,) = convert(tmp_path / "theirs", tmp_path / "ours").comparisons
    assert check.skipped == "transformers cannot run it here (division by zero)"


def test_keys_near_zero_are_named(tmp_path):
    peer = randomised("olmo_hybrid")
    with torch.no_grad():
        peer.model.layers[1].linear_attn.conv1d.weight[:96] /= 1e6
    peer.save_pretrained(tmp_path / "theirs")
    with pytest.raises(ValueError, match=r"nothing is written \(they add 1e-6 to \|k\|², which counts where keys are short"):
        convert(tmp_path / "theirs", tmp_path / "ours")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"use_bias": True}, "mamba: use_bias=True has no counterpart there, only False has"),
        ({"hidden_act": "relu"}, "mamba: hidden_act='relu' has no counterpart there, only 'silu' has"),
    ],
    ids=str,
)
def test_foreign_features_are_refused(tmp_path, change, message):
    MambaForCausalLM(MambaConfig(**SIZES, **TOKENS, **change)).save_pretrained(tmp_path / "theirs")
    with pytest.raises(ValueError, match=message):
        convert(tmp_path / "theirs", tmp_path / "ours")
    assert not (tmp_path / "ours").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_hidden_layers": "x"}, "transformers cannot read .*theirs: .*'num_hidden_layers' expected int, got str"),
        ({"expand": None}, "transformers cannot read .*theirs: .*'expand' expected int, got NoneType"),
        ({"model_type": ["mamba"]}, r"holds a \['mamba'\] model, which has no counterpart"),
    ],
    ids=str,
)
def test_wrong_values_are_named_in_a_line(tmp_path, change, message):
    MambaForCausalLM(MambaConfig(**SIZES, **TOKENS)).save_pretrained(tmp_path / "theirs")
    config = tmp_path / "theirs" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | change))
    with pytest.raises(ValueError, match=message) as caught:
        convert(tmp_path / "theirs", tmp_path / "ours")
    assert "\n" not in str(caught.value)


def test_other_kinds_are_refused(tmp_path):
    GPT2LMHeadModel(GPT2Config(vocab_size=19, n_embd=12, n_layer=1, n_head=2)).save_pretrained(tmp_path / "gpt2")
    with pytest.raises(ValueError, match=r"holds a 'gpt2' model, which has no counterpart; these have: mamba, mamba2, olmo"):
        convert(tmp_path / "gpt2", tmp_path / "ours")


@pytest.mark.parametrize(
    ("config", "to", "message"),
    [
        ({"mixer": "mamba", "mlp_width": 0}, "mamba", r"eigenvalues=\[-1, 1\] has no counterpart there, only \[0, 1\] has"),
        ({"mixer": "mamba", "eigenvalues": NARROW}, "mamba", "mlp_width=32 has no counterpart there, only 0 has"),
        ({"mixer": "gla"}, "mamba", "mixer='gla' has no counterpart there, only 'mamba' has"),
        ({"mixer_options": {"gate": NARROW}}, "delta_net", "gate=.* has no counterpart there, only None has"),
        (
            {"mixer_options": {"gate": NARROW, "gate_per_channel": True}},
            "gated_deltanet",
            "gate_per_channel=True has no counterpart there, only False has",
        ),
        ({"mixer_options": {"conv": 0}, "mlp_width": 0}, "delta_net", "mlp_width=0 has no counterpart there"),
        ({"eigenvalues": EigenRange(-0.5, 1)}, "delta_net", r"eigenvalues \[-0.5, 1\] have no counterpart there"),
        ({"eigenvalues": WIDE, "mixer_options": {"widened_from": NARROW}}, "delta_net", "widened_from=.* has no counterpart"),
        ({}, "olmo_hybrid", "has both deltanet and attention layers"),
    ],
    ids=str,
)
def test_what_a_peer_does_not_have_is_refused(tmp_path, config, to, message):
    save_model(SequenceModel(ModelConfig(vocab_size=7, d_model=16, **config)), tmp_path / "ours")
    with pytest.raises(ValueError, match=message):
        convert(tmp_path / "ours", tmp_path / "theirs", to=to)
    assert not (tmp_path / "theirs").exists()


def test_logits_that_disagree_are_not_written(tmp_path, monkeypatch):
    randomised("mamba").save_pretrained(tmp_path / "theirs")
    monkeypatch.setattr("eigentrack.lm.conversion.conversion.peer_logits", lambda checkpoint, tokens: torch.ones(2, 64, 19))
    with pytest.raises(ValueError, match=r"the logits of ours and mamba differ by .* nothing is written"):
        convert(tmp_path / "theirs", tmp_path / "ours")
    assert not (tmp_path / "ours").exists()


def test_the_command(tmp_path):
    randomised("mamba").save_pretrained(tmp_path / "theirs")
    arguments = ["lm", "convert", str(tmp_path / "theirs"), "-o", str(tmp_path / "ours"), "--eigenvalues=-1,1"]
    done = CliRunner().invoke(app, [*arguments, "--json"])
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert report["eigenvalues"] == [-1, 1]
    assert [check["of"] for check in report["comparisons"]] == ["ours and mamba", "[-1, 1] and before"]
    assert all(check["worst"] < 1e-5 for check in report["comparisons"])
    assert load_model(tmp_path / "ours").config.eigenvalues == WIDE
    text = CliRunner().invoke(app, [*arguments[:4], str(tmp_path / "again"), *arguments[5:]]).stdout
    assert "worst logit difference, [-1, 1] and before:" in text
    for wrong, message in ((["--to", "gpt2"], "--to gpt2 is not known"), (["--eigenvalues", "0"], "is not two numbers")):
        failed = CliRunner().invoke(app, [*arguments[:4], str(tmp_path / "no"), *wrong])
        assert isinstance(failed.exception, ValueError)
        assert message in str(failed.exception)


def test_a_runs_folder_is_taken_and_its_end_token_is_kept(tmp_path):
    write_language_model(tmp_path / "run" / "model")
    (tmp_path / "run" / "run.json").write_text("{}")
    convert(tmp_path / "run", tmp_path / "shaped")
    assert json.loads((tmp_path / "shaped" / "config.json").read_text())["eos_token_id"] == 0
    values = json.loads((tmp_path / "shaped" / "config.json").read_text())
    (tmp_path / "shaped" / "config.json").write_text(json.dumps({**values, "eos_token_id": 7}))
    convert(tmp_path / "shaped", tmp_path / "again")  # what the source says goes first
    assert json.loads((tmp_path / "again" / "config.json").read_text())["eos_token_id"] == 7
    for taken in ("run", "run/model"):
        with pytest.raises(ValueError, match=r"--output .* belongs to the run in .*run: name another folder"):
            convert(tmp_path / "again", tmp_path / taken)
    with pytest.raises(ValueError, match="is the source"):
        convert(tmp_path / "run", tmp_path / "run")
    with pytest.raises(ValueError, match=r"--output .*run\.json is a file: name a folder"):
        convert(tmp_path / "run", tmp_path / "run" / "run.json")
