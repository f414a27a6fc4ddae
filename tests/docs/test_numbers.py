"""The words of the README and of the indexes are those of the files that they stand for.

The README's tables are compared with the JSON files, its findings with the answers that open the linked pages, the index
of results with the same answers, and the index of the log with the entries that it names.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from eigentrack.expressivity import STANDARD
from tests.docs.claims import ROOT

README = (ROOT / "README.md").read_text()
RESULTS = ROOT / "results"
NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?")
SPEED = {  # the op of a row: its file, the names of ours and of the peer there, and what the shape adds
    "delta rule": ("gpu_ops", "ours", "fla", " n1"),
    "selective scan in [-1, 1]": ("gpu_selective_scan", "ours", "mamba", " bfloat16"),
    "gated linear, signed, a gate per channel": ("gpu_gated_linear", "signed", "fla", " channel"),
}


def stored(name: str) -> dict[str, Any]:
    return json.loads((RESULTS / f"{name}.json").read_text())


def rows(text: str, heading: str) -> list[list[str]]:
    """The cells of the table whose first line starts with `heading`."""
    lines = text[text.index(heading) :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def opening(page: Path) -> tuple[str, str]:
    """The question and the answer that a page of results opens with."""
    _, question, answer, *_ = page.read_text().split("\n\n")
    return question.strip().strip("*"), answer.strip()


def first_sentence(text: str) -> str:
    return re.split(r"(?<=[.!?]) (?=[A-Z0-9])", text)[0]


def test_the_demo_table_has_the_stored_numbers() -> None:
    found = {(layer, eigenvalues.strip("*")): rest for layer, eigenvalues, *rest in rows(README, "| layer | eigenvalues")}
    results = stored("demo")["results"]
    assert len(found) == len(results) == 4
    for result in results:
        low, high = (f"{bound:g}" for bound in result["eigenvalues"])
        trained, unseen, right = found[result["layer"], f"[{low}, {high}]"]
        assert trained == f"{result['scaled_accuracy_at_training_lengths']:.3f}"
        assert unseen.strip("*") == f"{result['scaled_accuracy']:.3f}"
        bits = result["horizon"]
        beyond = bits >= result["longest_tested"]
        assert right == ("beyond " if beyond else "") + f"{bits} bit" + ("s" if bits > 1 else "")


@pytest.mark.parametrize("row", rows(README, "| op | shape | ours"), ids=lambda row: row[0])
def test_the_speed_table_has_the_stored_numbers(row: list[str]) -> None:
    op, shape, ours, peer, ratio = row
    file, our_name, peer_name, suffix = SPEED[op]
    stored_row = next(entry for entry in stored(file)["rows"] if entry["shape"] == shape + suffix)
    mine, theirs = stored_row[our_name]["both_graph_ms"], stored_row[peer_name]["both_graph_ms"]
    assert (ours, ratio) == (f"{mine:.2f} ms", f"{theirs / mine:.2f}")
    assert peer.endswith(f", {theirs:.2f} ms")


def test_every_number_of_a_finding_is_in_the_answer_of_its_page() -> None:
    findings = [line for line in README.split("## Findings")[1].split("## Speed")[0].splitlines() if line.startswith("- ")]
    assert len(findings) == 5
    for finding in findings:
        text, page = re.fullmatch(r"- (.*) \(\[\w+\]\((results/\w+\.md)\)\)\.", finding).groups()
        plain = re.sub(r"\[-?\d, \d\]|\bS\d\b", "", text)
        _, answer = opening(ROOT / page)
        allowed = set(NUMBER.findall(answer))
        assert set(NUMBER.findall(plain)) <= allowed, finding


def test_the_index_of_results_has_the_question_and_the_answer_of_every_page() -> None:
    found = {link: (question, answer) for question, answer, link in rows((RESULTS / "README.md").read_text(), "| question |")}
    pages = {path for path in RESULTS.glob("*.md") if path.stem not in ("README", "provenance")}
    assert set(found) == {f"[{page.stem}]({page.name})" for page in pages}
    for page in pages:
        question, answer = opening(page)
        assert found[f"[{page.stem}]({page.name})"] == (question, first_sentence(answer))


@pytest.mark.parametrize("page", ["README.md", "docs/paths/study_languages.md", "docs/how_to/explain.md"])
def test_pages_count_the_architectures_that_have_verdicts(page: str) -> None:
    counts = re.findall(r"\b(\d+) (?:standard )?architectures", (ROOT / page).read_text())
    assert counts
    assert set(counts) == {str(len(STANDARD))}


def test_the_page_on_speed_has_the_stored_numbers() -> None:
    text = (RESULTS / "speed.md").read_text()
    cpu, steps, models = stored("cpu")["rows"], stored("training_step"), stored("lm_step")["settings"]
    delta = next(row["milliseconds"] for row in cpu if "transformers' chunk form" in row.get("milliseconds", {}))
    large = models["340m-b32"]["rows"]
    ours, peer = large["ours, compiled, CUDA graph"], large["flash-linear-attention"]
    share = delta["chunked"] / delta["transformers' chunk form"]
    assert f"takes {share:.2f} of the time of transformers'" in text
    assert f"takes {ours['milliseconds'] / peer['milliseconds']:.2f} of the time of flash-linear-attention's" in text
    for row in cpu:
        for value in row.get("microseconds_a_token", {}).values():
            assert f"{value:.1f}" in text
        for value in row.get("ratios", {}).values():
            assert f"{value:.1f}" in text or f"{value:.0f}" in text
    for setting in models.values():
        for contender in setting["rows"].values():
            assert f"{contender['peak_gib']:.1f} GiB" in text
    named = ("deltanet", "flash-linear-attention's DeltaNet")
    times = [row["milliseconds"] for row in steps["rows"] if row["model"] in named and row["precision"] == "bfloat16"]
    assert len(times) == 5
    assert {f"{time:.3g}" for time in times} <= {
        number.rstrip("0") if "." in number else number for number in NUMBER.findall(text)
    }


@pytest.mark.parametrize(
    "line", [line for line in (ROOT / "log/README.md").read_text().splitlines() if line.startswith("| ")][2:]
)
def test_every_decision_leads_to_an_entry_of_the_log(line: str) -> None:
    if line.startswith(("| decision", "|---")):
        return
    day, lead = re.search(r"\[(2\d{3}-\d\d-\d\d)\]\(\1\.md\), “(.*)” \|$", line).groups()
    assert lead.replace("\\|", "|") in (ROOT / f"log/{day}.md").read_text()
