"""Alphabet: how a word becomes tokens: begin, then each letter and its fillers. Tokens are numbered: letters, begin, filler."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Alphabet:
    letters: int
    tokens_per_letter: int = 1

    @property
    def begin(self) -> int:
        return self.letters

    @property
    def filler(self) -> int:
        return self.letters + 1

    @property
    def size(self) -> int:
        """Different tokens; a filler is one of them only where it is used."""
        return self.letters + 1 + (self.tokens_per_letter > 1)

    def spelled(self, letter: int) -> list[int]:
        return [letter] + [self.filler] * (self.tokens_per_letter - 1)

    def tokens(self, word: Iterable[int]) -> list[int]:
        return [self.begin, *(token for letter in word for token in self.spelled(letter))]
