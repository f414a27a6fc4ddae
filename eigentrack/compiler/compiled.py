"""A compiled network: model, automaton and certificate, in memory and in a folder. `verify` proves it anew from the files.

automaton.json   the complete minimal DFA            model/             config.json and model.safetensors
plan.json        construction, sizes, reasons        certificate.json   what was proved, with hashes of weights and automaton
robustness.json  for sLSTM: the error ε that every step may make
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from eigentrack.automata import DFA
from eigentrack.automata.dfa import letter_numbers
from eigentrack.compiler.certificate import (
    STATE_LIMIT,
    Certificate,
    certify,
    certify_up_to_a_length,
    json_hash,
    weights_hash,
)
from eigentrack.compiler.choice import Choice, parameters
from eigentrack.compiler.closure import TooManyJointStates, state_parts
from eigentrack.compiler.network import build_network
from eigentrack.compiler.plan import Alphabet, NetworkPlan
from eigentrack.compiler.robustness import CANDIDATES, Robustness, certify_robust, confirm_robust
from eigentrack.files import write_json
from eigentrack.models import SequenceModel, load_model, save_model

AUTOMATON, PLAN, CERTIFICATE, MODEL = "automaton.json", "plan.json", "certificate.json", "model"
ROBUSTNESS = "robustness.json"
DTYPES = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16, "float16": torch.float16}
MOST_TOKENS = 1000  # a letter; a factor each
SWITCHED_OFF = ("norms of the model", "norm, activation and scale of queries, keys, values and outputs")


@dataclass(frozen=True)
class Compiled:
    model: SequenceModel
    dfa: DFA
    alphabet: Alphabet
    summary: dict[str, Any]  # plan.json
    certificate: Certificate
    robustness: Robustness | None = None  # where its layers are made to bear noise

    def run(self, word: Sequence[str]) -> list[int]:
        """The state that the network tells before the first letter and after each."""
        tokens = torch.tensor([self.alphabet.tokens(letter_numbers(word, self.dfa.letters))])
        with torch.no_grad():
            logits, _ = self.model(tokens)
        k = self.alphabet.tokens_per_letter
        return logits[0, ::k].argmax(-1).tolist()  # a letter's answer is due with its last filler


def compile_network(choice: Choice, dtype: torch.dtype = torch.float32, state_limit: int = STATE_LIMIT) -> Compiled:
    """The first plan whose proof needs no more joint states than the limit."""
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
    _, state = model.step(torch.tensor([alphabet.begin]))
    summary = {
        "construction": plan.construction,
        "architecture": plan.architecture,
        "why": why,
        "layers": len(plan.blocks),
        "mixers": list(model.config.mixers),
        "state_size": sum(part.numel() for part in state_parts(state)),
        "householders": plan.householders,
        "d_model": plan.channels,
        "mlp_width": max(model.config.mlp_widths),
        "parameters": parameters(plan),
        "switched_off": list(SWITCHED_OFF),
        "tokens_per_letter": plan.tokens_per_letter,
        "tokens": {"letters": list(plan.dfa.letters), "begin": alphabet.begin, "filler": alphabet.filler},
    }
    robustness = certify_robust(model, plan.dfa, alphabet) if plan.architecture == "slstm" else None
    return Compiled(model, plan.dfa, alphabet, summary, replace(certificate, plan_sha256=json_hash(summary)), robustness)


def save_compiled(compiled: Compiled, folder: Path) -> None:
    """The certificate comes last: a folder that has one is complete."""
    folder.mkdir(parents=True, exist_ok=True)
    for stale in (CERTIFICATE, ROBUSTNESS):
        (folder / stale).unlink(missing_ok=True)
    save_model(compiled.model, folder / MODEL)
    write_json(folder / AUTOMATON, compiled.dfa.to_json())
    write_json(folder / PLAN, compiled.summary)
    if compiled.robustness is not None:
        write_json(folder / ROBUSTNESS, compiled.robustness.to_json())
    write_json(folder / CERTIFICATE, compiled.certificate.to_json())


def load_compiled(folder: Path) -> Compiled:
    if not folder.is_dir():
        raise ValueError(f"{folder} is no folder of a compiled network")
    summary, dfa = _read(folder / PLAN), DFA.from_json(_read(folder / AUTOMATON))
    tokens_per_letter = summary.get("tokens_per_letter") if isinstance(summary, dict) else None
    if not isinstance(tokens_per_letter, int) or not 1 <= tokens_per_letter <= MOST_TOKENS:
        raise ValueError(f"{folder / PLAN}: tokens_per_letter must lie between 1 and {MOST_TOKENS}")
    certificate = Certificate.from_json(_read(folder / CERTIFICATE))
    model = load_model(folder / MODEL).eval()
    if len({weight.dtype for weight in model.parameters()}) > 1:
        raise ValueError(f"{folder / MODEL} mixes float types: the compiler writes one")
    robustness = Robustness.from_json(_read(folder / ROBUSTNESS)) if (folder / ROBUSTNESS).exists() else None
    return Compiled(model, dfa, Alphabet(len(dfa.letters), tokens_per_letter), summary, certificate, robustness)


def check_hashes(compiled: Compiled, folder: Path) -> None:
    """That the certificate speaks of these files; that it is true is for `verify` to say."""
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
    """What was proved anew, and in what it differs from what the folder says; no robustness where the folder claims none."""

    certificate: Certificate
    robustness: Robustness | None
    differences: tuple[str, ...]

    @property
    def holds(self) -> bool:
        return self.certificate.holds and not self.differences


def verify(folder: Path, state_limit: int = STATE_LIMIT) -> Verification:
    """Proves the network anew, from its files alone."""
    compiled = load_compiled(folder)
    prove = certify if compiled.certificate.length_bound is None else certify_up_to_a_length
    found = prove(compiled.model, compiled.dfa, compiled.alphabet, state_limit)
    found = replace(found, plan_sha256=json_hash(compiled.summary))
    differences = _differences(found.to_json(), compiled.certificate.to_json(), "the certificate")
    claimed, robustness = compiled.robustness, None
    if claimed is not None:
        # where none was proved, the obstacle is that of the smallest candidate
        epsilon = claimed.epsilon or CANDIDATES[-1]
        robustness = confirm_robust(compiled.model, compiled.dfa, compiled.alphabet, epsilon)
        differences += _differences(robustness.to_json(), claimed.to_json(), ROBUSTNESS)
    return Verification(found, robustness, tuple(differences))


def _differences(proved: dict[str, Any], claimed: dict[str, Any], where: str) -> list[str]:
    return [f"{name} is {proved[name]}, {where} says {claimed[name]}" for name in proved if proved[name] != claimed[name]]


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is missing: this is no folder of a compiled network") from None
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path} is not valid JSON ({error})") from None
