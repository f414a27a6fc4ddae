"""Counter languages: after every token, which letters may come next, and may the word end here?

    shuffle-k, boolean-n   each letter adds a vector of its own to the counters c; their signs tell what may come next:
                           answer = Σ_i 2^i [c_i > 0]
    aⁿbⁿ, aⁿbⁿcⁿ, …        n ≥ 1 letters in each of k blocks; after t letters, answer = [t > 0] if t ≤ n, else ⌊t/n⌋ + 1

B sequences  T time, the begin token included  N = T-1 letters of a sequence  C counters  A letters of the alphabet

The suite of Bhattamishra, Ahuja, Goyal 2020 and Sarrof, Veitsman, Hahn 2024.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar

import torch
from jaxtyping import Int
from torch import Tensor

from eigentrack.tasks.counter_random import random_integers
from eigentrack.tasks.task import Batch, DeviceTables, Task, check_lengths

END = "end"  # of the word, in the answers that allow it
BRACKETS = "()[]{}<>«»⟦⟧"


@dataclass(frozen=True)
class _Counters:
    """A word may end where all counters are zero; it must, if `zero_ends`."""

    letters: tuple[str, ...]
    changes: tuple[tuple[int, ...], ...]  # A C; a letter takes at most 1 from their sum, which so bounds the letters to come
    shares: tuple[int, ...]  # of the letters in the words that are drawn
    begin: tuple[int, ...]  # the counters before the first letter
    stride: int  # the words have a multiple of so many letters
    zero_ends: bool

    @cached_property
    def answer_sets(self) -> tuple[frozenset[str], ...]:
        """The letters that may come next, or END, for each class."""
        return tuple(
            frozenset(letter for letter, change in zip(self.letters, self.changes, strict=True) if self._allows(answer, change))
            | ({END} if answer == 0 else set())
            for answer in range(2 ** len(self.begin))
        )

    def _allows(self, answer: int, change: tuple[int, ...]) -> bool:
        is_over = self.zero_ends and answer == 0
        return not is_over and all(step >= 0 or answer >> i & 1 for i, step in enumerate(change))

    def words(
        self, word_length: Int[Tensor, "B 1"], random: Int[Tensor, "B N"]
    ) -> tuple[Int[Tensor, "B N"], Int[Tensor, "B N+1"]]:
        """The first N letters of a word of each length, from numbers below 2³¹, and the class before and after each of them."""
        changes, sum_change, shares, may_follow, bit, begin = self._tables.on(random.device)
        counters = begin.expand(len(random), -1)
        word, answers = torch.empty_like(random), [((counters > 0) * bit).sum(1)]
        for t, number in enumerate(random.unbind(1)):
            letters_left = word_length - (t + 1)
            sum_after = counters.sum(1, keepdim=True) + sum_change  # B A
            can_end_in_time = sum_after <= letters_left
            if self.zero_ends:
                can_end_in_time &= (sum_after > 0) | (letters_left == 0)
            share = (may_follow[answers[-1]] * can_end_in_time * shares).cumsum(1)
            # after the end of the word no letter has a share, and all A of them are passed over: A is the padding
            word[:, t] = (share <= (number[:, None] * share[:, -1:] >> 31)).sum(1)
            counters = counters + changes[word[:, t]]
            answers.append(((counters > 0) * bit).sum(1))
        return word, torch.stack(answers, 1)

    @cached_property
    def _tables(self) -> DeviceTables:
        changes = torch.tensor([*self.changes, (0,) * len(self.begin)])  # A+1 C, the last for padding
        may_follow = [[letter in answers for letter in self.letters] for answers in self.answer_sets]  # classes A
        bit = [2**i for i in range(len(self.begin))]
        return DeviceTables(changes, changes[:-1].sum(1), *map(torch.tensor, (self.shares, may_follow, bit, self.begin)))


@dataclass(frozen=True)
class _Blocks:
    letters: tuple[str, ...]

    @property
    def stride(self) -> int:
        return len(self.letters)

    @property
    def answer_sets(self) -> tuple[frozenset[str], ...]:
        first, second, *others = self.letters
        return tuple(frozenset(answer) for answer in ([first], [first, second], [second], *zip(others, strict=True), [END]))

    def words(
        self, word_length: Int[Tensor, "B 1"], random: Int[Tensor, "B N"]
    ) -> tuple[Int[Tensor, "B N"], Int[Tensor, "B N+1"]]:
        """As above; the length alone tells the word."""
        n, t = word_length // self.stride, torch.arange(random.shape[1] + 1, device=random.device)
        block = (t // n).clamp(max=self.stride)
        return block[:, :-1], torch.where(t <= n, t.clamp(max=1), block + 1)


def _shuffle(pairs: int) -> _Counters:
    """Dyck-1 words over a kind of brackets each, their letters shuffled; counter i: the open brackets of kind i."""
    changes = tuple(tuple(sign * (i == pair) for i in range(pairs)) for pair in range(pairs) for sign in (1, -1))
    return _Counters(tuple(BRACKETS[: 2 * pairs]), changes, (1,) * (2 * pairs), (0,) * pairs, stride=2, zero_ends=False)


def _boolean(n: int) -> _Counters:
    """Prefix expressions of the atoms 0 and 1 and of one operator of each arity 1..n; the counter: the operands expected."""
    arities = range(1, n + 1)
    letters, changes = ("0", "1", *(f"op{a}" for a in arities)), ((-1,), (-1,), *((a - 1,) for a in arities))
    shares = (n * (n - 1),) * 2 + (4,) * n  # mean arity 1: the counter has no drift
    return _Counters(letters, changes, shares, begin=(1,), stride=1, zero_ends=True)


LANGUAGES: dict[str, _Counters | _Blocks] = {
    "dyck1": _shuffle(1),
    "shuffle2": _shuffle(2),
    "shuffle4": _shuffle(4),
    "shuffle6": _shuffle(6),
    "boolean3": _boolean(3),
    "boolean5": _boolean(5),
    "anbn": _Blocks(("a", "b")),
    "anbncn": _Blocks(("a", "b", "c")),
    "anbncndn": _Blocks(("a", "b", "c", "d")),
}


@dataclass(frozen=True)
class CounterLanguage(Task):
    """Each sequence is the begin token and the first L-1 letters of a word, L uniform in `lengths`.

    Half of the words have the least possible number of letters from L-1 on: they end with the sequence if there are words of
    L-1 letters (a multiple of 2 for brackets, of k for k blocks, any for Boolean). The others have any possible number
    from L-1 to 2(L-1), alike, and are cut. Letters are drawn by their shares among those that may come next and let the word
    end in time: brackets alike, operators alike, atoms so often that the mean arity is 1. Nothing else bounds the counters.

    Tokens 0..A-1 are `letters`, then padding and begin; class i means that the letters in `answer_sets[i]` may come next.
    """

    description: ClassVar[str] = "the letters that may come next in a counter language: Dyck-1, shuffles, Boolean, aⁿbⁿ, …"
    name: str

    def __post_init__(self) -> None:
        if self.name not in LANGUAGES:
            raise ValueError(f"name={self.name!r} must be one of {', '.join(LANGUAGES)}")

    @property
    def letters(self) -> tuple[str, ...]:
        return LANGUAGES[self.name].letters

    @property
    def answer_sets(self) -> tuple[frozenset[str], ...]:
        return LANGUAGES[self.name].answer_sets

    @property
    def padding(self) -> int:
        return len(self.letters)

    @property
    def begin(self) -> int:
        return self.padding + 1

    @property
    def vocab_size(self) -> int:
        return self.begin + 1

    @property
    def classes(self) -> int:
        return len(self.answer_sets)

    def sample(
        self, batch: int, lengths: tuple[int, int], *, seed: int, step: int | Tensor, device: torch.device | str = "cpu"
    ) -> Batch:
        check_lengths(lengths)
        shortest, longest = lengths
        language = LANGUAGES[self.name]
        draw = partial(random_integers, seed=seed, step=step, device=device)
        length = shortest + draw(longest - shortest + 1, (batch, 1), stream=0)
        # the word's length in strides: ⌈(L-1)/stride⌉ .. ⌈2(L-1)/stride⌉, no word being empty
        least, most = ((-(times * (1 - length) // language.stride)).clamp(min=1) for times in (1, 2))
        longer = least + (draw(2**31, (batch, 1), stream=1) * (most - least + 1) >> 31)
        word_length = language.stride * torch.where(draw(2, (batch, 1), stream=2) == 0, least, longer)

        word, answers = language.words(word_length, draw(2**31, (batch, longest - 1), stream=3))
        tokens = torch.cat([torch.full_like(length, self.begin), word], 1)
        is_token = torch.arange(longest, device=device) < length
        return Batch(torch.where(is_token, tokens, self.padding), torch.where(is_token, answers, 0), is_token / length)
