"""The docstrings of the package read as sentences: a newcomer understands each without a second reading.

function, method     starts with a verb in the imperative, as in "Return the chunks of a sequence."
property             starts with that verb, or names what it is, as in "The number of heads."
class, module        names what it is, as in "A task on prefixes."; never starts in the middle of a thought ("Of such blocks.")
comment on a line    stands by itself: "the length of a word", where "of a word" would go on from the name beside it
public function      names every one of its parameters somewhere in its docstring (a class: in its own or in that of __init__)
"""

from __future__ import annotations

import ast
import importlib
import inspect
import io
import pkgutil
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

import eigentrack
from tests.docs.stand_ins import ROOT

HERE = Path(__file__).parent
VERBS = frozenset((HERE / "imperative_verbs.txt").read_text().split())
# what starts a fragment: the reader would have to guess what comes before it
MIDDLE = frozenset((HERE / "words_inside_a_thought.txt").read_text().split())
GOES_ON = frozenset({"of", "that", "which", "whose", "than", "and", "or", "but"})
SAID_ELSEWHERE = ("eigentrack.cli",)  # every option of a command has its own help, which tests/cli asks for

Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def documented(path: Path) -> Iterator[tuple[Documented, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, Documented) and (text := ast.get_docstring(node)):
            yield node, text


def is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("property" in ast.unparse(decorator) for decorator in node.decorator_list)


def complaint(node: Documented, text: str) -> str | None:
    """Return what is wrong with the start of a docstring, or None."""
    word = text.split()[0].strip(".,:;")
    if word in MIDDLE:
        return f"starts with {word!r}, in the middle of a thought"
    is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    if is_function and not is_property(node) and not (word[0].isupper() and word.lower() in VERBS):
        return f"starts with {word!r}, not with a verb in the imperative (tests/docs/imperative_verbs.txt)"
    if text.split("\n\n")[0].rstrip()[-1] not in ".:!?)…" and "\n" not in text:
        return "does not end its sentence"
    return None


def complaints(path: Path) -> list[str]:
    found = ((node, text, complaint(node, text)) for node, text in documented(path))
    where = path.relative_to(ROOT)
    return [
        f"{where}:{getattr(node, 'lineno', 1)}: {text.splitlines()[0][:60]!r} {wrong}" for node, text, wrong in found if wrong
    ]


FILES = sorted((ROOT / "eigentrack").rglob("*.py"))


@pytest.mark.parametrize("folder", sorted({path.relative_to(ROOT).parts[1] for path in FILES}))
def test_docstrings_start_as_sentences(folder):
    home = ROOT / "eigentrack" / folder
    wrong = [line for path in FILES if home in (path, *path.parents) for line in complaints(path)]
    assert not wrong, f"{len(wrong)} docstrings:\n" + "\n".join(wrong)


@pytest.mark.parametrize(
    "text", ["Of such blocks.", "While it learns.", "It may be that of another layer.", "Blocks of it.", "Return x"]
)
def test_fragments_are_found(text):
    node = ast.parse("def f(): ...").body[0]
    assert complaint(node, text)


@pytest.mark.parametrize("text", ["Return the blocks.", "Raise if the state belongs to another layer."])
def test_sentences_pass(text):
    assert complaint(ast.parse("def f(): ...").body[0], text) is None


def going_on(source: str) -> Iterator[str]:
    """Yield the comments beside code that go on from a name in it: they say nothing by themselves."""
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        (line, column), words = token.start, token.string.lstrip("# ").split()
        if token.type == tokenize.COMMENT and words and words[0] in GOES_ON and lines[line - 1][:column].strip():
            yield f"line {line}: {token.string}"


@pytest.mark.parametrize("folder", sorted({path.relative_to(ROOT).parts[1] for path in FILES}))
def test_comments_beside_code_stand_by_themselves(folder):
    home = ROOT / "eigentrack" / folder
    wrong = [f"{path}, {line}" for path in FILES if home in (path, *path.parents) for line in going_on(path.read_text())]
    assert not wrong, "\n".join(wrong)


def test_comments_that_go_on_are_found():
    assert list(going_on("LENGTH = 3  # of a word\n")) == ["line 1: # of a word"]
    assert list(going_on("# of such lines\nLENGTH = 3  # the length of a word\n")) == []


def public_callables() -> dict[str, object]:
    """Every function and class that a package of eigentrack offers in its __init__, by its name."""
    found: dict[str, object] = {}
    packages = [name for _, name, is_package in pkgutil.iter_modules(eigentrack.__path__, "eigentrack.") if is_package]
    for name in ["eigentrack.spectrum", *(name for name in packages if name not in SAID_ELSEWHERE)]:
        module = importlib.import_module(name)
        for entry, value in vars(module).items():
            home = str(getattr(value, "__module__", ""))
            if home.startswith("eigentrack") and callable(value) and not entry.startswith("_"):
                found[f"{home}.{entry}"] = value
    return found


def unnamed_parameters(value: object) -> list[str]:
    """Return the parameters of a function that its docstring does not name."""
    try:
        names = [name for name in inspect.signature(value).parameters if name not in ("self", "args", "kwargs")]  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return []
    text = inspect.getdoc(value) or ""
    if inspect.isclass(value):
        text += inspect.getdoc(value.__init__) or ""
        text += inspect.getsource(value) if hasattr(value, "__dataclass_fields__") else ""  # a field has its comment beside it
    return [name for name in names if not name.startswith("_") and name not in text]


@pytest.mark.parametrize(
    ("name", "value"), sorted(public_callables().items()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_public_functions_name_their_parameters(name, value):
    assert not (missing := unnamed_parameters(value)), f"{name} does not say what these are: {', '.join(missing)}"
