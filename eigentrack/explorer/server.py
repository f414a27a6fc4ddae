"""The server of the page: on this computer alone unless told otherwise, and without a request to any other."""

from __future__ import annotations

import importlib.util
import ipaddress
import os
import socket
from collections.abc import Callable

from eigentrack.explorer.markup import STYLE
from eigentrack.explorer.session import Sessions, warm_up


def serve(host: str, port: int, *, open_browser: bool, say: Callable[[str], None]) -> None:
    """Serve the page until interrupted; `say` is told the address once the page is there."""
    if importlib.util.find_spec("gradio") is None:
        raise ValueError("gradio makes the page, and is not installed: pip install 'eigentrack[explore]'")
    check_address(host, port)
    warm_up()
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"  # read when gradio is imported
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    import gradio as gr

    from eigentrack.explorer.page import build_page

    sessions = Sessions()
    page = build_page(sessions, is_loopback(host))
    _, address, _ = page.launch(
        server_name=host,
        server_port=port,
        inbrowser=open_browser,
        share=False,
        quiet=True,
        ssr_mode=False,
        footer_links=[],
        theme=gr.themes.Default(font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"]),
        css=STYLE,
        prevent_thread_lock=True,
    )
    say(f"page: {address}  (Ctrl-C ends it)")
    if not is_loopback(host):
        say(f"listening on {host}: whoever reaches this computer can compile and train on it")
    try:
        page.block_thread()
    finally:
        sessions.close_all()


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_address(host: str, port: int) -> None:
    """Raise a ValueError if nothing can listen at the address."""
    if not 1 <= port <= 65535:
        raise ValueError(f"--port {port} must lie between 1 and 65535")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(address)
    except (OSError, UnicodeError) as error:
        raise ValueError(f"cannot listen on {host}, port {port} ({error}): name another with --host or --port") from None
