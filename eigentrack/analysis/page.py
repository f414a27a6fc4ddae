"""The page of an inspection: one self-contained HTML file, and the same results in JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from eigentrack.analysis.extraction import Extraction
from eigentrack.analysis.horizon import PatternHorizon, worst_first
from eigentrack.analysis.inspection import Inspection
from eigentrack.analysis.plots import plot_gates, plot_geometry, plot_horizons, plot_unit_disk
from eigentrack.compiler import save_compiled
from eigentrack.files import write_text

PAGE, NUMBERS, EXACT = "inspection.html", "inspection.json", "exact"
ENTRIES = (PAGE, NUMBERS, EXACT)
MOST_ROWS = 64  # the most rows of a table on the page; the JSON has all rows
STYLE = """body{font:15px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem;color:#222}
table{border-collapse:collapse;margin:.8rem 0}td,th{border:1px solid #ccc;padding:.15rem .6rem;text-align:right}
td:first-child,th:first-child,table.facts td{text-align:left}img{max-width:100%}p.note{color:#666}"""


def write_inspection(inspection: Inspection, name: str, provenance: Mapping[str, str], folder: Path) -> tuple[Path, Path]:
    """Write inspection.html and inspection.json, and return their paths; a network that was snapped goes to `exact`.

    Args:
        inspection: what `inspect_network` returned.
        name: the title of the page.
        provenance: further rows of the page's first table, such as versions, by name.
        folder: where the files are written; it is made if missing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if inspection.snapped is not None:
        save_compiled(inspection.snapped.compiled, folder / EXACT)
    page, numbers = folder / PAGE, folder / NUMBERS
    text = json.dumps({"name": name, "provenance": dict(provenance), **inspection.to_json()}) + "\n"
    write_text(numbers, text)
    html = render(inspection, name, provenance)
    write_text(page, html)
    return page, numbers


def render(inspection: Inspection, name: str, provenance: Mapping[str, str]) -> str:
    title = escape(f"{name}: {inspection.kind}")
    parts = [
        f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>{title}</title><style>{STYLE}</style></head><body>",
        f"<h1>{title}</h1>",
        _facts([*summary_rows(inspection), *provenance.items()]),
        *(f"<p class='note'>{escape(note)}</p>" for note in inspection.notes),
        *_spectra(inspection),
    ]
    if inspection.horizons:
        parts += _horizons(inspection)
    if inspection.geometry:
        parts += _states(inspection)
    if inspection.extraction is not None:
        parts += _automaton(inspection.extraction)
    return "\n".join([*parts, "</body></html>", ""])


def summary_rows(inspection: Inspection) -> list[tuple[str, str]]:
    """Return the rows of the summary, which the page and the terminal show first."""
    rows = [
        ("task", inspection.task),
        ("layers", ", ".join(inspection.mixers)),
        ("parameters", f"{inspection.parameters:,}"),
    ]
    if inspection.trained_to is not None:
        rows.append(("longest word in training", f"{inspection.trained_to} letters"))
    for layer in inspection.spectra:
        nearest = min(head.to_minus_one for token in layer.tokens for head in token.heads)
        rows.append(
            (
                f"layer {layer.layer}, {layer.mixer} {layer.eigenvalue_range}",
                f"{'may' if layer.may_flip else 'cannot'} flip (Theorem 1), {'may' if layer.may_count else 'cannot'} count "
                f"modulo 3 (Theorem 2); eigenvalue nearest to -1: {nearest:.2g} away",
            )
        )
    if inspection.horizons:
        rows.append(("horizon on random words", _reach(inspection.horizons[0])))
        if (predicted := inspection.predicted) is not None:
            at_least = "beyond " if predicted.is_open else ""
            rows.append(
                (
                    "predicted from training lengths",
                    f"{at_least}{predicted.letters:,} letters: a state is {predicted.spread:.2g} from its mean, which drifts "
                    f"by {predicted.drift:.2g} a letter; the square of this spread grows by {predicted.growth:.1%} a letter",
                )
            )
        rows.append(("worst horizon", f"{_reach(inspection.worst)} ({inspection.worst.pattern})"))
    for found in inspection.noise:
        rows.append((f"noise borne for {found.letters} letters", f"{found.noise:.3g}, {found.relative:.2%} of the state"))
    if (proof_of_noise := inspection.certified_noise) is not None:
        epsilon, reason = proof_of_noise.epsilon, proof_of_noise.reason
        borne = "not known" if epsilon is None else f"{epsilon:g} in every number of the state" if epsilon else "none"
        rows.append(("noise borne for ever", f"{borne}: {reason}"))
    if inspection.extraction is not None:
        rows.append(("automaton read off the states", verdict(inspection.extraction)))
    if inspection.snapped is not None:
        snapped, proof = inspection.snapped, inspection.snapped.compiled.certificate
        reach = "proved for every word of every length" if proof.holds else "not proved"
        made_of = f"made of {'; '.join(snapped.heads)}, moved by at most {snapped.moved:.2g}"
        agreement = snapped.agreement
        what = "snapped to exact" if agreement is not None and agreement.holds else "a new, exact network"
        compared = "not compared with the trained network" if agreement is None else agreement.told
        rows.append((what, f"{compared}; the exact network is {reach}; {made_of}"))
    return rows


def verdict(extraction: Extraction) -> str:
    if extraction.machine is None:
        return extraction.obstacle or "none found"
    states = f"{extraction.machine.states} states at resolution {extraction.resolution:.3g}"
    if extraction.difference is None:
        return f"{states}, equal to the true one"
    word = " ".join(extraction.difference) or "the empty word"
    blame = "the network answers it wrongly" if extraction.network_errs else "the network itself answers it rightly"
    return f"{states}, differs from the true one on {word!r}: {blame}"


def _spectra(inspection: Inspection) -> list[str]:
    if not inspection.spectra:
        return []
    rows = [
        (
            f"{layer.layer} {layer.mixer}",
            token.token,
            token.contexts,
            *(f"{min(getattr(head, name) for head in token.heads):.2g}" for name in ("to_minus_one", "to_circle")),
            *(
                f"{max(getattr(head, name) for head in token.heads):.2g}"
                for name in ("from_one", "largest_modulus", "orthogonality_defect", "context_spread")
            ),
        )
        for layer in inspection.spectra
        for token in layer.tokens
    ]
    head = ("layer", "token", "seen", "nearest to -1", "nearest to the circle", "farthest from 1", "largest |λ|")
    words = [
        (
            f"{layer.layer} {layer.mixer}",
            word.length,
            _yes(word.off_the_nonnegative_axis),
            _yes(word.complex_eigenvalues),
            f"{word.lowest_real:.4f}",
            f"{word.largest_modulus:.4f}",
        )
        for layer in inspection.spectra
        for word in layer.words
    ]
    ranks = [
        (f"{layer.layer} {layer.mixer}", layer.state_size, ", ".join(map(str, layer.key_ranks[:16])))
        for layer in inspection.spectra
    ]
    return [
        "<h2>Spectra of A(x)</h2>",
        _image(plot_unit_disk(inspection.spectra), "eigenvalues on the unit disk"),
        _table((*head, "|AᵀA − I|", "spread over contexts"), rows),
        "<h3>Products over words</h3>",
        _table(("layer", "tokens", "off the axis ≥ 0", "not real", "lowest real part", "largest |λ|"), words),
        "<h3>Directions that some token moves, of each head</h3>",
        _table(("layer", "of", "directions"), ranks),
        "<h3>Gates</h3>",
        _image(plot_gates(inspection.spectra), "histograms of eigenvalues, betas and gates"),
    ]


def _horizons(inspection: Inspection) -> list[str]:
    rows = [(horizon.pattern, horizon.rows, _reach(horizon)) for horizon in worst_first(inspection.horizons)]
    sweep = [
        (found.precision, _reach(found.horizons[0]), _reach(found.worst), found.worst.pattern)
        for found in inspection.precisions
    ]
    return [
        "<h2>Horizon</h2>",
        _image(plot_horizons(inspection.horizons, inspection.trained_to), "accuracy by length"),
        _table(("pattern", "words", "right up to"), rows),
        "<h3>The same weights in other precisions</h3>",
        _table(("precision", "random words", "worst", "on"), sweep),
    ]


def _states(inspection: Inspection) -> list[str]:
    rows = [
        (look.length, look.labels, *(f"{value:.3g}" for value in (look.gap, look.radius, look.diameter, look.margin)))
        for look in inspection.geometry
    ]
    noise = [
        (found.letters, found.rows, found.seed, f"{found.noise:.3g}", f"{found.relative:.2%}") for found in inspection.noise
    ]
    parts = [
        "<h2>States, labelled by the automaton</h2>",
        _image(plot_geometry(inspection.geometry), "gap, radius and margin by length"),
        _table(("letters", "labels", "gap", "radius", "diameter", "margin"), rows),
        "<h3>Noise on the state after every letter</h3>",
        _table(("letters", "words", "seed", "largest that misreads nothing", "of the state"), noise),
    ]
    if inspection.merging_time is not None:
        parts.append(
            "<p>A linear recurrence that bore this noise for ever would have merged these states after "
            f"{inspection.merging_time:,} letters: what it bears, it bears for a while only.</p>"
        )
    return parts


def _automaton(extraction: Extraction) -> list[str]:
    parts = ["<h2>The automaton that the states are</h2>", f"<p>{escape(verdict(extraction))}.</p>"]
    if extraction.machine is None:
        return parts
    machine = extraction.machine
    rows = [(q, answer, *targets) for q, (answer, targets) in enumerate(zip(machine.outputs, machine.transitions, strict=True))]
    parts.append(
        f"<p>{extraction.joint_states} joint states in {extraction.clusters} clusters; on other words of {extraction.length} "
        f"letters {extraction.fidelity:.2%} of its answers are the network's.</p>"
    )
    return [*parts, _table(("state", "answer", *machine.letters), rows)]


def _reach(horizon: PatternHorizon) -> str:
    return f"{'beyond ' if horizon.is_open else ''}{horizon.letters:,} letter{'' if horizon.letters == 1 else 's'}"


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _image(png: bytes, caption: str) -> str:
    return f"<p><img alt='{escape(caption)}' src='data:image/png;base64,{base64.b64encode(png).decode()}'></p>"


def _facts(rows: Sequence[tuple[str, str]]) -> str:
    return f"<table class='facts'>{''.join(_line(row, 'td') for row in rows)}</table>"


def _table(head: Sequence[object], rows: Sequence[Sequence[object]]) -> str:
    body = [_line(head, "th"), *(_line(row, "td") for row in rows[:MOST_ROWS])]
    if len(rows) > MOST_ROWS:
        body.append(_line([f"… {len(rows) - MOST_ROWS} more in the JSON"], "td"))
    return f"<table>{''.join(body)}</table>"


def _line(cells: Sequence[object], tag: str) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"
