"""Inspect: spectra, horizon and robustness of what this page compiled or trained, or of a folder on this computer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import gradio as gr

from eigentrack.explorer.inspection_view import (
    COMPILED,
    FOLDER,
    ITS_OWN,
    TWINS,
    folder_of,
    inspect_folder,
    show_inspection,
)
from eigentrack.explorer.language_picker import LanguagePicker
from eigentrack.explorer.markup import paragraph, sheet, trouble
from eigentrack.explorer.session import Sessions
from eigentrack.explorer.training_choice import MEMBER, STATE, TASKS

SECONDS = 600.0
SHOWS_EVERY = 0.4  # seconds
LENGTHS = (1_000, 10_000, 100_000)


def build_inspect_room(picker: LanguagePicker, sessions: Sessions, is_local: bool) -> None:
    """Folders can be opened only where the page is for this computer alone; a saved model must be told its task."""
    with gr.Row(equal_height=True):
        sources = [COMPILED, *TWINS, *([FOLDER] if is_local else [])]
        source = gr.Dropdown(sources, value=sources[-1], label="Look inside", elem_id="source", scale=2)
        path = gr.Textbox(
            "", label="Folder of a run, a saved model or a compiled network", elem_id="path", visible=is_local, scale=3
        )
        task = gr.Dropdown([ITS_OWN, *TASKS], value=ITS_OWN, label="Task", elem_id="task", visible=is_local, scale=2)
        longest = gr.Dropdown(
            [(f"{length:,} letters", length) for length in LENGTHS], value=LENGTHS[0], label="Longest word", scale=1
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
                inspect_folder, folder, name, longest, *about, seconds=SECONDS, hear=lambda news: seen.update([news])
            )
            looking = asyncio.create_task(job)
            while not looking.done():
                said = ", ".join(f"{what} {share:.0%}" for what, share in seen.items())
                yield sheet(paragraph(f"looking … {said}"))
                await asyncio.sleep(SHOWS_EVERY)
            yield show_inspection(looking.result())
        except ValueError as error:
            yield trouble(error)

    quietly: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
    source.change(lambda chosen: [gr.update(visible=chosen == FOLDER)] * 2, source, [path, task], **quietly)
    look.click(inspect, [source, path, task, longest, *picker.fields], page, concurrency_limit=2, **quietly)
