"""Programs of swaps and assignments: Python itself is the judge of their answers."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from eigentrack.lm import probe as probe_module
from eigentrack.lm.language_model import load_language_model
from eigentrack.lm.probe import NAMES, answer_scores, draw_program, likeliest_value, probe
from tests.lm.small_language_models import write_language_model


@settings(max_examples=100, deadline=None)
@given(
    statements=st.integers(0, 40),
    number=st.integers(0, 1000),
    seed=st.integers(0, 1000),
    variables=st.integers(2, 10),
    assignments=st.floats(0, 1),
)
def test_python_agrees(statements: int, number: int, seed: int, variables: int, assignments: float) -> None:
    program = draw_program(statements, number, seed=seed, variables=variables, assignments=assignments)
    assert program == draw_program(statements, number, seed=seed, variables=variables, assignments=assignments)
    *lines, question = program.text.split("\n")
    assert len(lines) == 1 + statements
    held: dict[str, int] = {}
    exec("\n".join(lines), {}, held)
    assert held[NAMES[program.asked]] == program.answer
    assert question == f"assert {NAMES[program.asked]} =="
    assert len(set(program.values)) == variables
    assert program.answer in program.values


def test_swaps_and_assignments_are_drawn_as_asked() -> None:
    drawn = draw_program(1000, 0, assignments=0.3).statements
    assert 230 < sum(not statement.swaps for statement in drawn) < 370
    assert all(statement.swaps for statement in draw_program(50, 0).statements)
    assert all(statement.first != statement.second for statement in drawn)
    assert draw_program(5, 0) != draw_program(5, 1)


def test_scores_are_log_likelihoods(tmp_path: Path) -> None:
    """Against one pass over prompt and answer together."""
    model = load_language_model(write_language_model(tmp_path)).model
    prompt, answers = torch.tensor([5, 6, 7]), [torch.tensor([8]), torch.tensor([9, 10, 11])]
    for answer, score in zip(answers, answer_scores(model, prompt, answers), strict=True):
        whole = torch.cat([prompt, answer])
        log_p = model(whole[None])[0][0].log_softmax(-1)
        expected = sum(log_p[place - 1, whole[place]].item() for place in range(3, len(whole)))
        assert score == pytest.approx(expected, rel=1e-4)


def test_the_likeliest_of_the_values_is_the_answer(tmp_path: Path) -> None:
    """Against one pass over the program and each value."""
    language_model = load_language_model(write_language_model(tmp_path))
    places = set()
    for number in range(20):
        program = draw_program(3, number)
        prompt, *answers = language_model.tokenizer.encode([program.text, *(f" {value}" for value in program.values)], "int64")
        scores = []
        for answer in answers:
            whole = torch.cat([torch.from_numpy(prompt), torch.from_numpy(answer)])
            log_p = language_model.model(whole[None])[0][0].log_softmax(-1)
            scores.append(sum(log_p[place - 1, whole[place]].item() for place in range(len(prompt), len(whole))))
        places.add(scores.index(max(scores)))
        assert likeliest_value(language_model, program) == program.values[scores.index(max(scores))]
    assert len(places) > 1


def test_accuracy_counts_right_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    language_model = load_language_model(write_language_model(tmp_path))
    reports = []
    monkeypatch.setattr(probe_module, "likeliest_value", lambda _, program: program.values[program.asked])
    found = probe(language_model, statements=(0, 1, 30), programs=40, report=lambda *given: reports.append(given))
    for results in (found[:3], found[3:]):  # who repeats the first value is right without statements, and lost after many
        assert [result.statements for result in results] == [0, 1, 30]
        assert results[0].accuracy == 1.0
        assert results[1].accuracy < 1.0
        assert results[2].accuracy < 0.5
    assert {result.chance for result in found} == {0.2}
    assert reports[-1] == (240, 240)


def test_too_many_variables_are_named() -> None:
    with pytest.raises(ValueError, match="variables=11 must lie between 2 and 10"):
        draw_program(1, 0, variables=11)
