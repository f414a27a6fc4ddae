"""A page that runs from top to bottom, in one folder and one namespace."""

from __future__ import annotations

import contextlib
import io
import json
import random
import shlex
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from eigentrack.cli import app
from tests.docs.claims import AT_ONCE, GIVEN, claims, kinds_of_blocks, value
from tests.docs.code_blocks import Block, Command, commands, shows, without_numbers
from tests.docs.cut import cut_arguments, cut_file
from tests.docs.stand_ins import set_up, shell


def run_at_once(page: str) -> dict[str, Any]:
    """What takes seconds, as printed; gives the namespace of the page's Python."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    output = ""
    give_files(page, is_cut=False)
    for claim in claims(page):
        if claim.runner != AT_ONCE:
            continue
        if claim.command is not None:
            output = run_command(claim.command)
            compare(claim.command.shown, output, page, claim.block)
        elif claim.block.language == "python":
            output = run_python(claim.block, page, namespace)
        else:
            compare(claim.block.text, output, page, claim.block)
    return namespace


def run_in_a_shell(page: str) -> None:
    """Everything, word for word; what is cut short prints other numbers, and a model that is generates another text."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    output, generates = "", False
    give_files(page, is_cut=True)
    variables = set_up(Path.cwd())
    for block, kind in kinds_of_blocks(page):
        if kind == "python":
            output = run_python(block, page, namespace)
        elif kind == "commands":
            output = shell(block.text, variables)
        elif kind == "session":
            for command in commands(block):
                output = shell(shlex.join(["eigentrack", *command.arguments]), variables)
                if cut_arguments(command.arguments) == list(command.arguments):
                    compare(command.shown, output, page, block)
        elif kind == "output" and not generates:
            compare(without_numbers(block.text), without_numbers(output), page, block)
        generates = "generate" in block.text
        for command in commands(block) if kind in ("commands", "session") else ():
            for folder in filter(None, (value(command, "-o"), value(command, "--out"))):
                assert Path(folder).exists(), f"{page}, line {block.line}: there is no {folder}"


def run_python(block: Block, page: str, namespace: dict[str, Any]) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(block.text, f"{page}, line {block.line}", "exec", dont_inherit=True), namespace)
    return printed.getvalue()


def run_command(command: Command) -> str:
    result = CliRunner().invoke(app, list(command.arguments))
    assert result.exit_code == 0, f"eigentrack {shlex.join(command.arguments)}\n{result.output}{result.exception!r}"
    return result.output


def compare(shown: str, output: str, page: str, block: Block) -> None:
    assert shows(shown, output), f"{page}, line {block.line}, shows other lines than\n{output}"


def give_files(page: str, *, is_cut: bool) -> None:
    """What the reader has, and the files that the page shows."""
    for folder in map(Path, GIVEN.get(page, ())):
        give_dataset(folder / "fineweb") if folder.name == "HuggingFaceFW" else give_text(folder)
    for block, kind in kinds_of_blocks(page):
        if kind == "configuration" and block.file is not None:
            Path(block.file).write_text(cut_file(block.text) if is_cut else block.text)


def give_text(folder: Path) -> None:
    folder.mkdir()
    for number, text in enumerate(texts()):
        (folder / f"{number}.txt").write_text(text)


def give_dataset(folder: Path) -> None:
    """The `datasets` library reads a folder of this name before it asks the network."""
    folder.mkdir(parents=True)
    configuration = "- config_name: sample-100BT\n  data_files: [{split: train, path: rows.jsonl}]"
    (folder / "README.md").write_text(f"---\nconfigs:\n{configuration}\n---\n")
    (folder / "rows.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts()))


def texts(documents: int = 200, words: int = 2500) -> list[str]:
    """Words of random letters: a twentieth of the texts has more than 16,384 tokens."""
    draw = random.Random(0)
    return [" ".join("".join(draw.choices("abcdefgh", k=3)) for _ in range(words)) for _ in range(documents)]
