"""The rooms of the page have the words of the documentation; they are read from the source, as gradio takes long to load."""

from __future__ import annotations

import ast
import re

import typer.main

from eigentrack.cli import app
from tests.docs.claims import PAGES, ROOT

HOW_TO = PAGES["docs/how_to/explore.md"].read_text()


def titles(file: str, *components: str) -> list[str]:
    """Return the first argument of each `gr.NAME(…)` in a file of the explorer."""
    calls = [
        node for node in ast.walk(ast.parse((ROOT / "eigentrack/explorer" / file).read_text())) if isinstance(node, ast.Call)
    ]
    made = [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr in components]
    return [call.args[0].value for call in made if isinstance(call.args[0], ast.Constant)]


def test_rooms_are_named_by_the_commands_and_by_the_how_to() -> None:
    rooms = titles("page.py", "Tab")
    assert rooms == re.findall(r"^## (.+)$", HOW_TO, flags=re.MULTILINE)
    assert {room.lower() for room in rooms} <= set(typer.main.get_command(app).commands)


def test_the_how_to_names_every_button() -> None:
    buttons = titles("rooms.py", "Button", "DownloadButton")
    assert len(buttons) >= 5
    for button in buttons:
        assert f"**{button}**" in HOW_TO, button
