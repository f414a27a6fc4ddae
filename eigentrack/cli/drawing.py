"""The --draw option: the automaton as a graph, its cascade as a row of levels; by graphviz if it is there, else matplotlib."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eigentrack.files import write_atomically

if TYPE_CHECKING:
    from eigentrack.automata import DFA, Cascade

MOST_STATES = 200
FORMATS = (".svg", ".png")
Draw = Annotated[Path | None, typer.Option(help="Draw the automaton and its cascade: FILE.svg or FILE.png.")]


def check_drawing(path: Path, overwrite: bool) -> None:
    """Raise if the file's name does not end in a format that can be drawn, or if the file is there already."""
    if path.suffix not in FORMATS:
        raise ValueError(f"--draw {path} must end in .svg or .png")
    if path.exists() and not overwrite:
        raise ValueError(f"--draw {path} is there already: name another file, or add --overwrite to replace it")


def draw_automaton(dfa: DFA, levels: Cascade | None, path: Path) -> None:
    if dfa.states > MOST_STATES:
        raise ValueError(f"--draw: {dfa.states} states are too many to draw; at most {MOST_STATES}")
    path.parent.mkdir(parents=True, exist_ok=True)
    command = ["dot", f"-T{path.suffix[1:]}"]
    drawn = (
        subprocess.run(command, input=_dot(dfa, levels).encode(), capture_output=True, check=False)
        if shutil.which("dot")
        else None
    )
    if drawn is not None and drawn.returncode == 0:
        write_atomically(path, lambda beside: Path(beside).write_bytes(drawn.stdout))
    else:
        _draw_by_matplotlib(dfa, levels, path)


def _captions(levels: Cascade | None) -> list[str]:
    return [] if levels is None else [f"{level.points} points\n{level.description}" for level in levels.levels]


def _dot(dfa: DFA, levels: Cascade | None) -> str:
    from eigentrack.explorer.automaton_drawing import arrow_labels

    lines = ["digraph automaton { rankdir=LR; node [shape=circle]; start [shape=point];", f"start -> q{dfa.start};"]
    lines += [
        f'q{state} [label="{state}" shape={"doublecircle" if state in dfa.accepting else "circle"}];'
        for state in range(dfa.states)
    ]
    lines += [f'q{source} -> q{target} [label="{_quoted(text)}"];' for (source, target), text in arrow_labels(dfa).items()]
    captions = [_quoted(caption) for caption in _captions(levels)]
    if captions:
        lines.append('subgraph cluster_cascade { label="cascade, top level first"; node [shape=box];')
        lines += [f'level{number} [label="{caption}"];' for number, caption in enumerate(captions)]
        lines += [f"level{number} -> level{number + 1};" for number in range(len(captions) - 1)]
        lines.append("}")
    return "\n".join([*lines, "}"])


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _draw_by_matplotlib(dfa: DFA, levels: Cascade | None, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import networkx  # type: ignore[import-untyped]
    from matplotlib import pyplot

    from eigentrack.explorer.automaton_drawing import arrow_labels

    graph = networkx.DiGraph()
    graph.add_nodes_from(range(dfa.states))
    graph.add_edges_from(arrow_labels(dfa))
    places = networkx.circular_layout(graph) if dfa.states > 3 else networkx.shell_layout(graph)
    captions = _captions(levels)
    figure, (top, bottom) = pyplot.subplots(2, 1, figsize=(8, 9), height_ratios=(5, 1), layout="constrained")
    colours = ["#b7e1b0" if state in dfa.accepting else "#e8e8e8" for state in range(dfa.states)]
    borders = [3.0 if state == dfa.start else 1.0 for state in range(dfa.states)]
    networkx.draw_networkx_nodes(
        graph, places, ax=top, node_color=colours, edgecolors="black", linewidths=borders, node_size=700
    )
    networkx.draw_networkx_labels(graph, places, ax=top)
    networkx.draw_networkx_edges(graph, places, ax=top, node_size=700, connectionstyle="arc3,rad=0.12")
    labels = {ends: text.replace("$", r"\$") for ends, text in arrow_labels(dfa).items()}  # no formulas
    networkx.draw_networkx_edge_labels(graph, places, labels, ax=top, connectionstyle="arc3,rad=0.12", font_size=8)
    top.set_title("automaton: thick border = start, green = accepting")
    for number, caption in enumerate(captions):
        bottom.text(number, 0, caption, ha="center", va="center", bbox={"boxstyle": "round", "facecolor": "#d8e6f3"})
        if number:
            bottom.annotate("", (number - 0.3, 0), (number - 0.7, 0), arrowprops={"arrowstyle": "->"})
    bottom.set(xlim=(-0.6, max(1, len(captions)) - 0.4), ylim=(-1, 1), title="cascade, top level first" if captions else "")
    for axes in (top, bottom):
        axes.axis("off")
    write_atomically(path, lambda beside: figure.savefig(beside, format=path.suffix[1:], dpi=150))
    pyplot.close(figure)
