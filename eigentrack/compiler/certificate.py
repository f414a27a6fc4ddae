"""Certificate: the machine-checked proof that a network answers like an automaton on every word of every length.

It is proved by closure (closure.py), for the step function, in the stated float types. If no value is ever rounded
(exactness.py, chunk_bounds.py), the order of evaluation cannot matter: the proof then holds for every backend, device and
batch size.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from eigentrack.automata import DFA
from eigentrack.compiler.chunk_bounds import InputRecord, chunk_fault
from eigentrack.compiler.closure import STEP_BATCH, Closure, explore
from eigentrack.compiler.cyclic import rotation_plan, two_layer_plan
from eigentrack.compiler.exactness import ExactnessCheck
from eigentrack.compiler.length_bound import length_bound
from eigentrack.compiler.network import build_network
from eigentrack.compiler.plan import Alphabet
from eigentrack.layers import SLSTM
from eigentrack.models import SequenceModel
from eigentrack.models.sequence_model import ModelState
from eigentrack.models.storage import stored_weights
from eigentrack.ops.shared.dispatch import state_dtype

STATE_LIMIT = 200_000  # joint states


@dataclass(frozen=True)
class Certificate:
    """`length_bound` is None where the proof is for all lengths; `backends` are those that it covers.

    `plan_sha256` binds the description of the network that was stored with it, and is empty where there is none.
    """

    holds: bool
    order_independent: bool
    backends: tuple[str, ...]
    length_bound: int | None
    tokens_per_letter: int
    reachable_states: int
    margin: float
    weights_dtype: str
    state_dtype: str
    counterexample: tuple[str, ...] | None
    faults: tuple[str, ...]  # where a value might be rounded
    weights_sha256: str
    automaton_sha256: str
    plan_sha256: str

    def to_json(self) -> dict[str, Any]:
        return json.loads(json.dumps(dataclasses.asdict(self)))

    @classmethod
    def from_json(cls, values: Any) -> Certificate:
        fields = {item.name for item in dataclasses.fields(cls)}
        if not isinstance(values, dict) or set(values) != fields:
            raise ValueError(f"a certificate must hold exactly {', '.join(sorted(fields))}")
        tuples: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
        return cls(**tuples)


def certify(model: SequenceModel, dfa: DFA, alphabet: Alphabet, state_limit: int = STATE_LIMIT) -> Certificate:
    """For every length."""
    _check_model(model, dfa)
    steps = WatchedSteps(model)
    with torch.no_grad():
        closure = explore(steps.step, dfa, alphabet, state_limit)
        steps.finish()
    faults = [f"{op} {fault}" for op, fault in sorted(steps.check.faults.items())]
    if fault := chunk_fault(model, steps.record) if closure.small_states else "a state is not made of -1, 0 and 1":
        faults.append(f"chunked: {fault}")
    if any(isinstance(block.mixer, SLSTM) for block in model.blocks):
        faults = [
            "an sLSTM's gates are rounded: this proof is for the step function alone; every order of rounding is covered "
            "only where an epsilon above 0 is proved as well"
        ]
    return _certificate(model, dfa, alphabet, closure, None, faults)


def certify_up_to_a_length(model: SequenceModel, dfa: DFA, alphabet: Alphabet, state_limit: int = STATE_LIMIT) -> Certificate:
    """Where values must be rounded: for the step function, up to a length, and only for what the compiler builds."""
    _check_model(model, dfa)
    dtype = model.embedding.weight.dtype
    plans = [rotation_plan(dfa), two_layer_plan(dfa)]
    if weights_hash(model) not in [weights_hash(build_network(plan, dtype)) for plan in plans if not plan.exact]:
        raise ValueError("a length bound is proved for the rotations that compile builds, and these weights are others")
    closure, bound = length_bound(model, dfa, alphabet, state_limit)
    return _certificate(model, dfa, alphabet, closure, bound, ["rotations are rounded: the bound is for the step function"])


def _check_model(model: SequenceModel, dfa: DFA) -> None:
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
    )


def weights_hash(model: SequenceModel) -> str:
    """Of names, types, shapes and bits of all weights, and of the configuration."""
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
    """The steps of a network, each of which is repeated later under the exactness check, many at once.

    Watching an op takes longer than the op, and in a small batch far longer. What is rounded in no batch is rounded in no step.
    After `finish`, `check` holds the faults and `record` the inputs of the layers, of all steps.
    """

    def __init__(self, model: SequenceModel) -> None:
        self._model = model
        self.check, self.record = ExactnessCheck(model.parameters()), InputRecord(model)
        self._tokens: list[Tensor] = []
        self._states: list[ModelState] = []

    def step(self, token: Tensor, state: ModelState | None) -> tuple[Tensor, ModelState]:
        if state is None:  # the begin token
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
            return self._model.step(token, state)
