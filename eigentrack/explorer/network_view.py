"""A compiled network on the page: its files, its sizes and certificate, and what it does with a word at one position."""

from __future__ import annotations

import zipfile
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentrack.compiler import Certificate, Compiled, choose_plan, compile_network, save_compiled
from eigentrack.explorer.automaton_drawing import draw_automaton
from eigentrack.explorer.language_choice import LanguageChoice
from eigentrack.explorer.markup import heading, paragraph, picture, sheet, table
from eigentrack.explorer.word_reading import LayerReading, Reading
from eigentrack.processes import Line

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_LAYERS = 6  # the most layers that the picture shows
LARGEST = 48  # rows of a matrix in the picture; heads beyond are left out
LARGEST_WITH_NUMBERS = 8


def compile_into(line: Line, choice: LanguageChoice, architecture: str | None, folder: Path) -> None:
    """Write the smallest network of the architecture, or of all, into the folder with its certificate, in a worker."""
    save_compiled(compile_network(choose_plan(choice.automaton(), architecture)), folder)


def zip_folder(folder: Path) -> Path:
    """Write the folder into a zip file beside it, named like it."""
    target = folder.with_suffix(".zip")
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, path.relative_to(folder.parent))
    return target


def show_network(compiled: Compiled, title: str) -> str:
    summary = compiled.summary
    rows = [
        ("construction", f"{summary['construction']} ({summary['architecture']})"),
        ("layers", ", ".join(summary["mixers"])),
        ("state size", summary["state_size"]),
        ("factors per token", summary["householders"]),
        ("tokens per letter", summary["tokens_per_letter"]),
        ("MLP width", summary["mlp_width"]),
        ("parameters", f"{summary['parameters']:,}"),
        ("why this one", summary["why"]),
    ]
    return sheet(heading(f"A network for {title}"), table((), rows), heading("Certificate"), _certificate(compiled))


def _certificate(compiled: Compiled) -> str:
    found = compiled.certificate
    return (
        f"<p id='certificate'><b class='{'can' if found.holds else 'cannot'}'>{escape(certificate_in_words(found))}</b></p>"
        + (
            table(
                (),
                [
                    ("joint states", found.reachable_states),
                    ("smallest lead of the right answer", f"{found.margin:g}"),
                    ("float types of weights and state", f"{found.weights_dtype}, {found.state_dtype}"),
                    ("backends that it covers", ", ".join(found.backends)),
                    ("SHA-256 of the weights", found.weights_sha256),
                ],
            )
        )
    )


def certificate_in_words(certificate: Certificate) -> str:
    if not certificate.holds:
        word = "".join(certificate.counterexample or ()) or "the empty word"
        return (
            "The proof fails: its length bound is 0." if certificate.counterexample is None else f"It goes wrong on {word!r}."
        )
    bound = certificate.length_bound
    reach = "every word of every length" if bound is None else f"every word of at most {bound} letters"
    exact = "; no value is ever rounded" if certificate.order_independent else ""
    return f"Proved for {reach}{exact}."


def show_position(compiled: Compiled, reading: Reading, position: int) -> str:
    """Show the network after `position` letters of the word."""
    position = max(0, min(position, len(reading.letters)))
    state = reading.states[position]
    accepts = state in compiled.dfa.accepting
    said = f"state {state}, {'accept' if accepts else 'reject'}"
    before = "before the first letter" if position == 0 else f"after letter {position}, {reading.letters[position - 1]!r}"
    return sheet(
        f"<p id='verdict'>{escape(before)}: <b class='{'can' if accepts else 'cannot'}'>{said}</b></p>",
        _trail(reading, position),
        draw_automaton(compiled.dfa, state),
        picture(draw_layers(reading, position), f"matrices, states and eigenvalues {before}"),
        paragraph(
            "Blue is positive, red is negative. The eigenvalues of this letter are orange, those of the other letters grey.",
            "faint",
        ),
        _left_out(reading),
    )


