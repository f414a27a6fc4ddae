"""Hook of mkdocs: the section Reference, a page for each package, from the docstrings of its public names.

A name is public if the package's `__init__.py` re-exports it (`from … import Name as Name`). `eigentrack.lm` re-exports
nothing, so that the core imports without its packages; there the modules of MODULES are shown, with what they define.
"""

from __future__ import annotations

import ast
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGES = (
    "eigentrack",
    "eigentrack.layers",
    "eigentrack.ops",
    "eigentrack.models",
    "eigentrack.tasks",
    "eigentrack.automata",
    "eigentrack.expressivity",
    "eigentrack.compiler",
    "eigentrack.training",
    "eigentrack.analysis",
)
MODULES = {
    "eigentrack.lm": (
        "prepare",
        "corpus",
        "config",
        "train",
        "language_model",
        "generation",
        "perplexity",
        "harness",
        "hugging_face.config",
        "hugging_face.model",
    )
}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    section = next(entry["Reference"] for entry in config.nav if "Reference" in entry)
    section += [{package: page_of(package)} for package in (*PACKAGES, *MODULES)]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    shown = {package: exports(package) for package in PACKAGES}
    for package, modules in MODULES.items():
        shown[package] = {module: definitions(module) for module in (f"{package}.{name}" for name in modules)}
    for package, names in shown.items():
        files.append(File.generated(config, page_of(package), content=reference_page(package, names)))
    return files


def page_of(package: str) -> str:
    return f"reference/{package.rpartition('.')[2]}.md"


def reference_page(package: str, shown: dict[str, list[str]]) -> str:
    """The names, grouped by the module that defines them; the module's docstring carries the equation."""
    sections = [f"# {package}", docstring(package).split("\n\n")[0]]
    for module, names in shown.items():
        sections += [f"## {module}", as_text(docstring(module)), *(f"::: {module}.{name}" for name in names)]
    return "\n\n".join(sections)


def definitions(module: str) -> list[str]:
    """Its public functions and classes."""
    kinds = (ast.FunctionDef, ast.ClassDef)
    return [node.name for node in syntax_tree(module).body if isinstance(node, kinds) and not node.name.startswith("_")]


def exports(package: str) -> dict[str, list[str]]:
    """Module that defines them → names that the package re-exports."""
    found: dict[str, list[str]] = {}
    for node in ast.walk(syntax_tree(package)):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                if alias.asname == alias.name:
                    found.setdefault(home(node.module, alias.name), []).append(alias.name)
    return found


def home(module: str, name: str) -> str:
    """The module that defines the name: a package only hands it on."""
    for inner, names in exports(module).items() if source(module).name == "__init__.py" else ():
        if name in names:
            return inner
    return module


def as_text(docstring: str) -> str:
    """Docstrings are aligned by hand, with equations and letters: they are shown as they are written."""
    return "\n".join(f"    {line}".rstrip() for line in docstring.splitlines())


def docstring(module: str) -> str:
    return ast.get_docstring(syntax_tree(module)) or ""


def syntax_tree(module: str) -> ast.Module:
    return ast.parse(source(module).read_text())


def source(module: str) -> Path:
    path = ROOT / module.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
