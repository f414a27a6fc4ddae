"""The page: the language picker, and below it the four rooms."""

from __future__ import annotations

import gradio as gr

from eigentrack.explorer.language_picker import build_picker
from eigentrack.explorer.rooms.inspect import build_inspect_room
from eigentrack.explorer.rooms.language import build_language_room
from eigentrack.explorer.rooms.network import build_network_room
from eigentrack.explorer.rooms.train import build_train_room
from eigentrack.explorer.session import Sessions
from eigentrack.explorer.twin_training import TrainingQueue

FORGET_FILES = (600, 3600)  # seconds: how often it looks for downloads to delete, and how old they may be


def build_page(sessions: Sessions, is_local: bool) -> gr.Blocks:
    """`is_local`: nobody but this computer can reach the page, so it may open folders of the disk."""
    queue = TrainingQueue()
    with gr.Blocks(title="eigentrack", analytics_enabled=False, delete_cache=FORGET_FILES) as page:
        gr.Markdown("# eigentrack\nLinear RNNs that can track state: from a regular language to a network, and inside it.")
        picker = build_picker()
        with gr.Tab("Language"):
            build_language_room(picker, sessions)
        with gr.Tab("Network"):
            build_network_room(picker, sessions)
        with gr.Tab("Train"):
            build_train_room(picker, sessions, queue)
        with gr.Tab("Inspect"):
            build_inspect_room(picker, sessions, is_local)

        def end_session(request: gr.Request) -> None:
            sessions.close(str(request.session_hash))

        page.unload(end_session)
    return page
