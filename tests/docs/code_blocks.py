"""The code blocks of a Markdown page, and the commands in them.

```python                  runs
```text                    what the Python block before it prints
```yaml title="run.yaml"   a file that a command reads; json as well
```walk                    files, the called below their callers
```bash, indented          commands; after `$ eigentrack …` what it prints
indented                   or what the block before it prints, an equation, a map of files
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

INDENTED = "indented"

_FENCE = re.compile(r'```(?P<language>\w*)(?: title="(?P<file>[\w.]+)")?')
_EIGENTRACK = re.compile(r"(?:\$ |.* -m )?eigentrack (?P<arguments>.*)")


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    line: int
    file: str | None = None


@dataclass(frozen=True)
class Command:
    """eigentrack, whether called by itself or by torchrun."""

    arguments: tuple[str, ...]
    shown: str = ""  # lines of its output


def code_blocks(page: Path) -> list[Block]:
    blocks: list[Block] = []
    language, file, lines, first, after_blank = "", None, [], 0, True
    for number, line in enumerate([*page.read_text().splitlines(), ""], 1):
        if language in ("", INDENTED):
            is_indented = line.startswith("    ") and (language == INDENTED or after_blank)
            if language == INDENTED and not is_indented and line.strip():
                blocks.append(Block(INDENTED, "\n".join(lines).rstrip(), first))
                language = ""
            if fence := _FENCE.fullmatch(line):
                language, file, lines, first = fence["language"] or "none", fence["file"], [], number + 1
            elif is_indented and not language:
                language, lines, first = INDENTED, [line[4:]], number
            elif language == INDENTED:
                lines.append(line[4:])
        elif line == "```":
            blocks.append(Block(language, "\n".join(lines), first, file))
            language = ""
        else:
            lines.append(line)
        after_blank = not line.strip()
    return [*blocks, Block(INDENTED, "\n".join(lines).rstrip(), first)] if language == INDENTED else blocks


def is_session(block: Block) -> bool:
    return block.text.startswith("$ ")


def shell_lines(block: Block) -> list[str]:
    """Without comments; what a backslash joins is one line."""
    joined = re.sub(r"\\\n\s*", "", block.text).splitlines()
    return [line for line in joined if line.strip() and not line.startswith("#")]


def commands(block: Block) -> list[Command]:
    """A line may hold several, separated by semicolons."""
    found: list[Command] = []
    for line in shell_lines(block):
        if match := _EIGENTRACK.match(line):
            for text in re.split(r";\s*eigentrack ", match["arguments"]):
                found.append(Command(tuple(shlex.split(text, comments=True))))
        elif found and is_session(block):
            found[-1] = Command(found[-1].arguments, f"{found[-1].shown}{line}\n")
    return found


def mentioned_commands(page: Path) -> list[Command]:
    """In the middle of a sentence: `eigentrack …`."""
    prose = re.sub(r"^(```.*?^```$|    .*?$)", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    return [Command(tuple(shlex.split(text))) for text in re.findall(r"`eigentrack ([^`…]+)`", prose)]


def shows(shown: str, output: str) -> bool:
    """The lines stand in the output, in this order; `...` is anything; spaces, line breaks and a table's lines do not count."""
    text, place = _bare(output), 0
    for piece in (_bare(piece) for line in shown.splitlines() for piece in line.split("...")):
        found = text.find(piece, place)
        if found < 0:
            return False
        place = found + len(piece)
    return True


def without_numbers(text: str) -> str:
    return re.sub(r"\d[\d,.]*", "0", text)


def _bare(text: str) -> str:
    return re.sub(r"[\s\u2500-\u257f]", "", text)
