"""The command line as a user sees it, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def run(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-m", "eigentrack", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=None, check=False, timeout=300)


@pytest.mark.parametrize("command", ["demo", "layers"])
def test_every_command_explains_itself_with_an_example(command: str) -> None:
    result = run(command, "--help")
    assert result.returncode == 0
    assert f"Example: eigentrack {command}" in result.stdout


def test_layers_lists_every_mixer() -> None:
    from eigentrack.layers import MIXERS

    rows = json.loads(run("layers", "--json").stdout)
    assert [row["name"] for row in rows] == list(MIXERS)
    assert {row["name"] for row in rows if row["takes_eigenvalues"]} == set(MIXERS) - {"slstm", "lstm", "attention"}
    text = run("layers").stdout
    assert all(name in text for name in MIXERS)


def test_version() -> None:
    import eigentrack

    assert run("--version").stdout.strip() == eigentrack.__version__


def test_bad_input_is_one_line_and_exit_code_two(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    result = run("demo", "--out", str(in_the_way))
    assert result.returncode == 2
    assert result.stderr.strip() == f"error: --out {in_the_way} is a file: name a folder"
    unknown = run("dmeo")
    assert unknown.returncode == 2
    assert "No such command 'dmeo'" in unknown.stderr
    assert "Traceback" not in unknown.stderr + result.stderr


def test_the_core_imports_no_optional_package() -> None:
    script = (
        "import sys, eigentrack.layers, eigentrack.training, eigentrack.models\n"
        "print([name for name in ('transformers', 'triton', 'matplotlib', 'beartype', 'fla') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert result.stdout.strip() == "[]"


def test_the_command_line_starts_without_torch() -> None:
    script = "import sys, eigentrack.cli; print('torch' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert result.stdout.strip() == "False"
