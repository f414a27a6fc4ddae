"""The glossary has the names of the project, in alphabetical order, each with a sentence and a link."""

from __future__ import annotations

import re

from tests.docs.claims import PAGES

NAMES = {
    *("mixer", "eigenvalues", "householders", "state", "backend", "horizon", "certificate", "range"),
    *("monoid", "star-free", "aperiodic", "R^ω", "group language", "solvable", "generalized Householder factor"),
    "Krohn–Rhodes decomposition",
}


def entries() -> list[tuple[str, str]]:
    """Return the words with what is said about them."""
    _, glossary = PAGES["docs/concepts.md"].read_text().split("## 7. Glossary\n")
    return re.findall(r"^- \*\*(.+?)\*\*: (.+)$", glossary, flags=re.MULTILINE)


def test_every_name_is_there() -> None:
    assert {word for word, _ in entries()} >= NAMES


def test_words_are_in_alphabetical_order() -> None:
    words = [re.sub(r"\W", " ", word.lower()) for word, _ in entries()]
    assert words == sorted(words)
    assert len(set(words)) == len(words)


def test_every_word_has_one_sentence_with_a_link() -> None:
    for word, said in entries():
        assert re.search(r"\]\((?:[\w/]+\.md)?(?:#[\w-]+)?\)", said), word
        assert said.endswith(")."), word
        assert ". " not in said.replace("e.g. ", ""), f"{word} has more than one sentence"