def _trail(reading: Reading, position: int) -> str:
    """Return the states and letters in a row, with the current state in bold."""
    parts = []
    for number, state in enumerate(reading.states):
        letter = "" if number == 0 else f" –{escape(reading.letters[number - 1])}→ "
        parts.append(letter + (f"<b style='color:#c2410c'>[{state}]</b>" if number == position else str(state)))
    return f"<p>{''.join(parts)}</p>"


def _left_out(reading: Reading) -> str:
    said = []
    if len(reading.layers) > MOST_LAYERS:
        said.append(f"{len(reading.layers) - MOST_LAYERS} more layers")
    if any(layer.matrices.shape[1] > _heads_shown(layer) for layer in reading.layers):
        said.append("heads beyond the first few")
    return paragraph(f"Not in the picture: {', '.join(said)}.", "faint") if said else ""


def draw_layers(reading: Reading, position: int) -> Figure:
    """Draw one row per layer: A(x_t) with its heads along the diagonal, the memory H_t, the eigenvalues on the unit disk."""
    from matplotlib.figure import Figure

    layers = reading.layers[:MOST_LAYERS]
    figure = Figure(figsize=(10.5, 3.3 * len(layers)), layout="constrained")
    rows = figure.subplots(len(layers), 3, squeeze=False, width_ratios=(1.2, 0.8, 1))
    for (left, middle, right), layer in zip(rows, layers, strict=True):
        heads = _heads_shown(layer)
        _draw_matrix(left, _along_diagonal(layer.matrices[position, :heads]), f"layer {layer.layer}, {layer.mixer}: A(x)")
        _draw_matrix(middle, layer.memories[position, :heads].reshape(-1, layer.memories.shape[-1]), "state H")
        _draw_disk(right, np.linalg.eigvals(layer.matrices), position)
    return figure


def _heads_shown(layer: LayerReading) -> int:
    _, heads, size, _ = layer.matrices.shape
    return max(1, min(heads, LARGEST // size))


def _along_diagonal(matrices: np.ndarray) -> np.ndarray:
    heads, size, _ = matrices.shape
    whole = np.zeros((heads * size, heads * size))
    for head, matrix in enumerate(matrices):
        whole[head * size : (head + 1) * size, head * size : (head + 1) * size] = matrix
    return whole


def _draw_matrix(axes: Any, values: np.ndarray, title: str) -> None:
    most = 1.5 * max(1.0, float(np.abs(values).max()))  # the palest part of the palette, for the numbers' sake
    axes.imshow(values, cmap="RdBu", vmin=-most, vmax=most, aspect="equal")
    axes.set(xticks=[], yticks=[], title=title)
    if max(values.shape) <= LARGEST_WITH_NUMBERS:
        for (row, column), value in np.ndenumerate(values):
            axes.text(column, row, f"{value:.3g}", ha="center", va="center", fontsize=9)


def _draw_disk(axes: Any, eigenvalues: np.ndarray, position: int) -> None:
    from matplotlib.patches import Circle

    axes.add_patch(Circle((0, 0), 1, facecolor="#f4f6fa", edgecolor="0.6"))
    axes.axhline(0, color="0.85", linewidth=0.8)
    axes.axvline(0, color="0.85", linewidth=0.8)
    axes.scatter(eigenvalues.real, eigenvalues.imag, s=22, color="0.65")
    now = np.round(eigenvalues[position].ravel(), 6)
    values, counts = np.unique(now, return_counts=True)
    axes.scatter(values.real, values.imag, s=60, color="#c2410c", zorder=3)
    for value, count in zip(values, counts, strict=True):
        if count > 1:
            axes.annotate(f"×{count}", (value.real, value.imag), (4, 5), textcoords="offset points", fontsize=9)
    axes.set(xlim=(-1.3, 1.3), ylim=(-1.3, 1.3), aspect="equal", xlabel="real", ylabel="imaginary", title="eigenvalues of A(x)")
