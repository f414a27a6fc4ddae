"""Preparing: the corpus holds exactly the documents, whatever the number of processes and however often it was killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from eigentrack.cli import app, main
from eigentrack.files import only_process_in
from eigentrack.lm import prepare as prepare_module
from eigentrack.lm.blocks import cut_blocks
from eigentrack.lm.corpus import Corpus, CorpusIndex
from eigentrack.lm.documents import PIECE_CHARACTERS, FolderSplit, ShareSplit, SplitRule
from eigentrack.lm.perplexity import read_token_text
from eigentrack.lm.prepare import Progress, prepare, verify_corpus
from eigentrack.lm.text_files import FileDocuments, find_files
from eigentrack.lm.tokenizer import NamedTokenizer, TrainedBpe, load_tokenizer
from tests.lm.corpora import write_corpus

ROOT = Path(__file__).resolve().parent.parent.parent
DOCUMENTS = [f"Document {number}:\n" + f"{number * number} words, " * (number % 60) for number in range(300)]
SMALL_BLOCKS = 2000  # characters
SCRIPT = f"""
import sys, time
from functools import partial
from pathlib import Path
from eigentrack.lm import prepare as prepare_module
from tests.lm import test_prepare
prepare_module.cut_blocks = partial(prepare_module.cut_blocks, size={SMALL_BLOCKS})
if __name__ == "__main__":
    test_prepare.run(Path(sys.argv[1]), Path(sys.argv[2]), processes=2, report=lambda progress: time.sleep(0.02))
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "documents.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in DOCUMENTS))
    return path


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare_module, "cut_blocks", partial(cut_blocks, size=SMALL_BLOCKS))


def run(
    source: Path,
    folder: Path,
    *,
    rule: SplitRule = ShareSplit(0.2),
    tokenizer: NamedTokenizer | TrainedBpe = TrainedBpe(400),
    overwrite: bool = False,
    processes: int = 1,
    report: Callable[[Progress], object] = lambda progress: None,
) -> CorpusIndex:
    documents = FileDocuments(find_files([source]), rule)
    return prepare(documents, folder, tokenizer, overwrite=overwrite, processes=processes, report=report)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def decoded(folder: Path, split: str) -> list[str]:
    corpus, tokenizer = Corpus.open(folder, split, verify=True), load_tokenizer(folder / "tokenizer")
    documents = [corpus.document(number).tolist() for number in range(corpus.documents)]
    assert all(document[-1] == tokenizer.end for document in documents)
    return [tokenizer.rust.decode(document[:-1]) for document in documents]


def test_the_corpus_holds_exactly_the_documents(source: Path, tmp_path: Path) -> None:
    seen: list[Progress] = []
    index = run(source, tmp_path / "corpus", report=seen.append)
    rule = ShareSplit(0.2)
    for split in ("train", "validation"):
        assert decoded(tmp_path / "corpus", split) == [text for text in DOCUMENTS if rule(text, None) == split]
    assert (index.dtype, index.vocab_size, index.end_of_document) == ("uint16", 400, 0)
    assert not (tmp_path / "corpus" / ".preparing").exists()
    assert seen[-1].tokens == sum(split.tokens for split in index.splits.values())
    assert seen[-1].bytes_read == seen[-1].total_bytes == source.stat().st_size


