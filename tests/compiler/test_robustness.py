"""Networks of sLSTM cells bear the noise that their boxes prove, and not much more; what is saved is proved anew."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from eigentrack.automata import DFA, LANGUAGES, classify, language, regex_dfa, word_problem_dfa
from eigentrack.cli import app
from eigentrack.compiler import (
    DTYPES,
    Compiled,
    Robustness,
    certify,
    certify_robust,
    choose_plan,
    compile_network,
    load_compiled,
    network_boxes,
    save_compiled,
    verify,
)
from eigentrack.compiler.boxes import BoxCertificate
from eigentrack.compiler.compiled import ROBUSTNESS
from eigentrack.compiler.plan import Alphabet
from eigentrack.compiler.robustness import confirm_robust
from eigentrack.layers import MixerState
from eigentrack.models import ModelConfig, SequenceModel
from eigentrack.models.sequence_model import ModelState
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
    found = verify(tmp_path)
    assert found.holds
    assert found.robustness == network.robustness
    (tmp_path / ROBUSTNESS).write_text("{}")
    with pytest.raises(ValueError, match="a robustness certificate must hold exactly"):
        verify(tmp_path)
    save_compiled(replace(network, robustness=None), tmp_path)  # a stale claim does not survive
    assert load_compiled(tmp_path).robustness is None
    assert verify(tmp_path).robustness is None


def edited(folder: Path, **changes: object) -> Path:
    claim = json.loads((folder / ROBUSTNESS).read_text())
    (folder / ROBUSTNESS).write_text(json.dumps({**claim, **changes}))
    return folder


@pytest.mark.parametrize(
    "changes", [{"boxes": 1}, {"margin": 1000.0}, {"obstacle": "none"}, {"boxes": 9, "margin": 2.0}], ids=str
)
def test_every_edited_number_is_named_and_the_proved_one_is_told(changes: dict[str, object], tmp_path: Path) -> None:
    network = built("flip-flop", "flip-flop-cascade")
    save_compiled(network, tmp_path)
    found = verify(edited(tmp_path, **changes))
    proved = {} if network.robustness is None else network.robustness.to_json()
    assert found.differences == tuple(
        f"{name} is {proved[name]}, robustness.json says {value}" for name, value in changes.items()
    )
    assert not found.holds
    assert found.robustness == network.robustness


def test_an_epsilon_that_is_not_proved_is_named(tmp_path: Path) -> None:
    network = built("tomita2", "flip-flop-cascade")
    save_compiled(network, tmp_path)
    for epsilon in (0.9, 1e308):
        found = verify(edited(tmp_path, epsilon=epsilon))
        assert found.differences[0] == f"epsilon is 0.0, robustness.json says {epsilon}"
        assert found.robustness is not None
        assert found.robustness.obstacle.startswith("not decided at this resolution: ")
    found = verify(edited(tmp_path, epsilon=0.0))  # to claim too little is no proof, either
    assert not found.holds
    assert found.robustness is not None
    assert found.robustness.epsilon > 0


def test_that_nothing_is_proved_is_confirmed_with_its_reason(tmp_path: Path) -> None:
    network = built("tomita4", "flip-flop-cascade", "bfloat16")
    save_compiled(network, tmp_path)
    found = verify(tmp_path)
    assert found.holds
    assert found.robustness == network.robustness
    assert not verify(edited(tmp_path, obstacle="it was late")).holds


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"epsilon": True}, "epsilon=True"),
        ({"epsilon": -0.1}, "epsilon=-0.1"),
        ({"epsilon": float("nan")}, "epsilon=nan"),
        ({"epsilon": float("inf")}, "epsilon=inf"),
        ({"boxes": True}, "boxes=True"),
        ({"boxes": 2.0}, "boxes=2.0"),
        ({"margin": True}, "margin=True"),
        ({"margin": "1"}, "margin='1'"),
        ({"obstacle": None}, "obstacle=None"),
    ],
    ids=str,
)
def test_claims_of_the_wrong_kind_are_refused(changes: dict[str, object], told: str) -> None:
    claim = {**Robustness(0.125, 6, 0.5).to_json(), **changes}
    with pytest.raises(ValueError, match=f"{told} in a robustness certificate must be "):
        Robustness.from_json(claim)


@pytest.mark.parametrize(("name", "proved"), [("flip-flop", True), ("tomita4", False)])
def test_the_certificate_leaves_rounding_to_a_proved_epsilon(name: str, proved: bool) -> None:
    """Its words hold with and without one, so they hold when robustness.json is gone."""
    network = built(name, "flip-flop-cascade", "bfloat16")
    assert network.robustness is not None
    assert (network.robustness.epsilon > 0) == proved
    (fault,) = network.certificate.faults
    assert "for the step function alone" in fault
    assert fault.endswith("covered only where an epsilon above 0 is proved as well")


def test_weights_that_were_weakened_are_not_proved(tmp_path: Path) -> None:
    network = built("flip-flop", "flip-flop-cascade")
    with torch.no_grad():
        network.model.blocks[0].mixer.gates.recurrent.mul_(1 / 64)  # type: ignore[union-attr, operator]
    save_compiled(network, tmp_path)
    assert "epsilon is 0.0, robustness.json says 0.841" in verify(tmp_path).differences


def near_overflow(dtype: torch.dtype, big: float) -> SequenceModel:
    """Tells the last letter, and multiplies what it keeps of the letter before by `big`, to no end but that it may overflow."""
    options = {"channels": 2, "width": 2}
    config = ModelConfig(
        vocab_size=3, d_model=4, layers=1, mixer="convolution", mixer_options=options, mlp_width=0, norm="none"
    )
    model = SequenceModel(config).to(dtype).eval()
    mixer = model.blocks[0].mixer
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.embedding.weight[:, 2] = 1
        model.embedding.weight[[0, 1, 2], [1, 0, 0]] = 1
        mixer.in_proj.weight[[0, 1], [2, 1]] = 1  # type: ignore[union-attr, index]
        mixer.convolution.weight[0, 0] = big  # type: ignore[union-attr, index]
        mixer.out_proj.weight[3, 0] = 1  # type: ignore[union-attr, index]
        model.head.weight[[0, 1, 2], [0, 1, 2]] = torch.tensor([1.0, 1.0, -1024.0], dtype=dtype)
    return model


@pytest.mark.parametrize(("dtype", "big"), [("float16", 57344.0), ("float32", 3e38), ("float64", 1.6e308)])
def test_noise_that_makes_the_network_overflow_is_not_proved(dtype: str, big: float) -> None:
    model, dfa, alphabet = near_overflow(DTYPES[dtype], big), DFA(("a", "b"), ((1, 0), (1, 0)), frozenset({1}), 0), Alphabet(2)
    room = torch.finfo(DTYPES[dtype]).max / big - 1

    @torch.no_grad()
    def logits_after_a(noise: float) -> torch.Tensor:
        _, begun = model.step(torch.tensor([alphabet.begin]))
        window = begun.layers[0].window
        assert window is not None
        return model.step(torch.tensor([0]), ModelState((MixerState((), window + noise),)))[0][0]

    assert certify(model, dfa, alphabet).holds
    assert bool(logits_after_a(1.1 * room).isnan().any())
    found = certify_robust(model, dfa, alphabet)
    assert 0.5 * room < found.epsilon < room
    assert logits_after_a(found.epsilon).argmax() == 1
    refused = confirm_robust(model, dfa, alphabet, 1.1 * room)
    assert refused.epsilon == 0
    assert "the largest float" in refused.obstacle


def test_the_command_line_tells_and_confirms_epsilon(tmp_path: Path) -> None:
    runner, net = CliRunner(), str(tmp_path / "net")
    made = runner.invoke(app, ["compile", "(ab)*", "-o", net, "--architecture", "slstm", "--construction", "flip-flop-cascade"])
    assert made.exit_code == 0
    assert "robust: an error of 0.354" in made.output
    checked = runner.invoke(app, ["verify", net, "--json"])
    assert checked.exit_code == 0
    assert json.loads(checked.output)["robustness"]["epsilon"] == 0.354
    told = runner.invoke(app, ["verify", str(edited(tmp_path / "net", boxes=77))])
    assert told.exit_code == 1
    assert "robustness.json says 77" in told.output
    assert "(77 boxes)" not in told.output.replace("\n", " ")
    refused = runner.invoke(
        app, ["compile", "(aa)*", "-o", net + "2", "--architecture", "slstm", "--construction", "flip-flop-cascade"]
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
