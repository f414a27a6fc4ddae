"""eigentrack explain, compile, verify and run: what they print, what they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from eigentrack.cli import app
from eigentrack.compiler.certificate import Certificate
from eigentrack.models import load_model, save_model

runner = CliRunner()

CLASSES = {
    "star_free",
    "group",
    "solvable",
    "two_groups_only",
    "commutative",
    "r_trivial",
    "l_trivial",
    "j_trivial",
    "definite",
    "ac0",
    "r_omega",
}


def output(*arguments: str, code: int = 0) -> str:
    result = runner.invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.stdout


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("net")
    output("compile", "(ab|ba)*", "-o", str(folder))
    return folder


def test_explain_tells_class_and_verdicts() -> None:
    found = json.loads(output("explain", "(abab)*", "--json"))
    assert (found["states"], found["monoid_size"]) == (5, 10)
    assert set(found["classes"]) >= CLASSES
    assert not found["classes"]["star_free"]
    assert found["classes"]["two_groups_only"]
    assert {verdict["verdict"] for verdict in found["verdicts"]} <= {"can", "cannot", "unknown"}
    assert all({"architecture", "verdict", "theorem", "precision"} <= set(verdict) for verdict in found["verdicts"])
    assert [level["points"] for level in found["cascade"]] == [2, 3]
    witnesses = [verdict["witness"] for verdict in found["verdicts"] if verdict["verdict"] == "can"]
    assert {
        "name": "permutation",
        "architecture": "deltaproduct",
        "layers": 1,
        "householders": 4,
        "eigenvalues": [-1.0, 1.0],
        "exact": True,
    } in witnesses
    text = output("explain", "(abab)*")
    assert "compile --architecture deltaproduct --construction permutation: 1 layer, 4 factors per token" in " ".join(
        text.split()
    )
    assert "contains the group Z2 though every letter is aperiodic" in text
    assert "cannot" in text


def test_explain_judges_an_architecture_of_ones_own() -> None:
    own = ["--layer", "deltanet", "--eigenvalues", "-1,1", "--layers", "1", "--householders"]
    text = output("explain", "(abab)*", *own, "4")
    assert "can recognise it, at every length" in text
    assert "DeltaProduct [-1, 1], 4 factors, 1 layer" in text
    assert "mLSTM" not in text
    (verdict,) = json.loads(output("explain", "(abab)*", *own, "3", "--json"))["verdicts"]
    assert (verdict["architecture"], verdict["verdict"]) == ("DeltaProduct [-1, 1], 3 factors, 1 layer", "unknown")
    (verdict,) = json.loads(output("explain", "(abab)*", "--layer", "kda", "--json"))["verdicts"]
    assert verdict["architecture"].endswith("factors in [-1, 1], any depth")


@pytest.mark.parametrize(
    ("arguments", "name", "answer"),
    [
        (["--layer", "s4d,mamba", "--eigenvalues", "-1,1", "--eigenvalues", "0,1"], "1] + diagonal", "cannot"),
        (["--layer", "s4d", "--layer", "mamba", "--eigenvalues", "-1,1"], "2 layers", "can"),
        (["--layer", "s4d,mamba", "--eigenvalues", "-1,1", "--eigenvalues", "0,1", "--layers", "any"], "any depth", "cannot"),
        (["--layer", "attention,deltanet", "--householders", "any"], "transformer + DeltaProduct", "can"),
        (["--layer", "attention,ttt"], "transformer + TTT-Linear, 2 layers", "unknown"),
    ],
)
def test_explain_judges_hybrids(arguments: list[str], name: str, answer: str) -> None:
    (verdict,) = json.loads(output("explain", "(b|ab*a)*", *arguments, "--json"))["verdicts"]
    assert name in verdict["architecture"]
    assert verdict["verdict"] == answer


def test_explain_in_brief_is_a_line_for_each_architecture() -> None:
    size, summary, blank, *lines = output("explain", "(aa)*", "--brief").splitlines()
    assert (size, blank) == ("2 states, monoid of 2 elements, letters a", "")
    assert "Z2, abelian" in summary
    verdicts = json.loads(output("explain", "(aa)*", "--json"))["verdicts"]
    assert [line.split(maxsplit=1) for line in lines] == [[v["verdict"], v["architecture"]] for v in verdicts]
    assert output("explain", "(aa)*", "--brief", "--layer", "mamba").splitlines()[3:] == [
        "can      diagonal (Mamba, GLA, Mamba-2) [-1, 1], any depth"
    ]


def test_explain_says_what_r_omega_is() -> None:
    assert "yes in R^ω: star-free, and without a flip-flop" in output("explain", "(ab)*")


def test_compile_reports_sizes_and_proof(tmp_path: Path) -> None:
    found = json.loads(
        output("compile", "--group", "S3", "--letters", "swaps", "-o", str(tmp_path / "net"), "--dtype", "bfloat16", "--json")
    )
    assert found["layers"] == 1
    assert found["householders"] == 1
    assert found["states"] == 6
    assert found["parameters"] > 0
    assert found["state_size"] > 0
    certificate = found["certificate"]
    assert certificate["holds"]
    assert certificate["order_independent"]
    assert certificate["reachable_states"] == 6
    assert certificate["weights_dtype"] == "bfloat16"
    assert Certificate.from_json(certificate).holds


def test_compile_says_what_it_chose_and_why(tmp_path: Path) -> None:
    text = " ".join(output("compile", "(aa)*", "-o", str(tmp_path / "net")).split())
    assert "proved for every word of every length: 2 joint states" in text
    assert "holds for every backend, device and batch" in text
    assert "why: exact, and the fewest parameters of: permutation (deltanet" in text
    text = " ".join(output("compile", "(a{7})*", "-o", str(tmp_path / "z7"), "--architecture", "rotation").split())
    assert "proved for every word of at most" in text


def test_what_cannot_be_drawn_is_not_compiled(tmp_path: Path) -> None:
    wanted = ["compile", "(a{300})*", "-o", str(tmp_path / "net"), "--draw", str(tmp_path / "a.svg")]
    with pytest.raises(ValueError, match="300 states are too many to draw"):
        runner.invoke(app, wanted, catch_exceptions=False)
    assert list(tmp_path.iterdir()) == []


def test_what_explain_names_compile_builds(tmp_path: Path) -> None:
    wanted = ["--architecture", "gated", "--construction", "cascade-gated"]
    found = json.loads(output("compile", "(abab)*", *wanted, "-o", str(tmp_path / "net"), "--json"))
    assert (found["construction"], found["layers"], found["householders"]) == ("cascade-gated", 3, 1)


def test_the_image_limit_is_a_flag_of_both_commands(tmp_path: Path) -> None:
    cerny = ["--language", "cerny4"]
    assert "raise --image-limit" in output("explain", *cerny, "--image-limit", "3")
    wanted = ["compile", *cerny, "--architecture", "gated", "-o", str(tmp_path / "net")]
    with pytest.raises(ValueError, match="more than 3 image sets: raise --image-limit"):
        runner.invoke(app, [*wanted, "--image-limit", "3"], catch_exceptions=False)
    assert "proved" in output(*wanted, "--image-limit", "100")


@pytest.mark.parametrize(
    ("word", "said", "path"),
    [("abba", "accept", "0 -a-> 1 -b-> 0 -b-> 2 -a-> 0"), ("", "accept", "0"), ("aab", "reject", "0 -a-> 1 -a-> 3 -b-> 3")],
)
def test_run_tells_accept_or_reject_and_the_states(net: Path, word: str, said: str, path: str) -> None:
    first, second = output("run", str(net), "--word", word).splitlines()
    assert (first, second) == (said, path)
    found = json.loads(output("run", str(net), "--word", word, "--json"))
    assert found["accept"] == (said == "accept")
    assert found["word"] == list(word)


def test_run_takes_letters_of_several_characters(tmp_path: Path) -> None:
    output("compile", "--group", "Z3", "--letters", "generators", "-o", str(tmp_path))
    assert output("run", str(tmp_path), "--word", "1 2 0, 1 2 0, 1 2 0").startswith("accept")
    assert output("run", str(tmp_path), "--word", "1 2 0").startswith("reject")


def test_verify_proves_again_and_finds_a_forgery(net: Path, tmp_path: Path) -> None:
    assert "verified" in output("verify", str(net))
    forged = tmp_path / "forged"
    forged.mkdir()
    for path in net.rglob("*"):
        if path.is_file():
            target = forged / path.relative_to(net)
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(path.read_bytes())
    automaton = json.loads((forged / "automaton.json").read_text())
    (forged / "automaton.json").write_text(json.dumps({**automaton, "accepting": [1]}))
    assert "not verified" in output("verify", str(forged), code=1)
    with pytest.raises(ValueError, match=r"automaton\.json is not the one that certificate\.json speaks of"):
        runner.invoke(app, ["run", str(forged), "--word", "ab"], catch_exceptions=False)


def test_run_takes_no_weights_that_were_changed(tmp_path: Path) -> None:
    output("compile", "(ab)*", "-o", str(tmp_path))
    model = load_model(tmp_path / "model")
    with torch.no_grad():
        model.head.weight.copy_(model.head.weight.flip(0))
    save_model(model, tmp_path / "model")
    with pytest.raises(ValueError, match=r"model is not the one that certificate\.json speaks of: `eigentrack verify"):
        runner.invoke(app, ["run", str(tmp_path), "--word", "ab"], catch_exceptions=False)


def test_an_automaton_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "dfa.json"
    file.write_text(json.dumps({"letters": ["x", "y"], "transitions": [[1, 0], [0, 1]], "accepting": [0]}))
    assert json.loads(output("explain", "--dfa", str(file), "--json"))["states"] == 2
    assert json.loads(output("compile", "--dfa", str(file), "-o", str(tmp_path / "net"), "--json"))["certificate"]["holds"]


def test_an_automaton_is_drawn_where_its_cascade_is_too_large(tmp_path: Path) -> None:
    wanted = ["--language", "cerny4", "--architecture", "dense", "--image-limit", "3", "--draw", str(tmp_path / "a.svg")]
    assert "proved" in output("compile", *wanted, "-o", str(tmp_path / "net"))
    assert (tmp_path / "a.svg").exists()


@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_drawings(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"automaton{suffix}"
    output("explain", "(ab)*", "--draw", str(path))
    head = path.read_bytes()[:300]
    assert (b"<svg" in head or b"<?xml" in head) if suffix == ".svg" else head.startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["explain"], "give one of REGEX, --language, --dfa and --group; got none"),
        (["explain", "a", "--group", "S3"], "got REGEX and --group"),
        (["explain", "(a"], "'(a'"),
        (["explain", ""], "no letters: add an alphabet"),
        (["explain", "--language", "klingon"], "language 'klingon' is not known"),
        (["explain", "--group", "X5"], "group 'X5' is not known"),
        (["explain", "--group", "S5", "--letters", "some"], "subset 'some' is not known"),
        (["explain", "--group", "Z60", "--letters", "swaps"], "Z60 has no elements for the letters 'swaps': choose all or"),
        (["explain", "--group", "S3", "--alphabet", "x"], "--alphabet goes with a REGEX only"),
        (["explain", "a", "--letters", "swaps"], "--letters swaps goes with --group only"),
        (["explain", "--group", "Z2x"], "group 'Z2x' is not known: write S5"),
        (["explain", "--dfa", "nowhere.json"], "dfa='nowhere.json' is not there"),
        (["explain", "--dfa", "."], "dfa='.' cannot be read (Is a directory)"),
        (["explain", "ab", "--draw", "x.pdf"], "must end in .svg or .png"),
        (["explain", "(a|b)*a(a|b){9}", "--monoid-limit", "100"], "--monoid-limit"),
        (["explain", "a", "--layer", "mumba"], "layer 'mumba' is not known to theory; there are mamba"),
        (["explain", "a", "--layer", "mamba,deltanet", "--layers", "3"], "2 layers are named for layers=3: name one, or one a"),
        (["explain", "a", "--layer", "mamba", "--layers", "0"], "--layers '0' must be a whole number of at least 1, or any"),
        (
            ["explain", "a", "--layer", "mamba", "--layers", "few"],
            "--layers 'few' must be a whole number of at least 1",
        ),
        (["explain", "a", "--layer", "deltanet", "--householders", "-2"], "--householders '-2' must be a whole number of at"),
        (["explain", "a", "--layer", "mamba", "--householders", "2"], "householders are given, but none of mamba takes them"),
        (["explain", "a", "--layer", "lstm", "--eigenvalues", "0,1"], "eigenvalues are given, but none of lstm takes them"),
        (["explain", "a", "--layer", "mamba", "--eigenvalues", "0,2"], "EigenRange high=2 lies outside [-1, 1]"),
        (["explain", "a", "--layer", "deltanet", "--eigenvalues", "disk"], "layer 'deltanet' takes a range of eigenvalues"),
        (["explain", "a", "--layer", "mamba", "--precision", "double"], "precision 'double' is not known; there are finite"),
        (["explain", "a", "--layer", ""], "layer '' is not known to theory"),
        (["explain", "a", "--eigenvalues", "0,1"], "--eigenvalues goes with --layer only: name a layer"),
        (["explain", "a", "--brief", "--json"], "--brief and --json are both given"),
        (["compile", "a", "-o", "x", "--image-limit", "0"], "--image-limit 0 must be at least 1"),
        (["compile", "a", "-o", "x", "--construction", "magic"], "construction 'magic' is not known for deltanet or"),
        (["compile", "a"], "name the folder for the network: -o DIR"),
        (["compile", "a", "-o", "x", "--dtype", "int8"], "--dtype 'int8' is not known"),
        (["compile", "(aaa)*", "-o", "x", "--architecture", "diagonal"], "no diagonal network can be built"),
        (["verify", "nowhere"], "nowhere is no folder of a compiled network"),
        (["run", "nowhere", "--word", "a"], "nowhere is no folder of a compiled network"),
    ],
)
def test_bad_input_is_named(arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ValueError, OSError)) as caught:  # which `main` prints as one line, with exit code 2
        runner.invoke(app, arguments, catch_exceptions=False)
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 2
    assert list(tmp_path.iterdir()) == []
