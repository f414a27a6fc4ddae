"""However a run is shared out over micro-batches and processes, stopped, killed or resumed, it is the same run."""

from __future__ import annotations

import os
import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from eigentrack.files import only_process_in
from eigentrack.lm import train
from eigentrack.lm.config import LanguageRunConfig
from eigentrack.lm.corpus import TOKENIZER_FOLDER
from eigentrack.lm.sharded_checkpoint import UNFINISHED, complete_checkpoints
from eigentrack.lm.tokenizer import TOKENIZER_FILE
from eigentrack.lm.train import run_language_training
from eigentrack.models import load_model
from eigentrack.training.run import CHECKPOINTS, MODEL
from tests.lm.runs import curve, launch, metrics_of, run_to_the_end, small_run, write_learnable_corpus

CLOSE = 1e-4  # sums in another order


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_learnable_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def config(corpus: Path) -> LanguageRunConfig:
    return small_run(corpus)


@pytest.fixture(scope="module")
def whole(config: LanguageRunConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one process that nothing disturbed."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    run_language_training(config, folder)
    return folder


def assert_same_run(first: Path, second: Path, within: float) -> None:
    for name in ("step", "loss", "validation_loss", "gradient_norm", "learning_rate", "tokens"):
        assert len(curve(first, name)) == len(curve(second, name))
        assert curve(first, name) == pytest.approx(curve(second, name), abs=within)
    ours, theirs = (load_model(folder / MODEL).state_dict() for folder in (first, second))
    assert all(torch.allclose(ours[name], theirs[name], atol=20 * within) for name in ours | theirs)


class Killed(Exception):
    pass


def stop_at(step: int, config: LanguageRunConfig, folder: Path) -> None:
    def interrupt(done: int, _: object) -> None:
        if done == step:
            raise Killed

    with pytest.raises(Killed):
        run_language_training(config, folder, report=interrupt)


def test_it_learns(corpus: Path, tmp_path: Path) -> None:
    config = small_run(corpus, steps=60, batch=8, learning_rate=3e-2)
    result = run_language_training(config, tmp_path)
    assert result.validation_loss is not None
    assert result.validation_loss < 2.0  # guessing gives log 24 = 3.18, knowing the rule log 3 = 1.10
    assert result.tokens == 60 * 8 * 16


@pytest.mark.parametrize("changes", [{"accumulation": 4}, {"activation_checkpointing": True}])
def test_how_the_work_is_done_changes_nothing(
    config: LanguageRunConfig, whole: Path, tmp_path: Path, changes: dict[str, object]
) -> None:
    run_language_training(replace(config, training=replace(config.training, **changes)), tmp_path)
    assert_same_run(whole, tmp_path, CLOSE)


def test_two_processes_give_the_run_of_one_and_one_goes_on_where_two_stopped(
    config: LanguageRunConfig, whole: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "two"
    shared_out = replace(config, training=replace(config.training, accumulation=2))
    assert "Warning" not in run_to_the_end(shared_out, folder, processes=2)
    assert_same_run(whole, folder, CLOSE)
    ours, theirs = (metrics_of(run)[-1]["telemetry"] for run in (folder, whole))
    assert ours["gradient_norm"] == pytest.approx(theirs["gradient_norm"], rel=1e-3)
    assert ours["update_ratio"] == pytest.approx(theirs["update_ratio"], rel=1e-2)
    assert ours["histograms"].keys() == theirs["histograms"].keys()

    before, newest = complete_checkpoints(folder / CHECKPOINTS)
    assert [before.name, newest.name] == ["step-000000009", "step-000000010"]
    assert len(list(before.glob("*.safetensors"))) == 2  # a file for each process
    shutil.rmtree(newest)
    shutil.rmtree(folder / MODEL)
    run_language_training(config, folder, resume=True)
    assert_same_run(whole, folder, CLOSE)


@pytest.mark.parametrize("step", [2, 7])
def test_a_stopped_run_ends_as_if_it_had_not_been(config: LanguageRunConfig, whole: Path, tmp_path: Path, step: int) -> None:
    stop_at(step, config, tmp_path)
    run_language_training(config, tmp_path, resume=True)
    assert_same_run(whole, tmp_path, 0)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_choices_that_become_sharp_are_sharp_in_a_run_that_was_stopped_and_in_what_it_saves(
    corpus: Path, tmp_path: Path, precision: str
) -> None:
    options = {"heads": 1, "key_dim": 4, "eigenvalues": {"polygon": 3, "sharp_after": 5}}
    model = {"d_model": 8, "layers": 1, "mixer": "gla", "mixer_options": options, "mlp_width": 12}
    config = replace(small_run(corpus, precision=precision), model=model)
    run_language_training(config, tmp_path / "whole")
    stop_at(7, config, tmp_path / "stopped")
    run_language_training(config, tmp_path / "stopped", resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "stopped", 0)
    shutil.rmtree(tmp_path / "whole" / MODEL)  # killed after its last checkpoint
    run_language_training(config, tmp_path / "whole", resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "stopped", 0)
    saved = load_model(tmp_path / "whole" / MODEL)
    assert int(saved.state_dict()["blocks.0.mixer.corner_proj.steps"]) == 9


def kill_after_first_checkpoint(config: LanguageRunConfig, folder: Path, processes: int) -> None:
    process = launch(config, folder, processes=processes)
    while process.poll() is None and not complete_checkpoints(folder / CHECKPOINTS):
        time.sleep(0.01)
    assert process.poll() is None, process.communicate()[0]
    # torchrun first, so that it does not see its workers die; each of them has a session of its own
    workers = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    for pid in (process.pid, *map(int, workers)):
        os.kill(pid, signal.SIGKILL)
    process.communicate()
    assert not (folder / MODEL).exists()


def test_a_run_killed_with_sigkill_goes_on(corpus: Path, tmp_path: Path) -> None:
    config = small_run(corpus, steps=400)
    kill_after_first_checkpoint(config, tmp_path / "killed", processes=1)
    short = 12  # enough to see that both go the same way
    stop_at(short, config, tmp_path / "whole")
    shutil.copytree(tmp_path / "killed", tmp_path / "resumed")

    def interrupt(done: int, _: object) -> None:
        if done >= max(short, first + 2):
            raise Killed

    first = int(complete_checkpoints(tmp_path / "resumed" / CHECKPOINTS)[-1].name.removeprefix("step-"))
    with pytest.raises(Killed):
        run_language_training(config, tmp_path / "resumed", resume=True, report=interrupt)
    assert curve(tmp_path / "resumed")[:short] == curve(tmp_path / "whole")


@pytest.mark.slow
def test_two_processes_killed_with_sigkill_go_on_as_two_or_as_one(corpus: Path, tmp_path: Path) -> None:
    config = small_run(corpus, steps=60)
    run_language_training(config, tmp_path / "whole")
    kill_after_first_checkpoint(config, tmp_path / "killed", processes=2)
    shutil.copytree(tmp_path / "killed", tmp_path / "one")
    run_to_the_end(config, tmp_path / "killed", "--resume", processes=2)
    run_to_the_end(config, tmp_path / "one", "--resume", processes=1)
    for folder in ("killed", "one"):
        assert_same_run(tmp_path / "whole", tmp_path / folder, 1e-3)  # sixty steps of Adam drift further than ten


@pytest.mark.slow
def test_two_processes_in_bfloat16_give_the_run_of_one(corpus: Path, tmp_path: Path) -> None:
    config = small_run(corpus, precision="bfloat16", activation_checkpointing=True)
    run_language_training(config, tmp_path / "one")
    run_to_the_end(config, tmp_path / "two", processes=2)
    assert curve(tmp_path / "one") == pytest.approx(curve(tmp_path / "two"), abs=0.02)


@pytest.mark.slow
def test_two_processes_give_the_run_of_one_where_the_head_is_the_embedding(corpus: Path, tmp_path: Path) -> None:
    model = {"d_model": 8, "layers": 2, "mixer": "mamba", "mlp_width": 0, "tie_embeddings": True}
    config = replace(small_run(corpus), model=model)
    run_language_training(config, tmp_path / "one")
    run_to_the_end(config, tmp_path / "two", processes=2)
    assert_same_run(tmp_path / "one", tmp_path / "two", CLOSE)
    saved = load_model(tmp_path / "two" / MODEL)
    assert saved.head.weight is saved.embedding.weight


@pytest.mark.slow
def test_two_processes_go_on_where_one_stopped(config: LanguageRunConfig, whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    stop_at(7, config, folder)
    assert [path.name for path in complete_checkpoints(folder / CHECKPOINTS)][-1] == "step-000000006"
    run_to_the_end(config, folder, "--resume", processes=2)
    assert_same_run(whole, folder, CLOSE)


@pytest.mark.slow
def test_compiled_blocks_give_the_same_run(config: LanguageRunConfig, tmp_path: Path) -> None:
    config = replace(config, training=replace(config.training, reset_documents=False))
    run_language_training(config, tmp_path / "eager")
    run_to_the_end(config, tmp_path / "compiled", "--compile", processes=1)
    assert "blocks.0.mixer" in metrics_of(tmp_path / "compiled")[-1]["telemetry"]["histograms"]
    assert_same_run(tmp_path / "eager", tmp_path / "compiled", CLOSE)


def test_an_unfinished_checkpoint_is_not_there_and_a_damaged_one_is_named(
    config: LanguageRunConfig, whole: Path, tmp_path: Path
) -> None:
    stop_at(8, config, tmp_path)
    oldest, newest = complete_checkpoints(tmp_path / CHECKPOINTS)
    unfinished = newest.with_name("step-000000007" + UNFINISHED)
    shutil.copytree(newest, unfinished)
    (file,) = newest.glob("*.safetensors")
    file.write_bytes(file.read_bytes()[:200])
    assert oldest.name == "step-000000003"
    said: list[str] = []
    run_language_training(config, tmp_path, resume=True, say=said.append)
    assert not unfinished.exists()
    assert len(said) == 1
    assert said[0].startswith("step-000000006 cannot be used (")
    assert said[0].endswith("going back to what was before it")
    assert_same_run(whole, tmp_path, 0)


def test_a_run_without_any_good_checkpoint_does_not_start_from_ruins(config: LanguageRunConfig, tmp_path: Path) -> None:
    stop_at(4, config, tmp_path)
    (checkpoint,) = complete_checkpoints(tmp_path / CHECKPOINTS)
    (file,) = checkpoint.glob("*.safetensors")
    file.write_bytes(b"")
    with pytest.raises(ValueError, match=r"no checkpoint in .* can be read"):
        run_language_training(config, tmp_path, resume=True, say=lambda text: None)


def test_a_full_disk_does_not_end_the_run(
    config: LanguageRunConfig, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: object, **named: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr("torch.distributed.checkpoint.hf_storage.HuggingFaceStorageWriter.write_data", full)
    said: list[str] = []
    run_language_training(config, tmp_path, say=said.append)
    assert said[0] == "the checkpoint of step 3 could not be written (No space left on device); going on without it"
    assert len(said) == 4
    assert complete_checkpoints(tmp_path / CHECKPOINTS) == []
    assert_same_run(whole, tmp_path, 0)


def test_another_run_or_corpus_is_not_overwritten(config: LanguageRunConfig, whole: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="already holds a run: add --resume"):
        run_language_training(config, whole)
    other = replace(config, training=replace(config.training, learning_rate=0.5))
    with pytest.raises(ValueError, match="another configuration or corpus"):
        run_language_training(other, whole, resume=True)
    elsewhere = write_learnable_corpus(tmp_path / "other", tokens=3000)
    with pytest.raises(ValueError, match="another configuration or corpus"):
        run_language_training(replace(config, corpus=str(elsewhere)), whole, resume=True)


def test_a_damaged_corpus_is_not_learnt_from(
    config: LanguageRunConfig, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(corpus, tmp_path / "corpus")
    shard = tmp_path / "corpus" / "train-00000.tokens"
    damaged = replace(config, corpus=str(tmp_path / "corpus"))
    shard.write_bytes(bytes([shard.read_bytes()[0] ^ 1]) + shard.read_bytes()[1:])  # another token of the vocabulary
    with pytest.raises(ValueError, match=r"train-00000\.tokens is damaged \(its checksum differs\)"):
        run_language_training(damaged, tmp_path / "run")
    said: list[str] = []
    monkeypatch.setattr(train, "BYTES_READ_FIRST", 10)
    run_language_training(damaged, tmp_path / "run", say=said.append)
    assert "too much to check first: `eigentrack lm prepare --verify" in said[0]


def test_a_corpus_with_another_tokenizer_is_not_learnt_from(config: LanguageRunConfig, corpus: Path, tmp_path: Path) -> None:
    shutil.copytree(corpus, tmp_path / "corpus")
    (tmp_path / "corpus" / TOKENIZER_FOLDER).mkdir()
    (tmp_path / "corpus" / TOKENIZER_FOLDER / TOKENIZER_FILE).write_text("{}")
    with pytest.raises(ValueError, match="is not the tokenizer that made the corpus: copy or prepare it again"):
        run_language_training(replace(config, corpus=str(tmp_path / "corpus")), tmp_path / "run")


def test_a_corpus_may_move(config: LanguageRunConfig, whole: Path, tmp_path: Path) -> None:
    shutil.copytree(config.corpus, tmp_path / "moved")
    shutil.copytree(whole, tmp_path / "run")
    result = run_language_training(replace(config, corpus=str(tmp_path / "moved")), tmp_path / "run", resume=True)
    assert result.steps == 10
    assert result.loss is None  # nothing was left to do


def test_tensorboard_shows_the_metrics(config: LanguageRunConfig, tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    run_language_training(config, tmp_path, tensorboard=True)
    events = accumulator.EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert {"loss", "validation_loss", "tokens_per_second", "utilisation"} <= set(events.Tags()["scalars"])
    assert "blocks.0.mixer/eigenvalue" in events.Tags()["histograms"]
    assert [event.value for event in events.Scalars("loss")] == pytest.approx(curve(tmp_path), rel=1e-6)


def test_two_runs_do_not_share_a_folder(config: LanguageRunConfig, whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "run")
    unfinished = tmp_path / "run" / CHECKPOINTS / f"step-000000012{UNFINISHED}"
    unfinished.mkdir()
    with only_process_in(tmp_path / "run"), pytest.raises(ValueError, match="another process is at work in"):
        run_language_training(config, tmp_path / "run", resume=True)
    assert unfinished.exists()
    run_language_training(config, tmp_path / "run", resume=True)
    assert not unfinished.exists()
