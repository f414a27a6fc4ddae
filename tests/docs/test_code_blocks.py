"""Blocks, commands and shown output are told apart."""

from __future__ import annotations

from pathlib import Path

import markdown
import pytest

from tests.docs.claims import PAGES
from tests.docs.code_blocks import (
    Block,
    Command,
    code_blocks,
    commands,
    mentioned_commands,
    shell_lines,
    shows,
    without_numbers,
)

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

    eigentrack tasks; eigentrack layers      # what there is

    torchrun -m eigentrack lm train \\
        a.yaml

```yaml title="a.yaml"
steps: 3
```
"""


def test_blocks_and_commands(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    session, python, others, file = code_blocks(page)
    assert python == Block("python", "x = 1\n\ny = 2", 12)
    assert commands(session) == [Command(("run", "net", "--word", "a b"), "accept\n...\n"), Command(("tasks",))]
    assert [command.arguments for command in commands(others)] == [("tasks",), ("layers",), ("lm", "train", "a.yaml")]
    assert shell_lines(others)[-1] == "torchrun -m eigentrack lm train a.yaml"
    assert mentioned_commands(page) == [Command(("layers", "--json"))]
    assert file == Block("yaml", "steps: 3", 23, "a.yaml")


@pytest.mark.parametrize("page", PAGES)
def test_no_block_is_overlooked(page: str) -> None:
    """Another reader of Markdown finds as many."""
    shown = markdown.markdown(PAGES[page].read_text(), extensions=["tables", "pymdownx.superfences"])
    assert len(code_blocks(PAGES[page])) == shown.count("<pre")


def test_shown_lines_stand_in_the_output_in_order() -> None:
    output = "accept\nfor a reason\n0 -a-> 1\n"
    assert shows("accept\n...\n0 -a->  1", output)
    assert shows("for ... reason", output)
    assert not shows("reject", output)
    assert not shows("0 -a-> 1\naccept", output)


def test_numbers_can_be_left_out() -> None:
    assert without_numbers("1,024 tokens, loss 4.33") == without_numbers("96 tokens, loss 7")
    assert without_numbers("1,024 tokens") != without_numbers("1,024 letters")
