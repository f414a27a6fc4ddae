"""`eigentrack` and `torchrun` with less to do: few steps, the smallest budget, few processes, no GPU.

python -m tests.docs.cut eigentrack train --task parity --device cuda
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Sequence

from eigentrack import cli
from eigentrack.lm.presets import PRESETS
from tests.docs.stand_ins import MACHINES, free_port

STEPS = "50"
VALUES = {"--device": "cpu", "--budget": "smoke", "--jobs": "2", "--precision": "float32"}
ENTRIES = {  # of a run in a file
    "preset": "tiny",
    "steps": "20",
    "tokens": "512",
    "batch": "8",
    "length": "32",
    "warmup": "1",
    "validate_every": "1",
    "checkpoint_every": "1",
    "telemetry_every": "1",
}


def cut_presets() -> None:
    """Language models of the size tiny take three steps."""
    for name in ("tiny", "tiny-01"):
        PRESETS[name]["training"] |= {"steps": 3, "warmup": 1}


def cut_file(text: str) -> str:
    for name, value in ENTRIES.items():
        text = re.sub(rf"\b{name}: [\w.-]+", f"{name}: {value}", text)
    return text


def cut_arguments(arguments: Sequence[str]) -> list[str]:
    changed = [argument for argument in arguments if argument != "--compile"]
    replace_values(changed, VALUES)
    if changed[0] == "train" and not {"--resume", "--config"} & set(changed):
        if "--steps" not in changed:
            changed += ["--steps", STEPS]
        replace_values(changed, {"--steps": STEPS})
    return changed


def cut_torchrun(arguments: Sequence[str], rendezvous: str) -> list[str]:
    place = arguments.index("eigentrack") + 1
    own = list(arguments[:place])
    processes = "1" if "--nnodes" in own else str(MACHINES)
    replace_values(own, {"--nproc-per-node": processes, "--nnodes": str(MACHINES), "--rdzv-endpoint": rendezvous})
    return [*own, *cut_arguments(arguments[place:])]


def replace_values(arguments: list[str], values: dict[str, str]) -> None:
    for flag, value in values.items():
        if flag in arguments:
            arguments[arguments.index(flag) + 1] = value


def visit() -> None:
    """The page says where it is, answers there, and ends with Ctrl-C."""
    command = [sys.executable, "-m", "eigentrack", "explore", "--no-browser", "--port", str(free_port())]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            address = next(line.split()[1] for line in server.stdout or () if line.startswith("page: "))
            with urllib.request.urlopen(address, timeout=60) as answer:
                assert "eigentrack" in answer.read().decode()
        finally:
            server.send_signal(signal.SIGINT)
            server.communicate()  # it still has something to say
    assert server.returncode == 128 + signal.SIGINT, f"the page ended with {server.returncode}"


def main(program: str, *arguments: str) -> None:
    if program == "torchrun":
        on_each_machine = "--nnodes" in arguments and "SLURM_PROCID" not in os.environ  # srun does that itself
        command = [sys.executable, "-m", "torch.distributed.run", *cut_torchrun(arguments, os.environ["RENDEZVOUS"])]
        started = [subprocess.Popen(command) for _ in range(MACHINES if on_each_machine else 1)]
        sys.exit(max(abs(process.wait()) for process in started))
    if arguments[0] == "explore":
        visit()
        return
    cut_presets()
    sys.argv[1:] = cut_arguments(arguments)
    cli.main()


if __name__ == "__main__":
    main(*sys.argv[1:])
