"""Figure 1 in small: Mamba and DeltaNet learn parity on at most 40 bits, with eigenvalues in [0, 1] and in [-1, 1].

The twins differ in nothing but the range: same weights at the start, same batches, same number of steps.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from eigentrack.experiments.paper.parity_kept import Kept
from eigentrack.experiments.running.provenance import provenance
from eigentrack.files import write_atomically, write_json
from eigentrack.models import ModelConfig, SequenceModel, save_model
from eigentrack.output_folder import Output
from eigentrack.processes import Failure, Line, News, Pool
from eigentrack.spectrum import EigenRange
from eigentrack.tasks import TrackingTask
from eigentrack.tasks.tracking import parity
from eigentrack.training import TrainingConfig, horizon, length_curve, scaled_accuracy, train

TRAIN_LENGTHS = (3, 40)
TEST_LENGTHS = (40, 256)  # the paper's
LONGEST = 2048
NEAR = 0.05  # the plot's accuracies are averaged over lengths so near, as a share of the length
NUMBERS, PICTURE, MODELS, KEPT = "demo.json", "demo.png", "models", "kept"
NARROW, WIDE = EigenRange(0, 1), EigenRange(-1, 1)


@dataclass(frozen=True)
class Twin:
    """One cell: a layer, a range, and how it is trained."""

    label: str
    model: ModelConfig
    task: TrackingTask
    training: TrainingConfig

    @property
    def name(self) -> str:
        return f"{self.label} {self.model.eigenvalues}"

    @property
    def folder(self) -> str:
        eigenvalues = self.model.eigenvalues.radial
        return f"{self.label.lower()}_{eigenvalues.low:g}_{eigenvalues.high:g}"


@dataclass(frozen=True)
class Outcome:
    twin: Twin
    accuracy: tuple[float, ...]  # the accuracy at each length 1..LONGEST
    seconds: float

    @property
    def at_training_lengths(self) -> float:
        return self._scaled(*TRAIN_LENGTHS)

    @property
    def at_test_lengths(self) -> float:
        return self._scaled(*TEST_LENGTHS)

    @property
    def horizon(self) -> int:
        return horizon(torch.tensor(self.accuracy))

    def _scaled(self, shortest: int, longest: int) -> float:
        accuracy = torch.tensor(self.accuracy[shortest - 1 : longest])
        return float(scaled_accuracy(accuracy, self.twin.task.classes).mean())


def twins(seed: int) -> list[Twin]:
    model = ModelConfig(vocab_size=parity().vocab_size, d_model=32, layers=1)
    training = TrainingConfig(steps=200, batch=128, lengths=TRAIN_LENGTHS, learning_rate=1e-2, label_smoothing=0.1, seed=seed)
    delta_net = Twin(
        "DeltaNet",
        replace(model, mixer="deltanet", mixer_options={"heads": 4, "conv": 0}),
        parity(last_weight=0.5),
        training,
    )
    mamba = Twin(
        "Mamba",
        replace(model, mixer="mamba", mixer_options={"state_size": 4, "conv": 0}),
        parity(last_weight=0.0),
        replace(training, steps=300),
    )
    return [
        replace(twin, model=replace(twin.model, eigenvalues=eigenvalues))
        for twin in (mamba, delta_net)
        for eigenvalues in (NARROW, WIDE)
    ]


def output(seed: int) -> Output:
    """Return what is written for the twins of a seed."""
    return Output("demo", (NUMBERS, PICTURE, MODELS, KEPT), {"seed": seed})


def run_twin(twin: Twin, report: Callable[[int, float], None] | None = None, models: Path | None = None) -> Outcome:
    """Train and test a twin; with `models`, keep the trained model in a folder below it."""
    start = time.perf_counter()
    torch.manual_seed(twin.training.seed)
    model = SequenceModel(twin.model)
    train(model, twin.task, twin.training, report)
    if models is not None:
        save_model(model, models / twin.folder)
    # the test bits come from a seed that no training run of this experiment uses
    curve = length_curve(model, twin.task, LONGEST, sequences=256, seed=10**6 + twin.training.seed)
    return Outcome(twin, tuple(curve.accuracy.tolist()), time.perf_counter() - start)


def run_twins(
    cells: list[Twin], report: Callable[[int, int, float], None], models: Path | None = None, workers: int = 2
) -> list[Outcome]:
    """Run several twins at a time and call `report(number of the twin, step, loss)`.

    Each twin has one thread, as its tensors are too small for two.
    """
    waiting, outcomes = list(enumerate(cells)), dict[int, Outcome]()
    with Pool(workers) as pool:
        while waiting or pool.is_busy:
            while waiting and pool.has_room:
                number, twin = waiting.pop(0)
                pool.begin(number, _run_by_itself, twin, models)
            for number, event in pool.wait():
                if isinstance(event, News):
                    report(number, *event.value)
                elif isinstance(event, Failure):
                    raise event.as_error()
                else:
                    outcomes[number] = event.value
    return [outcomes[number] for number in range(len(cells))]


def _run_by_itself(line: Line, twin: Twin, models: Path | None) -> Outcome:
    return run_twin(twin, lambda step, loss: line.report((step, loss)), models)


def claim_holds(outcomes: list[Outcome]) -> bool:
    """Return whether the wide twins are perfect at the test lengths while the narrow ones guess."""
    return all(
        outcome.at_test_lengths > 0.99 if outcome.twin.model.eigenvalues == WIDE else abs(outcome.at_test_lengths) < 0.1
        for outcome in outcomes
    )


def to_json(outcomes: list[Outcome], kept: Kept) -> dict[str, Any]:
    return {
        "experiment": "parity twins",
        "train_lengths": list(TRAIN_LENGTHS),
        "test_lengths": list(TEST_LENGTHS),
        "claim_holds": claim_holds(outcomes),
        "kept": kept.to_json(),
        "provenance": provenance(),
        "results": [
            {
                "layer": outcome.twin.label,
                "eigenvalues": outcome.twin.model.eigenvalues.to_json(),
                "steps": outcome.twin.training.steps,
                "batch": outcome.twin.training.batch,
                "seed": outcome.twin.training.seed,
                "seconds": round(outcome.seconds, 2),
                "scaled_accuracy": outcome.at_test_lengths,
                "scaled_accuracy_at_training_lengths": outcome.at_training_lengths,
                "horizon": outcome.horizon,
                "longest_tested": LONGEST,
                "accuracy_by_length": [round(value, 4) for value in outcome.accuracy],
            }
            for outcome in outcomes
        ],
    }


def write_report(outcomes: list[Outcome], kept: Kept, folder: Path) -> tuple[Path, Path]:
    """Write the JSON and the plot, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    numbers, picture = folder / NUMBERS, folder / PICTURE
    write_json(numbers, to_json(outcomes, kept))
    write_atomically(picture, lambda path: plot(outcomes, kept, path))
    return numbers, picture


