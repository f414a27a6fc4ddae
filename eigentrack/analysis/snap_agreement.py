"""The agreement of a snapped network with the trained one: a certificate is about the snapped one alone.

The read-out of a snapped network is built from the automaton that the trained one should be, so it is right whatever the
trained one has learned. That it is the trained network made exact is shown by two comparisons: the automaton that was read off
the trained network is the true one, and both networks give equal answers on all short words and on random ones as long as the
trained one is right.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import torch
from jaxtyping import Int
from torch import Tensor

from eigentrack.analysis.inspected_network import InspectedNetwork
from eigentrack.analysis.moore_machine import minimal_machine
from eigentrack.compiler import Compiled
from eigentrack.tasks.counter_random import derived_seed

MOST_SHORT = 512  # short words of one length
RANDOM, LONGEST = 32, 2048  # the number of random words, and the most letters of one


@dataclass(frozen=True)
class Agreement:
    """The result of holding a snapped network against the trained one that it was made of."""

    words: int  # the number of words that both read
    letters: int  # the length of the longest
    difference: tuple[str, ...] | None  # the first word found after which they answer differently; None if there is none
    same_automaton: bool  # whether the automaton that was read off the trained network is that of the snapped one

    @property
    def holds(self) -> bool:
        """Whether nothing speaks against the snapped network being the trained one made exact."""
        return self.difference is None and self.same_automaton

    @property
    def told(self) -> str:
        """The result in words."""
        if self.holds:
            compared = f"the same answers on {self.words} words of up to {self.letters} letters"
            return f"the trained network has the same automaton, and {compared}"
        word = " ".join(self.difference or ()) or "the empty word"
        why = "no equal automaton could be read off it" if self.difference is None else f"it answers {word!r} otherwise"
        return f"the trained network disagrees: {why}"


@torch.no_grad()
def compare_with_trained(
    network: InspectedNetwork, snapped: Compiled, *, letters: int, same_automaton: bool, seed: int
) -> Agreement:
    """Compare a snapped network with the trained one.

    Args:
        network: the trained network.
        snapped: the exact network that was made of it.
        letters: up to how many letters the trained network is right.
        same_automaton: whether the automaton that was read off the trained network is the true one.
        seed: of the random words.
    """
    exact = InspectedNetwork.from_compiled(snapped)
    outputs = torch.tensor(minimal_machine(network.machine).outputs)
    compared = longest = 0
    for words in _words(network, max(1, min(letters, LONGEST)), seed):
        begun, state = network.begin(len(words))
        found = network.read(words.to(network.device), state)[0].argmax(-1).cpu()
        exactly_begun, state = exact.begin(len(words))
        expected = outputs[exact.read(words.to(exact.device), state)[0].argmax(-1).cpu()]
        if begun is not None and exactly_begun is not None:  # the answers to the empty word
            found = torch.cat([begun.argmax(-1)[:, None].cpu(), found], 1)
            expected = torch.cat([outputs[exactly_begun.argmax(-1).cpu()][:, None], expected], 1)
        compared, longest = compared + len(words), max(longest, words.shape[1])
        wrong = torch.nonzero((found != expected).any(0))
        if len(wrong):
            place = int(wrong[0])
            row = int(torch.nonzero(found[:, place] != expected[:, place])[0])
            length = place + words.shape[1] + 1 - found.shape[1]
            named = tuple(network.machine.letters[letter] for letter in words[row, :length].tolist())
            return Agreement(compared, longest, named, same_automaton)
    return Agreement(compared, longest, None, same_automaton)


def _words(network: InspectedNetwork, letters: int, seed: int) -> Iterator[Int[Tensor, "B N"]]:
    """Yield all words of a small length, of which shorter ones are the beginnings, then random ones."""
    count, length = len(network.machine.letters), 1
    while count ** (length + 1) <= MOST_SHORT and length < 8:
        length += 1
    yield torch.tensor(list(product(range(count), repeat=length)))
    start = torch.full((RANDOM,), network.machine.start)
    yield network.walk(start, letters, derived_seed(seed, "snapped"), 0)[0]
