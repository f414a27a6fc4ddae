"""results/gpu.md is what benchmarks/gpu_page.py makes of the files beside it, and its verdicts are those of the numbers."""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = {"command": "c", "commit": "0", "date": "d", "hardware": "h", "versions": "v"}


@pytest.fixture
def gpu_page(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("gpu_page")


def side(eager: float, graph: float, mib: float) -> dict[str, float]:
    return {"both_ms": eager, "both_graph_ms": graph, "peak_mib": mib}


def delta_row(name: str, **sides: Any) -> dict[str, Any]:
    return {"shape": name, "group": "delta", "floors": {"both_memory_ms": 0.5}, **sides}


def write(folder: Path, name: str, rows: list[dict[str, Any]], **source: str) -> None:
    (folder / f"{name}.json").write_text(json.dumps({"provenance": SOURCE | source, "rows": rows}))


def cells(page: str, start: str) -> list[str]:
    """Of the one row that starts so."""
    (line,) = [line for line in page.splitlines() if line.startswith(f"| {start} |")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_page_is_made_of_the_files(tmp_path: Path) -> None:
    for path in (ROOT / "results").glob("gpu_*.json"):
        shutil.copy(path, tmp_path)
    command = [sys.executable, str(ROOT / "benchmarks/gpu_page.py"), "--results", str(tmp_path)]
    subprocess.run(command, check=True, cwd=ROOT, capture_output=True, timeout=120)
    page = (tmp_path / "gpu.md").read_text()
    assert page == (ROOT / "results/gpu.md").read_text(), "run python benchmarks/gpu_page.py"
    assert "✓" in page
    assert "✗" in page


def test_without_any_file_nothing_is_measured(gpu_page: ModuleType, tmp_path: Path) -> None:
    page = gpu_page.page(tmp_path)
    for name in ("gpu_ops", "gpu_gated_linear_long", "gpu_selective_scan_long", "gpu_decode", "gpu_cold_start"):
        assert f"Not measured: {name}.json is not there." in page


def test_ratios_their_mean_and_memory_are_judged(gpu_page: ModuleType, tmp_path: Path) -> None:
    fast, slow = (
        delta_row("fast", ours=side(1.0, 1.0, 10), fla=side(4.0, 1.3, 10)),
        delta_row("slow", ours=side(1.0, 1.0, 11), fla=side(1.0, 1.2, 10)),
    )
    write(tmp_path, "gpu_ops", [fast, slow])
    page = gpu_page.page(tmp_path)
    assert cells(page, "fast")[3:] == ["4.00 ✓", "1.30 ✓", "0.500", "10 / 10 ✓"]
    assert cells(page, "slow")[3:] == ["1.00 ✗", "1.20 ✗", "0.500", "11 / 10 ✗"]
    assert "Geometric mean of the eager ratios: 2.00 ✓" in page

    slow["fla"]["both_ms"] = 0.9
    write(tmp_path, "gpu_ops", [fast, slow])
    assert "Geometric mean of the eager ratios: 1.90 ✗" in gpu_page.page(tmp_path)


def test_the_page_opens_with_the_answer_and_ends_with_the_origin(gpu_page: ModuleType, tmp_path: Path) -> None:
    assert "Nothing is measured yet." in gpu_page.page(tmp_path)
    rows = [
        delta_row("fast", ours=side(1.0, 1.0, 10), fla=side(4.0, 2.0, 10)),
        delta_row("slow", ours=side(1.0, 1.0, 10), fla=side(1.0, 0.5, 10)),
        delta_row("alone", ours=side(1.0, 1.0, 10), fla={"refused": "no"}),
    ]
    write(tmp_path, "gpu_ops", [row | {"commit": "abc"} for row in rows])
    title, question, answer, *_ = gpu_page.page(tmp_path).split("\n\n")
    assert title == "# Kernels on an H200"
    assert question.endswith("?**")
    assert answer.startswith(
        "Ours are faster in 1 of 2 comparisons as CUDA graphs, 1.00 times in the geometric mean, and in 1 of 2 comparisons "
        "when called one by one, 2.00 times in the geometric mean. "
    )
    tables, measured = gpu_page.page(tmp_path).split("## How it was measured\n")
    met, missed = (tables.split(gpu_page.READING)[1].count(sign) for sign in "✓✗")
    assert answer.endswith(f" {met} of the {met + missed} targets on this page are met.")
    assert "- gpu_ops.json: `c`, commit 0, d, h, v. Commits: abc (fast, slow, alone)." in measured
    assert "commit 0" not in tables


def test_a_busy_host_or_a_refusal_leaves_no_mean(gpu_page: ModuleType, tmp_path: Path) -> None:
    row = delta_row("row", ours=side(1.0, 1.0, 10), fla=side(4.0, 1.3, 10))
    write(tmp_path, "gpu_ops", [row], beside="another process")
    page = gpu_page.page(tmp_path)
    assert cells(page, "row")[3:5] == ["4.00", "1.30 ✓"]
    assert "Geometric mean" not in page

    write(tmp_path, "gpu_ops", [row, delta_row("other", ours=side(1.0, 1.0, 10), fla={"refused": "no\nluck"})])
    page = gpu_page.page(tmp_path)
    assert cells(page, "other")[2:5] == ["–, –", "–", "–"]
    assert "fla refused: no luck (other)." in page
    assert "Geometric mean" not in page


def test_what_a_benchmark_has_and_a_file_has_not_is_listed(gpu_page: ModuleType, tmp_path: Path) -> None:
    path = ROOT / "results/gpu_gated_linear.json"
    stored = json.loads(path.read_text())
    stored["rows"] = [row for row in stored["rows"] if row["shape"] != "B8 T2048 H8 K128 V128 head"]
    (tmp_path / path.name).write_text(json.dumps(stored))
    (section,) = [s for s in gpu_page.page(tmp_path).split("\n## ") if s.startswith("… beside mamba-ssm's SSD\n")]
    (line,) = [line for line in section.splitlines() if line.startswith("Not measured: ")]
    assert "B8 T2048 H8 K128 V128 head" in line
    assert all(row["shape"] not in line for row in stored["rows"])
    assert "B1 T1048576" not in line


def test_long_sequences_are_set_beside_a_linear_cost(gpu_page: ModuleType, tmp_path: Path) -> None:
    rows = [
        {"shape": f"B1 T{time} D512", "time": time, "floors": {"both_memory_ms": 0.5}, "ours": side(ms + 1, ms, mib)}
        for time, ms, mib in ((65_536, 2.0, 100), (1_048_576, 31.0, 1600))
    ]
    write(tmp_path, "gpu_selective_scan_long", rows)
    page = gpu_page.page(tmp_path)
    assert cells(page, "B1 D512") == ["B1 D512", "3.000, 2.000", "32.000, 31.000", "15.50", "0.500", "100 / 1,600"]
    assert "(linear: 16)" in page
    write(tmp_path, "gpu_selective_scan_long", rows[:1])
    assert cells(gpu_page.page(tmp_path), "B1 D512")[2:4] == ["–, –", "–"]


def test_a_token_at_a_large_batch_is_set_beside_the_floor(gpu_page: ModuleType, tmp_path: Path) -> None:
    rows = [
        {"op": f"op {ms}", "batch": batch, "floor_ms": 1.0, "ours": {"eager_ms": 4.0, "graph_ms": ms}, "fla": {"refused": "no"}}
        for batch, ms in ((1, 3.0), (128, 1.5), (128, 1.6))
    ]
    write(tmp_path, "gpu_decode", rows)
    page = gpu_page.page(tmp_path)
    assert [cells(page, f"op {ms}")[-1] for ms in (3.0, 1.5, 1.6)] == ["–", "1.50 ✓", "1.60 ✗"]
    assert "fla refused: no (op 3.0 B1, op 1.5 B128, op 1.6 B128)." in page
    assert "Not measured: delta rule B1;" in page


def test_a_note_is_shown_where_something_is_missed(gpu_page: ModuleType, tmp_path: Path) -> None:
    write(tmp_path, "gpu_cold_start", [{"op": "delta rule step B128", "seconds": 9.9}])
    page = gpu_page.page(tmp_path)
    assert cells(page, "delta rule step B128")[1] == "9.9 ✓"
    assert gpu_page.COLD_START_NOTE not in page
    write(tmp_path, "gpu_cold_start", [{"op": "delta rule step B128", "seconds": 10.1}, {"op": "other", "refused": "no GPU"}])
    page = gpu_page.page(tmp_path)
    assert cells(page, "delta rule step B128")[1] == "10.1 ✗"
    assert "Refused: no GPU (other)." in page
    assert gpu_page.COLD_START_NOTE in page
