"""Counter languages: after every token, the model names the letters that may come next, and whether the word may end.

    shuffle-k, boolean-n   each letter adds its own vector to the counters c, whose signs determine what may come next:
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

END = "end"  # stands for the end of the word in the sets of what may come next
BRACKETS = "()[]{}<>«»⟦⟧"


@dataclass(frozen=True)
class _Counters:
    """A language whose words may end where all counters are zero; if `zero_ends`, they must end there."""

    letters: tuple[str, ...]
    changes: tuple[
        tuple[int, ...], ...
    ]  # A C; a letter lowers the sum by at most 1, so the sum is the least number of letters left
    shares: tuple[int, ...]  # how often each letter is drawn, relative to the others
    begin: tuple[int, ...]  # the counters before the first letter
    stride: int  # the length of every word is a multiple of this
    zero_ends: bool

    @cached_property
    def answer_sets(self) -> tuple[frozenset[str], ...]:
        """The set, for each class, of the letters that may come next; END is in it if the word may end."""
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
        """Draw words and return their first N letters, and the class before and after each letter.

        Args:
            word_length: the length of each word; a word that is shorter than N is padded with the number A.
            random: one random number below 2³¹ per letter.
        """
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
            # after the end of the word all shares are 0, so the sum below counts all A letters: A is the padding token
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
    """A language of words with n ≥ 1 copies of each letter, in the given order, such as aⁿbⁿ."""

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
        """Return the same as `_Counters.words`; the length determines the word, so the values in `random` are not used."""
        n, t = word_length // self.stride, torch.arange(random.shape[1] + 1, device=random.device)
        block = (t // n).clamp(max=self.stride)
        return block[:, :-1], torch.where(t <= n, t.clamp(max=1), block + 1)


def _shuffle(pairs: int) -> _Counters:
    """Return the shuffle of one Dyck-1 language for each kind of bracket; counter i counts the open brackets of kind i."""
    changes = tuple(tuple(sign * (i == pair) for i in range(pairs)) for pair in range(pairs) for sign in (1, -1))
    return _Counters(tuple(BRACKETS[: 2 * pairs]), changes, (1,) * (2 * pairs), (0,) * pairs, stride=2, zero_ends=False)


def _boolean(n: int) -> _Counters:
    """Return the language of Boolean prefix expressions, whose counter is the number of operands still expected.

    The letters are the atoms 0 and 1, and one operator of each arity 1..n.
    """
    arities = range(1, n + 1)
    letters, changes = ("0", "1", *(f"op{a}" for a in arities)), ((-1,), (-1,), *((a - 1,) for a in arities))
    shares = (n * (n - 1),) * 2 + (4,) * n  # the mean arity is 1, so that the counter has no drift
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
    """The task to name, after every token, the letters that may come next in the counter language `name`.

    Each sequence is the begin token and the first L-1 letters of a word, where L is uniform in `lengths`. Half of the words
    have the least possible length that is at least L-1: they end with the sequence if the language has words of length L-1
    (a multiple of 2 for brackets, of k for k blocks, any length for Boolean). The length of the others is uniform among the
    possible ones from L-1 to 2(L-1), and they are cut off. A letter is drawn among those that may come next and still let the
    word end in time: all brackets are equally likely, so are all operators, and atoms are so likely that the mean arity is 1.
    Nothing else bounds the counters.

    Tokens 0..A-1 are `letters`, then padding and begin; class i means that the letters in `answer_sets[i]` may come next.
    """

    description: ClassVar[str] = "Ask after every token which letters may come next in a counter language: Dyck-1, aⁿbⁿ, …"
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
        # the word's length in strides: ⌈(L-1)/stride⌉ .. ⌈2(L-1)/stride⌉, and at least 1, as no word is empty
        least, most = ((-(times * (1 - length) // language.stride)).clamp(min=1) for times in (1, 2))
        longer = least + (draw(2**31, (batch, 1), stream=1) * (most - least + 1) >> 31)
        word_length = language.stride * torch.where(draw(2, (batch, 1), stream=2) == 0, least, longer)

        word, answers = language.words(word_length, draw(2**31, (batch, longest - 1), stream=3))
        tokens = torch.cat([torch.full_like(length, self.begin), word], 1)
        is_token = torch.arange(longest, device=device) < length
        return Batch(torch.where(is_token, tokens, self.padding), torch.where(is_token, answers, 0), is_token / length)
