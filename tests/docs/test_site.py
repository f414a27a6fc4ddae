"""The documentation is true: what it names is there, its pictures are those of the scripts, it builds."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.docs.claims import PAGES, ROOT

DOCS = ROOT / "docs"


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(name for extra in project["optional-dependencies"].values() for name in extra)]
    rows = [line for line in PAGES["docs/dependencies.md"].read_text().splitlines() if line.startswith("| ")]
    for package in {re.split(r"[\[<>=]", name)[0] for name in wanted} - {"eigentrack"}:
        assert any(re.search(rf"\b{package}\b", row) for row in rows), (
            f"docs/dependencies.md does not say why {package} is there"
        )
    for extra in project["optional-dependencies"]:
        assert f"`{extra}`" in PAGES["docs/dependencies.md"].read_text(), extra


def test_the_pictures_are_those_of_the_scripts(tmp_path: Path) -> None:
    script = [sys.executable, str(DOCS / "pictures" / "draw_all.py"), str(tmp_path)]
    subprocess.run(script, check=True, timeout=120)
    drawn = sorted(tmp_path.glob("*.svg"))
    assert len(drawn) == 6
    for picture in drawn:
        committed = DOCS / "images" / picture.name
        assert committed.read_text() == picture.read_text(), f"{committed} is old: run python docs/pictures/draw_all.py"


def test_the_site_builds_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(tmp_path)]
    result = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        loaded = re.findall(r"<(?:script|img|link|iframe)[^>]*?(?:src|href)=[\"']?(https?:[^\"' >]*)", page.read_text())
        assert not loaded, f"{page.name} loads {loaded}"
