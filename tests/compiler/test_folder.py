"""`verify` believes nothing that a folder says: plan, types, repeated keys, links, float types, and which language it is."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from eigentrack.automata import language, regex_dfa, word_problem_dfa
from eigentrack.compiler import choose_plan, compile_network, load_compiled, save_compiled, verify
from eigentrack.files import write_json
from tests.compiler.forger import repair_hashes


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_compiled(compile_network(choose_plan(regex_dfa("(ab|ba)*"))), tmp_path / "net")
    return tmp_path / "net"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"layers": 7}, "layers is 1, plan.json says 7"),
        ({"layers": True}, "layers is 1, plan.json says True"),
        ({"parameters": 1}, "parameters is 236, plan.json says 1"),
        ({"mixers": ["mamba"]}, "mixers is ['deltanet'], plan.json says ['mamba']"),
        ({"tokens": {"letters": ["b", "a"], "begin": 2, "filler": 3}}, "plan.json says {'letters': ['b', 'a']"),
        ({"why": None}, "plan.json has no text for why"),
        ({"proved_by": "nobody"}, "plan.json has 'proved_by'"),
        ({"construction": "dense", "architecture": "dense"}, "says dense (dense), which gives another network"),
        ({"construction": "magic"}, "says magic (deltaproduct), which gives another network"),
        ({"architecture": "diagonal"}, "says permutation (diagonal), which gives another network"),
    ],
)
def test_a_plan_that_is_not_the_networks_is_found(folder: Path, changes: dict[str, object], said: str) -> None:
    path = folder / "plan.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    repair_hashes(folder)
    found = verify(folder)
    assert not found.holds
    assert any(said in difference for difference in found.differences), found.differences


@pytest.mark.parametrize("architecture", ["deltaproduct", "gated", "diagonal", "dense", "slstm"])
def test_the_plan_of_every_architecture_is_confirmed(architecture: str, tmp_path: Path) -> None:
    name = "tomita4" if architecture != "deltaproduct" else "parity"
    save_compiled(compile_network(choose_plan(language(name), architecture)), tmp_path / "net")
    assert verify(tmp_path / "net").differences == ()


def test_the_plan_of_a_spread_network_is_confirmed(tmp_path: Path) -> None:
    save_compiled(compile_network(choose_plan(word_problem_dfa("S3", "all"), spread_factors=True)), tmp_path / "net")
    found = verify(tmp_path / "net")
    assert found.certificate.tokens_per_letter == 2
    assert found.differences == ()


def test_true_is_not_one(folder: Path) -> None:
    path = folder / "certificate.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "holds": 1}))
    assert verify(folder).differences == ("holds is True, the certificate says 1",)


@pytest.mark.parametrize("name", ["plan.json", "automaton.json", "certificate.json", "model/config.json"])
def test_a_key_that_is_given_twice_is_refused(folder: Path, name: str) -> None:
    path = folder / name
    text = path.read_text().rstrip()
    key = next(iter(json.loads(text)))
    path.write_text(text[:-1] + f', "{key}": 1}}')
    with pytest.raises(ValueError, match=f"{key}' is given twice"):
        verify(folder)


@pytest.mark.parametrize("name", ["plan.json", "model", "model/model.safetensors"])
def test_a_link_that_leads_outside_is_refused(folder: Path, tmp_path: Path, name: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    shutil.move(folder / name, elsewhere)
    (folder / name).symlink_to(elsewhere)
    with pytest.raises(ValueError, match="leads outside of"):
        verify(folder)


def test_an_index_that_names_files_elsewhere_is_refused(folder: Path, tmp_path: Path) -> None:
    weights = folder / "model" / "model.safetensors"
    shutil.move(weights, tmp_path / "model.safetensors")
    places = dict.fromkeys(load_file(tmp_path / "model.safetensors"), "../../model.safetensors")
    (folder / "model" / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    with pytest.raises(ValueError, match="is not a file beside it"):
        verify(folder)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2, torch.complex64, torch.int32, torch.bool], ids=str)
def test_weights_of_an_unusual_type_are_refused(folder: Path, dtype: torch.dtype) -> None:
    path = folder / "model" / "model.safetensors"
    save_file({name: weight.to(dtype) for name, weight in load_file(path).items()}, path)
    with pytest.raises(ValueError, match="has dtype torch"):
        verify(folder)


def test_a_network_is_held_against_a_language(folder: Path) -> None:
    assert verify(folder, language=regex_dfa("(ba|ab)*")).holds
    other = verify(folder, language=regex_dfa("(ab)*"))
    assert other.certificate.holds
    assert other.differences == ("the network is for another language: 'ba' is in one of the two only",)
    letters = verify(folder, language=regex_dfa("(ab|ba)*", "abc"))
    assert letters.differences == ("the network reads a, b, the language has a, b, c",)


def test_what_is_accepted_is_part_of_the_language(folder: Path) -> None:
    """The network answers with states; which of them accept is said by the automaton alone."""
    dfa = load_compiled(folder).dfa
    write_json(folder / "automaton.json", replace(dfa, accepting=frozenset({1})).to_json())
    repair_hashes(folder)
    assert verify(folder).holds
    assert not verify(folder, language=regex_dfa("(ab|ba)*")).holds


def test_loaded_models_are_in_evaluation_mode(folder: Path) -> None:
    assert not load_compiled(folder).model.training
