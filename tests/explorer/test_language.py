from __future__ import annotations

import re
from html import unescape

import pytest

from eigentrack.automata import regex_dfa
from eigentrack.automata.dfa import split_word
from eigentrack.explorer.automaton_drawing import MOST_STATES, draw_automaton
from eigentrack.explorer.language_choice import GROUP, NAMED, REGEX, LanguageChoice
from eigentrack.explorer.language_view import show_language, view_language
from eigentrack.expressivity import STANDARD


@pytest.mark.parametrize(
    ("choice", "states", "said"),
    [
        (LanguageChoice(REGEX, "(aa)*"), 2, "Z2, abelian"),
        (LanguageChoice(REGEX, "a*b"), 3, "piecewise testable"),
        (LanguageChoice(REGEX, "a*", "b"), 2, "star-free"),
        (LanguageChoice(NAMED, "flip-flop"), 2, "star-free"),
        (LanguageChoice(GROUP, "S3", "all"), 6, "S3, solvable"),
    ],
)
def test_a_language_is_explained(choice, states, said):
    view = view_language(choice)
    assert view.dfa.states == view.language.states == states
    assert said in view.language.summary
    page = unescape(show_language(view))
    assert said in page
    assert [row[1] for row in re.findall(r"<td>([^<]*)</td><td class='(can|cannot|unknown)'>", page)] == [
        verdict.answer for verdict in view.verdicts
    ]
    for architecture, verdict in zip(STANDARD, view.verdicts, strict=True):
        assert architecture.name in page
        assert verdict.theorem in page  # the citation
    for points, group in view.levels or ():
        assert f"<td>{points}</td><td>{group}</td>" in page


def test_a_cascade_that_is_too_large_is_said_to_be(monkeypatch):
    def refuse(dfa):
        raise ValueError("more than 10 image sets")

    monkeypatch.setattr("eigentrack.explorer.language_view.cascade", refuse)
    view = view_language(LanguageChoice(REGEX, "(ab)*"))
    assert view.levels is None
    assert "more than 10 image sets" in show_language(view)


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (("pattern", "a"), "kind 'pattern' is not known"),
        ((REGEX, ""), "nothing was typed"),
        ((NAMED, "parity", "ab"), "has its own"),
    ],
)
def test_a_choice_that_means_nothing_is_named(choice, message):
    with pytest.raises(ValueError, match=message):
        LanguageChoice(*choice)


def test_what_was_typed_cannot_become_markup():
    page = show_language(view_language(LanguageChoice(REGEX, "<i>*")))
    assert "<i>" not in page
    assert "&lt;i&gt;*" in page


@pytest.mark.parametrize("regex", ["(aa)*", "a*b", "(ab|ba)*", "(abcd)*", "(a|b)*abab(a|b)*"])
def test_a_drawing_has_every_state_and_every_arrow(regex):
    dfa = regex_dfa(regex)
    drawn = draw_automaton(dfa, current=1)
    pairs = {(state, target) for state, row in enumerate(dfa.transitions) for target in row}
    assert drawn.count("marker-end=") == len(pairs) + 1  # and the one to the start
    assert drawn.count("r='24'") == dfa.states
    assert drawn.count("r='20'") == len(dfa.accepting)
    assert drawn.count("stroke-width='4'") == 1
    left, top, width, height = map(float, re.search(r"viewBox='([^']*)'", drawn)[1].split())
    for x, y in re.findall(r"<text x='([-.\d]+)' y='([-.\d]+)'", drawn):
        assert left < float(x) < left + width
        assert top < float(y) < top + height


def test_too_many_states_are_not_drawn():
    assert "too many to draw" in draw_automaton(regex_dfa(f"(a{{{MOST_STATES + 1}}})*"))


def test_words_are_split_by_letters_or_by_commas():
    assert split_word("abba", ("a", "b")) == ["a", "b", "b", "a"]
    assert split_word("0 2 1, 1 0 2", ("0 2 1", "1 0 2")) == ["0 2 1", "1 0 2"]
    assert split_word("", ("0 2 1",)) == []
