"""Every room in a real browser: Debian's Chromium if it is there, else playwright's own.

EIGENTRACK_SCREENSHOTS=docs/images renews the pictures of the documentation.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from eigentrack.automata import regex_dfa
from eigentrack.compiler import choose_plan, compile_network, save_compiled, verify
from eigentrack.explorer.inspection_view import ITS_OWN
from eigentrack.lm.conversion import convert
from eigentrack.models import ModelConfig, SequenceModel, save_model

pytestmark = pytest.mark.slow
SYSTEM_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PATIENCE = 180_000  # milliseconds


class Server:
    """`eigentrack explore` in a process of its own, whose temporary files lie in a folder of their own."""

    def __init__(self, home: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.home, self.address = home, f"http://127.0.0.1:{self.port}"
        command = [sys.executable, "-m", "eigentrack", "explore", "--no-browser", "--port", str(self.port)]
        environment = {**os.environ, "TMPDIR": str(home), "OMP_NUM_THREADS": "1"}
        with (home / "log").open("w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        wait_until(lambda: self.address in self.said() or self.process.poll() is not None)
        assert self.process.poll() is None, self.said()

    def said(self) -> str:
        return (self.home / "log").read_text()

    @property
    def sessions(self) -> int:
        return len(list(self.home.glob("eigentrack-*")))

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(30)


def wait_until(holds, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Server]:
    if importlib.util.find_spec("gradio") is None:
        pytest.skip("the page needs gradio: the extra [explore]")
    running = Server(tmp_path_factory.mktemp("server"))
    yield running
    running.close()


@pytest.fixture(scope="module")
def browser() -> Iterator:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    system = next(filter(None, map(shutil.which, SYSTEM_BROWSERS)), None)
    with playwright.sync_playwright() as driver:
        try:
            opened = driver.chromium.launch(executable_path=system, args=["--no-sandbox"])
        except playwright.Error as error:
            pytest.skip(f"no browser works here: {str(error).splitlines()[0]}")
        yield opened
        opened.close()


@pytest.fixture
def page(browser, server) -> Iterator:
    """A fresh page; whatever it asks for must come from this computer, and nothing may go wrong in it."""
    opened = open_page(browser, server)
    asked, wrong = [], []
    opened.on("request", lambda request: asked.append(request.url))
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.reload()
    opened.wait_for_selector("#explain")
    yield opened
    opened.close()
    assert len(asked) > 5
    assert [url for url in asked if not url.startswith((server.address, "data:", "blob:", "about:"))] == []
    assert wrong == []
    assert server.process.poll() is None
    assert "Traceback" not in server.said()


def open_page(browser, server, **options):
    opened = browser.new_page(viewport={"width": 1280, "height": 1000}, accept_downloads=True, **options)
    opened.set_default_timeout(PATIENCE)
    opened.goto(server.address)
    opened.wait_for_selector("#explain")
    return opened


def write(page, field: str, text: str) -> None:
    page.locator(f"#{field} textarea, #{field} input[type=text], #{field} input[type=number]").first.fill(text)


def room(page, name: str) -> None:
    page.get_by_role("tab", name=name).click()


def wait_for_text(page, field: str, pattern: str) -> str:
    text = page.locator(f"#{field}").filter(has_text=re.compile(pattern))
    text.wait_for()
    return text.inner_text()


def picture(page, name: str, height: int, tmp_path: Path) -> None:
    folder = Path(os.environ.get("EIGENTRACK_SCREENSHOTS", tmp_path))
    page.set_viewport_size({"width": 1280, "height": height})
    page.screenshot(path=folder / f"explore-{name}.png")


def test_a_language_is_explained_and_a_bad_one_refused(page, tmp_path):
    write(page, "regex", "(ab")
    page.click("#explain")
    wait_for_text(page, "language-answer", "is malformed: missing")
    write(page, "regex", "(a|b)*a(a|b){14}")  # 32768 states, and a huge monoid
    page.click("#explain")
    wait_for_text(page, "language-answer", "the transition monoid .* has more than")
    write(page, "regex", "(aa)*")
    page.locator("#regex textarea, #regex input").press("Enter")
    said = wait_for_text(page, "language-answer", "A group language; the letters generate the group Z2, abelian")
    assert "DeltaNet [-1, 1], 1 layer" in said
    assert "arXiv 2411.12537" in said
    assert page.locator("#language-answer svg circle").count() == 3  # two states, one of them accepting
    picture(page, "explain", 1500, tmp_path)
    page.get_by_label("group", exact=True).check()
    page.click("#explain")
    wait_for_text(page, "language-answer", "the letters generate the group S3, solvable")
    page.get_by_label("named language", exact=True).check()
    page.click("#explain")
    wait_for_text(page, "language-answer", "parity: an even number of 1s")


BRIGHTEST_INK = """sheet => Math.max(...[...sheet.querySelectorAll("h3, p, b, th, td")].map(
    part => Math.max(...getComputedStyle(part).color.match(/\\d+/g).slice(0, 3).map(Number))))"""


def test_the_sheets_can_be_read_in_a_dark_browser(browser, server):
    opened = open_page(browser, server, color_scheme="dark")
    opened.click("#explain")
    wait_for_text(opened, "language-answer", "Classes")
    assert opened.locator("#language-answer .sheet").evaluate(BRIGHTEST_INK) < 200  # of 255, on white
    opened.close()


def test_a_network_is_compiled_watched_and_taken_home(page, tmp_path):
    write(page, "regex", "(ab|ba)*")
    room(page, "Compile")
    page.click("#compile")
    wait_for_text(page, "certificate", "Proved for every word of every length")
    page.locator("#word textarea, #word input").press_sequentially("abba", delay=50)
    wait_for_text(page, "verdict", "after letter 4, 'a': state 0, accept")
    for letter, said in (("1", "after letter 1, 'a': state 1, reject"), ("3", "after letter 3, 'b': state 2, reject")):
        write(page, "position", letter)
        page.locator("#position input[type=number]").press("Enter")
        wait_for_text(page, "verdict", said)
    picture(page, "compile", 1960, tmp_path)
    write(page, "word", "abx")
    wait_for_text(page, "reading", "letter 'x' is not in the alphabet a, b")
    with page.expect_download() as download:
        page.click("#download")
    with zipfile.ZipFile(download.value.path()) as archive:
        archive.extractall(tmp_path)
    assert verify(tmp_path / "network").holds


def test_twins_are_trained_stopped_and_looked_into(page, tmp_path):
    room(page, "Train")
    write(page, "steps", "2000")
    page.click("#train")
    wait_for_text(page, "training-status", r"step ([3-9]\d|\d{3,}) of 2000")
    page.click("#stop")
    stopped = wait_for_text(page, "training-status", r"\d+ steps, done")
    assert 30 <= int(re.search(r"(\d+) steps", stopped)[1]) < 2000
    write(page, "steps", "200")
    page.click("#train")
    wait_for_text(page, "training-status", "200 steps, done")
    narrow, wide = (page.locator("#training tr").nth(row).inner_text() for row in (1, 2))
    assert re.search(r"\[0, 1\].*\b\d letters?", narrow, re.DOTALL)
    assert "beyond 512 letters" in wide
    picture(page, "train", 1080, tmp_path)
    room(page, "Inspect")
    page.click("#inspect")
    wait_for_text(page, "inspection", "type the path of a folder")
    write(page, "path", "/nowhere")
    page.click("#inspect")
    wait_for_text(page, "inspection", "/nowhere is no folder")
    page.locator("#source input").click()
    page.get_by_role("option", name="the trained twin [-1, 1]").click()
    page.click("#inspect")
    inside = page.frame_locator("#inspection iframe")
    inside.get_by_role("heading", name="Spectra of A(x)").wait_for()
    assert "horizon on random words" in inside.locator("body").inner_text()
    picture(page, "inspect", 1400, tmp_path)


@pytest.fixture
def folders(tmp_path) -> dict[str, tuple[Path, str, str]]:
    """What a user may have lying about: its place, the task that the room is told, and what the page must say of it."""
    transformers = pytest.importorskip("transformers", reason="a checkpoint to convert needs transformers")
    torch.manual_seed(0)
    save_model(SequenceModel(ModelConfig(vocab_size=3, d_model=8, layers=1)), tmp_path / "model")
    save_compiled(compile_network(choose_plan(regex_dfa("(aa)*"))), tmp_path / "network")
    config = transformers.MambaConfig(vocab_size=11, hidden_size=16, state_size=4, num_hidden_layers=2)
    transformers.MambaForCausalLM(config).save_pretrained(tmp_path / "foreign")
    convert(str(tmp_path / "foreign"), tmp_path / "mamba", None, "eigentrack")
    return {
        "told its task": (tmp_path / "model", "parity", "horizon on random words"),
        "compiled": (tmp_path / "network", ITS_OWN, "beyond 1,000 letters"),
        "converted": (tmp_path / "mamba", ITS_OWN, "only its spectra are shown"),
    }


def test_folders_of_every_kind_are_looked_into(page, folders):
    room(page, "Inspect")
    for folder, task, said in folders.values():
        write(page, "path", str(folder))
        page.locator("#task input").click()
        page.get_by_role("option", name=task, exact=True).click()
        page.click("#inspect")
        inside = page.frame_locator("#inspection iframe")
        inside.get_by_role("heading", name=f"{folder.name}: ").wait_for()
        assert said in inside.locator("body").inner_text()
    write(page, "path", str(folders["compiled"][0].parent / "foreign"))
    page.click("#inspect")
    wait_for_text(page, "inspection", "holds a mamba of transformers")


def test_two_pages_do_not_disturb_each_other(browser, server, page):
    other = open_page(browser, server)
    for opened, regex in ((page, "(aa)*"), (other, "(aaa)*")):
        write(opened, "regex", regex)
        room(opened, "Compile")
        opened.click("#compile")
    for opened in (page, other):
        wait_for_text(opened, "certificate", "Proved for every word")
    for opened in (page, other):
        opened.locator("#word textarea, #word input").press_sequentially("aaa")
    wait_for_text(page, "verdict", "after letter 3, 'a': state 1, reject")
    wait_for_text(other, "verdict", "after letter 3, 'a': state 0, accept")
    before = server.sessions
    for opened, said in ((other, r"step \d+ of 2000"), (page, "waiting: 1 training of other pages comes first")):
        room(opened, "Train")
        write(opened, "steps", "2000")
        opened.click("#train")
        wait_for_text(opened, "training-status", said)
    other.close()  # its training ends with it, and this one begins
    wait_for_text(page, "training-status", r"step \d+ of 2000")
    wait_until(lambda: server.sessions == before - 1)
    page.click("#stop")
    wait_for_text(page, "training-status", "done")
