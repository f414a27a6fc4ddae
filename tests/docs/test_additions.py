"""A layer, a task and an experiment from outside the package, by the rules of docs/architecture.md: no file of ours changes."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from typer.testing import CliRunner

from eigentrack import EigenRange, load_model
from eigentrack.cli import app
from eigentrack.layers import MIXERS
from eigentrack.tasks.registry import TASKS
from tests.docs.test_extend import CONFORMANCE

# what a user would write: a layer with a signed gate for each channel, a counter modulo n, and both in an experiment
OUTSIDE = '''
import torch
from torch import Tensor, nn

from eigentrack import EigenRange
from eigentrack.layers import LinearMixer, MixerState
from eigentrack.layers.mixer import gate_precision
from eigentrack.layers.validation import head_width
from eigentrack.experiments.design.experiment import SCALED_ACCURACY, Experiment, Panel, Series, Settings
from eigentrack.experiments.reporting.curve_plot import plot_scaled_accuracy
from eigentrack.experiments.running.length_test import LengthTest
from eigentrack.ops import gated_linear
from eigentrack.ops.shared.packing import Packing
from eigentrack.training import TrainingConfig
from eigentrack.tasks import TrackingTask


class SignedChannels(LinearMixer):
    """S_t = diag(a_t) S_{t-1} + k_t v_tᵀ,  y_t = S_tᵀ q_t."""

    def __init__(
        self, d_model: int, *, heads: int = 2, eigenvalues: EigenRange = EigenRange(-1, 1), backend: str = "auto"
    ) -> None:
        width = head_width(d_model, heads)
        super().__init__(d_model, backend, (heads, width, width), eigenvalues, learn_initial_state=False, convolution=None)
        self.heads = heads
        self.qkv_proj = nn.Linear(d_model, 3 * d_model, bias=False)
        self.gate_proj = nn.Linear(d_model, d_model)

    def _mix(self, x: Tensor, state: MixerState, packing: Packing | None, backend: str) -> tuple[Tensor, MixerState]:
        q, k, v = self.qkv_proj(x).unflatten(-1, (3, self.heads, -1)).unbind(2)
        given = {"initial_state": state.memory[0], "cu_seqlens": packing, "backend": backend}
        y, memory = gated_linear(q, k, v, self._eigenvalue(x), **given)
        return y.flatten(-2), MixerState((memory,))

    def transitions(self, x: Tensor, state: MixerState | None = None, cu_seqlens: Tensor | Packing | None = None) -> Tensor:
        return torch.diag_embed(self._eigenvalue(x))

    def gates(self, x: Tensor, state: MixerState | None = None, cu_seqlens=None) -> dict[str, Tensor]:
        return {"eigenvalue": self._eigenvalue(x)}

    def _eigenvalue(self, x: Tensor) -> Tensor:
        logit = gate_precision(self.gate_proj(x)).unflatten(-1, (self.heads, -1))
        return self.eigenvalues.eigenvalue(torch.sigmoid(logit))


def counter(modulus: int = 3) -> TrackingTask:
    """How many ones so far, modulo n?"""
    return TrackingTask(tuple((n, (n + 1) % modulus) for n in range(modulus)), tuple(range(modulus)))

SETTINGS = Settings(
    d_model=8,
    training=TrainingConfig(steps=2, batch=4, lengths=(3, 9), warmup=1),
    rates=(1e-3,),
    floor=None,
    seeds=(0,),
    test=LengthTest((10, 12), 4),
    validate_every=2,
    checkpoint_every=2,
)
EXPERIMENT = Experiment(
    name="outside",
    title="Counting, from outside",
    question="Can a module from outside be an experiment?",
    answer=lambda results: f"It has {len(results)} results.",
    source="a test",
    settings=dict.fromkeys(("smoke", "short", "paper"), SETTINGS),
    family="outside",
    panels=(Panel("counter", "counter"),),
    series=(
        Series("[0, 1]", {"mixer": "signed-channels", "layers": 1, "eigenvalues": [0, 1]}),
        Series("[-1, 1]", {"mixer": "signed-channels", "layers": 1, "eigenvalues": [-1, 1]}),
    ),
    score=SCALED_ACCURACY,
    plot=plot_scaled_accuracy,
)
'''
LAYER, TASK, EXPERIMENT = "signed-channels", "counter", "outside"


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module, imported from a folder of its own and registered; the tables are put back by conftest.py."""
    (tmp_path / "outside_additions.py").write_text(OUTSIDE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "outside_additions", raising=False)
    module = importlib.import_module("outside_additions")
    MIXERS[LAYER] = module.SignedChannels
    TASKS[TASK] = module.counter
    return module


@pytest.mark.usefixtures("outside")
@pytest.mark.parametrize("options", [{"heads": 3}, {"eigenvalues": EigenRange(0, 1)}], ids=["three heads", "[0, 1]"])
@pytest.mark.parametrize("check", CONFORMANCE, ids=lambda check: check.__name__)
def test_the_layer_conforms(check: Callable[..., None], options: dict[str, object]) -> None:
    check(LAYER, options)


@pytest.mark.usefixtures("outside")
def test_layer_and_task_are_trained_by_name(tmp_path: Path) -> None:
    command = f"train --task {TASK} --task-option modulus=4 --layer {LAYER} --layer-option heads=4 --eigenvalues=0,1"
    result = CliRunner().invoke(app, [*command.split(), "--steps", "1", "--batch", "4", "--out", str(tmp_path / "run")])
    assert result.exit_code == 0, result.output
    model = load_model(tmp_path / "run/model")
    assert type(model.blocks[0].mixer).__name__ == "SignedChannels"
    assert model.config.vocab_size >= 4
    for listing, name in (("layers", LAYER), ("tasks", TASK)):
        assert name in CliRunner().invoke(app, [listing]).output


@pytest.mark.usefixtures("outside")
def test_the_experiment_runs_at_smoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scores, files = run_registered_experiment(tmp_path / "sweep", monkeypatch)
    assert set(scores) == {"[0, 1]", "[-1, 1]"}
    assert all(torch.isfinite(torch.tensor(score)) for score in scores.values())
    page = next(path for path in files if path.suffix == ".md").read_text()
    assert "Counting, from outside" in page
    assert all(series in page for series in scores)


def run_registered_experiment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, float], list[Path]]:
    """Register an experiment of the new layer on the new task in the catalogue, and run it by name.

    Returns the score of each series and the files of the report.
    """
    from eigentrack.experiments import catalogue
    from eigentrack.experiments.reproduce import reproduce
    from eigentrack.experiments.running.cell import run_cell
    from eigentrack.experiments.running.ledger import Ledger, launching

    monkeypatch.setitem(catalogue.CATALOGUE, EXPERIMENT, catalogue.Entry("outside_additions:EXPERIMENT", "counting"))

    def launch(ledger: Ledger) -> None:
        """In this process, which knows the layer and the task."""
        while (cell := ledger.take()) is not None:
            ledger.finished(cell, run_cell(cell, ledger.folder / cell.name, "cpu", say=lambda text: None))

    found = catalogue.named_experiment(EXPERIMENT)
    report, files = reproduce(found, "smoke", folder, launching(launch), say=lambda text: None)
    return {result.series: found.score.of(result) for result in report.outcome.results}, files
