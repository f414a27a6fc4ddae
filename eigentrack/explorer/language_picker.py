"""The language picker above the rooms: a regular expression, a named language or a group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gradio as gr

from eigentrack.automata import LANGUAGES
from eigentrack.explorer.language_choice import GROUP, GROUP_LETTERS, KINDS, NAMED, REGEX, LanguageChoice


@dataclass(frozen=True)
class LanguagePicker:
    """`fields` are the inputs of an event; `choice` makes of their values what was picked. `regex` may be submitted."""

    fields: list[Any]
    regex: gr.Textbox

    @staticmethod
    def choice(kind: str, regex: str, extra: str, named: str, group: str, elements: str) -> LanguageChoice:
        name, letters = {REGEX: (regex, extra), NAMED: (named, ""), GROUP: (group, elements)}[kind]
        return LanguageChoice(kind, name.strip() if kind == GROUP else name, letters)


def build_picker() -> LanguagePicker:
    with gr.Row(equal_height=True):
        kind = gr.Radio(KINDS, value=REGEX, label="A language, by", scale=2)
        regex = gr.Textbox("(ab|ba)*", label="Regular expression", elem_id="regex", scale=2)
        extra = gr.Textbox("", label="Letters beyond those in it", elem_id="extra-letters", scale=1)
        names = [(f"{name}: {what}", name) for name, (what, _) in LANGUAGES.items()]
        named = gr.Dropdown(names, value="parity", label="Named language", visible=False, scale=3)
        group = gr.Textbox("S3", label="Group, such as S5, A5, Z60, D4, Q8, Z2xZ3", visible=False, scale=2)
        elements = gr.Dropdown(GROUP_LETTERS, value="generators", label="Its letters", visible=False, scale=1)

    def show_fields(chosen: str) -> list[Any]:
        kinds = (REGEX, REGEX, NAMED, GROUP, GROUP)
        return [gr.update(visible=chosen == own) for own in kinds]

    kind.change(show_fields, kind, [regex, extra, named, group, elements], show_progress="hidden", api_visibility="private")
    return LanguagePicker([kind, regex, extra, named, group, elements], regex)
