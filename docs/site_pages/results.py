"""Hook of mkdocs: the section Results, a page for each results/*.json, with the command, commit and hardware that made it.

A page in results/ without a JSON file of its name, such as gpu.md, comes first.

What a file is stands in the table of results/provenance.md; one that is not there is a warning, and a warning is an error.
"""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

RESULTS = Path(__file__).resolve().parent.parent.parent / "results"
LOG = logging.getLogger("mkdocs.hooks.results")
PROVENANCE = ("command", "commit", "date", "hardware", "versions")
LONGEST_LIST = 4  # of numbers in a cell; a longer one is counted


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    pages: list[Any] = [{name_of(path): page_of(path)} for path in result_files()]
    written: list[Any] = [{title_of(path): f"results/{path.name}"} for path in written_pages()]
    section = next(entry["Results"] for entry in config.nav if "Results" in entry)
    section += [*written, *pages]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    files.append(File.generated(config, "results/index.md", content=index_page()))
    for path in written_pages():
        files.append(File.generated(config, f"results/{path.name}", content=path.read_text()))
    for path in result_files():
        files.append(File.generated(config, page_of(path), content=result_page(path)))
        if picture_of(path).exists():
            uri = f"results/{picture_of(path).relative_to(RESULTS)}"
            files.append(File.generated(config, uri, abs_src_path=str(picture_of(path))))
    return files


def result_files() -> list[Path]:
    return sorted(RESULTS.rglob("*.json"))


def written_pages() -> list[Path]:
    """The pages that no JSON file of the same name stands behind."""
    return [
        path for path in sorted(RESULTS.glob("*.md")) if path.name != "README.md" and not path.with_suffix(".json").exists()
    ]


def title_of(path: Path) -> str:
    return path.read_text().splitlines()[0].removeprefix("# ")


def name_of(path: Path) -> str:
    return str(path.relative_to(RESULTS).with_suffix(""))


def page_of(path: Path) -> str:
    return f"results/{name_of(path)}.md"


def picture_of(path: Path) -> Path:
    return path.with_suffix(".png")


def index_page() -> str:
    """The questions and answers, and below them every file with what made it."""
    what = descriptions()
    rows = [
        {
            "file": f"[{name_of(path)}]({name_of(path)}.md)",
            "what": what.get(path, ""),
            **json.loads(path.read_text()).get("provenance", {}),
        }
        for path in result_files()
    ]
    return f"{(RESULTS / 'README.md').read_text()}\n## Files\n\n{table(rows)}"


def descriptions() -> dict[Path, str]:
    """Return what the rows of the page say: `file.json` and other files | what it is | what makes it."""
    found: dict[Path, str] = {}
    for line in (RESULTS / "provenance.md").read_text().splitlines():
        if row := re.match(r"\| (`.*?) \| (.*?) \|", line):
            found |= {RESULTS / name: row[2] for name in re.findall(r"`(.*?)`", row[1])}
    for path in set(result_files()) - set(found):
        LOG.warning("results/provenance.md does not say what %s is: add it to the table", path.relative_to(RESULTS))
    return found


def result_page(path: Path) -> str:
    """The page that was written with the numbers, if there is one; else the numbers as tables."""
    if (written := path.with_suffix(".md")).exists():
        return written.read_text()
    result = json.loads(path.read_text())
    provenance = result.pop("provenance", {})
    sections = [f"# {name_of(path)}", *(f"- {key}: `{provenance[key]}`" for key in PROVENANCE if key in provenance)]
    text = "\n".join([*sections[:1], "", *sections[1:]])
    if picture_of(path).exists():
        text += f"\n\n![{name_of(path)}]({picture_of(path).name})"
    facts = {key: value for key, value in result.items() if not is_rows(value)}
    if facts:
        text += "\n\n" + "\n".join(f"- {name}: {cell(value)}" for name, value in flat(facts).items())
    for key, value in result.items():
        if is_rows(value):
            text += f"\n\n## {key}\n\n{table([flat(row) for row in value])}"
    return text + "\n"


def is_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def flat(entry: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested dictionaries as one, their keys joined."""
    found: dict[str, Any] = {}
    for key, value in entry.items():
        name = f"{prefix}{key}".replace("_", " ")
        found |= flat(value, f"{name}, ") if isinstance(value, dict) else {name: value}
    return found


def table(rows: list[dict[str, Any]]) -> str:
    columns = list(dict.fromkeys(key for row in rows for key in row))
    lines = [columns, ["---"] * len(columns), *([cell(row.get(column, "")) for column in columns] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        if len(value) > LONGEST_LIST or any(isinstance(entry, dict) for entry in value):
            return f"{len(value)} entries"
        return ", ".join(cell(entry) for entry in value)
    return "–" if value is None else str(value).replace("|", "\\|").replace("*", "\\*")
