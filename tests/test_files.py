"""Files are written whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from eigentrack.files import write_atomically


def test_a_crash_while_writing_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def crash(temporary: str) -> None:
        Path(temporary).write_text("half of the n")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, crash)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
