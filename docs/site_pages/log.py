"""Hook of mkdocs: the pages of log/, below Results, with the links that lead to pages of the site.

log/README.md is the first page; where it is missing, a list of the days takes its place.
"""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "log"
INDEX = "log/index.md"
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s]*)(#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    days = [{path.stem: f"log/{path.name}"} for path in day_files()]
    section = next(entry["Results"] for entry in config.nav if "Results" in entry)
    section.append({"Log": [INDEX, *days]})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    files.append(File.generated(config, INDEX, content=index_page()))
    for path in day_files():
        files.append(File.generated(config, f"log/{path.name}", content=as_site_page(path.read_text())))
    return files


def day_files() -> list[Path]:
    """The pages of the log other than the first one, the newest day first."""
    return sorted((path for path in FOLDER.glob("*.md") if path.name != "README.md"), reverse=True)


def index_page() -> str:
    first = FOLDER / "README.md"
    if first.exists():
        return as_site_page(first.read_text())
    days = "\n".join(f"- [{path.stem}]({path.name})" for path in day_files())
    return f"# Log\n\nExperiments and decisions by date, failures included.\n\n{days}\n"


def as_site_page(text: str) -> str:
    """Return the page with its links to pages of the site; what is not on the site keeps its words and loses its link."""
    return _LINK.sub(_link, text)


def _link(found: re.Match[str]) -> str:
    whole, is_picture, words, target = found[0], found[1], found[2], found[3]
    if target.startswith(("http:", "https:")):
        return whole
    path = (FOLDER / target).resolve()
    if is_picture or path.suffix != ".md" or not path.exists():
        return words
    if path.is_relative_to(ROOT / "docs"):
        return f"[{words}](../{path.relative_to(ROOT / 'docs')})"
    if path.parent == FOLDER:
        return f"[{words}]({'index.md' if path.name == 'README.md' else path.name})"
    if path.parent == ROOT / "results":
        return f"[{words}](../results/{'index.md' if path.name == 'README.md' else path.name})"
    return words
