"""The package brings its types: the marker is there and is installed, and mypy finds them for a user's file."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from importlib import resources
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# what the three lines do not touch is not read: mypy would take a minute for torch and transformers
CONFIGURATION = """
[mypy]
[mypy-torch.*,transformers.*,numpy.*,jaxtyping.*,eigentrack.lm.*,eigentrack.models.*]
follow_imports = skip
ignore_missing_imports = true
"""
USER_FILE = """
from eigentrack import EigenRange
reveal_type(EigenRange(-1, 1))
EigenRange("low", 1)
"""


def test_the_marker_is_there_and_is_installed() -> None:
    assert resources.files("eigentrack").joinpath("py.typed").is_file()
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert setuptools["package-data"]["eigentrack"] == ["py.typed"]


def test_mypy_finds_types_for_a_user(tmp_path: Path) -> None:
    (tmp_path / "user.py").write_text(USER_FILE.lstrip())
    (tmp_path / "mypy.ini").write_text(CONFIGURATION)
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "user.py"]
    environment = os.environ | {"MYPYPATH": str(ROOT), "MYPY_CACHE_DIR": str(tmp_path / "cache")}
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert 'Revealed type is "eigentrack.spectrum.EigenRange"' in result.stdout, result.stdout + result.stderr
    assert 'user.py:3: error: Argument 1 to "EigenRange" has incompatible type "str"' in result.stdout, result.stdout
