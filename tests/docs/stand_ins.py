"""A folder in which a page's shell lines run word for word: the programs that they call are found there, and do less work.

The folder looks like a checkout whose virtual environment, .venv, is set up.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
MACHINES = 2
PYTHON, MAKE = sys.executable, shutil.which("make")
STAND_INS = {
    "eigentrack": 'exec python -m tests.docs.cut eigentrack "$@"',
    "torchrun": 'exec python -m tests.docs.cut torchrun "$@"',
    # pytest finds the tests and runs none
    "python": f"""
        if [ "${{2-}}" = pytest ]; then exec {PYTHON} -m pytest --collect-only --quiet {ROOT}; fi
        exec {PYTHON} "$@"
    """,
    # the recipes run, in this folder and with these programs, even if make has started this test
    "make": f"""
        unset MAKEFLAGS MAKEOVERRIDES MAKELEVEL
        exec {MAKE} --makefile {ROOT}/Makefile VENV=.venv "$@"
    """,
    # nothing is loaded or changed: what an extra asks for must be here
    "pip": f"""
        said=$({PYTHON} -m pip "$@" --dry-run --no-index 2>&1) || {{ echo "$said"; exit 1; }}
        if [[ $said = *"does not provide the extra"* ]]; then echo "$said"; exit 1; fi
    """,
    "scontrol": f"""
        [ "$*" = "show hostnames node[1-{MACHINES}]" ]
        printf 'localhost\\n%.0s' $(seq {MACHINES})
    """,
    # a machine is a process
    "srun": """
        trap 'kill "${started[@]}" 2>/dev/null || true' EXIT
        for machine in $(seq "$SLURM_NNODES"); do SLURM_PROCID=$machine "$@" & started+=($!); done
        for process in "${started[@]}"; do wait $process; done
    """,
}


def set_up(folder: Path) -> dict[str, str]:
    """The variables that a shell needs to work in it."""
    programs = folder / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name, script in STAND_INS.items():
        (programs / name).write_text(f"#!/bin/bash\nset -eu\n{textwrap.dedent(script)}\n")
        (programs / name).chmod(0o755)
    (programs / "activate").symlink_to(Path(sys.prefix) / "bin" / "activate")
    for name in ("pyproject.toml", "constraints.txt"):
        (folder / name).symlink_to(ROOT / name)
    for stamp in ("core", "dev"):
        (folder / ".venv" / f"{stamp}.stamp").touch()
    return {
        **os.environ,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "RENDEZVOUS": f"localhost:{free_port()}",
        "SLURM_NNODES": str(MACHINES),
        "SLURM_JOB_ID": "7",
        "SLURM_JOB_NODELIST": f"node[1-{MACHINES}]",
    }


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def shell(text: str, variables: dict[str, str], seconds: float = 1800) -> str:
    """What it prints."""
    command, pipe = ["bash", "-euo", "pipefail", "-c", text], subprocess.PIPE
    with subprocess.Popen(command, env=variables, stdout=pipe, stderr=pipe, text=True, start_new_session=True) as process:
        try:
            printed, said = process.communicate(timeout=seconds)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)  # with all that it has started
            raise
    assert process.returncode == 0, f"{text}\n{printed}{said}"
    return printed
