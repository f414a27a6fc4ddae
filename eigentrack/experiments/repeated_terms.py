"""How far does a network know a sum to which one term is added again and again?

If a term adds slightly too much, the error grows with every repetition, where those of random terms partly cancel. If time is
what wears a sum off, adding 0 shows it as well as adding anything else.

m modulus  B sequences for each term  N numbers in an expression
"""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor

from eigentrack.experiments.length_test import RIGHT
from eigentrack.models import SequenceModel
from eigentrack.tasks.counter_random import derived_seed
from eigentrack.tasks.modular_arithmetic import EQUALS, MINUS, PLUS, ModularArithmetic

RANDOM_NUMBERS = 8  # before the term; they are 16 tokens
SEQUENCES = 32  # of each term
STRIDE = 12  # between lengths that are asked


def signed_terms(modulus: int) -> list[tuple[int, int]]:
    """(operator, digit): + 0, then + 1 … + (m-1), - 1 … - (m-1)."""
    return [(PLUS, 0), *((operator, digit) for operator in (PLUS, MINUS) for digit in range(1, modulus))]


@torch.no_grad()
def repeated_term_reach(model: SequenceModel, task: ModularArithmetic, longest: int, seed: int) -> tuple[int, ...]:
    """For each of the signed terms the longest length up to which 90 % of the answers are right; 0 where none is."""
    terms = signed_terms(task.modulus)
    reach, going = [0] * len(terms), set(range(len(terms)))
    for length in range(2 * RANDOM_NUMBERS + STRIDE, longest + 1, STRIDE):
        if not going:
            break
        chosen = sorted(going)
        tokens, values = _expressions(task, [terms[place] for place in chosen], length // 2, seed)
        logits, _ = model.eval()(tokens)
        answers = logits[:, -1, : task.modulus].argmax(-1)
        shares = (answers == values).float().view(len(chosen), SEQUENCES).mean(1)
        for place, share in zip(chosen, shares.tolist(), strict=True):
            if share >= RIGHT:
                reach[place] = length
            else:
                going.remove(place)
    return tuple(reach)


def _expressions(
    task: ModularArithmetic, terms: list[tuple[int, int]], numbers: int, seed: int
) -> tuple[Int[Tensor, "mB 2N"], Int[Tensor, " mB"]]:
    """A random start, the same for every term and length, then the term over and over, then "="."""
    source = torch.Generator().manual_seed(derived_seed(seed, "repeated terms"))
    digits, operators = (
        torch.randint(choices, (SEQUENCES, RANDOM_NUMBERS), generator=source) for choices in (task.modulus, EQUALS)
    )
    all_digits, all_operators = [], []
    for operator, digit in terms:
        again = numbers - RANDOM_NUMBERS
        all_digits.append(torch.cat([digits, torch.full((SEQUENCES, again), digit)], 1))
        before = torch.cat([operators[:, :-1], torch.full((SEQUENCES, again + 1), operator)], 1)  # operator i follows digit i
        all_operators.append(before)
    joined, after = torch.cat(all_digits), torch.cat(all_operators)
    tokens = torch.stack([joined, task.modulus + after], 2).flatten(1)
    tokens[:, -1] = task.modulus + EQUALS
    return tokens, task.prefix_values(joined, after)[:, -1]