def test_any_number_of_processes_and_any_blocks_give_the_same_bytes(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(source, tmp_path / "one", processes=1)
    run(source, tmp_path / "three", processes=3)
    monkeypatch.setattr(prepare_module, "cut_blocks", cut_blocks)
    run(source, tmp_path / "one block", processes=1)
    assert contents(tmp_path / "one") == contents(tmp_path / "three") == contents(tmp_path / "one block")


def test_killed_again_and_again_it_ends_with_the_same_bytes_and_leaves_no_process(source: Path, tmp_path: Path) -> None:
    run(source, tmp_path / "whole")
    work, kills = tmp_path / "killed" / ".preparing", 0
    for _ in range(2):
        before = len(list(work.glob("block-*")))
        command = [sys.executable, "-c", SCRIPT, str(source), str(tmp_path / "killed")]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and len(list(work.glob("block-*"))) < before + 2:
            time.sleep(0.01)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        kills += process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert len(children) >= 2
        assert _end(children)
        assert not (tmp_path / "killed" / "index.json").exists()
    assert kills == 2
    stored = len(list(work.glob("block-*.npz")))
    assert stored >= 4
    steps: list[Progress] = []
    run(source, tmp_path / "killed", report=steps.append)
    assert steps[0].tokens > 0  # it went on, and did not start anew
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")


def _end(processes: list[str], seconds: float = 10) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        states = [Path(f"/proc/{process}/stat") for process in processes]
        if not any(state.exists() and state.read_text().rsplit(")", 1)[1].split()[0] != "Z" for state in states):
            return True
        time.sleep(0.05)
    return False


def test_folders_become_splits(tmp_path: Path) -> None:
    for split, text in {"train": "some text to train on", "math": "x = y", "prose": "Call me Ishmael."}.items():
        (tmp_path / "in" / split).mkdir(parents=True)
        (tmp_path / "in" / split / "a.txt").write_text(text)
    index = run(tmp_path / "in", tmp_path / "corpus", rule=FolderSplit())
    assert list(index.splits) == ["math", "prose", "train"]
    assert decoded(tmp_path / "corpus", "prose") == ["Call me Ishmael."]
    with pytest.raises(ValueError, match="has no split 'validation'; there are math, prose, train"):
        Corpus.open(tmp_path / "corpus", "validation")


def test_a_document_of_many_pieces_stays_one_document(tmp_path: Path) -> None:
    text = "one line of a long text\n" * 60_000  # more than one piece, each more than one block
    (tmp_path / "long.txt").write_text(text)
    run(tmp_path / "long.txt", tmp_path / "corpus", rule=ShareSplit(0))
    assert decoded(tmp_path / "corpus", "train") == [text]


def test_a_large_vocabulary_takes_wider_tokens(source: Path, tmp_path: Path) -> None:
    TrainedBpe(400).write(tmp_path / "tokenizer", DOCUMENTS)
    values = json.loads((tmp_path / "tokenizer" / "tokenizer.json").read_text())
    values["model"]["vocab"] |= {f"unused {number}": number for number in range(400, 2**16 + 1)}
    (tmp_path / "tokenizer" / "tokenizer.json").write_text(json.dumps(values))
    index = run(source, tmp_path / "wide", tokenizer=NamedTokenizer(str(tmp_path / "tokenizer")), rule=ShareSplit(0))
    assert (index.dtype, index.vocab_size) == ("uint32", 2**16 + 1)
    assert decoded(tmp_path / "wide", "train") == DOCUMENTS


def test_a_finished_folder_and_other_options_are_refused(source: Path, tmp_path: Path) -> None:
    class Killed(Exception):
        pass

    def kill(progress: Progress) -> None:
        if progress.tokens > 1000:
            raise Killed

    with pytest.raises(Killed):
        run(source, tmp_path / "corpus", report=kill)
    with pytest.raises(ValueError, match=r"holds a half-done corpus of other sources or options: .* add --overwrite"):
        run(source, tmp_path / "corpus", rule=ShareSplit(0.1))
    run(source, tmp_path / "corpus")
    before = contents(tmp_path / "corpus")
    run(source, tmp_path / "corpus")  # the same again
    with pytest.raises(ValueError, match="already holds a corpus with other settings"):
        run(source, tmp_path / "corpus", rule=ShareSplit(0.1))
    assert contents(tmp_path / "corpus") == before
    run(source, tmp_path / "corpus", rule=ShareSplit(0.1), overwrite=True)
    assert contents(tmp_path / "corpus") != before
    with pytest.raises(ValueError, match="is a file: name a folder"):
        run(source, source)
    with pytest.raises(ValueError, match="processes=0 must be at least 1"):
        run(source, tmp_path / "other", processes=0)


def test_after_a_mistake_the_corrected_call_goes_through(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": ""}\n')
    with pytest.raises(ValueError, match="there is no text in the split 'train' to train a BPE on"):
        run(tmp_path / "a.jsonl", tmp_path / "corpus")
    (tmp_path / "a.jsonl").write_text('{"text": "now there is some"}\n')
    assert run(tmp_path / "a.jsonl", tmp_path / "corpus", rule=ShareSplit(0)).splits["train"].documents == 1
    (tmp_path / "empty.txt").write_text("")
    tokenizer = NamedTokenizer(str(tmp_path / "corpus" / "tokenizer"))
    with pytest.raises(ValueError, match="the sources hold no text: there is nothing to prepare"):
        run(tmp_path / "empty.txt", tmp_path / "nothing", tokenizer=tokenizer)


def test_on_the_command_line(source: Path, tmp_path: Path) -> None:
    folder = str(tmp_path / "corpus")
    options = ["--train-bpe", "300", "--validation-share", "0.2", "--processes", "2", "--out", folder]
    command = [sys.executable, "-W", "error", "-m", "eigentrack", "lm", "prepare", str(source), *options]
    made = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False, timeout=120)
    assert made.returncode == 0, made.stderr
    assert "train: " in made.stdout
    assert "validation: " in made.stdout
    assert set(CorpusIndex.load(tmp_path / "corpus").splits) == {"train", "validation"}


def test_the_first_rows_of_a_dataset_on_the_command_line(source: Path, tmp_path: Path) -> None:
    dataset = tmp_path / "dataset"
    dataset.mkdir()
    (dataset / "rows.jsonl").write_bytes(source.read_bytes())
    options = ["--rows", "7", "--train-bpe", "300", "--validation-share", "0", "--processes", "1"]
    made = CliRunner().invoke(app, ["lm", "prepare", "--dataset", str(dataset), *options, "--out", str(tmp_path / "corpus")])
    assert made.exit_code == 0, made.output
    assert decoded(tmp_path / "corpus", "train") == DOCUMENTS[:7]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--verify", "--out", "CORPUS"], "is damaged (its checksum differs): copy or prepare it again"),
        (["SOURCE", "--out", "CORPUS"], "give one of --tokenizer NAME and --train-bpe VOCAB"),
        (["--train-bpe", "300", "--out", "CORPUS"], "give files or folders of text, or --dataset NAME"),
        (["SOURCE", "--dataset", "x", "--train-bpe", "300", "--out", "CORPUS"], "--dataset takes the place of files"),
        (["SOURCE", "--split-by", "year", "--train-bpe", "300", "--out", "CORPUS"], "--split-by year is not known"),
        (["SOURCE", "--tokenizer", "SOURCE", "--out", "OTHER"], "cannot be loaded, neither from a folder nor by name"),
        (["SOURCE", "--rows", "5", "--train-bpe", "300", "--out", "OTHER"], "--rows 5 goes with --dataset"),
        (["--dataset", "x", "--rows", "0", "--train-bpe", "300", "--out", "OTHER"], "the first 0 rows are none"),
        (["SOURCE", "--text-field", "body", "--train-bpe", "300", "--out", "OTHER"], "it has text: choose with --text-field"),
        (["SOURCE", "--train-bpe", "300", "--processes", "0", "--out", "OTHER"], "processes=0 must be at least 1"),
    ],
)
def test_bad_input_on_the_command_line_is_one_line(
    source: Path,
    tmp_path: Path,
    arguments: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    corpus = write_corpus(tmp_path / "corpus", [30, 30])
    (corpus.folder / "train-00000.tokens").write_bytes(bytes(200))
    names = {"SOURCE": str(source), "CORPUS": str(corpus.folder), "OTHER": str(tmp_path / "other")}
    monkeypatch.setattr(sys, "argv", ["eigentrack", "lm", "prepare", *(names.get(word, word) for word in arguments)])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    printed = capsys.readouterr().err
    assert message in printed
    assert printed.strip().count("\n") <= 1


@pytest.mark.parametrize("stage", ["copytree", "rmtree"])
def test_stopped_between_the_shards_and_the_end_it_ends_with_the_same_bytes(source: Path, tmp_path: Path, stage: str) -> None:
    """With every shard written but no index, and with the index but before the work is tidied away."""
    run(source, tmp_path / "whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prepare_module.shutil, stage, _interrupt)
        with pytest.raises(KeyboardInterrupt):
            run(source, tmp_path / "stopped")
    assert (tmp_path / "stopped" / "train-00000.tokens").exists()
    assert (tmp_path / "stopped" / "index.json").exists() == (stage == "rmtree")
    run(source, tmp_path / "stopped")
    assert contents(tmp_path / "stopped") == contents(tmp_path / "whole")


def _interrupt(*_: object, **options: object) -> None:
    if "ignore_errors" not in options:  # the removal of an unfinished tokenizer
        raise KeyboardInterrupt


def write_word_tokenizer(folder: Path) -> NamedTokenizer:
    """Letters between spaces, and no token for the end of a text: of spaces alone it makes no token at all."""
    from tokenizers import Tokenizer as RustTokenizer
    from tokenizers import models, pre_tokenizers

    rust = RustTokenizer(models.WordLevel({"[UNK]": 0, "a": 1, "b": 2}, unk_token="[UNK]"))
    rust.pre_tokenizer = pre_tokenizers.Whitespace()
    folder.mkdir()
    rust.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    return NamedTokenizer(str(folder))


def test_documents_without_a_token_are_not_there(tmp_path: Path) -> None:
    """Whole ones, and first pieces that lie in a block before the rest of their document."""
    words = write_word_tokenizer(tmp_path / "words")
    blank_piece = " " * PIECE_CHARACTERS  # fills a block
    texts = ["  ", "a b", " \n ", " ", blank_piece + "a a", blank_piece + " ", "b", "  "]
    path = tmp_path / "documents.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    run(path, tmp_path / "corpus", rule=ShareSplit(0), tokenizer=words)
    corpus = Corpus.open(tmp_path / "corpus", verify=True)
    assert [corpus.document(number).tolist() for number in range(corpus.documents)] == [[1, 2], [1, 1], [2]]
    in_memory = read_token_text(FileDocuments(find_files([path]), ShareSplit(0)), load_tokenizer(tmp_path / "words"))
    assert (in_memory.ids.tolist(), in_memory.starts.tolist()) == ([1, 2, 1, 1, 2], [0, 2, 4])
    (tmp_path / "blank.txt").write_text(" \n")
    with pytest.raises(ValueError, match="the sources hold no text: there is nothing to prepare"):
        run(tmp_path / "blank.txt", tmp_path / "nothing", tokenizer=words)


def test_a_leftover_working_folder_does_not_make_an_old_corpus_the_new_one(source: Path, tmp_path: Path) -> None:
    run(source, tmp_path / "corpus")
    before = contents(tmp_path / "corpus")
    (tmp_path / "other.txt").write_text("another text")
    (tmp_path / "corpus" / ".preparing").mkdir()
    with pytest.raises(ValueError, match="already holds a corpus with other settings"):
        run(tmp_path / "other.txt", tmp_path / "corpus", rule=ShareSplit(0))
    assert contents(tmp_path / "corpus") == before


def test_the_settings_are_the_last_of_the_work_to_go(source: Path, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prepare_module.shutil, "rmtree", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            run(source, tmp_path / "corpus")
    assert not list((tmp_path / "corpus" / ".preparing").glob("block-*"))
    assert (tmp_path / "corpus" / ".preparing" / "settings.json").exists()


@pytest.mark.parametrize("change", ["tokenizer.json", "tokenizer_config.json"])
def test_verifying_looks_at_the_tokenizer(source: Path, tmp_path: Path, change: str) -> None:
    run(source, tmp_path / "corpus")
    verify_corpus(tmp_path / "corpus")
    path = tmp_path / "corpus" / "tokenizer" / change
    path.write_text(path.read_text().replace("<|endoftext|>", "<|end|>"))
    with pytest.raises(ValueError, match="is not the tokenizer that made the corpus"):
        verify_corpus(tmp_path / "corpus")


def test_two_processes_do_not_prepare_one_folder(source: Path, tmp_path: Path) -> None:
    with only_process_in(tmp_path / "corpus"), pytest.raises(ValueError, match="another process is at work in"):
        run(source, tmp_path / "corpus")
    run(source, tmp_path / "corpus")
