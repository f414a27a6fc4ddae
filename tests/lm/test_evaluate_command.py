"""eigentrack lm evaluate: perplexity, probe and benchmarks from one command, and one line for what is wrong."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F
from typer.testing import CliRunner

from eigentrack.cli import app
from eigentrack.lm.documents import ShareSplit
from eigentrack.lm.hugging_face import EigentrackForCausalLM
from eigentrack.lm.language_model import load_language_model
from eigentrack.lm.prepare import prepare
from eigentrack.lm.text_files import FileDocuments, find_files
from eigentrack.lm.tokenizer import NamedTokenizer
from eigentrack.models import save_model
from tests.lm.small_language_models import TEXT, write_language_model


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, the same in Hugging Face's shape, and a text."""
    home = tmp_path_factory.mktemp("evaluate")
    language_model = load_language_model(write_language_model(home / "model"))
    EigentrackForCausalLM.around(language_model.model).save_pretrained(home / "shaped")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (home / "shaped" / name).write_bytes((home / "model" / name).read_bytes())
    (home / "text.txt").write_text(TEXT)
    (home / "rows.jsonl").write_text(json.dumps({"body": TEXT}))
    return home


def invoke(*arguments: object) -> dict:
    result = CliRunner().invoke(app, ["lm", "evaluate", *map(str, arguments), "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_perplexity_of_a_text(home: Path) -> None:
    found = invoke(home / "model", "--text", home / "text.txt", "--length", 100, "--buckets", 4, "--windows", 1)["perplexity"]
    language_model = load_language_model(home / "model")
    ids = torch.from_numpy(language_model.tokenizer.encode([TEXT], "int64")[0][:101])
    logits, _ = language_model.model(ids[None, :-1])
    assert found["perplexity"] == pytest.approx(math.exp(F.cross_entropy(logits[0], ids[1:]).item()), rel=1e-4)
    assert [(bucket["first"], bucket["last"]) for bucket in found["buckets"]] == [(1, 25), (26, 50), (51, 75), (76, 100)]
    assert found["bits_per_byte"] > 0
    assert invoke(home / "shaped", "--text", home / "text.txt", "--length", 100, "--buckets", 4, "--windows", 1) == {
        "perplexity": found
    }


def test_the_field_of_a_text_can_be_chosen(home: Path) -> None:
    options = ["--length", 100, "--buckets", 4, "--windows", 1]
    rows = invoke(home / "model", "--text", home / "rows.jsonl", "--text-field", "body", *options)
    assert rows == invoke(home / "model", "--text", home / "text.txt", *options)


def test_what_is_no_number_is_null(home: Path, tmp_path: Path) -> None:
    language_model = load_language_model(write_language_model(tmp_path / "model"))
    with torch.no_grad():
        language_model.model.head.weight.fill_(torch.inf)  # logits of inf - inf
    save_model(language_model.model, tmp_path / "model")
    arguments = [tmp_path / "model", "--text", home / "text.txt", "--length", 50, "--buckets", 1, "--windows", 1]
    found = invoke(*arguments)["perplexity"]
    assert found["perplexity"] is found["bits_per_byte"] is found["buckets"][0]["perplexity"] is None
    assert "perplexity nan" in CliRunner().invoke(app, ["lm", "evaluate", *map(str, arguments)]).stdout


def test_a_corpus_gives_the_perplexity_of_its_text(home: Path, tmp_path: Path) -> None:
    documents = FileDocuments(find_files([home / "text.txt"]), ShareSplit(0.0))
    prepare(documents, tmp_path / "corpus", NamedTokenizer(str(home / "model")))
    options = ["--length", 200, "--buckets", 2]
    corpus = invoke(home / "model", "--corpus", tmp_path / "corpus", "--split", "train", *options)
    assert corpus == invoke(home / "model", "--text", home / "text.txt", *options)


def test_the_tables_are_printed(home: Path) -> None:
    arguments = ["lm", "evaluate", str(home / "model"), "--text", str(home / "text.txt"), "--length", "50", "--buckets", "2"]
    result = CliRunner().invoke(app, [*arguments, "--probe", "--programs", "1"])
    assert result.exit_code == 0, result.output
    for said in ("windows", "perplexity", "bits a byte", "1–25", "26–50", "share of right answers", "swaps and assignments"):
        assert said in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "say what to evaluate on: --corpus FOLDER, --text FILE, --harness TASKS or --probe"),
        (["--text", "a", "--corpus", "b"], "give one of --corpus and --text"),
        (["--text", "nowhere.txt"], "nowhere.txt is not there"),
        (["--corpus", "nowhere"], "nowhere is not a corpus"),
        (["--text", "TEXT", "--length", "99999"], "too few for a window of length=99999"),
        (["--text", "JSONL"], "line 1 has no field 'text', it has body: choose with --text-field"),
        (["--probe", "--programs", "0"], "programs=0 must be at least 1"),
        (["--text", "TEXT", "--length", "10"], "buckets=16 must lie between 1 and length=10"),
    ],
)
def test_mistakes_are_one_line(home: Path, arguments: list[str], message: str) -> None:
    files = {"TEXT": str(home / "text.txt"), "JSONL": str(home / "rows.jsonl")}
    given = [files.get(argument, argument) for argument in arguments]
    result = CliRunner().invoke(app, ["lm", "evaluate", str(home / "model"), *given])
    assert isinstance(result.exception, (ValueError, OSError))
    assert message in str(result.exception)


def test_a_corpus_of_another_tokenizer_is_refused(home: Path, tmp_path: Path) -> None:
    from eigentrack.lm.tokenizer import TrainedBpe

    documents = FileDocuments(find_files([home / "text.txt"]), ShareSplit(0.0))
    prepare(documents, tmp_path / "corpus", TrainedBpe(280))
    with pytest.raises(ValueError, match="was made with another tokenizer than the model's"):
        app(
            ["lm", "evaluate", str(home / "model"), "--corpus", str(tmp_path / "corpus"), "--split", "train"],
            standalone_mode=False,
        )


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # of lm-eval's own
def test_benchmarks_of_both_kinds_of_folders(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("lm_eval")
    from eigentrack.experiments.language.evaluation import PROGRAMS, write_program_task
    from eigentrack.lm.probe import draw_program, likeliest_value

    for name, value in {"HF_DATASETS_OFFLINE": "1", "HF_HUB_OFFLINE": "1", "HF_DATASETS_CACHE": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    write_program_task(tmp_path / "tasks")
    options = ["--harness", PROGRAMS, "--include-path", tmp_path / "tasks", "--limit", 50]
    ours, shaped = (invoke(home / name, *options)["harness"] for name in ("model", "shaped"))
    assert ours == shaped
    language_model = load_language_model(home / "model")
    programs = [draw_program(1, number) for number in range(50)]
    right = sum(likeliest_value(language_model, program) == program.answer for program in programs)
    assert ours[PROGRAMS]["acc"] == pytest.approx(right / 50)
