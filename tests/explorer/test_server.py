from __future__ import annotations

import ast
import importlib.util
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from eigentrack.cli import app
from eigentrack.explorer.inspection_view import COMPILED, FOLDER, TWINS, folder_of
from eigentrack.explorer.server import check_address, is_loopback, serve
from eigentrack.explorer.session import Session


def refuse_to_say(text: str) -> None:
    raise AssertionError(f"said {text}")


def test_only_this_computer_counts_as_local():
    assert all(map(is_loopback, ("127.0.0.1", "127.0.0.2", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "192.168.0.7", "example.org")))


def test_a_port_that_is_taken_is_named():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ValueError, match=rf"cannot listen on 127.0.0.1, port {port} .*--port"):
            serve("127.0.0.1", port, open_browser=False, say=refuse_to_say)


@pytest.mark.parametrize("port", [0, 70000])
def test_a_port_that_is_none_is_named(port):
    with pytest.raises(ValueError, match=f"--port {port} must lie between"):
        check_address("127.0.0.1", port)


def test_without_gradio_the_extra_is_named(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "gradio" else found(name))
    with pytest.raises(ValueError, match=r"pip install 'eigentrack\[explore\]'"):
        serve("127.0.0.1", 7860, open_browser=False, say=refuse_to_say)


def test_the_command_listens_on_this_computer_alone_unless_told_otherwise(monkeypatch):
    asked = []
    monkeypatch.setattr("eigentrack.explorer.server.serve", lambda *place, **how: asked.append((*place, how["open_browser"])))
    for arguments in ([], ["--host", "0.0.0.0", "--port", "80", "--no-browser"]):
        assert CliRunner().invoke(app, ["explore", *arguments]).exit_code == 0
    assert asked == [("127.0.0.1", 7860, True), ("0.0.0.0", 80, False)]


def test_a_room_that_has_nothing_to_inspect_says_what_to_do():
    session = Session()
    missing = {
        COMPILED: "no network was compiled",
        FOLDER: "type the path",
        **dict.fromkeys(TWINS, "the trained twin .* does not exist yet"),
    }
    for source, message in missing.items():
        with pytest.raises(ValueError, match=message):
            folder_of(session, source, " ")
    assert folder_of(session, FOLDER, " runs/s3 ") == Path("runs/s3")
    session.close()


LIST_SOURCES = """
from eigentrack.explorer.page import build_page
from eigentrack.explorer.session import Sessions
for is_local in (True, False):
    page = build_page(Sessions(), is_local)
    (source,) = (block for block in page.blocks.values() if getattr(block, "elem_id", None) == "source")
    print([value for _, value in source.choices])
"""


@pytest.mark.slow
def test_folders_are_offered_only_on_a_local_page():
    if importlib.util.find_spec("gradio") is None:
        pytest.skip("the page needs the extra [explore]")
    # by itself: gradio leaves event loops open, which would fail other tests here
    done = subprocess.run([sys.executable, "-c", LIST_SOURCES], capture_output=True, text=True, check=True)
    local, public = map(ast.literal_eval, done.stdout.splitlines())
    assert local == [COMPILED, *TWINS, FOLDER]
    assert public == [COMPILED, *TWINS]
