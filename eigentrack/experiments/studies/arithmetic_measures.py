"""Measurements of networks that add and multiply modulo m: wrong answers, heads that turn, repeated terms.

**By how much wrong answers are off.** A network that adds modulo m by rotations reads its answer from an angle, 2πk/m a step
for some k. Where the angle has a small error, the state comes after some turns into one of the two sectors beside its own: at
first wrong answers are off by j or -j with kj = ±1, later by anything. So they are counted at the first tested length at which
fewer than 90 % are right.

**Does a head turn as addition modulo m does?** On d + d + d + … (or with minus) every term multiplies the state of a linear
layer by a matrix M. A head that adds modulo m by turning has an eigenvalue of M at the angle 2πkd/m, with one k for all digits,
perhaps with a sign besides:

    error of a head = min over k  max over digits d ≠ 0, both signs, and the last m terms  min |z ∓ e^{2πikd/m}|

over the eigenvalues z of M. 0.05 is an angle that is 3 degrees off, or a state that loses 5 % with every term. Real eigenvalues
alone come no nearer than sin 72° = 0.95 for m = 5. A small error is necessary for counting so, not sufficient: the planes in
which different digits turn may differ.

**How far is a sum known to which one term is added again and again?** If a term adds slightly too much, the error grows with
every repetition, where those of random terms partly cancel. If time is what wears a sum off, adding 0 shows it as well as
adding anything else.

m modulus  W words  T time  H heads  n state size  B sequences for each term  N numbers in an expression
"""

from __future__ import annotations

import cmath
from collections.abc import Sequence

import torch
from jaxtyping import Complex, Int
from torch import Tensor

from eigentrack.analysis.spectra import layer_inputs
from eigentrack.experiments.running.length_test import RIGHT
from eigentrack.experiments.running.task_cell import CellResult
from eigentrack.layers.mixer import LinearMixer
from eigentrack.models import SequenceModel
from eigentrack.tasks import Task
from eigentrack.tasks.counter_random import derived_seed
from eigentrack.tasks.modular_arithmetic import EQUALS, MINUS, PLUS, ModularArithmetic

SEQUENCES = 1024  # the number of sequences whose wrong answers are counted
TERMS = 20  # after which a convolution repeats itself; what lower layers hold may go round with the sum, every m terms
RANDOM_NUMBERS = 8  # before a term that is repeated; they are 16 tokens
REPEATED_SEQUENCES = 32  # the number of sequences for each term
STRIDE = 12  # between lengths that are asked


def first_failing_length(result: CellResult, longest: int) -> int:
    """Return the first even length beyond training at which fewer than 90 % are right, or the longest if there is none."""
    length = min(max(result.scores.right_to + 1, result.trained_to), longest)
    return length - length % 2 if length == longest else length + length % 2


@torch.no_grad()
def answer_offsets(model: SequenceModel, task: Task, length: int, seed: int) -> tuple[int, ...]:
    """Return how many answers are off by 0, 1, … m-1, for a task that asks once, at the end."""
    batch = task.sample(SEQUENCES, (length, length), seed=derived_seed(seed, "offsets"), step=0)
    asked = batch.weight > 0
    logits, _ = model.eval()(batch.tokens)
    answers = logits[asked][:, : task.classes].argmax(-1)
    offsets = (answers - batch.targets[asked]) % task.classes
    return tuple(torch.bincount(offsets, minlength=task.classes).tolist())


