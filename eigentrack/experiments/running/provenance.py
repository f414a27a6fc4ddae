"""The origin of a figure: the command, the commit, the machine and the versions that produced it."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import torch

from eigentrack import __version__

NOT_RECORDED = "not recorded"  # what results say that are older than this record


def provenance() -> dict[str, str]:
    """Return the origin of this call: command, commit, date, hardware and versions."""
    return {
        "command": " ".join([_program(), *sys.argv[1:]]),
        "commit": _commit(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "hardware": _hardware(torch.cuda.is_available()),
        "versions": _versions(),
    }


def origin(device: str) -> dict[str, str]:
    """Return the origin that a result carries along, as its report may be written elsewhere and later."""
    return {"hardware": _hardware(device.startswith("cuda")), "commit": _commit(), "versions": _versions()}


def _program() -> str:
    name = Path(sys.argv[0]).name
    return "eigentrack" if name == "__main__.py" else name


def _versions() -> str:
    return f"eigentrack {__version__}, torch {torch.__version__}, Python {platform.python_version()}"


def _hardware(with_gpu: bool) -> str:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    cpu = f"{_cpu_name()}, {cores} cores"
    return f"{torch.cuda.get_device_name()}; {cpu}" if with_gpu else cpu


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


@cache
def _commit() -> str:
    """Return the commit of the source tree, with a mark if files differ from it; "unknown" outside a checkout."""
    source = Path(__file__).resolve().parent
    try:
        commit = _git(source, "rev-parse", "--short=12", "HEAD")
        return commit + (" with local changes" if _git(source, "status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", folder, *arguments], capture_output=True, text=True, check=True).stdout.strip()
