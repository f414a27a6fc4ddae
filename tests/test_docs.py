"""The documentation is true: its code runs, its commands exist, the functions and tests that it names are there, it builds."""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import typer.main
from typer.testing import CliRunner

from eigentrack.cli import app
from eigentrack.layers import MIXERS
from eigentrack.lm.config import LanguageRunConfig
from eigentrack.lm.presets import PRESETS
from eigentrack.tasks import Task
from eigentrack.tasks.registry import TASKS
from eigentrack.training.config_file import read_values
from eigentrack.training.run_config import RunConfig
from tests.code_blocks import LANGUAGES, Block, Command, code_blocks, commands, mentioned_commands, shows
from tests.layers import test_conformance as conformance

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = {str(path.relative_to(ROOT)): path for path in [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]}
ALWAYS_RUN = ("explain", "compile", "tasks", "layers")
READERS = ("evaluate", "inspect", "verify", "run")  # run if the page made what they read
MOST_STEPS = 50  # of a training that is run
# whole sessions with a language model: every command runs, but the training is cut to a few steps
LANGUAGE_MODELS = "docs/how_to/language_models.md"
TRAIN_LANGUAGE_MODELS = "docs/how_to/train_language_models.md"
EXTEND = "docs/how_to/extend.md"
LONG_SESSIONS = ("demo", "reproduce", "train")
TESTED_APART = (LANGUAGE_MODELS, TRAIN_LANGUAGE_MODELS, EXTEND)
CONFORMANCE = (
    conformance.test_steps_equal_forward,
    conformance.test_pieces_equal_the_whole,
    conformance.test_packed_sequences_do_not_see_each_other,
    conformance.test_backends_agree_on_values_and_parameter_gradients,
    conformance.test_transitions_are_what_forward_applies,
    conformance.test_eigenvalues_lie_in_the_range,
    conformance.test_states_can_be_selected_and_detached,
    conformance.test_half_precision_layers_keep_a_float32_memory,
)

every_page = pytest.mark.parametrize("page", PAGES)


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Pages run in a folder of their own, on a wide terminal; what they register is forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")
    layers, tasks = dict(MIXERS), dict(TASKS)
    yield
    for table, before in ((MIXERS, layers), (TASKS, tasks)):
        table.clear()
        table.update(before)


def run_command(command: Command) -> None:
    result = CliRunner().invoke(app, list(command.arguments))
    said = f"eigentrack {' '.join(command.arguments)}\n{result.output}"
    assert result.exit_code == 0, f"{said}{result.exception!r}"
    assert shows(command.shown, result.output), f"the page shows other lines than\n{said}"


def is_cheap(command: Command) -> bool:
    name, *rest = command.arguments
    if name == "train":
        return "--resume" in rest or ("--steps" in rest and int(rest[rest.index("--steps") + 1]) <= MOST_STEPS)
    return (name in ALWAYS_RUN and "--dfa" not in rest) or (name in READERS and Path(rest[0]).exists())


def run_page(page: str, may_run: Callable[[Command], bool]) -> dict[str, Any]:
    """From top to bottom, in one namespace and one folder."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    printed = io.StringIO()
    for block in code_blocks(PAGES[page]):
        if block.language == "python":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(block.text, f"{page}, line {block.line}", "exec", dont_inherit=True), namespace)
        elif block.language == "text":
            assert shows(tuple(block.text.splitlines()), printed.getvalue()), f"line {block.line}: {printed.getvalue()}"
        for command in filter(may_run, commands(block)):
            run_command(command)
    return namespace


@pytest.mark.parametrize("page", [page for page in PAGES if page not in TESTED_APART])
def test_the_page_runs_as_printed(page: str) -> None:
    run_page(page, is_cheap)


@pytest.mark.slow
def test_after_the_demo_the_readme_looks_inside_its_models() -> None:
    run_command(Command(("demo",)))
    run_page("README.md", lambda command: command.arguments[0] in READERS and is_cheap(command))


@pytest.mark.slow
@pytest.mark.parametrize("page", ["README.md", "docs/eigenvalues.md", *(f"docs/how_to/{name}.md" for name in LONG_SESSIONS)])
def test_what_takes_long_runs_as_well_when_it_is_cut(page: str) -> None:
    """What the page shows is of the whole command, and is not compared."""
    blocks = list(code_blocks(PAGES[page]))
    for block in blocks:
        if block.language == "yaml":
            Path("run.yaml").write_text(re.sub(r"steps: \d+", "steps: 20", block.text))
    for block in blocks:
        for command in commands(block):
            if command.arguments[0] in ("train", "evaluate", "reproduce", "demo"):
                run_command(Command(cut(command.arguments)))


def cut(arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Few steps, the smallest budget, no GPU."""
    changed = list(arguments)
    for flag, value in (("--device", "cpu"), ("--budget", "smoke"), ("--jobs", "2"), ("--precision", "float32")):
        if flag in changed:
            changed[changed.index(flag) + 1] = value
    changed = [argument for argument in changed if argument != "--compile"]
    if changed[0] == "train" and not {"--resume", "--config"} & set(changed):
        steps = ["--steps", str(MOST_STEPS)]
        place = changed.index("--steps") if "--steps" in changed else len(changed)
        changed[place : place + 2] = steps
    return tuple(changed)


@every_page
def test_every_block_says_what_it_is(page: str) -> None:
    for block in code_blocks(PAGES[page]):
        assert block.language in LANGUAGES, f"line {block.line}: ```{block.language} is not one of {', '.join(LANGUAGES)}"
        if block.language == "python":
            compile(block.text, page, "exec")
        elif block.language in ("yaml", "json"):
            check_configuration(block)


