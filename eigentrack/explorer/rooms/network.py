"""Network: compile the language, then watch the network read a word as it is typed."""

from __future__ import annotations

from typing import Any

import gradio as gr

from eigentrack.compiler import ARCHITECTURES, load_compiled
from eigentrack.explorer.language_picker import LanguagePicker
from eigentrack.explorer.markup import trouble
from eigentrack.explorer.network_files import compile_into, zip_folder
from eigentrack.explorer.network_view import show_network, show_position
from eigentrack.explorer.session import NETWORK, Sessions
from eigentrack.explorer.word_reading import read_word

SECONDS = 120.0
SMALLEST = "the smallest of all"


def build_network_room(picker: LanguagePicker, sessions: Sessions) -> None:
    with gr.Row(equal_height=True):
        kinds = [(SMALLEST, "")] + [(f"{name}: {what}", name) for name, (what, _) in ARCHITECTURES.items()]
        architecture = gr.Dropdown(kinds, value="", label="Architecture", scale=3)
        compile_button = gr.Button("Compile", variant="primary", elem_id="compile", scale=1)
        download = gr.DownloadButton("Download the network", interactive=False, elem_id="download", scale=1)
    summary = gr.HTML(elem_id="network-summary", min_height=60)
    with gr.Row(equal_height=True):
        word = gr.Textbox("", label="A word, read as you type; long letters are separated by commas", elem_id="word", scale=2)
        position = gr.Slider(0, 1, value=0, step=1, label="After how many letters", elem_id="position", scale=2)
    reading = gr.HTML(elem_id="reading", min_height=120)

    async def compile_language(request: gr.Request, chosen: str, text: str, *fields: str) -> list[Any]:
        session = sessions.of(str(request.session_hash))
        try:
            language = picker.choice(*fields)
            folder = session.folder / NETWORK
            await session.work(compile_into, language, chosen or None, folder, seconds=SECONDS)
            session.network = load_compiled(folder)
        except ValueError as error:
            session.network = None
            return [trouble(error), gr.update(interactive=False), gr.update(), ""]
        said = show_network(session.network, language.title)
        return [said, gr.update(value=str(zip_folder(folder)), interactive=True), *read(request, text, None)]

    def read(request: gr.Request, text: str, place: float | None) -> tuple[Any, str]:
        """At the end of the word, if no place in it is given."""
        network = sessions.of(str(request.session_hash)).network
        if network is None:
            return gr.update(), trouble("compile a network first")
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
