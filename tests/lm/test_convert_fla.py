"""flash-linear-attention's checkpoints → ours → back. Their package needs a GPU: their layers are restated here.

B batch  T time  H heads  n Householder factors per token  K key dim  V value dim
"""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional as F

from eigentrack.lm.conversion import convert
from eigentrack.models import ModelConfig, SequenceModel, load_model, save_model
from eigentrack.spectrum import EigenRange

SIZES = {"vocab_size": 19, "hidden_size": 12, "num_hidden_layers": 2, "intermediate_size": 20, "norm_eps": 1e-3}
CASES = {
    "delta_net": {"num_heads": 3, "expand_k": 4.0, "expand_v": 0.5},
    "delta_net, no convolution, gated output, [-1, 1], tied": {
        **{"num_heads": 2, "expand_k": 4.0, "use_short_conv": False, "use_gate": True},
        **{"allow_neg_eigval": True, "tie_word_embeddings": True},
    },
    "gated_deltanet": {"num_heads": 3, "head_dim": 16, "expand_v": 0.25},
    "gated_deltanet, shared keys, [-1, 1]": {
        **{"num_heads": 2, "num_v_heads": 6, "head_dim": 16, "expand_v": 0.5, "use_gate": False},
        "allow_neg_eigval": True,
    },
    "gated_deltaproduct": {"num_heads": 3, "head_dim": 16, "num_householder": 2, "allow_neg_eigval": True},
    "gated_deltaproduct, gated": {
        **{"num_heads": 2, "head_dim": 16, "expand_v": 0.5, "num_householder": 3},
        **{"use_forget_gate": True, "use_output_gate": False},
    },
}


class Peer:
    """The configuration of a checkpoint with their defaults, its tensors under their names, and what they compute."""

    def __init__(self, name: str) -> None:
        self.kind = name.split(",")[0]
        given = CASES[name]
        self.config = {"model_type": self.kind, **SIZES, **given}
        self.product = self.kind == "gated_deltaproduct"
        self.decay = self.kind == "gated_deltanet" or given.get("use_forget_gate", False)
        self.gated = (
            given.get("use_output_gate", True) if self.product else given.get("use_gate", self.kind == "gated_deltanet")
        )
        self.factors = given.get("num_householder", 1)
        self.key_heads, self.heads = given["num_heads"], given.get("num_v_heads", given["num_heads"])
        if self.kind == "delta_net":
            self.key, self.value = (round(12 * given.get(f"expand_{x}", 1.0)) // self.heads for x in "kv")
        else:
            self.key, self.value = given["head_dim"], int(given["head_dim"] * given.get("expand_v", 2.0))
        self.convolved = given.get("use_short_conv", True)
        self.tensors = self._draw()

    def _draw(self) -> dict[str, Tensor]:
        n, key, value = self.factors, self.key_heads * self.key, self.heads * self.value
        layer = {f"attn.{x}_proj.weight": (rows, 12) for x, rows in zip("qkv", (key, n * key, n * value), strict=True)}
        if self.convolved:
            layer |= {f"attn.{x}_conv1d.weight": (layer[f"attn.{x}_proj.weight"][0], 1, 4) for x in "qkv"}
        layer |= {"attn.b_proj.weight": (n * self.heads, 12), "attn.o_norm.weight": (self.value,)}
        layer |= {"attn.o_proj.weight": (12, value), "attn_norm.weight": (12,), "mlp_norm.weight": (12,)}
        layer |= {"mlp.gate_proj.weight": (20, 12), "mlp.up_proj.weight": (20, 12), "mlp.down_proj.weight": (12, 20)}
        if self.gated:
            layer["attn.g_proj.weight"] = (value, 12)
        if self.decay:
            layer |= {"attn.a_proj.weight": (self.heads, 12), "attn.A_log": (self.heads,), "attn.dt_bias": (self.heads,)}
        shapes = {f"model.layers.{i}.{name}": shape for i in range(2) for name, shape in layer.items()}
        shapes |= {"model.embeddings.weight": (19, 12), "model.norm.weight": (12,), "lm_head.weight": (19, 12)}
        if self.config.get("tie_word_embeddings"):
            del shapes["lm_head.weight"]
        tensors = {name: torch.randn(shape) * max(shape[-1], 4) ** -0.5 for name, shape in shapes.items()}
        for name in tensors:
            if (
                "q_conv" in name
                or "k_conv" in name
                or (not self.convolved and name[-13:] in ("q_proj.weight", "k_proj.weight"))
            ):
                tensors[name] *= 3000  # they put 1e-6 under the root of |k|, we do not
        return tensors

    def logits(self, tokens: Tensor) -> Tensor:
        x = self.tensors["model.embeddings.weight"][tokens]
        for i in range(2):
            own = {name.removeprefix(f"model.layers.{i}."): tensor for name, tensor in self.tensors.items()}
            x = x + self._attend(self._norm(x, own["attn_norm.weight"]), own)
            h = self._norm(x, own["mlp_norm.weight"])
            h = F.silu(h @ own["mlp.gate_proj.weight"].T) * (h @ own["mlp.up_proj.weight"].T)
            x = x + h @ own["mlp.down_proj.weight"].T
        head = self.tensors.get("lm_head.weight", self.tensors["model.embeddings.weight"])
        return self._norm(x, self.tensors["model.norm.weight"]) @ head.T

    def _norm(self, x: Tensor, weight: Tensor) -> Tensor:
        return x / torch.sqrt(x.square().mean(-1, keepdim=True) + SIZES["norm_eps"]) * weight

    def _convolve(self, x: Tensor, own: dict[str, Tensor], which: str) -> Tensor:
        projected = x @ own[f"attn.{which}_proj.weight"].T
        if not self.convolved:
            return F.silu(projected)
        weight = own[f"attn.{which}_conv1d.weight"]
        return F.silu(F.conv1d(F.pad(projected.mT, (3, 0)), weight, groups=len(weight)).mT)

    def _attend(self, x: Tensor, own: dict[str, Tensor]) -> Tensor:
        batch, time, _ = x.shape
        n, shared = self.factors, self.heads // self.key_heads
        q = self._convolve(x, own, "q").view(batch, time, self.key_heads, self.key).repeat_interleave(shared, 2)
        k = self._convolve(x, own, "k").view(batch, time, n, self.key_heads, self.key).repeat_interleave(shared, 3)
        v = self._convolve(x, own, "v").view(batch, time, n, self.heads, self.value)
        q, k = (part / torch.sqrt(part.square().sum(-1, keepdim=True) + 1e-6) for part in (q, k))
        beta = torch.sigmoid(x @ own["attn.b_proj.weight"].T).view(batch, time, n, self.heads)
        beta = beta * (2 if self.config.get("allow_neg_eigval") else 1)
        state, outputs = torch.zeros(batch, self.heads, self.key, self.value), []
        for t in range(time):
            if self.decay:
                step = F.softplus(x[:, t] @ own["attn.a_proj.weight"].T + own["attn.dt_bias"])
                state = state * torch.exp(-own["attn.A_log"].exp() * step)[..., None, None]
            for j in range(n):
                error = v[:, t, j] - torch.einsum("bhkv,bhk->bhv", state, k[:, t, j])
                state = state + torch.einsum("bh,bhk,bhv->bhkv", beta[:, t, j], k[:, t, j], error)
            outputs.append(torch.einsum("bhkv,bhk->bhv", state, q[:, t] * self.key**-0.5))
        y = self._norm(torch.stack(outputs, 1), own["attn.o_norm.weight"])
        if self.gated:
            y = y * F.silu(x @ own["attn.g_proj.weight"].T).view(y.shape)
        return y.flatten(2) @ own["attn.o_proj.weight"].T

    def save(self, folder, shards: int = 1) -> None:
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(self.config))
        if shards == 1:
            save_file(self.tensors, folder / "model.safetensors")
            return
        index = {name: f"model-{number % shards}.safetensors" for number, name in enumerate(self.tensors)}
        for file in set(index.values()):
            save_file({name: self.tensors[name] for name in index if index[name] == file}, folder / file)
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))


