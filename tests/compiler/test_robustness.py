"""Networks of sLSTM cells bear the noise that their boxes prove, and not much more; what is saved is proved anew."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from eigentrack.automata import LANGUAGES, classify, language, regex_dfa, word_problem_dfa
from eigentrack.cli import app
from eigentrack.compiler import (
    DTYPES,
    Compiled,
    Robustness,
    choose_plan,
    compile_network,
    load_compiled,
    network_boxes,
    save_compiled,
    verify,
)
from eigentrack.compiler.boxes import BoxCertificate
from eigentrack.compiler.compiled import ROBUSTNESS
from tests.compiler.noisy_run import errors_in

# what docs/derivations/robustness.md tells
STAR_FREE = {"flip-flop": 0.841, "tomita2": 0.354, "tomita4": 0.354, "tomita7": 0.125}
ANY = {"parity": 0.25, "aaa": 0.42, "S3": 0.105, "abab": 0.125}


def built(name: str, construction: str, dtype: str = "float32") -> Compiled:
    dfa = language(name) if name in LANGUAGES else word_problem_dfa(name, "all")
    return compile_network(choose_plan(dfa, "slstm", construction), DTYPES[dtype])


def words(network: Compiled, rows: int, length: int) -> torch.Tensor:
    return torch.randint(0, network.alphabet.letters, (rows, length), generator=torch.Generator().manual_seed(7))


@pytest.mark.parametrize("name", STAR_FREE)
def test_star_free_languages_by_flip_flops(name: str) -> None:
    network = built(name, "flip-flop-cascade")
    assert network.certificate.holds
    assert network.certificate.length_bound is None
    assert network.robustness is not None
    assert network.robustness.epsilon == STAR_FREE[name]
    assert network.robustness.margin > 0.9
    assert errors_in(network, words(network, 16, 100), network.robustness.epsilon, seed=0) == 0


@pytest.mark.parametrize("name", ANY)
def test_any_language_by_threshold_units(name: str) -> None:
    network = built(name, "threshold-units")
    assert network.certificate.holds
    assert network.robustness is not None
    leading = max(sum(target == q for row in network.dfa.transitions for target in row) for q in range(network.dfa.states))
    assert network.robustness.epsilon == ANY[name] < 1 / leading
    assert errors_in(network, words(network, 16, 100), network.robustness.epsilon, seed=0) == 0


@pytest.mark.parametrize(("name", "construction"), [("tomita4", "flip-flop-cascade"), ("parity", "threshold-units")])
def test_far_more_noise_is_not_borne(name: str, construction: str) -> None:
    """So the test with noise can fail, and the proof is not far from what is true."""
    network = built(name, construction)
    assert network.robustness is not None
    assert errors_in(network, words(network, 64, 40), 4 * network.robustness.epsilon, seed=0) > 0


@pytest.mark.parametrize("name", ["parity", "abab", "tomita3"])
def test_flip_flops_refuse_what_is_not_star_free_with_the_witness(name: str) -> None:
    with pytest.raises(ValueError, match="flip-flops make star-free languages only: ") as refused:
        built(name, "flip-flop-cascade")
    assert classify(language(name)).witnesses["star_free"] in str(refused.value)


def test_every_joint_state_of_a_noisy_run_lies_in_a_box_of_its_state() -> None:
    network = built("tomita2", "flip-flop-cascade")
    assert network.robustness is not None
    proof = network_boxes(network.model, network.dfa, network.alphabet, network.robustness.epsilon)
    assert isinstance(proof, BoxCertificate)
    model, state, q = network.model, None, network.dfa.start
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for token in [network.alphabet.begin, *words(network, 1, 30)[0].tolist()]:
            _, state = model.step(torch.tensor([token]), state)
            q = q if token == network.alphabet.begin else network.dfa.transitions[q][token]
            parts = [part for layer in state.layers for part in (*layer.memory, layer.window) if part is not None]
            for part in parts:
                part += proof.epsilon * (2 * torch.rand(part.shape, generator=generator) - 1)
            point = torch.cat([part.flatten() for part in parts]).double().numpy()
            holding = ((proof.boxes.low <= point) & (point <= proof.boxes.high)).all(1)
            assert [label for label, held in zip(proof.labels, holding, strict=True) if held] == [q]


def test_half_precision_bears_less_and_in_deep_cascades_nothing_is_proved() -> None:
    shallow, deep = (built(name, "flip-flop-cascade", "bfloat16") for name in ("flip-flop", "tomita4"))
    assert shallow.certificate.holds
    assert deep.certificate.holds
    assert shallow.robustness is not None
    assert deep.robustness is not None
    assert 0 < shallow.robustness.epsilon < 0.5
    assert deep.robustness.epsilon == 0
    assert "not decided at this resolution" in deep.robustness.obstacle


def test_double_precision_bears_as_much_as_single() -> None:
    single, double = (built("tomita2", "flip-flop-cascade", dtype).robustness for dtype in ("float32", "float64"))
    assert single is not None
    assert double is not None
    assert double.epsilon == single.epsilon


def test_a_saved_network_is_proved_anew(tmp_path: Path) -> None:
    network = built("tomita2", "flip-flop-cascade")
    save_compiled(network, tmp_path)
    assert load_compiled(tmp_path).robustness == network.robustness
    assert verify(tmp_path)[1] == []
    claim = json.loads((tmp_path / ROBUSTNESS).read_text())
    (tmp_path / ROBUSTNESS).write_text(json.dumps({**claim, "epsilon": 0.9}))
    (difference,) = verify(tmp_path)[1]
    assert difference.startswith("an error of 0.9 in every step is not proved to be borne: not decided")
    (tmp_path / ROBUSTNESS).write_text("{}")
    with pytest.raises(ValueError, match="a robustness certificate must hold exactly"):
        verify(tmp_path)
    save_compiled(replace(network, robustness=None), tmp_path)  # a stale claim does not survive
    assert load_compiled(tmp_path).robustness is None


def test_weights_that_were_weakened_are_not_proved(tmp_path: Path) -> None:
    network = built("flip-flop", "flip-flop-cascade")
    with torch.no_grad():
        network.model.blocks[0].mixer.gates.recurrent.mul_(1 / 64)  # type: ignore[union-attr, operator]
    save_compiled(network, tmp_path)
    assert any("is not proved to be borne" in difference for difference in verify(tmp_path)[1])


def test_the_command_line_tells_and_confirms_epsilon(tmp_path: Path) -> None:
    runner, net = CliRunner(), str(tmp_path / "net")
    made = runner.invoke(app, ["compile", "(ab)*", "-o", net, "--architecture", "slstm", "--construction", "flip-flop-cascade"])
    assert made.exit_code == 0
    assert "robust: an error of 0.354" in made.output
    checked = runner.invoke(app, ["verify", net, "--json"])
    assert checked.exit_code == 0
    assert json.loads(checked.output)["robustness"]["epsilon"] == 0.354
    refused = runner.invoke(
        app, ["compile", "(aa)*", "-o", net, "--architecture", "slstm", "--construction", "flip-flop-cascade"]
    )
    assert "a acts with period 2" in str(refused.exception)


def test_only_slstm_networks_claim_robustness() -> None:
    assert compile_network(choose_plan(regex_dfa("(ab)*"))).robustness is None


def test_a_robustness_certificate_is_plain_data() -> None:
    claim = Robustness(0.125, 6, 0.5)
    assert Robustness.from_json(json.loads(json.dumps(claim.to_json()))) == claim


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in LANGUAGES if name != "d12" and classify(language(name)).star_free])
def test_every_named_star_free_language_by_flip_flops(name: str) -> None:
    network = built(name, "flip-flop-cascade")
    assert network.robustness is not None
    assert network.robustness.epsilon > 0.02
    assert errors_in(network, words(network, 32, 500), network.robustness.epsilon, seed=1) == 0
