"""State tracking in text: small Python programs of swaps and assignments, with a question about one variable at the end.

    a = 4; b = 1; c = 7         variables start with different digits
    a, b = b, a                 a statement: a swap
    c = a                       or an assignment
    assert c == ...             the answer is the likeliest of all digits that the variables started with

A guess is right with probability 1 / number of variables. A program is a function of (seed, number of statements, number).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from eigentrack.lm.language_model import LanguageModel
from eigentrack.models import ModelState, SequenceModel
from eigentrack.tasks.counter_random import derived_seed

NAMES = "abcdefghij"
KINDS = {"swaps": 0.0, "swaps and assignments": 0.3}  # name → the share of assignments
STATEMENTS = (0, 1, 2, 4, 8, 16, 32, 64)


class Statement(NamedTuple):
    """A swap of two variables, given by their numbers, or an assignment of the second to the first."""

    first: int
    second: int
    swaps: bool


@dataclass(frozen=True)
class Program:
    """A program that the model reads."""

    values: tuple[int, ...]  # the values with which the variables start
    statements: tuple[Statement, ...]
    asked: int  # the number of the variable in question

    @property
    def text(self) -> str:
        """The source of the program, up to the answer."""
        lines = ["; ".join(f"{NAMES[i]} = {value}" for i, value in enumerate(self.values))]
        for first, second, swaps in self.statements:
            a, b = NAMES[first], NAMES[second]
            lines.append(f"{a}, {b} = {b}, {a}" if swaps else f"{a} = {b}")
        return "\n".join([*lines, f"assert {NAMES[self.asked]} =="])

    @property
    def answer(self) -> int:
        """The value of the variable in question after all statements."""
        held = list(self.values)
        for first, second, swaps in self.statements:
            held[first], held[second] = held[second], held[first] if swaps else held[second]
        return held[self.asked]


def draw_program(statements: int, number: int, *, seed: int = 0, variables: int = 5, assignments: float = 0.0) -> Program:
    if not 2 <= variables <= len(NAMES):
        raise ValueError(f"variables={variables} must lie between 2 and {len(NAMES)}")
    draw = np.random.default_rng(derived_seed(seed, f"program {number} of {statements} statements"))
    values = tuple(draw.permutation(10)[:variables].tolist())
    made = []
    for _ in range(statements):
        first, second = draw.permutation(variables)[:2].tolist()
        made.append(Statement(first, second, draw.random() >= assignments))
    return Program(values, tuple(made), int(draw.integers(variables)))


@dataclass(frozen=True)
class ProbeResult:
    """The accuracy on programs of one kind and length."""

    kind: str  # a key of KINDS
    statements: int
    programs: int
    accuracy: float
    chance: float  # the accuracy of guessing


def probe(
    language_model: LanguageModel,
    *,
    statements: Sequence[int] = STATEMENTS,
    programs: int = 100,
    seed: int = 0,
    variables: int = 5,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> list[ProbeResult]:
    """Measure the accuracy by kind and number of statements; `report` gets the number of programs done and of all."""
    if programs < 1:
        raise ValueError(f"programs={programs} must be at least 1")
    found: list[ProbeResult] = []
    for kind, assignments in KINDS.items():
        for count in statements:
            right = 0
            for number in range(programs):
                program = draw_program(count, number, seed=seed, variables=variables, assignments=assignments)
                right += likeliest_value(language_model, program) == program.answer
                report(len(found) * programs + number + 1, len(KINDS) * len(statements) * programs)
            found.append(ProbeResult(kind, count, programs, right / programs, 1 / variables))
    return found


def likeliest_value(language_model: LanguageModel, program: Program) -> int:
    """Return the likeliest answer of the model, among the values that the variables started with."""
    encode = language_model.tokenizer.encode
    (prompt, *answers) = encode([program.text, *(f" {value}" for value in program.values)], "int64")
    scores = answer_scores(language_model.model, torch.from_numpy(prompt), [torch.from_numpy(answer) for answer in answers])
    return program.values[int(np.argmax(scores))]


@torch.no_grad()
def answer_scores(model: SequenceModel, prompt: torch.Tensor, answers: Sequence[torch.Tensor]) -> list[float]:
    """Return log p(answer | prompt) of each answer; the model reads the prompt once."""
    device = model.embedding.weight.device
    x, state = model.hidden(prompt[None].to(device))
    first = model.head(x[:, -1]).float().log_softmax(-1)[0].cpu()
    return [float(first[answer[0]]) + _rest_score(model, state, answer.to(device)) for answer in answers]


def _rest_score(model: SequenceModel, state: ModelState, answer: torch.Tensor) -> float:
    """Return log p of an answer's tokens after its first."""
    if len(answer) == 1:
        return 0.0
    logits, _ = model(answer[None, :-1], state)
    return float(logits[0].float().log_softmax(-1).gather(1, answer[1:, None]).sum())
