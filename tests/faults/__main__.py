"""Run all faults and all malformed inputs, and write what became of them: python -m tests.faults --out results.

It takes some minutes on two cores. The disks that fill up are small file systems in memory, which only root can mount.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import tempfile
import traceback
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from eigentrack.experiments.reporting.markdown_table import markdown_table
from eigentrack.experiments.running.provenance import provenance
from eigentrack.files import write_json, write_text
from tests.faults.commands import COMMANDS, WritingCommand
from tests.faults.faults import COUNTS, faults_of
from tests.faults.malformed import refusals

LANES = 2
# what commands import when they are called, so that a forked one has it
IMPORTED_FIRST = (
    *("eigentrack.training.run", "eigentrack.analysis.page", "eigentrack.analysis.inspection", "eigentrack.compiler"),
    *("eigentrack.experiments.reproduce", "eigentrack.experiments.running.ray_launcher", "eigentrack.lm.train"),
    *("eigentrack.lm.prepare", "eigentrack.lm.conversion", "eigentrack.lm.hugging_face", "eigentrack.lm.perplexity"),
    *("eigentrack.checker", "matplotlib.pyplot", "torch._dynamo", "tokenizers", "transformers.modeling_utils", "sympy"),
)
MALFORMED = "malformed inputs"


def collect(folder: Path, seed: int, share: float = 1.0, only: Sequence[str] = (), lanes: int = LANES) -> list[dict[str, Any]]:
    """Run the faults in forked lanes, and return their outcomes.

    Args:
        folder: a temporary folder.
        seed: the seed of moments and places.
        share: the share of the faults that is run.
        lanes: how many processes share the commands out.
        only: names of commands; empty: all of them, and the malformed inputs.
    """
    os.environ["HF_HUB_OFFLINE"] = "1"
    torch.set_num_threads(1)
    for module in IMPORTED_FIRST:
        importlib.import_module(module)
    order = ["demo", "reproduce", "inspect", MALFORMED, *(command.name for command in COMMANDS if command.share == 1)]
    names = [name for name in order if not only or name in only]
    by_name = {command.name: command for command in COMMANDS}
    children = []
    for _ in range(lanes):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                for name in names:
                    with suppress(FileExistsError):  # another lane has taken it
                        _work(by_name.get(name), name, folder, seed, share)
                code = 0
            except Exception:
                traceback.print_exc()
            finally:
                os._exit(code)
        children.append(pid)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
    assert codes == [0] * lanes, f"a lane of the suite failed: {codes}"
    return [json.loads(line) for name in names for line in _lines(folder, name).read_text().splitlines()]


def _work(command: WritingCommand | None, name: str, folder: Path, seed: int, share: float) -> None:
    home = folder / name.replace(" ", "-")
    with _lines(folder, name).open("x") as file:
        home.mkdir()
        for outcome in refusals(home, share) if command is None else faults_of(command, home, seed, share):
            file.write(json.dumps(outcome.to_json()) + "\n")
            file.flush()


def _lines(folder: Path, name: str) -> Path:
    return folder / f"{name.replace(' ', '-')}.jsonl"


def page(found: list[dict[str, Any]]) -> str:
    """Return the page: a question, the answer, a table of faults by command and kind, and what went wrong."""
    faults, inputs = [one for one in found if "kind" in one], [one for one in found if "call" in one]
    wrong = [one for one in found if one["trouble"]]
    counted = Counter((one["command"], one["kind"]) for one in faults)
    failed = Counter((one["command"], one["kind"]) for one in faults if one["trouble"])

    def entry(command: str, kind: str) -> str:
        return f"{counted[command, kind] - failed[command, kind]}/{counted[command, kind]}"

    rows = [[command.name, *(entry(command.name, kind) for kind in COUNTS)] for command in COMMANDS]
    held = len(faults) - sum(failed.values())
    refused = sum(not one["trouble"] for one in inputs)
    lines = [
        "# Faults of files and runs",
        "",
        "**Does a command that is killed, interrupted, out of disk space, given damaged files or run twice at once lose "
        "anything, or take something wrong for right?**",
        "",
        f"In {held} of {len(faults)} faults nothing was lost and nothing wrong was taken for right, and {refused} of "
        f"{len(inputs)} malformed inputs were refused in one or two lines. After each fault the same command was given "
        "again and had to end with the output of an undisturbed run; a reader of a damaged file had to refuse it or "
        "find what it finds in a whole one; no command may print a trace or leave a process.",
        "",
        "## Tables",
        "",
        "Faults that were borne, of those that were tried, each at another moment or place:",
        "",
        *markdown_table(["command", *COUNTS], rows),
        "",
    ]
    if wrong:
        lines += ["## What went wrong", ""]
        lines += [f"- `{_where(one)}`: {' '.join(one['trouble'].split())[:300]}" for one in wrong]
        lines += [""]
    late = sum(one["ended_before"] for one in faults)
    lines += [
        "## How it was measured",
        "",
        f"In {late} of the faults the command had ended before its signal came, and they say nothing.",
        "",
        "`python -m tests.faults --out results`, which `make test-slow` runs as well. Signals come at moments spread "
        "over the seconds that a command takes (Ctrl-C to all of its processes, as a terminal sends it), disks fill "
        "up after numbers of pages spread over the size of its output, and bytes are cut off or bits flipped at "
        "random places of random files. The commands run in forked processes, in sizes of a second or so; the demo "
        "has one of its four models. Configurations of runs, which people edit, and logs of metrics are not damaged "
        "here: SECURITY.md says what may be wrong in them.",
        "",
    ]
    return "\n".join(lines)


def _where(one: dict[str, Any]) -> str:
    return one["call"] if "call" in one else f"{one['command']}, {one['kind']}, {one['where']}"


def _kept(path: Path, only: Sequence[str]) -> list[dict[str, Any]]:
    """Return the stored outcomes of all other commands."""
    if not path.exists():
        return []
    stored = json.loads(path.read_text())["outcomes"]
    return [one for one in stored if one.get("command", MALFORMED) not in only]


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--out", type=Path, default=Path("results"))
    reader.add_argument("--seed", type=int, default=0)
    reader.add_argument("--share", type=float, default=1.0)
    reader.add_argument("--lanes", type=int, default=LANES)
    reader.add_argument("--only", nargs="*", default=[], help="Names of commands; what is stored of others is kept.")
    given = reader.parse_args()
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        found = collect(Path(folder), given.seed, given.share, given.only, given.lanes)
    given.out.mkdir(parents=True, exist_ok=True)
    found = [*_kept(given.out / "faults.json", given.only), *found] if given.only else found
    write_json(given.out / "faults.json", {"provenance": provenance(), "outcomes": found})
    write_text(given.out / "faults.md", page(found))
    wrong = [one for one in found if one["trouble"]]
    print(f"{len(found)} tried, {len(wrong)} went wrong")
    for one in wrong:
        print(f"{_where(one)}: {one['trouble']}")


if __name__ == "__main__":
    main()
