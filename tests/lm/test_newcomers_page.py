"""The page for newcomers runs as printed, in one folder and in its order; only the training is shorter."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "how_to" / "language_models.md"
TRAINING = "eigentrack lm train tiny --corpus corpus --out runs/tiny"
SHORTER = "preset: tiny\ncorpus: corpus\ntraining: {steps: 3, batch: 2, warmup: 1}\n"


def blocks() -> list[tuple[str, str]]:
    return re.findall(r"```(bash|python)\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)


def test_the_page_goes_from_text_to_hugging_face() -> None:
    commands = [code for kind, code in blocks() if kind == "bash"]
    named = [command.split()[2] for command in commands if command.startswith("eigentrack lm")]
    assert named == ["prepare", "train", "generate", "evaluate", "evaluate", "convert", "generate"]
    assert f"{TRAINING}\n" in commands


@pytest.mark.slow
def test_the_page_runs_as_printed(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(SHORTER)
    bin_folder = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    said = []
    for kind, code in blocks():
        code = code.replace(TRAINING, "eigentrack lm train run.yaml --out runs/tiny")
        command = ["bash", "-euc", code] if kind == "bash" else [sys.executable, "-c", code]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=600)
        assert done.returncode == 0, f"{code}\n{done.stderr}"
        said.append(done.stdout)
    assert "corpus: prepared; vocabulary 2,048" in said[1]
    assert "model: runs/tiny/model" in said[2]
    assert said[3].startswith("def main(")
    assert "3,585–4,096" in said[4]
    assert "a guess has 0.20" in said[5]
    assert said[7] == said[8]  # transformers' greedy text is ours
