"""A saved model comes back bit by bit; a damaged one is refused in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from eigentrack.layers import scheduled
from eigentrack.models import ModelConfig, SequenceModel, load_model, save_model
from eigentrack.models.storage import CONFIG_FILE, INDEX_FILE, WEIGHTS_FILE
from eigentrack.spectrum import EigenPolygon


@pytest.fixture
def saved(tmp_path: Path) -> tuple[SequenceModel, Path]:
    model = SequenceModel(ModelConfig(vocab_size=7, d_model=8, mixer=("mamba", "deltanet")))
    save_model(model, tmp_path / "model")
    return model, tmp_path / "model"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("tied", [False, True])
def test_it_comes_back_bit_by_bit(tmp_path: Path, dtype: torch.dtype, tied: bool) -> None:
    model = SequenceModel(ModelConfig(vocab_size=7, d_model=8, tie_embeddings=tied)).to(dtype)
    save_model(model, tmp_path)
    again = load_model(tmp_path)
    assert again.config == model.config
    assert again.state_dict().keys() == model.state_dict().keys()
    for name, tensor in model.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor), name
        assert again.state_dict()[name].dtype == dtype
    assert (again.head.weight is again.embedding.weight) == tied


def test_every_tensor_keeps_its_own_precision(tmp_path: Path) -> None:
    model = SequenceModel(ModelConfig(vocab_size=7, d_model=8, mixer="mamba")).bfloat16()
    model.norm.float()
    save_model(model, tmp_path)
    again = load_model(tmp_path)
    assert {name: tensor.dtype for name, tensor in again.state_dict().items()} == {
        name: tensor.dtype for name, tensor in model.state_dict().items()
    }
    assert again.norm.weight.requires_grad


def test_files_can_be_read_by_those_whom_the_umask_allows(tmp_path: Path) -> None:
    save_model(SequenceModel(ModelConfig(vocab_size=7, d_model=8)), tmp_path / "model")
    (tmp_path / "plain").write_text("")
    expected = (tmp_path / "plain").stat().st_mode
    assert all(path.stat().st_mode == expected for path in (tmp_path / "model").iterdir())


def test_saving_again_replaces_the_files_and_leaves_nothing_else(saved: tuple[SequenceModel, Path]) -> None:
    model, folder = saved
    with torch.no_grad():
        model.embedding.weight.add_(1)
    save_model(model, folder)
    assert torch.equal(load_model(folder).embedding.weight, model.embedding.weight)
    assert {path.name for path in folder.iterdir()} == {CONFIG_FILE, WEIGHTS_FILE}


def test_truncated_weights(saved: tuple[SequenceModel, Path]) -> None:
    _, folder = saved
    whole = (folder / WEIGHTS_FILE).read_bytes()
    (folder / WEIGHTS_FILE).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"model.safetensors is damaged or cut short"):
        load_model(folder)


def test_broken_configuration(saved: tuple[SequenceModel, Path]) -> None:
    _, folder = saved
    (folder / CONFIG_FILE).write_text('{"vocab_size": 7,')
    with pytest.raises(ValueError, match=r"config.json: not valid JSON"):
        load_model(folder)


@pytest.mark.parametrize("missing", [CONFIG_FILE, WEIGHTS_FILE])
def test_missing_files(saved: tuple[SequenceModel, Path], missing: str) -> None:
    _, folder = saved
    (folder / missing).unlink()
    with pytest.raises(FileNotFoundError, match=f"{missing} is missing: .* is not a saved model"):
        load_model(folder)


def test_a_vocabulary_that_does_not_fit(saved: tuple[SequenceModel, Path]) -> None:
    _, folder = saved
    values = json.loads((folder / CONFIG_FILE).read_text())
    (folder / CONFIG_FILE).write_text(json.dumps({**values, "vocab_size": 9}))
    with pytest.raises(ValueError, match=r"'embedding.weight' has shape \[7, 8\], the configuration needs \[9, 8\]"):
        load_model(folder)


def test_weights_of_another_configuration(saved: tuple[SequenceModel, Path]) -> None:
    _, folder = saved
    values = json.loads((folder / CONFIG_FILE).read_text())
    (folder / CONFIG_FILE).write_text(json.dumps({**values, "mixer": "gla"}))
    with pytest.raises(ValueError, match=r"lacks 'blocks.0.mixer.gate_proj.0.weight' .* does not belong to this configuration"):
        load_model(folder)
    (folder / CONFIG_FILE).write_text(json.dumps({**values, "mlp_width": 0}))
    with pytest.raises(ValueError, match=r"holds 'blocks.0.mlp.down_proj.weight' .* no place for"):
        load_model(folder)


def test_integer_weights_are_refused(saved: tuple[SequenceModel, Path]) -> None:
    _, folder = saved
    weights = load_file(folder / WEIGHTS_FILE)
    weights["norm.weight"] = weights["norm.weight"].long()
    save_file(weights, folder / WEIGHTS_FILE)
    with pytest.raises(ValueError, match=r"'norm.weight' has dtype torch.int64, expected floats"):
        load_model(folder)


def test_weights_that_are_no_numbers_are_refused(saved: tuple[SequenceModel, Path]) -> None:
    _, folder = saved
    weights = load_file(folder / WEIGHTS_FILE)
    weights["embedding.weight"][1, 0] = float("nan")
    save_file(weights, folder / WEIGHTS_FILE)
    with pytest.raises(ValueError, match=r"'embedding\.weight' has entries that are no numbers .NaN.: its training diverged"):
        load_model(folder)


def test_a_layer_keeps_the_step_it_was_at(tmp_path: Path) -> None:
    options = {"key_dim": 2, "eigenvalues": EigenPolygon(5, sharp_after=1)}
    model = SequenceModel(ModelConfig(vocab_size=7, d_model=8, layers=1, mixer="gla", mixer_options=options))
    tokens = torch.randint(7, (2, 9))
    soft = model(tokens)[0]
    (corners,) = scheduled(model)
    corners.at_step(1)
    save_model(model, tmp_path)
    assert torch.equal(load_model(tmp_path)(tokens)[0], model(tokens)[0])
    assert not torch.equal(model(tokens)[0], soft)
    weights = load_file(tmp_path / WEIGHTS_FILE)
    weights["blocks.0.mixer.corner_proj.steps"] = torch.tensor(2.0)
    save_file(weights, tmp_path / WEIGHTS_FILE)
    with pytest.raises(ValueError, match=r"'blocks.0.mixer.corner_proj.steps' has dtype torch.float32, expected whole numbers"):
        load_model(tmp_path)


def shard(folder: Path) -> list[Path]:
    """The weights of a folder in two files and an index, as transformers writes them."""
    weights = load_file(folder / WEIGHTS_FILE)
    (folder / WEIGHTS_FILE).unlink()
    places = {name: f"model-0000{1 + number % 2}-of-00002.safetensors" for number, name in enumerate(sorted(weights))}
    for file in set(places.values()):
        save_file({name: weights[name] for name in weights if places[name] == file}, folder / file)
    (folder / INDEX_FILE).write_text(json.dumps({"metadata": {}, "weight_map": places}))
    return [folder / file for file in sorted(set(places.values()))]


def test_shards_are_read_like_one_file(saved: tuple[SequenceModel, Path]) -> None:
    model, folder = saved
    first, _ = shard(folder)
    again = load_model(folder).state_dict()
    assert all(torch.equal(again[name], tensor) for name, tensor in model.state_dict().items())
    assert again.keys() == model.state_dict().keys()
    save_model(SequenceModel(model.config), folder)  # beside the old shards: the one file counts
    assert not torch.equal(load_model(folder).embedding.weight, model.embedding.weight)
    (folder / WEIGHTS_FILE).unlink()
    first.unlink()
    with pytest.raises(FileNotFoundError, match=f"{first.name} is missing: .* is not a saved model"):
        load_model(folder)


@pytest.mark.parametrize("text", ["{}", "[]", '{"weight_map": {}}', '{"weight_map": ["a"]}', '{"weight_map": {"a": 1}}'])
def test_an_index_without_its_map_is_named(saved: tuple[SequenceModel, Path], text: str) -> None:
    _, folder = saved
    shard(folder)
    (folder / INDEX_FILE).write_text(text)
    with pytest.raises(ValueError, match=r"model.safetensors.index.json lacks 'weight_map'"):
        load_model(folder)
    (folder / INDEX_FILE).write_text(text[:-1])
    with pytest.raises(ValueError, match=r"model.safetensors.index.json: not valid JSON"):
        load_model(folder)
