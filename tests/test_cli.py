"""The command line as a user sees it, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from eigentrack.cli import COMMANDS, main

ROOT = Path(__file__).resolve().parent.parent


def run(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-m", "eigentrack", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=None, check=False, timeout=300)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_an_example(command: str) -> None:
    result = run(command, "--help")
    assert result.returncode == 0
    assert f"Example: eigentrack {command}" in result.stdout


def test_layers_lists_every_mixer() -> None:
    from eigentrack.layers import MIXERS

    rows = json.loads(run("layers", "--json").stdout)
    assert [row["name"] for row in rows] == list(MIXERS)
    assert {row["name"] for row in rows if row["takes_disk"]} == {"mamba", "mamba2", "gla", "s4d", "pd_ssm"}
    assert {row["name"] for row in rows if row["takes_polygon"]} == {"gla"}
    assert {row["name"] for row in rows if row["takes_eigenvalues"]} == set(MIXERS) - {
        "slstm",
        "lstm",
        "ttt",
        "attention",
        "convolution",
    }
    text = run("layers").stdout
    assert all(name in text for name in MIXERS)


def test_tasks_lists_every_task_and_language() -> None:
    from eigentrack.automata import LANGUAGES
    from eigentrack.tasks.registry import TASKS

    listed = json.loads(run("tasks", "--json").stdout)
    assert [row["name"] for row in listed["tasks"]] == list(TASKS)
    assert all(row["asks"] for row in listed["tasks"])
    assert set(listed["languages"]) == set(LANGUAGES)
    text = run("tasks").stdout
    assert all(name in text for name in [*TASKS, *LANGUAGES])


@pytest.mark.parametrize(
    "task",
    [["--task", "modular-arithmetic"], ["--task", "group", "--task-option", "name=Z3", "--task-option", "tokens_per_letter=2"]],
)
def test_train_then_evaluate(tmp_path: Path, task: list[str]) -> None:
    small = ["--d-model", "8", "--steps", "3", "--batch", "4", "--lengths", "4,6", "--layer-option", "gate=[-1, 1]"]
    trained = run("train", *task, *small, "--layer-option", "heads=2", "--out", str(tmp_path / "run"))
    assert trained.returncode == 0, trained.stderr
    assert "not solved after 3 steps" in trained.stdout
    rows = json.loads(run("evaluate", str(tmp_path / "run"), "--longest", "20", "--sequences", "8", "--json").stdout)["results"]
    assert [row["lengths"] for row in rows] == ["4–6", "7–20"]
    assert all(0 <= row["accuracy"] <= 1 for row in rows)
    assert "scaled accuracy" in run("evaluate", str(tmp_path / "run"), "--longest", "10", "--sequences", "4").stdout
    again = run("train", *task, *small, "--out", str(tmp_path / "run"))
    assert again.returncode == 2
    assert "already holds a run: add --resume" in again.stderr
    longer = run("train", "--steps", "50", "--resume", "--out", str(tmp_path / "run"))
    assert longer.returncode == 2
    assert "--steps is given on the command line and in" in longer.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--task", "pairty"], "task 'pairty' is not known; there are parity"),
        (["--layer", "rwkv"], "mixer='rwkv' is not known; there are mamba"),
        (["--eigenvalues", "-2,1"], "EigenRange low=-2 lies outside"),
        (["--eigenvalues", "annulus 1"], "eigenvalues 'annulus 1' are not a disk: write disk, disk 0.9 or annulus 0.5 1"),
        (["--layer", "ttt", "--eigenvalues", "disk"], "the layer 'ttt' has no eigenvalues to choose; leave the flag out"),
        (["--lengths", "40"], "--lengths '40' must be two whole numbers, such as 3,40"),
        (["--lengths", "0,3"], "lengths=(0, 3) must be 1 ≤ shortest ≤ longest"),
        (["--lr", "-1"], "learning_rate=-1.0 must be positive"),
        (["--task-option", "last_weight"], "--task-option 'last_weight' must be written name=value"),
        (["--task-option", "last_weight=abc"], "task 'parity': option last_weight='abc' must be of type float"),
        (["--layer-option", "heads=true"], "mixer 'deltanet': option heads=True must be of type int"),
        (
            ["--layer-option", "gate=3"],
            'eigenvalues are written [low, high], {"disk": [inner, outer]} or {"polygon": corners}, got 3',
        ),
        (["--label-smoothing", "2"], "label_smoothing=2.0 must be at least 0 and below 1"),
        (["--weight-decay", "-1"], "weight_decay=-1.0 must be at least 0"),
        (["--seed", "9" * 20], f"seed={'9' * 20} must be a whole number from -9223372036854775807"),
        (["--task-option", "last_weight=1", "--task-option", "last_weight=0"], "--task-option last_weight is given twice"),
        (["--steps", "3", "--d-model", "8", "--batch", "99999999999"], "out of memory ("),
        (["--device", "meta"], "--device meta: torch finds no such device on this machine"),
        (["--config", "typo.yaml", "--steps", "3"], "--config typo.yaml is not there: name a run in YAML or JSON"),
        (["--resume", "--overwrite"], "--resume goes on with the run in --out, --overwrite replaces it"),
        (["--config", ""], "--config '' is empty: name a file or a folder"),
        (["--device", "cuda:77"], "--device cuda:77: torch finds no such device on this machine"),
        (["--task", "[/red]x"], "task '[/red]x' is not known"),
        (["--precision", "float16"], "precision='float16' is not known; there are float32, tfloat32, bfloat16"),
        (["--telemetry-every", "-1"], "telemetry_every=-1 must be at least 0"),
        (["--task", "language"], "a language is given by one of name, regex and dfa, not by none of them"),
        (["--task", "language", "--task-option", "dfa=no.json"], "dfa='no.json' is not there: give the path of an automaton"),
    ],
)
def test_bad_training_input_is_named(
    tmp_path: Path, arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["eigentrack", "train", "--out", str(tmp_path / "run"), *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert message in said
    assert "Traceback" not in said


def test_a_bad_value_ends_the_process_with_one_line(tmp_path: Path) -> None:
    result = run("train", "--out", str(tmp_path / "run"), "--eigenvalues", "disk")
    assert result.returncode == 2
    (said,) = result.stderr.splitlines()  # no bar before it
    assert said.startswith("error: DeltaNet: its gates and factors are real, so eigenvalues=disk must be a range")


def test_a_run_from_yaml_over_a_regex(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(
        "task: language\n"
        "task_options: {regex: (ab|ba)*}\n"
        "model: {d_model: 8, layers: 1, mixer: deltanet, mixer_options: {heads: 2}}\n"
        "training: {steps: 4, batch: 4, lengths: [3, 6], warmup: 2, learning_rate: 1e-3, precision: bfloat16}\n"
    )
    trained = run("train", "--config", str(tmp_path / "run.yaml"), "--out", str(tmp_path / "run"), "--no-graph")
    assert trained.returncode == 0, trained.stderr
    assert "not solved after 4 steps" in trained.stdout
    metrics = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in metrics] == [1, 2, 3, 4]
    assert set(metrics[-1]["telemetry"]) == {"gradient_norm", "update_ratio", "histograms"}
    flag = run("train", "--config", str(tmp_path / "run.yaml"), "--out", str(tmp_path / "other"), "--precision", "float32")
    assert flag.returncode == 2
    assert "--precision is given on the command line and in" in flag.stderr


def test_a_diverging_run_ends_with_one_line(tmp_path: Path) -> None:
    wild = ["--layer", "dense", "--layer-option", "eigenvalues=null", "--d-model", "8", "--steps", "50", "--lr", "1e9"]
    result = run("train", *wild, "--out", str(tmp_path / "run"))
    assert result.returncode == 2
    assert "error: the loss is nan at step" in result.stderr
    assert "Traceback" not in result.stderr


def test_version() -> None:
    import eigentrack

    assert run("--version").stdout.strip() == eigentrack.__version__


def test_bad_input_is_one_line_and_exit_code_two(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    result = run("demo", "--out", str(in_the_way))
    assert result.returncode == 2
    assert result.stderr.strip() == f"error: --out {in_the_way} is a file: name a folder"
    unknown = run("dmeo")
    assert unknown.returncode == 2
    assert "No such command 'dmeo'" in unknown.stderr
    assert "Traceback" not in unknown.stderr + result.stderr


def test_the_core_imports_no_optional_package() -> None:
    script = (
        "import sys, eigentrack.layers, eigentrack.training, eigentrack.models\n"
        "print([name for name in ('transformers', 'triton', 'matplotlib', 'beartype', 'fla') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert result.stdout.strip() == "[]"


def test_the_command_line_starts_without_torch() -> None:
    script = "import sys, eigentrack.cli; print('torch' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert result.stdout.strip() == "False"
