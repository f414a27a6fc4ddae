"""TensorBoard's events are the metrics, each once, also after a resumed run."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from eigentrack.training.driver import EVENTS
from eigentrack.training.run import METRICS_FILE, run_training
from eigentrack.training.telemetry import BINS
from tests.training.test_run import CONFIG, Killed


def test_without_the_package_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(
        ValueError, match=r"--tensorboard needs the package tensorboard: pip install 'eigentrack\[tensorboard\]'"
    ):
        run_training(CONFIG, tmp_path / "run", tensorboard=True)
    assert not (tmp_path / "run").exists()


@pytest.mark.filterwarnings("default")  # of the package's own
def test_a_resumed_run_writes_every_event_once(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    def interrupt(step: int, _: dict[str, float]) -> None:
        if step == 24:
            raise Killed

    with pytest.raises(Killed):
        run_training(CONFIG, tmp_path, tensorboard=True, report=interrupt)
    run_training(CONFIG, tmp_path, tensorboard=True, resume=True)
    events = EventAccumulator(str(tmp_path / EVENTS), purge_orphaned_data=False, size_guidance={"scalars": 0, "histograms": 0})
    events.Reload()
    lines = [json.loads(line) for line in (tmp_path / METRICS_FILE).read_text().splitlines()]
    for name in ("loss", "accuracy", "gradient_norm", "learning_rate"):
        found = [(event.step, event.value) for event in events.Scalars(name)]
        assert found == [(line["step"], pytest.approx(line[name], rel=1e-5)) for line in lines]
    assert [event.step for event in events.Scalars("validation_accuracy")] == [16, 32, 40]
    (seen,) = events.Histograms("blocks.0.mixer/eigenvalue")
    counted = lines[-1]["telemetry"]["histograms"]["blocks.0.mixer"]["eigenvalue"]
    assert seen.step == 40
    assert seen.histogram_value.num == sum(counted["counts"])
    assert len(counted["counts"]) == BINS
    assert seen.histogram_value.min == pytest.approx(counted["low"])
