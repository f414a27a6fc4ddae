"""Language: the automaton, its class in words, the verdicts and the cascade."""

from __future__ import annotations

import gradio as gr

from eigentrack.explorer.language_picker import LanguagePicker
from eigentrack.explorer.language_view import show_language, view_language_task
from eigentrack.explorer.markup import trouble
from eigentrack.explorer.session import Sessions

SECONDS = 60.0


def build_language_room(picker: LanguagePicker, sessions: Sessions) -> None:
    explain = gr.Button("Explain", variant="primary", elem_id="explain")
    answer = gr.HTML(elem_id="language-answer", min_height=120)

    async def explain_language(request: gr.Request, *fields: str) -> str:
        try:
            session = sessions.of(str(request.session_hash))
            return show_language(await session.work(view_language_task, picker.choice(*fields), seconds=SECONDS))
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
