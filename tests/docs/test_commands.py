"""Every command that a page shows or mentions exists, with its flags, and every command has a how-to."""

from __future__ import annotations

import pytest
import typer.main

from eigentrack.cli import app
from tests.docs.claims import PAGES
from tests.docs.code_blocks import Command, code_blocks, commands, mentioned_commands


@pytest.mark.parametrize("page", PAGES)
def test_every_command_and_flag_exists(page: str) -> None:
    blocks = [command for block in code_blocks(PAGES[page]) for command in commands(block)]
    for command in blocks:
        assert not fault(command), f"eigentrack {' '.join(command.arguments)}: {fault(command)}"
    for command in mentioned_commands(PAGES[page]):
        assert fault(command) in ("", "MissingParameter"), f"`eigentrack {' '.join(command.arguments)}`: {fault(command)}"


def test_every_command_has_a_how_to() -> None:
    how_to = [path for page, path in PAGES.items() if page.startswith("docs/how_to/")]
    shown = {command.arguments[:2] for path in how_to for block in code_blocks(path) for command in commands(block)}
    tool = typer.main.get_command(app)
    for name, command in tool.commands.items():
        for inner in getattr(command, "commands", {}):
            assert (name, inner) in shown, f"no how-to shows eigentrack {name} {inner}"
        assert any(arguments[0] == name for arguments in shown), f"no how-to shows eigentrack {name}"


def fault(command: Command) -> str:
    """What the command line's own parser holds against it, without running it."""
    tool, rest = typer.main.get_command(app), list(command.arguments)
    while rest and hasattr(tool, "commands"):
        if rest[0] not in tool.commands:
            return f"there is no command {rest[0]}"
        tool = tool.commands[rest.pop(0)]
    try:
        tool.make_context("eigentrack", rest)
    except Exception as error:
        return type(error).__name__ if type(error).__name__ == "MissingParameter" else f"{type(error).__name__}: {error}"
    return ""


def test_wrong_commands_are_found() -> None:
    assert fault(Command(("compile", "(aa)*", "-o", "net"))) == ""
    assert "no command" in fault(Command(("lm", "fly")))
    assert "--wings" in fault(Command(("compile", "(aa)*", "--wings", "2")))
