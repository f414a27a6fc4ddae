"""A compiled network: model, automaton and certificate, in memory and in a folder; `verify` proves it again from the files.

automaton.json   the complete minimal DFA            model/             config.json and model.safetensors
plan.json        construction, sizes, reasons        certificate.json   what was proved, with hashes of weights and automaton
robustness.json  for sLSTM: the error ε that every step may make
joint_states.json  where no value is rounded: all joint states and what each letter makes of them (joint_states.py)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch

from eigentrack.automata import DFA
from eigentrack.automata.dfa import letter_numbers, same_language
from eigentrack.compiler.certificate import (
    STATE_LIMIT,
    Certificate,
    certify,
    certify_up_to_a_length,
    json_hash,
    weights_hash,
)
from eigentrack.compiler.choice import Choice, choose_plan
from eigentrack.compiler.closure import TooManyJointStates, state_parts
from eigentrack.compiler.network import build_network
from eigentrack.compiler.plan import Alphabet, NetworkPlan
from eigentrack.compiler.robustness import CANDIDATES, Robustness, certify_robust, confirm_robust
from eigentrack.files import write_json, write_text, written_together
from eigentrack.json_text import parse_json
from eigentrack.layers import DeltaNet
from eigentrack.models import SequenceModel, load_model, save_model

AUTOMATON, PLAN, CERTIFICATE, MODEL = "automaton.json", "plan.json", "certificate.json", "model"
ROBUSTNESS, JOINT_STATES = "robustness.json", "joint_states.json"
ENTRIES = (CERTIFICATE, ROBUSTNESS, JOINT_STATES, PLAN, AUTOMATON, MODEL)  # the entries of a folder
DTYPES = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16, "float16": torch.float16}
SNAPPED = "snapped"  # the construction that is read off a trained network
MOST_TOKENS = 1000  # the most tokens per letter, each of which applies one factor
SWITCHED_OFF = ("norms of the model", "norm, activation and scale of queries, keys, values and outputs")


@dataclass(frozen=True)
class Compiled:
    """A compiled network with its automaton and its certificate."""

    model: SequenceModel
    dfa: DFA
    alphabet: Alphabet  # the tokens of the letters
    summary: dict[str, Any]  # construction, sizes and reasons, as in plan.json
    certificate: Certificate
    robustness: Robustness | None = None  # None unless the layers are built to tolerate noise

    def run(self, word: Sequence[str]) -> list[int]:
        """Return the network's answers, as states of the automaton, before the first letter and after each letter."""
        tokens = torch.tensor([self.alphabet.tokens(letter_numbers(word, self.dfa.letters))])
        with torch.no_grad():
            logits, _ = self.model(tokens)
        k = self.alphabet.tokens_per_letter
        return logits[0, ::k].argmax(-1).tolist()  # the answer to a letter comes with its last filler


def compile_network(choice: Choice, dtype: torch.dtype = torch.float32, state_limit: int = STATE_LIMIT) -> Compiled:
    """Build and prove the first plan whose proof needs no more joint states than the limit.

    Args:
        choice: the plans, best first.
        dtype: the float type of the weights.
        state_limit: the most joint states of a proof; `TooManyJointStates` is raised if every plan needs more.
    """
    passed_over = ""
    for number, plan in enumerate(choice.plans, start=1):
        try:
            return _proved(plan, choice.why + passed_over, dtype, state_limit)
        except TooManyJointStates:
            if number == len(choice.plans):
                raise
            passed_over += f"; passed over: {plan.construction} ({plan.architecture}), more than {state_limit} joint states"
    raise AssertionError("a choice has at least one plan")


def _proved(plan: NetworkPlan, why: str, dtype: torch.dtype, state_limit: int) -> Compiled:
    model, alphabet = build_network(plan, dtype), plan.alphabet
    prove = certify if plan.exact else certify_up_to_a_length
    certificate = prove(model, plan.dfa, alphabet, state_limit)
    summary = {
        "construction": plan.construction,
        "architecture": plan.architecture,
        "why": why,
        **network_facts(model, plan.dfa, alphabet),
    }
    robustness = certify_robust(model, plan.dfa, alphabet) if plan.architecture == "slstm" else None
    return Compiled(model, plan.dfa, alphabet, summary, replace(certificate, plan_sha256=json_hash(summary)), robustness)