@pytest.mark.parametrize("name", CASES)
def test_there_and_back(name, tmp_path):
    peer, tokens = Peer(name), torch.randint(19, (2, 24))
    peer.save(tmp_path / "theirs", shards=2 if name == "delta_net" else 1)
    expected = peer.logits(tokens)
    assert expected.std() > 0.05

    done = convert(tmp_path / "theirs", tmp_path / "ours")
    assert done.comparisons[0].skipped == "flash-linear-attention needs a GPU"
    assert done.eigenvalues == (EigenRange(-1, 1) if peer.config.get("allow_neg_eigval") else EigenRange(0, 1))
    ours = load_model(tmp_path / "ours")
    with torch.no_grad():
        assert (ours(tokens)[0] - expected).abs().max() < 1e-4 * expected.abs().max()

    convert(tmp_path / "ours", tmp_path / "back", to=peer.kind)
    config, tensors = json.loads((tmp_path / "back/config.json").read_text()), load_file(tmp_path / "back/model.safetensors")
    again = Peer(name)
    if "shared" in name:  # they come back one for each
        assert config["num_heads"] == 6
        again.key_heads = 6
    else:
        assert set(tensors) == set(peer.tensors)
        assert all(torch.equal(tensor, peer.tensors[key]) for key, tensor in tensors.items())
        assert {key: config[key] for key in peer.config} == peer.config
    again.tensors = tensors
    assert (again.logits(tokens) - expected).abs().max() < 1e-5 * expected.abs().max()


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("delta_net", {"use_beta": False}, "delta_net: use_beta=False has no counterpart there, only True has"),
        ("delta_net", {"qk_norm": "sum"}, "delta_net: qk_norm='sum' has no counterpart there, only 'l2' has"),
        ("delta_net", {"attn": {"layers": [1]}}, "delta_net: attn=.* has no counterpart there, only None has"),
        ("gated_deltanet", {"output_gate_activation": "sigmoid"}, "output_gate_activation='sigmoid' has no counterpart"),
        ("gated_deltaproduct", {"num_householder": 5}, r"attn.k_conv1d.weight' has shape \[96, 1, 4\], which does not fit"),
        ("gated_deltanet", {"intermediate_size": 24}, r"'blocks.0.mlp.gate_proj.weight' would have shape \[20, 12\]"),
        (
            "gated_deltanet",
            {"use_gate": False},
            r"holds 'model.layers.0.attn.g_proj.weight' \(and 1 more\), which has no place",
        ),
        ("gated_deltaproduct", {"use_forget_gate": True}, "lacks 'model.layers.0.attn.A_log'"),
        ("delta_net", {"num_heads": None}, "delta_net: its config.json lacks 'num_heads'"),
        ("gated_deltanet", {"head_dim": None}, "gated_deltanet: its config.json lacks 'head_dim'"),
        ("delta_net", {"num_heads": 0}, "delta_net: num_heads=0 in its config.json must be a whole number above 0"),
        ("delta_net", {"hidden_size": "12"}, "delta_net: hidden_size='12' in its config.json must be a whole number above 0"),
        ("delta_net", {"expand_k": "one"}, "delta_net: expand_k='one' in its config.json must be a number above 0"),
        ("gated_deltaproduct", {"allow_neg_eigval": "yes"}, "allow_neg_eigval='yes' in its config.json must be true or false"),
    ],
    ids=str,
)
def test_refusals_are_named(name, change, message, tmp_path):
    peer = Peer(name)
    peer.config |= change
    peer.save(tmp_path / "theirs")
    with pytest.raises(ValueError, match=message):
        convert(tmp_path / "theirs", tmp_path / "ours")
    assert not (tmp_path / "ours").exists()


