"""eigentrack explore."""

from __future__ import annotations

from typing import Annotated

import typer

from eigentrack.cli.console import out
from eigentrack.cli.interruption import saying


def explore(
    port: Annotated[int, typer.Option(help="Of the page.")] = 7860,
    host: Annotated[str, typer.Option(help="127.0.0.1 is this computer alone; 0.0.0.0 lets others in.")] = "127.0.0.1",
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
) -> None:
    """Serve a local page: type a language, watch its network read, train twins live, look inside what was trained.

    Example: eigentrack explore --port 7861 --no-browser
    """
    from eigentrack.explorer.server import serve

    with saying("the page is closed"):
        serve(host, port, open_browser=browser, say=lambda text: out.print(text, markup=False, highlight=False, soft_wrap=True))
