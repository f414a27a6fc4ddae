"""No command writes into a folder that holds something else, nor into one at which another process is at work."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from eigentrack.cli import main
from eigentrack.files import NotWritten, only_process_in, written_together
from eigentrack.output_folder import RECORD, Output, claimed

DEMO, OTHER = Output("demo", ("numbers.json", "models"), {"seed": 0}), Output("demo", ("numbers.json", "models"), {"seed": 1})
NETWORK = Output("network", ("network.json",), {})


def fill(folder: Path, output: Output = DEMO, **options: bool) -> None:
    with claimed(folder, output, **options):
        (folder / output.entries[0]).write_text(f"{output.settings}")


def contents(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_the_same_output_is_written_again_and_no_other(tmp_path: Path) -> None:
    fill(tmp_path / "out")
    fill(tmp_path / "out")
    before = contents(tmp_path / "out")
    with pytest.raises(ValueError, match=r"holds a demo with other settings \(seed was 0, is 1 now\): .* add --overwrite"):
        fill(tmp_path / "out", OTHER)
    with pytest.raises(ValueError, match="already holds a demo: name another folder"):
        fill(tmp_path / "out", NETWORK)
    assert contents(tmp_path / "out") == before


def test_a_folder_with_text_is_left_as_it_is_unless_asked(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "numbers.json").write_text("mine, too")
    with pytest.raises(ValueError, match=r"already holds something else \(notes.txt, numbers.json\): .* add --overwrite"):
        fill(tmp_path)
    assert set(contents(tmp_path)) == {"notes.txt", "numbers.json"}  # no lock and no record either
    fill(tmp_path, overwrite=True)
    assert contents(tmp_path)["notes.txt"] == "mine"
    assert contents(tmp_path)["numbers.json"] == "{'seed': 0}"


def test_a_guest_lies_beside_what_is_there_but_replaces_nothing(tmp_path: Path) -> None:
    fill(tmp_path, NETWORK)
    fill(tmp_path, DEMO, guest=True)
    fill(tmp_path, NETWORK)  # the guest does not stand in its way
    with pytest.raises(ValueError, match="with other settings"):
        fill(tmp_path, OTHER, guest=True)
    (tmp_path / "models").mkdir()
    (tmp_path / RECORD).unlink()
    with pytest.raises(ValueError, match="already holds something else"):
        fill(tmp_path, DEMO, guest=True)


def test_what_fails_before_it_has_written_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(KeyError), claimed(tmp_path / "a" / "b", DEMO):
        raise KeyError
    assert not list(tmp_path.iterdir())


def test_a_lock_that_its_holder_has_deleted_holds_nobody_back(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    with only_process_in(folder), pytest.raises(ValueError, match="another process is at work in"), only_process_in(folder):
        pass
    with pytest.raises(KeyError), only_process_in(folder / "new"):
        raise KeyError
    with only_process_in(folder / "new"):
        assert (folder / "new" / ".lock").exists()


def test_files_that_belong_together_are_replaced_together(tmp_path: Path) -> None:
    def write(text: str, fails: bool = False) -> None:
        with written_together(tmp_path / "net", last="config", stale=("extra",)) as new:
            (new / "weights").write_text(text)
            if fails:
                raise OSError(28, "No space left on device")
            (new / "config").write_text(text)

    with pytest.raises(NotWritten, match=r"net could not be written \(No space left on device\); nothing is left of it"):
        write("first", fails=True)
    write("first")
    (tmp_path / "net" / "extra").write_text("")
    with pytest.raises(NotWritten, match="what was there before is kept"):
        write("second", fails=True)
    assert contents(tmp_path / "net") == {"config": "first", "extra": "", "weights": "first"}
    write("second")
    assert contents(tmp_path / "net") == {"config": "second", "weights": "second"}


TEXT = "notes.txt"


@pytest.mark.parametrize(
    "arguments",
    [
        ["train", "--steps", "1", "--d-model", "8", "--out", "FOLDER"],
        ["compile", "(aa)*", "-o", "FOLDER"],
        ["demo", "--out", "FOLDER"],
        ["inspect", "NET", "--longest", "20", "--out", "FOLDER"],
        ["reproduce", "figure1", "--out", "FOLDER"],
        ["lm", "prepare", "TEXT", "--train-bpe", "300", "--out", "FOLDER"],
        ["lm", "convert", "NET/model", "-o", "FOLDER"],
    ],
)
@pytest.mark.parametrize("taken_by", ["text", "a process"])
def test_every_command_that_writes_leaves_a_taken_folder_alone(
    arguments: list[str],
    taken_by: str,
    net: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder, text = tmp_path / "folder", tmp_path / "text.txt"
    folder.mkdir()
    text.write_text("some words to read")
    words = {"FOLDER": str(folder), "NET": str(net), "TEXT": str(text), "NET/model": str(net / "model")}
    monkeypatch.setattr(sys, "argv", ["eigentrack", *(words.get(word, word) for word in arguments)])
    if taken_by == "text":
        (folder / TEXT).write_text("mine")
        message = ["holds something else (notes.txt)", "--overwrite"]
        with pytest.raises(SystemExit) as ended:
            main()
    else:
        message = ["another process is at work in"]
        with only_process_in(folder), pytest.raises(SystemExit) as ended:
            main()
    said = capsys.readouterr().err
    assert ended.value.code == 2, said
    assert all(words in said for words in message), said
    assert len(said.strip().splitlines()) <= 2
    assert {path.name for path in folder.iterdir()} <= {TEXT, ".lock"}


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from eigentrack.automata.regex import regex_dfa
    from eigentrack.compiler import choose_plan, compile_network, save_compiled

    folder = tmp_path_factory.mktemp("net") / "net"
    save_compiled(compile_network(choose_plan(regex_dfa("(aa)*"))), folder)
    return folder
