"""Train: small twins, live, with a stop button; at the end their accuracy against length."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import gradio as gr

from eigentrack.explorer.language_picker import LanguagePicker
from eigentrack.explorer.markup import trouble
from eigentrack.explorer.session import Sessions
from eigentrack.explorer.training_choice import (
    LAYERS,
    LONGEST_WORD,
    MEMBER,
    MOST_STEPS,
    RANGES,
    STATE,
    TASKS,
    TrainingChoice,
    draw_up_runs,
)
from eigentrack.explorer.training_view import show_training
from eigentrack.explorer.twin_training import TrainingQueue, TwinTraining

SHOWS_EVERY = 0.7  # seconds
SECONDS = 30.0  # for the language's automaton


def build_train_room(picker: LanguagePicker, sessions: Sessions, queue: TrainingQueue) -> None:
    with gr.Row():
        task = gr.Dropdown(list(TASKS), value="parity", label="Task", scale=2)
        layer = gr.Dropdown(list(LAYERS), value="DeltaNet", label="Layer", scale=1)
        ranges = gr.CheckboxGroup(list(RANGES), value=list(RANGES), label="Range of the eigenvalues", scale=1)
    with gr.Row():
        steps = gr.Slider(10, MOST_STEPS, value=200, step=10, label="Steps", elem_id="steps")
        longest = gr.Slider(5, LONGEST_WORD, value=40, step=1, label="Longest word in training")
        seed = gr.Number(0, label="Seed", precision=0, minimum=0)
    with gr.Row():
        start = gr.Button("Train", variant="primary", elem_id="train")
        stop = gr.Button("Stop", variant="stop", elem_id="stop")
    curves = gr.HTML(elem_id="training", min_height=120)

    async def train(
        request: gr.Request, task: str, layer: str, ranges: list[str], steps: int, longest: int, seed: int, *fields: str
    ) -> AsyncIterator[str]:
        session = sessions.of(str(request.session_hash))
        if session.training is not None:
            session.training.close()
        try:
            language = picker.choice(*fields) if task in (MEMBER, STATE) else None
            choice = TrainingChoice(task, layer, tuple(ranges), steps, longest, seed, language)
            runs = await session.work(draw_up_runs, choice, seconds=SECONDS)
        except ValueError as error:
            yield trouble(error)
            return
        training = session.training = TwinTraining(choice, runs, session.folder / "training", queue)
        while session.training is training:  # until the button is pressed again
            twins = training.poll()
            yield show_training(choice, twins, training.ahead, training.is_over)
            if training.is_over:
                return
            await asyncio.sleep(SHOWS_EVERY)

    def stop_training(request: gr.Request) -> None:
        training = sessions.of(str(request.session_hash)).training
        if training is not None:
            training.stop()

    inputs: list[Any] = [task, layer, ranges, steps, longest, seed, *picker.fields]
    # no limit here: whoever waits is told so by the queue
    shown: dict[str, Any] = {"concurrency_limit": None, "show_progress": "hidden", "api_visibility": "private"}
    start.click(train, inputs, curves, trigger_mode="multiple", **shown)
    stop.click(stop_training, None, None, **shown)