def test_a_missing_entry_is_named_as_one_that_is_null_and_left_out_it_has_its_default(tmp_path):
    peer = Peer("delta_net")
    del peer.config["num_heads"]
    peer.save(tmp_path / "theirs")
    with pytest.raises(ValueError, match=r"delta_net: its config.json lacks 'num_heads'"):
        convert(tmp_path / "theirs", tmp_path / "ours")
    whole = Peer("delta_net")
    whole.config |= {"hidden_ratio": None, "tie_word_embeddings": None}
    whole.save(tmp_path / "nulls")
    assert convert(tmp_path / "nulls", tmp_path / "ours").source == "delta_net"


def test_a_range_without_counterpart_is_written_as_one(tmp_path):
    Peer("gated_deltanet").save(tmp_path / "theirs")
    convert(tmp_path / "theirs", tmp_path / "ours")
    with pytest.raises(ValueError, match=r"delta_net: gate=\[0, 1\] has no counterpart there, only None has"):
        convert(tmp_path / "ours", tmp_path / "back", to="delta_net")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"eigenvalues": EigenRange(-1, 1, overshoot=0.05)}, r"eigenvalues \[-1, 1\] overshoot 0.05 have no counterpart there"),
        ({"initial": {"eigenvalue": 0.5}}, "initial={'eigenvalue': 0.5} has no counterpart there"),
    ],
    ids=str,
)
def test_an_option_without_counterpart_is_not_dropped(tmp_path, entry, message):
    options = {"heads": 2, "key_dim": 16}
    config = ModelConfig(vocab_size=19, d_model=12, mixer="deltanet", mixer_options=options, **entry)
    save_model(SequenceModel(config), tmp_path / "ours")
    with pytest.raises(ValueError, match=f"delta_net: {message}"):
        convert(tmp_path / "ours", tmp_path / "theirs", to="delta_net")


def test_every_layer_is_asked_where_its_norms_are(tmp_path):
    config = ModelConfig(vocab_size=19, d_model=12, mixer_options={"heads": 2}, norm_place=("before", "after"))
    save_model(SequenceModel(config), tmp_path / "ours")
    with pytest.raises(ValueError, match="delta_net: norm_place='after' has no counterpart there, only 'before' has"):
        convert(tmp_path / "ours", tmp_path / "theirs", to="delta_net")


def test_missing_and_damaged_files_are_named(tmp_path):
    Peer("delta_net").save(tmp_path / "theirs")
    weights = tmp_path / "theirs/model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(ValueError, match="is damaged or cut short"):
        convert(tmp_path / "theirs", tmp_path / "ours")
    weights.unlink()
    with pytest.raises(FileNotFoundError, match=r"model.safetensors is missing: .*weights are read from safetensors files"):
        convert(tmp_path / "theirs", tmp_path / "ours")
    (tmp_path / "theirs/model.safetensors.index.json").write_text("{}")
    with pytest.raises(ValueError, match=r"model.safetensors.index.json lacks 'weight_map'"):
        convert(tmp_path / "theirs", tmp_path / "ours")
    with pytest.raises(ValueError, match="no/such/folder is neither a folder nor a model"):
        convert("no/such/folder", tmp_path / "ours")
    with pytest.raises(ValueError, match=r"theirs is the source"):
        convert(tmp_path / "theirs", tmp_path / "theirs")
