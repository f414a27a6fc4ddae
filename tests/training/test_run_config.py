"""A run in YAML is the run in JSON; whatever is wrong with a file is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eigentrack.automata import language
from eigentrack.training.config_file import read_values
from eigentrack.training.run import load_run, load_run_file, run_training
from tests.training.test_run import CONFIG

YAML = """
task: parity
model:
  d_model: 8
  layers: 1
  mixer: deltanet
  mixer_options: {heads: 2, conv: 0}
training:
  steps: 40
  batch: 8
  lengths: [3, 9]
  warmup: 5
  learning_rate: 1e-3
validate_every: 16
checkpoint_every: 7
"""


@pytest.mark.parametrize("name", ["run.yaml", "run.yml"])
def test_yaml_and_json_say_the_same(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(YAML)
    (tmp_path / "run.json").write_text(json.dumps(CONFIG.to_json()))
    assert load_run_file(tmp_path / name) == load_run_file(tmp_path / "run.json") == CONFIG


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (YAML + "depth: 3\n", "run.yaml: unknown run entry 'depth'; known are task, model, training"),
        (YAML.replace("warmup", "warm_up"), "unknown training entry 'warm_up'; known are steps, batch, learning_rate"),
        (YAML.replace("heads", "head"), "mixer 'deltanet' has no option 'head'; it takes heads, key_dim"),
        (YAML.replace("1e-3", "fast"), "learning_rate='fast' must be positive"),
        (YAML.replace("[3, 9]", "3"), "lengths=3 must be two whole numbers"),
        (YAML + "task: parity\n", "run.yaml: 'task' is given twice"),
        (YAML + "? [a]\n: 1\n", r"run.yaml is not valid YAML \(.*unhashable key"),
        (YAML.replace("1e-3", ".inf"), "learning_rate=inf must be finite"),
        (YAML + "\t- x", r"run.yaml is not valid YAML \(.*line 16"),
        ("parity", "the run configuration must be an object, got 'parity'"),
        ("", "the run configuration must be an object, got None"),
        ("!!python/object/apply:os.system [echo]", "is not valid YAML"),
    ],
)
def test_bad_files_are_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "run.yaml").write_text(text)
    with pytest.raises(ValueError, match=message):
        load_run_file(tmp_path / "run.yaml")


def test_a_short_run_warms_up_in_its_time(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    values = {**CONFIG.to_json(), "training": {"steps": 5, "batch": 2, "lengths": [1, 2]}}
    path.write_text(json.dumps(values))
    assert load_run_file(path).training.warmup == 5


def test_a_run_keeps_its_automaton(tmp_path: Path) -> None:
    """run.json holds the automaton itself: the file that it came from may go."""
    path = tmp_path / "automaton.json"
    path.write_text(json.dumps(language("abab").to_json()))
    values = {**CONFIG.to_json(), "task": "language", "task_options": {"dfa": str(path)}}
    (tmp_path / "given.json").write_text(json.dumps(values))
    config = load_run_file(tmp_path / "given.json")
    run_training(config, tmp_path / "run")
    path.unlink()
    assert load_run(tmp_path / "run") == config
    assert config.build_task().classes == 2
    assert json.loads((tmp_path / "run" / "run.json").read_text())["task_options"]["dfa"] == language("abab").to_json()
    assert run_training(config, tmp_path / "run", resume=True).steps == 40


@pytest.mark.parametrize("text", ["1e-3", "1.5e2", "1.0e6", "1.e3", ".5e1", "-2E+4", "2.5", "1.0e-3"])
def test_yaml_reads_every_spelling_of_a_number(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.yaml").write_text(f"value: {text}\n")
    assert read_values(tmp_path / "a.yaml") == {"value": float(text)}


@pytest.mark.parametrize("text", ["1e3-files", "12e4f", "e5", "1.2.3e4"])
def test_yaml_reads_names_as_names(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.yaml").write_text(f"value: {text}\n")
    assert read_values(tmp_path / "a.yaml") == {"value": text}
