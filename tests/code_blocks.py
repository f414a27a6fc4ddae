"""The code blocks of a Markdown page, and the commands in them.

```python          runs
```text            what the Python block before it prints
```yaml, ```json   a configuration
```bash, indented  commands: `eigentrack …`; after `$ eigentrack …` what it prints; or an equation, a layout
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

INDENTED = "indented"
LANGUAGES = ("python", "text", "yaml", "json", "bash", INDENTED)

_COMMAND = re.compile(r"(?:\$ |.* -m )?eigentrack (?P<arguments>.*)")


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    line: int


@dataclass(frozen=True)
class Command:
    arguments: tuple[str, ...]
    shown: tuple[str, ...] = ()  # lines of its output


def code_blocks(page: Path) -> list[Block]:
    blocks: list[Block] = []
    language, lines, first, after_blank = "", [], 0, True
    for number, line in enumerate([*page.read_text().splitlines(), ""], 1):
        if language in ("", INDENTED):
            is_indented = line.startswith("    ") and (language == INDENTED or after_blank)
            if language == INDENTED and not is_indented and line.strip():
                blocks.append(Block(INDENTED, "\n".join(lines).rstrip(), first))
                language = ""
            if fence := re.fullmatch(r"```(\w*)", line):
                language, lines, first = fence[1] or "none", [], number + 1
            elif is_indented and not language:
                language, lines, first = INDENTED, [line[4:]], number
            elif language == INDENTED:
                lines.append(line[4:])
        elif line == "```":
            blocks.append(Block(language, "\n".join(lines), first))
            language = ""
        else:
            lines.append(line)
        after_blank = not line.strip()
    return [*blocks, Block(INDENTED, "\n".join(lines).rstrip(), first)] if language == INDENTED else blocks


def commands(block: Block) -> list[Command]:
    """A line may hold several, separated by semicolons; what stands after three spaces explains it."""
    found: list[Command] = []
    for line in re.sub(r"\\\n\s*", "", block.text).splitlines():
        if match := _COMMAND.match(line):
            for text in re.split(r";\s*eigentrack ", match["arguments"]):
                found.append(Command(tuple(shlex.split(re.split(r"\s{3,}", text)[0], comments=True))))
            is_shown = line.startswith("$ ")
        elif found and is_shown:
            found[-1] = Command(found[-1].arguments, (*found[-1].shown, line))
    return found


def mentioned_commands(page: Path) -> list[Command]:
    """In the middle of a sentence: `eigentrack …`."""
    prose = re.sub(r"^(```.*?^```$|    .*?$)", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    return [Command(tuple(shlex.split(text))) for text in re.findall(r"`eigentrack ([^`…]+)`", prose)]


def shows(shown: tuple[str, ...], output: str) -> bool:
    """The lines stand in the output, in this order; `...` is anything; spaces, line breaks and a table's lines do not count."""
    text, place = _bare(output), 0
    for piece in (_bare(piece) for line in shown for piece in line.split("...")):
        found = text.find(piece, place)
        if found < 0:
            return False
        place = found + len(piece)
    return True


def _bare(text: str) -> str:
    return re.sub(r"[\s\u2500-\u257f]", "", text)