def network_facts(model: SequenceModel, dfa: DFA, alphabet: Alphabet) -> dict[str, Any]:
    """Return what plan.json says of a network beyond the names of its construction, so that `verify` can compare it."""
    state = model.initial_state(1)
    return {
        "layers": model.config.layers,
        "mixers": list(model.config.mixers),
        "state_size": sum(part.numel() for part in state_parts(state)),
        "householders": max((mixer.householders for mixer in model.mixers if isinstance(mixer, DeltaNet)), default=0),
        "d_model": model.config.d_model,
        "mlp_width": max(model.config.mlp_widths),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "switched_off": list(SWITCHED_OFF),
        "tokens_per_letter": alphabet.tokens_per_letter,
        "tokens": {"letters": list(dfa.letters), "begin": alphabet.begin, "filler": alphabet.filler},
    }


def save_compiled(compiled: Compiled, folder: Path) -> None:
    """Write `compiled`, a compiled network, to `folder`; the certificate comes last, so that a folder with one is complete."""
    with written_together(folder, last=CERTIFICATE, stale=(ROBUSTNESS, JOINT_STATES)) as new:
        save_model(compiled.model, new / MODEL)
        write_json(new / AUTOMATON, compiled.dfa.to_json())
        write_json(new / PLAN, compiled.summary)
        if compiled.robustness is not None:
            write_json(new / ROBUSTNESS, compiled.robustness.to_json())
        if compiled.certificate.joint_states is not None:
            write_text(new / JOINT_STATES, compiled.certificate.joint_states.to_json_text())
        write_json(new / CERTIFICATE, compiled.certificate.to_json())


def load_compiled(folder: Path) -> Compiled:
    """Read a compiled network from the files in `folder`, without proving it again."""
    if not folder.is_dir():
        raise ValueError(f"{folder} is no folder of a compiled network")
    _check_files_are_inside(folder)
    summary, dfa = _read(folder / PLAN), DFA.from_json(_read(folder / AUTOMATON))
    tokens_per_letter = summary.get("tokens_per_letter") if isinstance(summary, dict) else None
    if (
        not isinstance(tokens_per_letter, int)
        or isinstance(tokens_per_letter, bool)
        or not 1 <= tokens_per_letter <= MOST_TOKENS
    ):
        raise ValueError(f"{folder / PLAN}: tokens_per_letter must lie between 1 and {MOST_TOKENS}")
    certificate = Certificate.from_json(_read(folder / CERTIFICATE))
    model = load_model(folder / MODEL)
    if len({weight.dtype for weight in model.parameters()}) > 1:
        raise ValueError(f"{folder / MODEL} mixes float types: the compiler writes one")
    robustness = Robustness.from_json(_read(folder / ROBUSTNESS)) if (folder / ROBUSTNESS).exists() else None
    return Compiled(model, dfa, Alphabet(len(dfa.letters), tokens_per_letter), summary, certificate, robustness)


def check_hashes(compiled: Compiled, folder: Path) -> None:
    """Raise ValueError if the certificate is about other files, by their hashes; `verify` checks whether it is true."""
    certificate = compiled.certificate
    found = {
        MODEL: weights_hash(compiled.model) == certificate.weights_sha256,
        AUTOMATON: json_hash(compiled.dfa.to_json()) == certificate.automaton_sha256,
        PLAN: json_hash(compiled.summary) == certificate.plan_sha256,
    }
    for name, same in found.items():
        if not same:
            raise ValueError(
                f"{folder / name} is not the one that {CERTIFICATE} speaks of: `eigentrack verify {folder}` says more"
            )


@dataclass(frozen=True)
class Verification:
    """The result of proving a stored network again."""

    certificate: Certificate  # the new proof
    robustness: Robustness | None  # the new proof of robustness; None if the folder claims none
    differences: tuple[str, ...]  # where the new proofs differ from those in the folder, in words

    @property
    def holds(self) -> bool:
        return self.certificate.holds and not self.differences


