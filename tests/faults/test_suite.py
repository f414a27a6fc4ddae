"""Hundreds of faults over all commands that write, and of malformed inputs over all commands: none may do any harm."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.faults.commands import COMMANDS
from tests.faults.faults import COUNTS
from tests.faults.malformed import malformed_calls

ROOT = Path(__file__).resolve().parent.parent.parent
RESULTS = ROOT / "results"


@pytest.mark.slow
def test_no_fault_does_harm(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can mount the small disks that fill up")
    command = [sys.executable, "-m", "tests.faults", "--out", str(tmp_path), "--seed", "1"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    wrong = [one for one in json.loads((tmp_path / "faults.json").read_text())["outcomes"] if one["trouble"]]
    assert not wrong


def test_there_are_enough_faults_for_every_command_and_enough_malformed_inputs() -> None:
    tried = [sum(max(1, round(command.share * count)) for count in COUNTS.values()) for command in COMMANDS]
    assert min(tried) >= 20
    assert sum(tried) >= 300
    calls = list(malformed_calls())
    assert len(set(calls)) == len(calls) >= 300


def test_the_stored_figures_are_of_all_faults() -> None:
    outcomes = json.loads((RESULTS / "faults.json").read_text())["outcomes"]
    counted = Counter((one["command"], one["kind"]) for one in outcomes if "kind" in one)
    for command in COMMANDS:
        for kind, count in COUNTS.items():
            assert counted[command.name, kind] == max(1, round(command.share * count)), (command.name, kind)
    wrong = sum(bool(one["trouble"]) for one in outcomes if "kind" in one)
    assert (
        f"In {sum(counted.values()) - wrong} of {sum(counted.values())} faults nothing was lost"
        in (RESULTS / "faults.md").read_text()
    )
