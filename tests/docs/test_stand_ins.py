"""The stand-ins do less work than the programs, but notice what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.stand_ins import set_up, shell


def test_make_shows_the_recipes_even_if_make_has_started_this_test() -> None:
    variables = set_up(Path.cwd()) | {"MAKEFLAGS": " -- VENV=elsewhere", "MAKELEVEL": "1"}
    assert shell("make --dry-run demo test", variables).splitlines() == [
        ".venv/bin/eigentrack demo",
        ".venv/bin/python -m pytest --numprocesses 2",
    ]


def test_pip_knows_the_extras() -> None:
    with pytest.raises(AssertionError, match="does not provide the extra 'wings'"):
        shell("pip install 'eigentrack[wings]'", set_up(Path.cwd()))


def test_srun_fails_where_one_machine_does() -> None:
    variables = set_up(Path.cwd())
    assert shell("srun echo ready", variables) == "ready\nready\n"
    with pytest.raises(AssertionError):
        shell("""srun bash -c '[ "$SLURM_PROCID" = 2 ]'""", variables)
    with pytest.raises(AssertionError):
        shell("unknown-program", variables)


def test_hosts_are_those_of_the_job() -> None:
    variables = set_up(Path.cwd())
    assert shell('scontrol show hostnames "$SLURM_JOB_NODELIST"', variables) == "localhost\nlocalhost\n"
    with pytest.raises(AssertionError):
        shell("scontrol show hostnames elsewhere", variables)
