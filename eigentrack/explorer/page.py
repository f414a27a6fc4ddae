"""The page: the language picker, and below it the four rooms."""

from __future__ import annotations

from typing import Any

import gradio as gr

from eigentrack.automata import LANGUAGES
from eigentrack.explorer.language_choice import GROUP, GROUP_LETTERS, KINDS, NAMED, REGEX
from eigentrack.explorer.rooms import (
    LanguagePicker,
    build_compile_room,
    build_explain_room,
    build_inspect_room,
    build_train_room,
)
from eigentrack.explorer.session import Sessions
from eigentrack.explorer.twin_training import TrainingQueue

FORGET_FILES = (600, 3600)  # seconds: how often it looks for downloads to delete, and how old they may be


def build_page(sessions: Sessions, is_local: bool) -> gr.Blocks:
    """Build the page; if `is_local`, only this computer can reach it, so that it may open folders of the disk."""
    queue = TrainingQueue()
    with gr.Blocks(title="eigentrack", analytics_enabled=False, delete_cache=FORGET_FILES) as page:
        gr.Markdown(
            "# eigentrack\nLinear RNNs that can track state: explain a language, compile or train a network, inspect it."
        )
        picker = build_picker()
        with gr.Tab("Explain"):
            build_explain_room(picker, sessions)
        with gr.Tab("Compile"):
            build_compile_room(picker, sessions)
        with gr.Tab("Train"):
            build_train_room(picker, sessions, queue)
        with gr.Tab("Inspect"):
            build_inspect_room(picker, sessions, is_local)

        def end_session(request: gr.Request) -> None:
            sessions.close(str(request.session_hash))

        page.unload(end_session)
    return page


def build_picker() -> LanguagePicker:
    with gr.Row(equal_height=True):
        kind = gr.Radio(KINDS, value=REGEX, label="Name a language by", scale=2)
        regex = gr.Textbox("(ab|ba)*", label="Regular expression", elem_id="regex", scale=2)
        extra = gr.Textbox("", label="Additional letters", elem_id="extra-letters", scale=1)
        names = [(f"{name}: {what}", name) for name, (what, _) in LANGUAGES.items()]
        named = gr.Dropdown(names, value="parity", label="Named language", visible=False, scale=3)
        group = gr.Textbox("S3", label="Group, such as S5, A5, Z60, D4, Q8, Z2xZ3", visible=False, scale=2)
        elements = gr.Dropdown(GROUP_LETTERS, value="generators", label="Letters of the group", visible=False, scale=1)

    def show_fields(chosen: str) -> list[Any]:
        kinds = (REGEX, REGEX, NAMED, GROUP, GROUP)
        return [gr.update(visible=chosen == own) for own in kinds]

    kind.change(show_fields, kind, [regex, extra, named, group, elements], show_progress="hidden", api_visibility="private")
    return LanguagePicker([kind, regex, extra, named, group, elements], regex)
