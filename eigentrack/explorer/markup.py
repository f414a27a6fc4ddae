"""HTML of the page: tables, messages, pictures. Whatever a user typed is escaped here."""

from __future__ import annotations

import base64
import io
import threading
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DRAWING = threading.Lock()  # matplotlib's text layout is not made for several threads

# white sheets with dark ink, whatever the browser's theme
STYLE = """
.sheet {background: #fff; color: #1f2430; padding: .6rem 1rem; border-radius: 8px; overflow-x: auto}
.sheet h3, .sheet p, .sheet b, .sheet tbody, .sheet tr, .sheet td, .sheet th {color: inherit}
.sheet h3 {margin: .9rem 0 .3rem; font-size: 1.05rem}
.sheet p {margin: .3rem 0}
.sheet table {border-collapse: collapse; margin: .4rem 0; font-size: .9rem; color: inherit}
.sheet td, .sheet th {border: 1px solid #d4d7de; padding: .2rem .6rem; text-align: left; vertical-align: top}
.sheet .facts td:first-child {white-space: nowrap}
.sheet th {background: #eef1f6; font-weight: 600}
.sheet .yes, .sheet .can {color: #146c2e; font-weight: 600}
.sheet .no, .sheet .cannot {color: #b3261e; font-weight: 600}
.sheet .unknown {color: #7a5200; font-weight: 600}
.sheet .faint {color: #565d6b}
.sheet .trouble {color: #b3261e; font-weight: 600}
.sheet img, .sheet svg {max-width: 100%; height: auto}
.sheet iframe {width: 100%; height: 80vh; border: 1px solid #d4d7de}
"""


def sheet(*parts: str) -> str:
    return f"<div class='sheet'>{''.join(parts)}</div>"


def trouble(error: Exception | str) -> str:
    """Return the one line of an error, to be shown in place of the answer."""
    return sheet(f"<p class='trouble'>{escape(str(error))}</p>")


def heading(text: str) -> str:
    return f"<h3>{escape(text)}</h3>"


def paragraph(text: str, kind: str = "") -> str:
    return f"<p class='{kind}'>{escape(text)}</p>"


def table(head: Sequence[str], rows: Sequence[Sequence[object]], marked: int | None = None) -> str:
    """Return a table; without a head its rows are facts.

    The cells of the column `marked` are words such as yes or cannot, with a colour each.
    """

    def cell(column: int, value: object) -> str:
        kind = f" class='{escape(str(value))}'" if column == marked else ""
        return f"<td{kind}>{escape(str(value))}</td>"

    top = f"<tr>{''.join(f'<th>{escape(name)}</th>' for name in head)}</tr>" if head else ""
    body = "".join(f"<tr>{''.join(cell(*entry) for entry in enumerate(row))}</tr>" for row in rows)
    return f"<table class='{'' if head else 'facts'}'>{top}{body}</table>"


def picture(figure: Figure, caption: str) -> str:
    target = io.BytesIO()
    with _DRAWING:
        figure.savefig(target, format="png", dpi=110)
    return f"<img alt='{escape(caption)}' src='data:image/png;base64,{base64.b64encode(target.getvalue()).decode()}'>"
