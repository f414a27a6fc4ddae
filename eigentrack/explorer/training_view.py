"""The view of a training: loss and accuracy by step, and at the end accuracy against length."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

import torch

from eigentrack.explorer.markup import picture, sheet, table, trouble
from eigentrack.explorer.training_choice import TrainingChoice
from eigentrack.explorer.twin_training import TwinProgress
from eigentrack.training import horizon

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = {"[0, 1]": "tab:orange", "[-1, 1]": "tab:blue"}


def show_training(choice: TrainingChoice, twins: Sequence[TwinProgress], ahead: int, is_over: bool) -> str:
    parts = [f"<p id='training-status'><b>{escape(training_status(choice, twins, ahead, is_over))}</b></p>"]
    parts += [trouble(f"eigenvalues in {twin.eigenvalues}: {twin.trouble}") for twin in twins if twin.trouble]
    if any(twin.steps for twin in twins):
        parts.append(picture(draw_training(choice, twins), "loss and accuracy by step, accuracy by length"))
    if trained := [twin for twin in twins if twin.curve]:
        parts.append(
            table(
                (
                    "range",
                    "steps",
                    "accuracy in training",
                    f"accuracy at {len(trained[0].curve)} letters",
                    "horizon (99 % right)",
                ),
                [_row(twin) for twin in trained],
            )
        )
    return sheet(*parts)


def training_status(choice: TrainingChoice, twins: Sequence[TwinProgress], ahead: int, is_over: bool) -> str:
    if ahead:
        return f"waiting: {ahead} training{'s' if ahead > 1 else ''} of other pages come{'' if ahead > 1 else 's'} first"
    done = max((twin.steps[-1].step for twin in twins if twin.steps), default=0)
    if is_over:
        return f"{choice.title}: {done} steps, done" if done else f"{choice.title}: stopped before the first step"
    if all(twin.steps and twin.steps[-1].step == choice.steps for twin in twins):
        return f"{choice.title}: trained, now tested on longer words"
    return f"{choice.title}: step {done} of {choice.steps}"


def _row(twin: TwinProgress) -> tuple[object, ...]:
    reach = horizon(torch.tensor(twin.curve))
    last = twin.steps[-1] if twin.steps else None
    return (
        twin.eigenvalues,
        "–" if last is None else last.step,
        "–" if last is None else f"{last.accuracy:.3f}",
        f"{twin.curve[-1]:.3f}",
        f"beyond {reach} letters" if reach == len(twin.curve) else f"{reach} letter{'' if reach == 1 else 's'}",
    )


def _binned(curve: Sequence[float]) -> tuple[list[int], list[float]]:
    """Return lengths a tenth apart, and the mean accuracy since the previous one."""
    lengths, means, done = [], [], 0
    while done < len(curve):
        end = min(len(curve), max(done + 1, int(done * 1.1)))
        means.append(sum(curve[done:end]) / (end - done))
        lengths.append(end)
        done = end
    return lengths, means


def draw_training(choice: TrainingChoice, twins: Sequence[TwinProgress]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 3.6), layout="constrained")
    loss, accuracy, length = figure.subplots(1, 3)
    for twin in twins:
        colour, steps = COLOURS[twin.eigenvalues], [news.step for news in twin.steps]
        loss.plot(steps, [news.loss for news in twin.steps], color=colour, label=twin.eigenvalues)
        accuracy.plot(steps, [news.accuracy for news in twin.steps], color=colour, label=twin.eigenvalues)
        if twin.curve:
            length.plot(*_binned(twin.curve), color=colour, label=twin.eigenvalues)
    loss.set(xlabel="step", title="loss", xlim=(0, choice.steps))
    accuracy.set(xlabel="step", title="accuracy in training", xlim=(0, choice.steps), ylim=(-0.03, 1.05))
    length.set(xlabel="letters", title="accuracy by length", ylim=(-0.03, 1.05))
    if any(twin.curve for twin in twins):
        length.set_xscale("log")
        length.axvline(
            choice.longest, color="0.4", linestyle="--", linewidth=1, label=f"longest word in training: {choice.longest}"
        )
    else:
        length.text(0.5, 0.5, "drawn when training ends", ha="center", va="center", color="0.4", transform=length.transAxes)
        length.set(xticks=[], yticks=[])
    for axes in (loss, accuracy, length):
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize="small", title="range" if axes is not length else None, title_fontsize="small")
    return figure
