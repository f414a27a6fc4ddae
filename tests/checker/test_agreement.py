"""The independent checker agrees with the compiler wherever it is in scope, and says by name where it is not."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from eigentrack.automata import DFA, language, regex_dfa, word_problem_dfa
from eigentrack.checker import OutOfScope, Verdict, check_folder
from eigentrack.compiler import ARCHITECTURES, Choice, choose_plan, compile_network, save_compiled
from tests.compiler.automata_cases import random_dfa, random_regex

LINEAR = ("deltanet", "deltaproduct", "gated", "diagonal", "dense")
REGEXES = (
    "(aa)*",
    "(ab|ba)*",
    "(abab)*",
    "(a|b)*ab",
    "a*b*",
    "(aaa|b)*",
    "(a(bb)*a|b)*",
    "a(a|b)*b",
    "(a|b)(a|b)a*",
    "(ab*a)*",
)
NAMED = ("parity", "flip-flop", "resettable-mod3", "abab")
GROUPS = ("Z2", "Z3", "Z6", "S3", "S4")


def checked(choice: Choice, folder: Path, dtype: torch.dtype = torch.float32) -> Verdict:
    save_compiled(compile_network(choice, dtype), folder)
    return check_folder(folder)


def automata() -> list[DFA]:
    rng = random.Random(0)
    regexes = [*REGEXES, *(random_regex(rng) for _ in range(15))]
    dfas = [*(regex_dfa(regex, "ab") for regex in regexes), *map(language, NAMED), *map(word_problem_dfa, GROUPS)]
    return [*dfas, *(random_dfa(seed, states=5, letters=2) for seed in range(5))]


@pytest.mark.parametrize("architecture", LINEAR)
def test_it_agrees_on_every_linear_construction(architecture: str, tmp_path: Path) -> None:
    agreed = set()
    for dfa in automata():
        for construction in ARCHITECTURES[architecture][1]:
            try:
                choice = choose_plan(dfa, architecture, construction)
            except ValueError:
                continue  # this construction does not fit the language
            if not choice.plans[0].exact:
                continue
            found = checked(choice, tmp_path)
            assert found.agrees, (dfa, construction, found.difference)
            assert found.transitions == found.joint_states * len(dfa.letters)
            agreed.add((construction, dfa))
    assert {construction for construction, _ in agreed} == set(ARCHITECTURES[architecture][1])
    assert len(agreed) >= 12


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("architecture", [*LINEAR, None])
def test_it_agrees_in_every_float_type(architecture: str | None, dtype: torch.dtype, tmp_path: Path) -> None:
    found = checked(choose_plan(regex_dfa("(a|b)*ab"), architecture), tmp_path, dtype)
    assert found.agrees
    assert found.weights_type == str(dtype).removeprefix("torch.")
    assert found.state_type == ("float64" if dtype == torch.float64 else "float32")


def test_it_agrees_where_a_letter_takes_several_tokens(tmp_path: Path) -> None:
    choice = choose_plan(word_problem_dfa("S3"), spread_factors=True)
    assert choice.plans[0].tokens_per_letter > 1
    assert checked(choice, tmp_path).agrees


@pytest.mark.parametrize(
    ("architecture", "dfa", "named"),
    [
        ("rotation", word_problem_dfa("Z5"), "its rotations are proved up to [0-9]+ letters only"),
        ("slstm", regex_dfa("(ab)*"), "layer 1 is 'slstm'"),
    ],
)
def test_other_networks_are_refused_by_name(architecture: str, dfa: DFA, named: str, tmp_path: Path) -> None:
    with pytest.raises(OutOfScope, match=f"cannot say: {named}.*linear layers all of whose values are floats exactly"):
        checked(choose_plan(dfa, architecture), tmp_path)


def test_it_needs_neither_torch_nor_any_other_package(tmp_path: Path) -> None:
    save_compiled(compile_network(choose_plan(regex_dfa("(ab|ba)*"))), tmp_path / "net")
    program = """
import sys
for name in ("torch", "numpy", "safetensors", "jaxtyping", "sympy", "networkx", "automata"):
    sys.modules[name] = None  # from now on, its import fails
from pathlib import Path
from eigentrack.checker import check_folder
found = check_folder(Path(sys.argv[1]))
ours = {name.split(".")[1] for name in sys.modules if name.startswith("eigentrack.")}
print(found.agrees, found.joint_states, ours)
"""
    command = [sys.executable, "-W", "error", "-c", program, str(tmp_path / "net")]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert result.stderr == ""
    assert result.stdout == "True 4 {'checker'}\n"


@pytest.mark.parametrize("name", ["plan.json", "joint_states.json", "model", "model/config.json"])
def test_a_link_that_leads_outside_is_refused(name: str, tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "net", tmp_path / "elsewhere"
    assert checked(choose_plan(regex_dfa("(ab|ba)*")), folder).agrees
    shutil.move(folder / name, elsewhere)
    (folder / name).symlink_to(elsewhere)
    with pytest.raises(ValueError, match="leads outside of"):
        check_folder(folder)
