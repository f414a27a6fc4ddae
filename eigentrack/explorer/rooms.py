"""The four rooms of the page: components, and events that call the functions behind them.

A room runs what takes long in a worker of the session, so that the page stays awake and a visitor who leaves takes it along.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import gradio as gr

from eigentrack.compiler import ARCHITECTURES, load_compiled
from eigentrack.explorer.inspection_view import (
    COMPILED,
    FOLDER,
    ITS_OWN,
    TWINS,
    folder_of,
    inspect_folder,
    show_inspection,
)
from eigentrack.explorer.language_choice import GROUP, NAMED, REGEX, LanguageChoice
from eigentrack.explorer.language_view import show_language, view_language_task
from eigentrack.explorer.markup import paragraph, sheet, trouble
from eigentrack.explorer.network_view import compile_into, show_network, show_position, zip_folder
from eigentrack.explorer.session import NETWORK, Sessions
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
from eigentrack.explorer.word_reading import read_word

SECONDS = {"language": 60.0, "network": 120.0, "automaton": 30.0, "inspection": 600.0}  # how long a worker may take
TRAINING_EVERY, INSPECTION_EVERY = 0.7, 0.4  # seconds between two looks at how far it is
SMALLEST = "the smallest exact network"
LENGTHS = (1_000, 10_000, 100_000)  # letters of the longest word that is inspected


@dataclass(frozen=True)
class LanguagePicker:
    """The fields above the rooms that name a language: inputs of an event, of whose values `choice` makes what was picked.

    The field `regex` may be submitted.
    """

    fields: list[Any]
    regex: gr.Textbox

    @staticmethod
    def choice(kind: str, regex: str, extra: str, named: str, group: str, elements: str) -> LanguageChoice:
        name, letters = {REGEX: (regex, extra), NAMED: (named, ""), GROUP: (group, elements)}[kind]
        return LanguageChoice(kind, name.strip() if kind == GROUP else name, letters)


def build_explain_room(picker: LanguagePicker, sessions: Sessions) -> None:
    """Build the room Explain: the automaton of a language, its class in words, the cascade and the verdicts."""
    explain = gr.Button("Explain", variant="primary", elem_id="explain")
    answer = gr.HTML(elem_id="language-answer", min_height=120)

    async def explain_language(request: gr.Request, *fields: str) -> str:
        try:
            session = sessions.of(str(request.session_hash))
            return show_language(await session.work(view_language_task, picker.choice(*fields), seconds=SECONDS["language"]))
        except ValueError as error:
            return trouble(error)

    gr.on(
        [explain.click, picker.regex.submit],
        explain_language,
        picker.fields,
        answer,
        concurrency_limit=2,
        concurrency_id="algebra",
        api_visibility="private",
    )


def build_compile_room(picker: LanguagePicker, sessions: Sessions) -> None:
    """Build the room Compile: compile a network for the language, then watch it read a word as it is typed."""
    with gr.Row(equal_height=True):
        kinds = [(SMALLEST, "")] + [(f"{name}: {what}", name) for name, (what, _) in ARCHITECTURES.items()]
        architecture = gr.Dropdown(kinds, value="", label="Architecture", scale=3)
        compile_button = gr.Button("Compile", variant="primary", elem_id="compile", scale=1)
        download = gr.DownloadButton("Download the network", interactive=False, elem_id="download", scale=1)
    summary = gr.HTML(elem_id="network-summary", min_height=60)
    with gr.Row(equal_height=True):
        word = gr.Textbox(
            "", label="A word, read as you type; put commas between letters of several characters", elem_id="word", scale=2
        )
        position = gr.Slider(0, 1, value=0, step=1, label="Position: number of letters read", elem_id="position", scale=2)
    reading = gr.HTML(elem_id="reading", min_height=120)

    async def compile_language(request: gr.Request, chosen: str, text: str, *fields: str) -> list[Any]:
        session = sessions.of(str(request.session_hash))
        try:
            language = picker.choice(*fields)
            folder = session.folder / NETWORK
            await session.work(compile_into, language, chosen or None, folder, seconds=SECONDS["network"])
            session.network = load_compiled(folder)
        except ValueError as error:
            session.network = None
            return [trouble(error), gr.update(interactive=False), gr.update(), ""]
        said = show_network(session.network, language.title)
        return [said, gr.update(value=str(zip_folder(folder)), interactive=True), *read(request, text, None)]

    def read(request: gr.Request, text: str, place: float | None) -> tuple[Any, str]:
        """Read the word up to a place in it, or to its end if none is given."""
        network = sessions.of(str(request.session_hash)).network
        if network is None:
            return gr.update(), trouble("there is no network yet: press Compile first")
        try:
            found = read_word(network, text)
        except ValueError as error:
            return gr.update(), trouble(error)
        length = len(found.letters)
        at = length if place is None else int(place)
        return gr.update(maximum=max(1, length), value=min(at, length)), show_position(network, found, at)

    def read_typed(request: gr.Request, text: str) -> tuple[Any, str]:
        return read(request, text, None)

    def read_at(request: gr.Request, text: str, place: float) -> str:
        return read(request, text, place)[1]

    compile_button.click(
        compile_language,
        [architecture, word, *picker.fields],
        [summary, download, position, reading],
        concurrency_limit=2,
        concurrency_id="algebra",
        api_visibility="private",
    )
    quick: dict[str, Any] = {
        "trigger_mode": "always_last",
        "show_progress": "hidden",
        "concurrency_limit": 4,
        "api_visibility": "private",
    }
    word.change(read_typed, word, [position, reading], **quick)
    position.input(read_at, [word, position], reading, **quick)


def build_train_room(picker: LanguagePicker, sessions: Sessions, queue: TrainingQueue) -> None:
    """Build the room Train: train small twins, with curves that grow, and show their accuracy by length at the end."""
    with gr.Row():
        task = gr.Dropdown(list(TASKS), value="parity", label="Task", scale=2)
        layer = gr.Dropdown(list(LAYERS), value="DeltaNet", label="Layer", scale=1)
        ranges = gr.CheckboxGroup(list(RANGES), value=list(RANGES), label="Range of eigenvalues", scale=1)
    with gr.Row():
        steps = gr.Slider(10, MOST_STEPS, value=200, step=10, label="Steps", elem_id="steps")
        longest = gr.Slider(5, LONGEST_WORD, value=40, step=1, label="Longest word in training (letters)")
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
            runs = await session.work(draw_up_runs, choice, seconds=SECONDS["automaton"])
        except ValueError as error:
            yield trouble(error)
            return
        training = session.training = TwinTraining(choice, runs, session.folder / "training", queue)
        while session.training is training:  # until the button is pressed again
            twins = training.poll()
            yield show_training(choice, twins, training.ahead, training.is_over)
            if training.is_over:
                return
            await asyncio.sleep(TRAINING_EVERY)

    def stop_training(request: gr.Request) -> None:
        training = sessions.of(str(request.session_hash)).training
        if training is not None:
            training.stop()

    inputs: list[Any] = [task, layer, ranges, steps, longest, seed, *picker.fields]
    # no limit here: whoever waits is told so by the queue
    shown: dict[str, Any] = {"concurrency_limit": None, "show_progress": "hidden", "api_visibility": "private"}
    start.click(train, inputs, curves, trigger_mode="multiple", **shown)
    stop.click(stop_training, None, None, **shown)


def build_inspect_room(picker: LanguagePicker, sessions: Sessions, is_local: bool) -> None:
    """Build the room Inspect: spectra, horizon and robustness of what this page compiled or trained, or of a folder.

    Folders can be opened only where the page is for this computer alone; a saved model must be told its task.
    """
    with gr.Row(equal_height=True):
        sources = [COMPILED, *TWINS, *([FOLDER] if is_local else [])]
        source = gr.Dropdown(sources, value=sources[-1], label="Network to inspect", elem_id="source", scale=2)
        path = gr.Textbox(
            "", label="Folder of a run, a saved model or a compiled network", elem_id="path", visible=is_local, scale=3
        )
        task = gr.Dropdown([ITS_OWN, *TASKS], value=ITS_OWN, label="Task", elem_id="task", visible=is_local, scale=2)
        longest = gr.Dropdown(
            [(f"{length:,} letters", length) for length in LENGTHS],
            value=LENGTHS[0],
            label="Longest word to test",
            scale=1,
        )
    look = gr.Button("Inspect", variant="primary", elem_id="inspect")
    page = gr.HTML(elem_id="inspection", min_height=120)

    async def inspect(request: gr.Request, source: str, path: str, task: str, longest: int, *fields: str) -> AsyncIterator[str]:
        session = sessions.of(str(request.session_hash))
        seen: dict[str, float] = {}
        try:
            if source == FOLDER and not is_local:
                raise ValueError("folders are opened only where the page listens on this computer alone")
            folder = folder_of(session, source, path)
            name = folder.name if source == FOLDER else source
            about = (task, picker.choice(*fields) if task in (MEMBER, STATE) else None) if source == FOLDER else ()
            job = session.work(
                inspect_folder,
                folder,
                name,
                longest,
                *about,
                seconds=SECONDS["inspection"],
                hear=lambda news: seen.update([news]),
            )
            looking = asyncio.create_task(job)
            while not looking.done():
                said = ", ".join(f"{what} {share:.0%}" for what, share in seen.items())
                yield sheet(paragraph(f"inspecting … {said}"))
                await asyncio.sleep(INSPECTION_EVERY)
            yield show_inspection(looking.result())
        except ValueError as error:
            yield trouble(error)

    quietly: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
    source.change(lambda chosen: [gr.update(visible=chosen == FOLDER)] * 2, source, [path, task], **quietly)
    look.click(inspect, [source, path, task, longest, *picker.fields], page, concurrency_limit=2, **quietly)