def leading_pair(offsets: Sequence[int]) -> tuple[int, float]:
    """Return the j for which the most wrong answers are off by j or -j, and their share of the wrong ones."""
    wrong = (0, *offsets[1:])
    pairs = {j: sum(wrong[offset] for offset in {j, len(wrong) - j}) for j in range(1, len(wrong) // 2 + 1)}
    best = max(pairs, key=lambda j: pairs[j])
    return best, pairs[best] / max(1, sum(wrong))


@torch.no_grad()
def turning_error(model: SequenceModel, task: ModularArithmetic) -> float:
    """Return the error of the head that turns best, in any layer."""
    inputs = layer_inputs(model, words_of_one_term(task.modulus))
    errors = [
        head_errors(mixer.transitions(seen), task.modulus)
        for mixer, seen in zip((block.mixer for block in model.blocks), inputs, strict=True)
        if isinstance(mixer, LinearMixer)
    ]
    return min((float(found.min()) for found in errors), default=float("inf"))


def words_of_one_term(modulus: int) -> Int[Tensor, "W T"]:
    """Return the words d ± d ± d … for every digit but 0, first with plus."""
    pairs = [(modulus + sign, digit) for sign in (PLUS, MINUS) for digit in range(1, modulus)]
    return torch.tensor([[digit, *(sign, digit) * TERMS] for sign, digit in pairs])


def head_errors(transitions: Tensor, modulus: int) -> Tensor:
    """Return the error of each head, [H], from the transitions [W T H n n] on `words_of_one_term`."""
    matrices = transitions[:, -2 * modulus :].double().cpu()
    values = torch.linalg.eigvals(matrices[:, 1::2] @ matrices[:, ::2])  # [W, terms, H, n]; a term is a sign and a digit
    by_k = []
    for k in range(1, modulus // 2 + 1):  # eigenvalues come in conjugate pairs, so that -k is k
        wanted = angles(k, modulus)[:, None, None, None]
        near = torch.minimum((values - wanted).abs(), (values + wanted).abs()).amin(-1)
        by_k.append(near.amax((0, 1)))
    return torch.stack(by_k).amin(0)


def angles(k: int, modulus: int) -> Complex[Tensor, " W"]:
    """Return e^{2πikd/m} for the digits of `words_of_one_term`; minus gives the conjugate, which is an eigenvalue as well."""
    once = [cmath.exp(2j * cmath.pi * k * digit / modulus) for digit in range(1, modulus)]
    return torch.tensor(2 * once, dtype=torch.complex128)


def signed_terms(modulus: int) -> list[tuple[int, int]]:
    """Return pairs of an operator and a digit: + 0, then + 1 … + (m-1), - 1 … - (m-1)."""
    return [(PLUS, 0), *((operator, digit) for operator in (PLUS, MINUS) for digit in range(1, modulus))]


@torch.no_grad()
def repeated_term_reach(model: SequenceModel, task: ModularArithmetic, longest: int, seed: int) -> tuple[int, ...]:
    """Return for each signed term the longest length up to which 90 % of the answers are right, or 0."""
    terms = signed_terms(task.modulus)
    reach, going = [0] * len(terms), set(range(len(terms)))
    for length in range(2 * RANDOM_NUMBERS + STRIDE, longest + 1, STRIDE):
        if not going:
            break
        chosen = sorted(going)
        tokens, values = _expressions(task, [terms[place] for place in chosen], length // 2, seed)
        logits, _ = model.eval()(tokens)
        answers = logits[:, -1, : task.modulus].argmax(-1)
        shares = (answers == values).float().view(len(chosen), REPEATED_SEQUENCES).mean(1)
        for place, share in zip(chosen, shares.tolist(), strict=True):
            if share >= RIGHT:
                reach[place] = length
            else:
                going.remove(place)
    return tuple(reach)


def _expressions(
    task: ModularArithmetic, terms: list[tuple[int, int]], numbers: int, seed: int
) -> tuple[Int[Tensor, "mB 2N"], Int[Tensor, " mB"]]:
    """Return expressions of a random start, the same for every term and length, then the term over and over, then "="."""
    source = torch.Generator().manual_seed(derived_seed(seed, "repeated terms"))
    digits, operators = (
        torch.randint(choices, (REPEATED_SEQUENCES, RANDOM_NUMBERS), generator=source) for choices in (task.modulus, EQUALS)
    )
    all_digits, all_operators = [], []
    for operator, digit in terms:
        again = numbers - RANDOM_NUMBERS
        all_digits.append(torch.cat([digits, torch.full((REPEATED_SEQUENCES, again), digit)], 1))
        before = torch.cat(
            [operators[:, :-1], torch.full((REPEATED_SEQUENCES, again + 1), operator)], 1
        )  # operator i follows digit i
        all_operators.append(before)
    joined, after = torch.cat(all_digits), torch.cat(all_operators)
    tokens = torch.stack([joined, task.modulus + after], 2).flatten(1)
    tokens[:, -1] = task.modulus + EQUALS
    return tokens, task.prefix_values(joined, after)[:, -1]
