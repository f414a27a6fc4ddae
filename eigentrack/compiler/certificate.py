"""Certificates: machine-checked proofs that a network answers like an automaton on every word of every length.

Closure (closure.py) proves it for the step function, in the stated float types. If no value is ever rounded (exactness.py,
chunk_bounds.py), the order of evaluation cannot matter: the proof then holds for every backend, device and batch size.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from eigentrack.automata import DFA
from eigentrack.compiler.assumptions import Assumption, Fault
from eigentrack.compiler.chunk_bounds import InputRecord, chunk_fault
from eigentrack.compiler.closure import STEP_BATCH, Closure, explore
from eigentrack.compiler.cyclic import rotation_plan, two_layer_plan
from eigentrack.compiler.exactness import ExactnessCheck
from eigentrack.compiler.joint_states import JointStates
from eigentrack.compiler.length_bound import length_bound
from eigentrack.compiler.network import build_network
from eigentrack.compiler.plan import Alphabet
from eigentrack.layers import SLSTM
from eigentrack.models import SequenceModel
from eigentrack.models.sequence_model import ModelState, in_evaluation_mode
from eigentrack.models.storage import stored_weights
from eigentrack.ops.shared.dispatch import state_dtype

STATE_LIMIT = 200_000  # the most joint states


@dataclass(frozen=True)
class Certificate:
    """The result of a proof that a network answers like an automaton."""

    holds: bool  # whether the proof succeeded
    order_independent: bool  # whether nothing is ever rounded, so that the order of evaluation cannot matter
    backends: tuple[str, ...]  # the backends that the proof covers
    length_bound: int | None  # the largest number of letters; None if the proof is for all lengths
    tokens_per_letter: int
    reachable_states: int  # number of joint states
    margin: float  # the least difference between the right logit and the next
    weights_dtype: str
    state_dtype: str
    counterexample: tuple[str, ...] | None  # a word on which network and automaton disagree; None if there is none
    faults: tuple[str, ...]  # the operations that may round a value
    weights_sha256: str
    automaton_sha256: str
    plan_sha256: str  # the hash of the description of the network that is stored with the certificate; empty if there is none
    # all joint states, in a file of their own; None if they are not read from it, if the proof fails, or if values are rounded
    joint_states: JointStates | None = field(default=None, repr=False, compare=False)

    def to_json(self) -> dict[str, Any]:
        return json.loads(json.dumps({name: getattr(self, name) for name in _JSON_FIELDS}))

    @classmethod
    def from_json(cls, values: Any) -> Certificate:
        if not isinstance(values, dict) or set(values) != set(_JSON_FIELDS):
            raise ValueError(f"a certificate must hold exactly {', '.join(sorted(_JSON_FIELDS))}")
        tuples: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
        return cls(**tuples)


_JSON_FIELDS = [item.name for item in dataclasses.fields(Certificate) if item.name != "joint_states"]


def certify(model: SequenceModel, dfa: DFA, alphabet: Alphabet, state_limit: int = STATE_LIMIT) -> Certificate:
    """Prove that a network answers like an automaton on words of every length; the result says whether it does.

    Args:
        model: the network, whose weights have one float type.
        dfa: the automaton; the network's answer after a word is the number of a state.
        alphabet: the tokens of the letters.
        state_limit: the most joint states; `TooManyJointStates` is raised if there are more.
    """
    _check_model(model, dfa)
    steps = WatchedSteps(model)
    with torch.no_grad():
        closure = _explore_steps(model, steps, dfa, alphabet, state_limit)
    faults = [fault.text for fault in broken_assumptions(model, steps)]
    if any(isinstance(block.mixer, SLSTM) for block in model.blocks):
        faults = [
            "an sLSTM's gates are rounded: this proof is for the step function alone; every order of rounding is covered "
            "only where an epsilon above 0 is proved as well"
        ]
    return _certificate(model, dfa, alphabet, closure, None, faults)


def broken_assumptions(model: SequenceModel, steps: WatchedSteps) -> list[Fault]:
    """Return the assumptions of the theorem on every backend that the explored steps of a network break."""
    faults = [Fault(Assumption.EXACT_STEPS, f"{op} {fault}") for op, fault in sorted(steps.check.faults.items())]
    if not steps.small_states:
        faults.append(Fault(Assumption.SMALL_STATES, "chunked: a state is not made of -1, 0 and 1"))
    elif fault := chunk_fault(model, steps.record):
        faults.append(fault)
    return faults


def certify_up_to_a_length(model: SequenceModel, dfa: DFA, alphabet: Alphabet, state_limit: int = STATE_LIMIT) -> Certificate:
    """Prove for words up to some length that a network with rounded rotations answers like an automaton.

    The proof is for the step function, and only for the networks that the compiler builds. The parameters are those of
    `certify`.
    """
    _check_model(model, dfa)
    dtype = model.embedding.weight.dtype
    plans = [rotation_plan(dfa), two_layer_plan(dfa)]
    if weights_hash(model) not in [weights_hash(build_network(plan, dtype)) for plan in plans if not plan.exact]:
        raise ValueError("a length bound is proved for the rotations that compile builds, and these weights are others")
    closure, bound = length_bound(model, dfa, alphabet, state_limit)
    return _certificate(model, dfa, alphabet, closure, bound, ["rotations are rounded: the bound is for the step function"])


@in_evaluation_mode
def _explore_steps(model: SequenceModel, steps: WatchedSteps, dfa: DFA, alphabet: Alphabet, state_limit: int) -> Closure:
    closure = explore(steps.step, dfa, alphabet, state_limit)
    steps.finish()
    return closure


def _check_model(model: SequenceModel, dfa: DFA) -> None:
    if model.correction is not None:
        raise ValueError("the network has a correction, which this proof does not follow: compiled networks have none")
    if len({weight.dtype for weight in model.parameters()}) > 1:
        raise ValueError("the weights have several float types: a certificate is for one")
    if dfa.states > model.config.vocab_size:
        raise ValueError(f"the automaton has {dfa.states} states, the network {model.config.vocab_size} answers")


def _certificate(
    model: SequenceModel, dfa: DFA, alphabet: Alphabet, closure: Closure, bound: int | None, faults: Sequence[str]
) -> Certificate:
    return Certificate(
        holds=closure.counterexample is None and bound != 0,
        order_independent=not faults,
        backends=("reference",) if faults else ("reference", "chunked", "triton"),
        length_bound=bound,
        tokens_per_letter=alphabet.tokens_per_letter,
        reachable_states=closure.reachable,
        margin=closure.margin,
        weights_dtype=_name(model.embedding.weight.dtype),
        state_dtype=_name(state_dtype(model.embedding.weight)),
        counterexample=closure.counterexample,
        faults=tuple(faults),
        weights_sha256=weights_hash(model),
        automaton_sha256=json_hash(dfa.to_json()),
        plan_sha256="",
        joint_states=None if faults else closure.joint_states,
    )


def weights_hash(model: SequenceModel) -> str:
    """Return the SHA-256 of the configuration and of the names, types, shapes and bits of all weights."""
    digest = hashlib.sha256(json.dumps(model.config.to_json(), sort_keys=True).encode())
    for name, weight in sorted(stored_weights(model).items()):
        digest.update(f"{name} {weight.dtype} {list(weight.shape)}".encode())
        digest.update(weight.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def json_hash(values: Any) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


class WatchedSteps:
    """The steps of a network, each of which is repeated later, in large batches, under the exactness check.

    Checking an op takes longer than the op itself, and far longer in a small batch. If nothing is rounded in a batch, nothing
    is rounded in its steps. After `finish`, `check` has the faults of all steps, `record` the inputs of the layers, and
    `small_states` says whether all memories, that before the first token included, are made of -1, 0 and 1.
    """

    def __init__(self, model: SequenceModel) -> None:
        self._model = model
        self.check, self.record = ExactnessCheck(model.parameters()), InputRecord(model)
        self.small_states = True
        self._tokens: list[Tensor] = []
        self._states: list[ModelState] = []

    def step(self, token: Tensor, state: ModelState | None) -> tuple[Tensor, ModelState]:
        logits, after = self._step(token, state)
        self.small_states = self.small_states and _is_small(after)
        return logits, after

    def _step(self, token: Tensor, state: ModelState | None) -> tuple[Tensor, ModelState]:
        if state is None:  # the begin token
            before = self._model.initial_state(1)
            self.small_states = _is_small(before)
            return self._watched(token, None)
        self._tokens.append(token)
        self._states.append(state)
        if sum(map(len, self._tokens)) >= STEP_BATCH:
            self.finish()
        return self._model.step(token, state)

    def finish(self) -> None:
        if self._tokens:
            self._watched(torch.cat(self._tokens), ModelState.stack(self._states))
        self._tokens, self._states = [], []

    def _watched(self, token: Tensor, state: ModelState | None) -> tuple[Tensor, ModelState]:
        with self.record, self.check:
            logits, after = self._model.step(token, state)
        self._compare_modes(token, state, logits)
        return logits, after

    def _compare_modes(self, token: Tensor, state: ModelState | None, logits: Tensor) -> None:
        """Raise ValueError if the step gives other logits in training mode, as one that adds noise there does."""
        self._model.train()
        trained, _ = self._model.step(token, state)
        self._model.eval()
        if not bool(((trained == logits) | (trained.isnan() & logits.isnan())).all()):
            raise ValueError(
                "the network answers otherwise in training mode than in evaluation mode: take out what acts only in training, "
                "such as noise; a certificate speaks of both"
            )


def _is_small(states: ModelState) -> bool:
    return all(bool(((part == 0) | (part.abs() == 1)).all()) for layer in states.layers for part in layer.memory)
