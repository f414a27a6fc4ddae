"""results/gpu.md is what benchmarks/gpu_page.py makes of the files beside it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_the_page_is_made_of_the_files(tmp_path: Path) -> None:
    for path in (ROOT / "results").glob("gpu_*.json"):
        shutil.copy(path, tmp_path)
    command = [sys.executable, str(ROOT / "benchmarks/gpu_page.py"), "--results", str(tmp_path)]
    subprocess.run(command, check=True, cwd=ROOT, capture_output=True, timeout=120)
    page = (tmp_path / "gpu.md").read_text()
    assert page == (ROOT / "results/gpu.md").read_text(), "run python benchmarks/gpu_page.py"
    assert "✓" in page
    assert "✗" in page
