"""LanguageChoice: how the page is told a regular language: a regular expression, a named language, or a group."""

from __future__ import annotations

from dataclasses import dataclass

from eigentrack.automata import DFA, LANGUAGES, language, regex_dfa, word_problem_dfa

REGEX, NAMED, GROUP = KINDS = ("regular expression", "named language", "group")
GROUP_LETTERS = ("generators", "swaps", "upto3", "all")


@dataclass(frozen=True)
class LanguageChoice:
    """A choice of a language; `letters` are those beyond the regex, or elements of the group; a named language has its own."""

    kind: str
    name: str
    letters: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind {self.kind!r} is not known; there are {', '.join(KINDS)}")
        if not self.name:
            raise ValueError(f"name a {self.kind}: nothing was typed")
        if self.kind == NAMED and self.letters:
            raise ValueError(f"letters={self.letters!r}: the named language {self.name!r} has its own")

    def automaton(self) -> DFA:
        """Return the complete minimal DFA."""
        if self.kind == REGEX:
            return regex_dfa(self.name, self.letters)
        return language(self.name) if self.kind == NAMED else word_problem_dfa(self.name, self.letters)

    @property
    def title(self) -> str:
        if self.kind == NAMED:
            return f"{self.name}: {LANGUAGES[self.name][0]}" if self.name in LANGUAGES else self.name
        return self.name if self.kind == REGEX else f"the word problem of {self.name}, letters: {self.letters}"