def verify(folder: Path, state_limit: int = STATE_LIMIT, language: DFA | None = None) -> Verification:
    """Prove a network again, from its files alone.

    Args:
        folder: what `save_compiled` wrote.
        state_limit: the most joint states.
        language: an automaton whose language the network is to recognise; None: the stored one alone.
    """
    compiled = load_compiled(folder)
    prove = certify if compiled.certificate.length_bound is None else certify_up_to_a_length
    found = prove(compiled.model, compiled.dfa, compiled.alphabet, state_limit)
    found = replace(found, plan_sha256=json_hash(compiled.summary))
    differences = _differences(found.to_json(), compiled.certificate.to_json(), "the certificate")
    differences += _listed_differences(folder / JOINT_STATES, found)
    differences += _plan_differences(compiled)
    if language is not None:
        differences += _language_differences(compiled.dfa, language)
    claimed, robustness = compiled.robustness, None
    if claimed is not None:
        # if no ε was proved, the stored obstacle is that of the smallest candidate
        epsilon = claimed.epsilon or CANDIDATES[-1]
        robustness = confirm_robust(compiled.model, compiled.dfa, compiled.alphabet, epsilon)
        differences += _differences(robustness.to_json(), claimed.to_json(), ROBUSTNESS)
    return Verification(found, robustness, tuple(differences))


def _differences(proved: dict[str, Any], claimed: dict[str, Any], where: str) -> list[str]:
    """Return the entries that differ, in value or in type: JSON's true is not 1."""
    return [
        f"{name} is {proved[name]}, {where} says {claimed.get(name)}"
        for name in proved
        if name not in claimed or json_hash(proved[name]) != json_hash(claimed[name])
    ]


def _plan_differences(compiled: Compiled) -> list[str]:
    """Return where plan.json differs from the network; the reason for its choice is prose and is not compared."""
    facts = network_facts(compiled.model, compiled.dfa, compiled.alphabet)
    found = _differences(facts, compiled.summary, PLAN)
    named = {name: compiled.summary.get(name) for name in ("construction", "architecture", "why")}
    found += [f"{PLAN} has no text for {name}" for name, text in named.items() if not isinstance(text, str)]
    found += [f"{PLAN} has {name!r}, which is nothing that a plan says" for name in set(compiled.summary) - {*facts, *named}]
    if not found and named["construction"] != SNAPPED:
        found += _construction_differences(compiled, str(named["architecture"]), str(named["construction"]))
    return found


def _construction_differences(compiled: Compiled, architecture: str, construction: str) -> list[str]:
    """Return a difference unless the named construction, carried out anew, gives this network."""
    spread = compiled.alphabet.tokens_per_letter > 1
    try:
        plans = choose_plan(compiled.dfa, None if spread else architecture, spread_factors=spread).plans
    except ValueError as reason:
        return [f"{PLAN} says {construction} ({architecture}), which cannot be built for this automaton: {reason}"]
    dtype, wanted = compiled.model.embedding.weight.dtype, weights_hash(compiled.model)
    named = [plan for plan in plans if (plan.construction, plan.architecture) == (construction, architecture)]
    if any(weights_hash(build_network(plan, dtype)) == wanted for plan in named):
        return []
    return [f"{PLAN} says {construction} ({architecture}), which gives another network"]


def _language_differences(stored: DFA, wanted: DFA) -> list[str]:
    if set(stored.letters) != set(wanted.letters):
        return [f"the network reads {', '.join(stored.letters)}, the language has {', '.join(wanted.letters)}"]
    word = same_language(stored, wanted)
    if word is None:
        return []
    return [f"the network is for another language: {''.join(word) or 'the empty word'!r} is in one of the two only"]


def _check_files_are_inside(folder: Path) -> None:
    """Raise ValueError if a file of the folder is a link that leads outside of it."""
    home = folder.resolve()
    for path in [*folder.iterdir(), *(folder / MODEL).glob("*")]:
        if not path.resolve().is_relative_to(home):
            raise ValueError(f"{path} leads outside of {folder}: copy the file into it")


def _listed_differences(path: Path, found: Certificate) -> list[str]:
    """Return where the list of joint states differs from the one that the proof finds; older folders have no list."""
    if not path.exists() or not found.holds:
        return []
    if found.joint_states is None:
        return [f"{path.name} lists joint states, and the proof finds that values are rounded"]
    try:
        listed = path.read_text().splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not valid JSON ({error})") from None
    pairs = zip_longest(found.joint_states.to_json_text().splitlines(), listed)
    number = next((number for number, (proved, line) in enumerate(pairs, start=1) if proved != line), None)
    return [] if number is None else [f"{path.name} differs in line {number} from the joint states that the proof finds"]


def _read(path: Path) -> Any:
    try:
        return parse_json(path.read_text())
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is missing: this is no folder of a compiled network") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
