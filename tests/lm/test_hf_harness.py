"""lm-eval on a model of ours, offline: a task and a tokenizer made here; the scores again by hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from eigentrack.lm.harness import evaluate_with_harness, unknown_tasks
from eigentrack.lm.hugging_face import EigentrackForCausalLM
from eigentrack.models import ModelConfig, SequenceModel

pytestmark = pytest.mark.filterwarnings("default")  # of lm-eval's own
QUESTIONS = [
    {"question": f"the {animal} says", "choices": [" yes", " no", " maybe so"], "label": number % 3}
    for number, animal in enumerate(["cat", "dog", "old cow", "bird", "very small ant", "fish", "bee", "owl"])
]
TASK = """
task: animals
dataset_path: json
dataset_kwargs: {{data_files: {{test: {path}}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{question}}}}"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: label
target_delimiter: ""
metric_list: [{{metric: acc}}]
"""


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> tuple[Path, Path]:
    """The model with its tokenizer, and the task."""
    home = tmp_path_factory.mktemp("harness")
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    text = [entry["question"] + choice for entry in QUESTIONS for choice in entry["choices"]]
    tokenizer.train_from_iterator(
        text, trainers.BpeTrainer(vocab_size=60, special_tokens=["<unk>", "<end>"], show_progress=False)
    )
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>", pad_token="<end>", unk_token="<unk>")
    torch.manual_seed(0)
    model = SequenceModel(ModelConfig(vocab_size=tokenizer.get_vocab_size(), d_model=16, mixer="mamba2"))
    with torch.no_grad():
        model.head.weight *= 3
    EigentrackForCausalLM.around(model, eos_token_id=1, pad_token_id=1).save_pretrained(home / "model")
    wrapped.save_pretrained(home / "model")
    (home / "tasks").mkdir()
    (home / "data.jsonl").write_text("\n".join(json.dumps(entry) for entry in QUESTIONS))
    (home / "tasks" / "animals.yaml").write_text(TASK.format(path=home / "data.jsonl"))
    return home / "model", home / "tasks"


def accuracy_by_hand(folder: Path) -> float:
    model = EigentrackForCausalLM.from_pretrained(folder)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    right = 0
    for entry in QUESTIONS:
        prompt = tokenizer.encode(entry["question"])
        scores = []
        for choice in entry["choices"]:
            whole = tokenizer.encode(entry["question"] + choice)
            log_p = model(torch.tensor([whole])).logits[0].log_softmax(-1)
            scores.append(sum(log_p[t - 1, whole[t]].item() for t in range(len(prompt), len(whole))))
        right += scores.index(max(scores)) == entry["label"]
    return right / len(QUESTIONS)


@pytest.fixture
def offline(monkeypatch, tmp_path) -> None:
    for name, value in {"HF_DATASETS_OFFLINE": "1", "HF_HUB_OFFLINE": "1", "HF_DATASETS_CACHE": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)


@pytest.mark.slow
def test_scores_are_those_by_hand(folders, offline):
    pytest.importorskip("lm_eval")
    folder, tasks = folders
    results = evaluate_with_harness(folder, ["animals"], task_folder=tasks, batch_size=3)
    expected = accuracy_by_hand(folder)
    assert 0 < expected < 1
    assert results["animals"]["acc"] == pytest.approx(expected)
    assert unknown_tasks(["plants", "animals", "stones"], tasks) == ["plants", "stones"]
    with pytest.raises(ValueError, match="task 'plants' is not known to lm-eval"):
        evaluate_with_harness(folder, ["plants"], task_folder=tasks)


def test_a_folder_without_tokenizer_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"has no tokenizer.json"):
        evaluate_with_harness(tmp_path, ["animals"])


@pytest.mark.slow
def test_the_command_of_lm_eval_finds_the_model(folders, tmp_path):
    """In a process that knows eigentrack only through the folder."""
    pytest.importorskip("lm_eval")
    folder, tasks = folders
    offline = {"HF_DATASETS_OFFLINE": "1", "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "home")}
    command = [sys.executable, "-m", "lm_eval", "run", "--model", "hf", "--device", "cpu", "--tasks", "animals"]
    command += ["--model_args", f"pretrained={folder},trust_remote_code=True", "--include_path", str(tasks)]
    command += ["--output_path", str(tmp_path / "out")]
    done = subprocess.run(command, env=os.environ | offline, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (report,) = (tmp_path / "out").rglob("*.json")
    accuracy = json.loads(report.read_text())["results"]["animals"]["acc,none"]
    assert accuracy == pytest.approx(accuracy_by_hand(folder))
