"""Tasks over any regular language: a regex against Python's re, an automaton from a file against itself in memory."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eigentrack.automata import language
from eigentrack.tasks import TrackingTask
from eigentrack.tasks.registry import make_task, self_contained
from eigentrack.tasks.tracking import recognition, state_prediction

letters = st.sampled_from("abc")
patterns = st.recursive(
    letters,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]}|{pair[1]})"),
        st.tuples(inner, st.sampled_from("*+?")).map(lambda pair: f"({pair[0]}){pair[1]}"),
    ),
    max_leaves=6,
)


def words(task: TrackingTask, alphabet: str) -> list[tuple[str, list[int]]]:
    batch = task.sample(12, (1, 9), seed=0, step=1)
    pairs = zip(batch.tokens.tolist(), batch.targets.tolist(), strict=True)
    return [("".join(alphabet[token] for token in tokens if token != task.padding), targets) for tokens, targets in pairs]


@given(pattern=patterns)
@settings(deadline=None, max_examples=40)
def test_a_regex_means_what_re_says(pattern: str) -> None:
    for word, targets in words(recognition(regex=pattern, alphabet="abc", escape=0.2), "abc"):
        expected = [int(re.fullmatch(pattern, word[: t + 1]) is not None) for t in range(len(word))]
        assert targets[: len(word)] == expected


def test_an_automaton_may_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "automaton.json"
    path.write_text(json.dumps(language("tomita3").to_json()))
    assert recognition(dfa=str(path)) == recognition("tomita3")
    assert state_prediction(dfa=str(path)) == state_prediction("tomita3")
    options = self_contained({"dfa": str(path), "escape": 0.5})
    path.unlink()
    assert make_task("language", json.loads(json.dumps(options))) == recognition("tomita3", escape=0.5)
    assert self_contained({"name": "aa"}) == {"name": "aa"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not valid JSON"),
        ("[]", "an automaton is an object with"),
        ('{"letters": ["a"], "letters": ["b"]}', "'letters' is given twice"),
        ('{"letters": ["\\ud800"], "transitions": [[0]], "accepting": []}', r"letter '\\ud800' is no text"),
        ("9" * 5000, "Exceeds the limit"),
        ('{"letters": ["a"], "transitions": [[5]], "accepting": []}', r"dfa='.*automaton.json': state 0 leads to 5"),
    ],
)
def test_bad_files_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "automaton.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        recognition(dfa=str(path))
