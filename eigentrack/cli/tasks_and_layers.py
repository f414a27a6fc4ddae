"""eigentrack tasks and eigentrack layers: the lists of what there is."""

from __future__ import annotations

import inspect
import json
import sys

from rich.markup import escape

from eigentrack.cli.console import out
from eigentrack.cli.options import AsJson


def layers(as_json: AsJson = False) -> None:
    """List the layers, the backends they run on, and the options they take.

    Example: eigentrack layers --json
    """
    from eigentrack.layers import MIXERS, LinearMixer
    from eigentrack.options import accepted_options
    from eigentrack.spectrum import EigenDisk, EigenPolygon

    rows = [
        {
            "name": name,
            "equation": (inspect.getdoc(sys.modules[mixer.__module__]) or "").split("\n")[0],
            "takes_eigenvalues": issubclass(mixer, LinearMixer),
            "takes_disk": issubclass(mixer, LinearMixer) and mixer.serves(EigenDisk),
            "takes_polygon": issubclass(mixer, LinearMixer) and mixer.serves(EigenPolygon),
            "options": ", ".join(accepted_options(mixer, without=("d_model",))),
        }
        for name, mixer in MIXERS.items()
    ]
    if as_json:
        out.print_json(json.dumps(rows))
        return
    for row in rows:
        kind = "linear, takes eigenvalues" if row["takes_eigenvalues"] else "baseline"
        kind += ", real or complex" if row["takes_disk"] else ""
        kind += ", or chosen among corners" if row["takes_polygon"] else ""
        out.print(f"[bold]{row['name']}[/bold]  ({kind})", highlight=False)
        out.print(f"  {row['equation']}", markup=False, highlight=False)
        out.print(f"  options: {row['options']}\n", markup=False, highlight=False)


def tasks(as_json: AsJson = False) -> None:
    """List the tasks and the options they take.

    Example: eigentrack tasks --json
    """
    from eigentrack.automata import LANGUAGES
    from eigentrack.options import accepted_options
    from eigentrack.tasks.registry import TASKS, describe

    rows = [{"name": name, "asks": describe(name), "options": ", ".join(accepted_options(TASKS[name]))} for name in TASKS]
    if as_json:
        out.print_json(json.dumps({"tasks": rows, "languages": {name: what for name, (what, _) in LANGUAGES.items()}}))
        return
    for row in rows:
        out.print(f"[bold]{row['name']}[/bold]  {escape(row['asks'])}", highlight=False)
        out.print(f"  options: {row['options'] or 'none'}", markup=False, highlight=False)
    out.print("\n[bold]languages[/bold] (option name of language and language-state)", highlight=False)
    for name, (what, _) in LANGUAGES.items():
        out.print(f"  {name}: {what}", markup=False, highlight=False)
