"""The README's example runs as printed, the page stays short, and the file map of CONTRIBUTING names what exists."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).resolve().parent.parent / "README.md"


def test_the_example_runs_as_printed(capsys) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    exec(compile(code, "README.md", "exec"), {})
    assert float(re.search(r"tensor\((-[\d.]+)", capsys.readouterr().out).group(1)) < 0


def test_the_readme_is_for_the_first_five_minutes() -> None:
    assert len(README.read_bytes()) <= 8 * 1024


def test_the_file_map_names_files_that_exist() -> None:
    house = (README.parent / "CONTRIBUTING.md").read_text().split("## The house")[1]
    root, inside = README.parent, README.parent / "eigentrack"
    named = [line.split()[0] for line in house.splitlines() if line.startswith("    ")]
    assert len(named) > 12
    for name in named:
        assert (root / name).exists() or (inside / name).exists(), name
