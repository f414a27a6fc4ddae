"""Who runs what: every block of a page has exactly one kind, and everything that runs exactly one runner.

kind           is
python         run
commands       lines for a shell
session        `$ eigentrack …` and what it prints
configuration  a file that a command of the page reads
output         what the block before it prints; compared
equation, map  no code; tests/test_readme.py checks the map of files
walk           files in the order in which data passes them; tests/docs/test_architecture.py follows their imports

runner         runs
AT_ONCE        Python, and commands that take seconds, in this process
IN_A_SHELL     all else: with its whole page in bash, where programs are cut short (stand_ins.py); slow
"""

from __future__ import annotations

import ast
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.docs.code_blocks import INDENTED, Block, Command, code_blocks, commands, is_session, shell_lines
from tests.docs.stand_ins import ROOT, STAND_INS

PAGES = {str(path.relative_to(ROOT)): path for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]}
AT_ONCE, IN_A_SHELL = "at once", "in a shell"
UNCLAIMED = "unclaimed"  # of no kind, or of several

# what the reader has: texts, and a dataset of Hugging Face
GIVEN = {"README.md": ("text",), "docs/how_to/train_language_models.md": ("books", "HuggingFaceFW")}
PROGRAMS = (*STAND_INS, "mkdir", "source")
NEED_NOTHING = ("explain", "compile", "tasks", "layers")
READERS = ("evaluate", "inspect", "verify", "run")
MOST_STEPS = 50  # of a training that is run at once
_RELATION = re.compile(r"\s(=|\+=|←|⊆|⇒)\s")


@dataclass(frozen=True)
class Claim:
    runner: str
    block: Block
    command: Command | None = None  # None: the whole block


def kinds(block: Block, before: Block | None, read: str) -> list[str]:
    """All that it may be: one, if it is understood. `read` is what the page's commands say."""
    lines, is_indented = block.text.splitlines(), block.language == INDENTED
    may_be = {
        "python": block.language == "python" and is_python(block.text),
        "session": is_indented and is_session(block),
        "commands": (is_indented or block.language == "bash") and all(program(line) in PROGRAMS for line in shell_lines(block)),
        "configuration": block.language in ("yaml", "json") and block.file is not None and block.file in read.split(),
        "equation": is_indented and all(map(_is_equation, lines)) and not is_python(block.text),
        "map": is_indented and lines[0] == "eigentrack/",
        "walk": block.language == "walk",
    }
    found = [kind for kind, holds in may_be.items() if holds]
    prints = before is not None and before.language in ("python", "bash")
    return ["output"] if prints and not found and block.language in ("text", INDENTED) else found


def _is_equation(line: str) -> bool:
    """With a relation, and not a command with one in its arguments."""
    return _RELATION.search(line) is not None and shutil.which(line.split()[0]) is None


def program(line: str) -> str:
    """The first one of the line; in a substitution as well: first=$(scontrol …)."""
    match = re.match(r"(?:\w+=\$\()?([\w-]+)", line)
    return match[1] if match else ""


def is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def kinds_of_blocks(page: str) -> Iterator[tuple[Block, str]]:
    blocks = code_blocks(PAGES[page])
    read = "\n".join(line for block in blocks for line in shell_lines(block) if program(line) in PROGRAMS)
    for before, block in zip([None, *blocks], blocks, strict=False):
        found = kinds(block, before, read)
        yield block, found[0] if len(found) == 1 else UNCLAIMED


def claims(page: str) -> list[Claim]:
    found: list[Claim] = []
    blocks = list(kinds_of_blocks(page))
    made: set[str | None] = {*GIVEN.get(page, ()), *(block.file for block, kind in blocks if kind == "configuration")}
    made_later: set[str | None] = set()  # in a shell
    for block, kind in blocks:
        if kind == "python":
            runner = IN_A_SHELL if any(f'"{folder}"' in block.text for folder in made_later) else AT_ONCE
            found.append(Claim(runner, block))
        elif kind == "output" and found:
            found.append(Claim(found[-1].runner, block))
        elif kind == "session" or (kind == "commands" and {program(line) for line in shell_lines(block)} == {"eigentrack"}):
            for command in commands(block):
                cheap = is_cheap(command, made)
                (made if cheap else made_later).update(value(command, flag) for flag in ("-o", "--out"))
                found.append(Claim(AT_ONCE if cheap else IN_A_SHELL, block, command))
        elif kind == "commands":
            made_later.update(value(command, "--out") for command in commands(block))
            found.append(Claim(IN_A_SHELL, block))
    return found


def is_cheap(command: Command, made: set[str | None]) -> bool:
    name, *rest = command.arguments
    if name == "train":
        goes_on = "--resume" in rest and value(command, "--out") in made
        return goes_on or int(value(command, "--steps") or MOST_STEPS + 1) <= MOST_STEPS
    if name == "lm":
        read = value(command, "--dataset") or (value(command, "--corpus") if rest[0] == "train" else rest[1])
        return "--probe" not in rest and is_in(read, made)
    return name in NEED_NOTHING or (name in READERS and is_in(rest[0], made))


def is_in(path: str | None, made: set[str | None]) -> bool:
    return path is not None and any(str(folder) in made for folder in [Path(path), *Path(path).parents])


def value(command: Command, flag: str) -> str | None:
    found = command.arguments
    return found[found.index(flag) + 1] if flag in found else None
