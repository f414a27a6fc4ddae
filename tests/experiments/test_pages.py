"""The pages in results/: each is what the writer makes of its JSON, and opens with an answer that its numbers give."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from eigentrack.experiments.catalogue import NAMES, named_experiment
from eigentrack.experiments.reporting.page import answer_of, markdown
from eigentrack.experiments.reporting.report import Report
from eigentrack.experiments.rewrite import rewrite, stored_report
from eigentrack.experiments.running.ledger import SweepOutcome

RESULTS = Path(__file__).resolve().parents[2] / "results"
STORED = [name for name in NAMES if (RESULTS / f"{name}.json").exists()]


@cache
def report(name: str) -> Report:
    return stored_report(json.loads((RESULTS / f"{name}.json").read_text()))


def page(name: str) -> str:
    return (RESULTS / f"{name}.md").read_text()


def test_most_experiments_have_a_page() -> None:
    assert len(STORED) == 19


@pytest.mark.parametrize("name", NAMES)
def test_every_experiment_asks_one_question_and_has_an_answer(name: str) -> None:
    experiment = named_experiment(name)
    assert re.fullmatch(r"[A-Z][^?]*\?", experiment.question)
    assert ". " not in experiment.question
    assert experiment.caption.endswith(".")
    assert experiment.answer([]) == ""  # nothing is said without results


def test_no_two_experiments_ask_the_same() -> None:
    assert len({named_experiment(name).question for name in NAMES}) == len(NAMES)


@pytest.mark.parametrize("name", STORED)
def test_a_page_is_what_the_writer_makes_of_its_numbers(name: str) -> None:
    assert page(name) == markdown(report(name)), "run python -m eigentrack.experiments.rewrite results"


@pytest.mark.parametrize("name", STORED)
def test_a_page_has_its_parts_in_order(name: str) -> None:
    experiment, text = named_experiment(name), page(name)
    title, question, answer, picture, caption, *_ = re.split(r"\n\n", text)
    assert title == f"# {name}: {experiment.title}"
    assert question == f"**{experiment.question}**"
    assert re.match(r"[A-Z0-9].*\.$", answer)
    assert "\n" not in answer
    assert picture.endswith(f"]({name}.png)")
    assert caption == f"*{experiment.caption}*"
    parts = [part for part in re.findall(r"^## (.*)", text, re.M) if part != "Differences from the paper"]
    assert parts == ["What it shows", "Tables", "How it was measured"]
    measured = text.split("## How it was measured\n")[1]
    assert measured.startswith(f"\nSource: {experiment.source}.")
    facts = ("command", "commit", "hardware", "versions", "gathered", "test", "budget", "learning rates", "seeds", "parameters")
    for fact in (*facts, "cells", "wall time"):
        assert f"\n| {fact} | " in measured
    assert "| commit |" not in text.split("## How it was measured\n")[0]


@pytest.mark.parametrize("name", STORED)
def test_findings_are_sentences(name: str) -> None:
    shown = page(name).split("## What it shows\n")[1].split("\n## Tables")[0]
    for line in shown.strip().splitlines():
        assert re.match(r"(    )?- \S", line), line
        if line.startswith("- "):
            assert line[-1] in ".:", line


@pytest.mark.parametrize("name", STORED)
def test_an_answer_follows_its_numbers(name: str) -> None:
    """Without the last task, or with a single task without most of the seeds, there is another answer or none."""
    whole = report(name)
    answer = answer_of(whole)
    assert answer in page(name)
    results = whole.outcome.results
    few = tuple(run for run in results if run.panel != results[-1].panel) or results[: len(results) // 3]
    assert answer_of(replace(whole, outcome=SweepOutcome(few, {}, 0))) != answer


@pytest.mark.parametrize("name", STORED)
def test_the_scores_in_an_answer_are_those_of_the_numbers(name: str) -> None:
    """Every number with three decimals is a median, a seed's score or a validation accuracy of the JSON, or the paper's."""
    stored = json.loads((RESULTS / f"{name}.json").read_text())
    rows = stored["summary"]
    known = {f"{value:.3f}" for row in rows for value in (row["median"], *row["by_seed"].values())}
    known |= {f"{result['validation_accuracy']:.3f}" for result in stored["results"] if result.get("validation_accuracy")}
    known |= {f"{float(x):.3f}" for row in rows for said in row["paper"].values() for x in re.findall(r"\d*\.\d+", said)}
    known = {value.replace("-0.000", "0.000") for value in known}
    numbers = re.findall(r"-?\d+\.\d{3}\b", answer_of(report(name)))
    assert set(numbers) <= known
    assert len(re.findall(r"\d\.\d+", answer_of(report(name)))) <= 7  # an answer is no table


@pytest.mark.parametrize("name", STORED)
def test_reading_the_numbers_again_changes_none(name: str) -> None:
    stored = json.loads((RESULTS / f"{name}.json").read_text())
    again = json.loads(json.dumps(report(name).to_json()))
    for part in ("summary", "results", "cells", "finished", "seeds"):
        assert again[part] == stored[part], part


def test_a_page_whose_experiment_has_changed_is_not_rewritten(tmp_path: Path) -> None:
    stored = json.loads((RESULTS / "family.json").read_text())
    (tmp_path / "family.json").write_text(json.dumps(stored | {"cells": 7}))
    with pytest.raises(ValueError, match=r"family.json has 7 cells, and its definition 84: run `eigentrack reproduce`"):
        rewrite(tmp_path)
    (tmp_path / "family.json").write_text(json.dumps(stored))
    assert rewrite(tmp_path) == [tmp_path / "family.md"]
    assert (tmp_path / "family.md").read_text() == page("family")
