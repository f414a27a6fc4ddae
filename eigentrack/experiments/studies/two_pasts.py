"""The memory of a network that fails, tested with words of two beginnings and one continuation.

Pairs of words begin with different letters and go on with the same ones. Where the automaton still tells the two beginnings
apart, the network's answers should differ as well. Where both words are in one state, answers that differ can only come from
letters that should no longer count. A network that forgets gives the same answer to both words of a pair. One in which old
letters pile up gives two answers where there should be one. One whose numbers are off by the same amount for both words does
neither, and is still wrong.

The method has two limits. If few letters keep a word within the language, the second word leaves it sooner than the first, so
that most pairs compare a word inside with one outside. If the letters in common reset the state, no pair differs at the end,
and nothing can be said.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from eigentrack.models import SequenceModel
from eigentrack.tasks import TrackingTask
from eigentrack.tasks.counter_random import derived_seed

PAIRS = 256
LATE = 0.1  # the share of the length, at its end, where answers are compared
FEWEST = 20  # pairs of a kind, for a share
REACHED = 0.99  # right so often, a network does not fail at this length


@dataclass(frozen=True)
class TwoPasts:
    """Shares of the late answers to pairs of words; a share is None where random letters seldom make such a pair."""

    length: int
    told_apart: float | None  # how often the answers differ where the right ones do
    mixed_up: float | None  # how often the answers differ although the automaton is in one state
    right: float  # the share of right answers among all of them

    @property
    def fate(self) -> str | None:
        """The way in which the network fails, or None where these shares do not tell."""
        if self.right >= REACHED:
            return None
        if self.told_apart is not None and self.told_apart < 0.5:
            return "forgets"
        if self.mixed_up is not None and self.mixed_up > 0.1:
            return "holds on to what it should forget"
        return "drifts" if self.told_apart is not None else None


@torch.no_grad()
def two_pasts(model: SequenceModel, task: TrackingTask, beginning: int, length: int, seed: int) -> TwoPasts:
    """Measure answers on pairs of words of `length` letters, one token each, that differ in the first `beginning`."""
    assert task.tokens_per_letter == 1
    asked = derived_seed(seed, "two pasts")
    batch = task.sample(2 * PAIRS, (length, length), seed=asked, step=0)
    tokens = batch.tokens.clone()
    tokens[PAIRS:, beginning:] = tokens[:PAIRS, beginning:]
    states = _states(task, tokens)
    outputs = torch.tensor(task.outputs)[states]
    logits, _ = model.eval()(tokens)
    answers = logits[..., : task.classes].argmax(-1)

    late = slice(-max(1, round(LATE * length)), None)
    one, other = (part[:, late] for part in (states[:PAIRS], states[PAIRS:]))
    differ = answers[:PAIRS, late] != answers[PAIRS:, late]
    should_differ = outputs[:PAIRS, late] != outputs[PAIRS:, late]
    return TwoPasts(
        length=length,
        told_apart=_share(differ, should_differ),
        mixed_up=_share(differ, one == other),
        right=float((answers[:, late] == outputs[:, late]).double().mean()),
    )


def _share(found: Tensor, among: Tensor) -> float | None:
    """Return the share of late answers, or None if fewer than FEWEST pairs count: answers of one pair depend on each other."""
    pairs = int(among.any(1).sum())
    return None if pairs < FEWEST else float((found & among).sum() / among.sum())


def _states(task: TrackingTask, tokens: Int[Tensor, "B T"]) -> Int[Tensor, "B T"]:
    """Return the state after each token; the opening token leaves the state as it is."""
    stay = torch.arange(len(task.transitions))[:, None].expand(-1, task.vocab_size - task.letters)
    transitions = torch.cat([torch.tensor(task.transitions), stay], 1)
    state, found = torch.full((len(tokens),), task.start), []
    for letter in tokens.unbind(1):
        state = transitions[state, letter]
        found.append(state)
    return torch.stack(found, 1)
