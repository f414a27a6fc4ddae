"""Regular expressions against Python's re on all short words, for handwritten and random patterns."""

from __future__ import annotations

import re
import sys
import time
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eigentrack.automata import DFA, minimal, regex_dfa


def agrees_with_re(pattern: str, dfa: DFA, longest: int) -> None:
    compiled = re.compile(pattern)
    for length in range(longest + 1):
        for word in product(dfa.letters, repeat=length):
            assert dfa.accepts(word) == (compiled.fullmatch("".join(word)) is not None), (pattern, word)


@pytest.mark.parametrize(
    ("pattern", "alphabet", "states"),
    [
        ("(ab|ba)*", "", 4),
        ("(abab)*", "", 5),
        ("a{0}", "", 2),
        ("a{2,}b?", "", 5),
        ("(ab){1,3}", "", 8),
        ("a{,3}b", "", 6),
        ("(a|)b|", "", 4),
        ("()", "a", 2),
        ("", "ab", 2),
        ("[^a]*", "abc", 2),
        ("[^ab]c", "abc", 4),
        ("a.b", "abc", 5),
        (".*", "a\n", 2),
        ("[a-c]+", "", 2),
        ("[^b-z]", "abc", 3),
        (r"\(\)*\.", "", 4),
        (r"[]a][^]]", "", 4),
        (r"a\*|\\", "", 4),
        ("[(?]", "", 3),
        (r"\(?", "", 3),
        ("{a}", "", 5),
        ("a b", "", 5),
        ("a[^a]", "a", 1),
        ("é|ß", "", 3),
    ],
)
def test_it_means_what_re_says(pattern: str, alphabet: str, states: int) -> None:
    dfa = regex_dfa(pattern, alphabet)
    assert dfa.states == states
    assert list(dfa.letters) == sorted(set(dfa.letters) | set(alphabet))
    agrees_with_re(pattern, dfa, 6 if len(dfa.letters) < 5 else 3)


letters = st.sampled_from(["a", "b", "c", ".", "[ab]", "[^a]", "[b-c]", "()"])
repeats = st.sampled_from(["*", "+", "?", "{2}", "{0,2}", "{1,}", "{0}"])
patterns = st.recursive(
    letters,
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"({'|'.join(parts)})"),
        st.tuples(inner, repeats).map(lambda pair: f"({pair[0]}){pair[1]}"),
        inner.map(lambda part: f"({part}|)"),
    ),
    max_leaves=8,
)


@settings(max_examples=500, deadline=None)
@given(patterns)
def test_random_patterns(pattern: str) -> None:
    dfa = regex_dfa(pattern, "abc")
    assert dfa == minimal(dfa)
    agrees_with_re(pattern, dfa, 4)


def test_equal_languages_give_equal_automata() -> None:
    twins = ["(a|b)*", "[ab]*", "(a*b*)*", "(a|b)*(|a)", "(b|a){0,}"]
    assert len({regex_dfa(pattern) for pattern in twins}) == 1
    assert regex_dfa("(ab)*a") == regex_dfa("a(ba)*")
    assert regex_dfa("b*", "a") != regex_dfa("a*", "b")


def test_the_alphabet_adds_letters() -> None:
    assert regex_dfa("a*").letters == ("a",)
    assert regex_dfa("a*", ["c", "b"]).letters == ("a", "b", "c")
    assert not regex_dfa("a*", "b").accepts("ab")


def test_many_states_are_fast() -> None:
    start = time.perf_counter()
    dfa = regex_dfa("(a|b)*a(a|b){10}")
    assert time.perf_counter() - start < 5
    assert dfa.states == 2048
    assert dfa.accepts("b" * 50 + "a" + "ab" * 5)
    assert not dfa.accepts("a" * 50 + "b" + "ab" * 5)
    assert regex_dfa("(a{2000})*").states == 2000


@pytest.mark.parametrize(
    ("pattern", "alphabet", "message"),
    [
        ("a$", "", r"'a\$' uses an anchor such as \^ \$"),
        ("^a", "", "an anchor"),
        (r"\ba", "", "an anchor"),
        (r"(a)\1", "", r"a back-reference such as \\1"),
        ("(?P<x>a)(?P=x)", "", "a back-reference"),
        ("(?=a)a", "", "look-ahead or look-behind"),
        ("a(?<!b)", "", "look-ahead or look-behind"),
        (r"\d", "", r"a character class such as \\d"),
        (r"[\wa]", "", "a character class"),
        ("a*?", "", "a lazy repeat"),
        ("a{2,3}?", "", "a lazy repeat"),
        ("a*+", "", "a possessive repeat"),
        ("(?>a)", "", "an atomic group"),
        ("(?:a)", "", r"an extension \(\?\.\.\.\)"),
        ("(?i)a", "", "an extension"),
        ("(?P<x>a)", "", "an extension"),
        ("a(?#no)", "", "an extension"),
        ("(a)?(?(1)b|c)", "", "a conditional group"),
        ("(a", "", r"'\(a' is malformed: missing \), unterminated subpattern at position 0"),
        ("a**", "", "malformed: multiple repeat"),
        ("[a", "", "malformed: unterminated character set"),
        ("*a", "", "malformed: nothing to repeat"),
        ("a{3,1}", "", "malformed: min repeat greater than max repeat"),
        ("a\\", "", "malformed: bad escape"),
        ("a{99999999999}", "", "malformed: the repetition number is too large"),
        ("(" * sys.getrecursionlimit() + "a" + ")" * sys.getrecursionlimit(), "", "is nested too deeply"),
        ("", "", "regex '' has no letters: add an alphabet"),
        (".*", "", "has no letters"),
        ("a", ["bc"], "letter 'bc' of the alphabet must be a single character"),
        ("a", [""], "letter '' of the alphabet must be a single character"),
        ("[\x00-\uffff]", "", "has more than 1000 letters"),
        ("a{9999}", "", "needs more than 5000 states with its repeats written out"),
        ("(a|b)*a(a|b){40}", "", "needs more than 50000 states"),
    ],
)
def test_what_is_refused_is_named_in_one_line(pattern: str, alphabet: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        regex_dfa(pattern, alphabet)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 200