def check_configuration(block: Block) -> None:
    path = Path(f"values.{block.language}")
    path.write_text(block.text)
    values = read_values(path)
    if "corpus" in values:
        LanguageRunConfig.from_json(values)
    elif "task" in values:
        RunConfig.from_json(values)
    else:
        run_command(Command(("explain", "--dfa", str(path))))


@every_page
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


@every_page
def test_every_target_and_script_exists(page: str) -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    for block in code_blocks(PAGES[page]):
        for line in re.findall(r"^make (.*)", block.text, flags=re.MULTILINE):
            assert set(line.split("#")[0].split()) <= set(targets), line
    for path in re.findall(r"\b((?:benchmarks|tests|eigentrack)/[\w/]+\.py)\b", PAGES[page].read_text()):
        assert (ROOT / path).exists(), path


def test_the_new_layer_conforms_and_the_new_tasks_are_what_they_say() -> None:
    namespace = run_page(EXTEND, is_cheap)
    assert namespace["accuracy"] > 0.9
    for options in ({"heads": 3}, {"heads": 2, "eigenvalues": namespace["EigenRange"](0, 1)}):
        for check in CONFORMANCE:
            check("retention", options)
    check_elevator(TASKS["elevator"](4))
    check_echo(TASKS["echo"](delay=3))


def check_elevator(task: Task) -> None:
    batch = task.sample(16, (20, 20), seed=1, step=2)
    floor = torch.zeros(16, dtype=torch.int64)
    for letter, target in zip(batch.tokens.unbind(1), batch.targets.unbind(1), strict=True):
        floor = (floor + torch.tensor([1, -1, 0])[letter]).clamp(0, 3)
        assert torch.equal(target, floor)


def check_echo(task: Task) -> None:
    batch = task.sample(16, (5, 9), seed=1, step=2)
    asked = batch.weight > 0
    torch.testing.assert_close(batch.weight.sum(1), torch.ones(16))
    assert not asked[:, :3].any()
    assert torch.equal(batch.targets[:, 3:][asked[:, 3:]], batch.tokens[:, :-3][asked[:, 3:]])


def test_the_functions_and_tests_of_the_theory_exist() -> None:
    rows = [line for line in PAGES["docs/theory.md"].read_text().splitlines() if line.startswith("| ") and "::" in line]
    assert len(rows) > 15
    for row in rows:
        functions = re.findall(r"`([a-z_]+(?:\.\w+)+)`", row)
        tests = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", row)
        assert functions, row
        assert tests, row
        for name in functions:
            module, _, attribute = f"eigentrack.{name}".rpartition(".")
            assert hasattr(importlib.import_module(module), attribute), name
        for path, test in tests:
            assert re.search(rf"^def {test}\(", (ROOT / path).read_text(), flags=re.MULTILINE), f"{path}::{test}"


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(name for extra in project["optional-dependencies"].values() for name in extra)]
    rows = [line for line in PAGES["docs/dependencies.md"].read_text().splitlines() if line.startswith("| ")]
    for package in {re.split(r"[\[<>=]", name)[0] for name in wanted} - {"eigentrack"}:
        assert any(re.search(rf"\b{package}\b", row) for row in rows), (
            f"docs/dependencies.md does not say why {package} is there"
        )
    for extra in project["optional-dependencies"]:
        assert f"`{extra}`" in PAGES["docs/dependencies.md"].read_text(), extra


def test_the_pictures_are_those_of_the_scripts(tmp_path: Path) -> None:
    script = [sys.executable, str(DOCS / "pictures" / "draw_all.py"), str(tmp_path)]
    subprocess.run(script, check=True, timeout=120)
    drawn = sorted(tmp_path.glob("*.svg"))
    assert len(drawn) == 6
    for picture in drawn:
        committed = DOCS / "images" / picture.name
        assert committed.read_text() == picture.read_text(), f"{committed} is old: run python docs/pictures/draw_all.py"


def test_the_site_builds_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(tmp_path)]
    result = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        loaded = re.findall(r"<(?:script|img|link|iframe)[^>]*?(?:src|href)=[\"']?(https?:[^\"' >]*)", page.read_text())
        assert not loaded, f"{page.name} loads {loaded}"


@pytest.fixture
def short_preset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PRESETS["tiny"]["training"], "steps", 3)
    monkeypatch.setitem(PRESETS["tiny"]["training"], "warmup", 1)


@pytest.mark.slow
@pytest.mark.usefixtures("short_preset")
def test_language_models_from_text_to_hugging_face() -> None:
    """The text is cut: the page's outputs are of a longer training, and are not compared."""
    Path("text").mkdir()
    for path in sorted(Path(contextlib.__file__).parent.glob("*.py"))[:60]:
        (Path("text") / path.name).write_bytes(path.read_bytes())
    run_page(LANGUAGE_MODELS, lambda command: command.arguments[0] == "lm")
    assert Path("runs/tiny/model/config.json").exists()
    assert Path("tiny-hf/config.json").exists()


@pytest.mark.usefixtures("short_preset")
def test_training_a_language_model_in_python() -> None:
    Path("books").mkdir()
    Path("books/one.txt").write_text((ROOT / "README.md").read_text() * 20)
    namespace = run_page(TRAIN_LANGUAGE_MODELS, lambda command: command.arguments[:2] == ("lm", "prepare"))
    assert namespace["result"] is not None
    assert Path("runs/books/model/config.json").exists()
