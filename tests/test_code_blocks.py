"""Blocks, commands and shown output are told apart."""

from __future__ import annotations

from pathlib import Path

from tests.code_blocks import Block, Command, code_blocks, commands, mentioned_commands, shows

PAGE = """Text
    that goes on

    $ eigentrack run net --word 'a b'  # why
    accept
    ...
    $ eigentrack tasks

Text with `eigentrack layers --json`.

```python
x = 1

y = 2
```

    eigentrack tasks; eigentrack layers      what there is

    torchrun -m eigentrack lm train \\
        a.yaml
"""


def test_blocks_and_commands(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    session, python, others = code_blocks(page)
    assert python == Block("python", "x = 1\n\ny = 2", 12)
    assert commands(session) == [Command(("run", "net", "--word", "a b"), ("accept", "...")), Command(("tasks",))]
    assert [command.arguments for command in commands(others)] == [("tasks",), ("layers",), ("lm", "train", "a.yaml")]
    assert mentioned_commands(page) == [Command(("layers", "--json"))]


def test_shown_lines_stand_in_the_output_in_order() -> None:
    output = "accept\nfor a reason\n0 -a-> 1\n"
    assert shows(("accept", "...", "0 -a->  1"), output)
    assert shows(("for ... reason",), output)
    assert not shows(("reject",), output)
    assert not shows(("0 -a-> 1", "accept"), output)