def plot(outcomes: list[Outcome], kept: Kept, path: str) -> None:
    """Draw accuracy by length; a line is broad where another one that is right throughout would hide it."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    colours, broad = {"Mamba": "tab:orange", "DeltaNet": "tab:blue"}, ("Mamba", WIDE)
    figure, axes = pyplot.subplots(figsize=(8.5, 4), layout="constrained")
    axes.axvspan(*TRAIN_LENGTHS, color="0.92", label="training lengths: {}–{}".format(*TRAIN_LENGTHS))
    for outcome in outcomes:
        layer, eigenvalues = outcome.twin.label, outcome.twin.model.eigenvalues
        lengths, style = range(1, len(outcome.accuracy) + 1), "-" if eigenvalues == WIDE else ":"
        (line,) = axes.plot(lengths, _smooth(outcome.accuracy), style, color=colours[layer], label=outcome.twin.name)
        line.set_linewidth(5 if (layer, eigenvalues) == broad else 1.5)
    axes.plot(
        *zip(*kept.corrected, strict=True), color="tab:green", linewidth=8, alpha=0.4, label="DeltaNet [-1, 1], corrected"
    )
    beyond = [(length, accuracy) for length, accuracy in kept.uncorrected if length > LONGEST]
    if beyond:
        axes.plot(*zip(*beyond, strict=True), color="tab:blue")
    axes.set(xscale="log", xlabel="sequence length (bits)", ylabel=f"accuracy (0.5: guessing), mean within ±{NEAR:.0%}")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    seeds = ", ".join(map(str, sorted({outcome.twin.training.seed for outcome in outcomes})))
    axes.set_title(f"Parity: negative eigenvalues track it, a correction keeps it (seed {seeds})")
    figure.legend(loc="outside right center", fontsize="small")
    figure.savefig(path, format="png", dpi=150)
    pyplot.close(figure)


def _smooth(accuracy: tuple[float, ...]) -> list[float]:
    """Return the mean over neighbouring lengths, as a curve of 256 sequences per length is noisy where a model guesses."""
    running = [0.0]
    for value in accuracy:
        running.append(running[-1] + value)
    windows = ((max(0, int(t * (1 - NEAR))), min(len(accuracy), int(t * (1 + NEAR)) + 1)) for t in range(len(accuracy)))
    return [(running[last] - running[first]) / (last - first) for first, last in windows]
