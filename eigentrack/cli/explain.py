"""eigentrack explain."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.padding import Padding

from eigentrack.automata.language_class import CLASS_IN_WORDS
from eigentrack.cli.console import err, out, working
from eigentrack.cli.design_options import Depth, EigenvaluesOfLayers, Factors, LayerNames, Precision, read_design
from eigentrack.cli.drawing import Draw, check_drawing, draw_automaton
from eigentrack.cli.language_options import (
    Alphabet,
    DfaFile,
    GroupName,
    ImageLimit,
    Letters,
    Named,
    Regex,
    check_limit,
    image_limit_or_default,
    read_automaton,
)
from eigentrack.cli.options import AsJson

if TYPE_CHECKING:
    from eigentrack.automata import DFA, Cascade, LanguageClass
    from eigentrack.expressivity import Verdict

_COLOURS = {"can": "green", "cannot": "red", "unknown": "yellow"}  # in the order of printing
_HEADINGS = {
    "can": "can recognise it, at every length",
    "cannot": "cannot",
    "unknown": "unknown",
}


def explain(
    regex: Regex = None,
    alphabet: Alphabet = "",
    named: Named = None,
    dfa_file: DfaFile = None,
    group: GroupName = None,
    letters: Letters = None,
    monoid_limit: Annotated[int | None, typer.Option(help="Give up beyond so many elements of the monoid.")] = None,
    image_limit: ImageLimit = None,
    layer: LayerNames = None,
    eigenvalues: EigenvaluesOfLayers = None,
    layers: Depth = None,
    householders: Factors = None,
    precision: Precision = None,
    brief: Annotated[bool, typer.Option("--brief", help="Print one line for each architecture, without reasons.")] = False,
    draw: Draw = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file of --draw.")] = False,
    as_json: AsJson = False,
) -> None:
    """Explain what a regular language needs: automaton, monoid, class, and which architectures can recognise it, and why.

    With --layer the verdict is on an architecture of your own.

    Example: eigentrack explain '(abab)*'

    Example: eigentrack explain '(abab)*' --layer deltanet --eigenvalues -1,1 --layers 1 --householders 4
    """
    from eigentrack.automata import cascade, classify
    from eigentrack.automata.transition_monoid import DEFAULT_LIMIT
    from eigentrack.expressivity import STANDARD, verdicts

    if brief and as_json:
        raise ValueError("--brief and --json are both given: --json prints everything for a program, choose one")
    check_limit("--monoid-limit", monoid_limit)
    images = image_limit_or_default(image_limit)
    own = read_design(layer, eigenvalues, layers, householders, precision)
    if draw is not None:
        check_drawing(draw, overwrite)
    dfa = read_automaton(regex, alphabet, named, dfa_file, group, letters)
    with working("classifying, judging ..."):
        language = classify(dfa, DEFAULT_LIMIT if monoid_limit is None else monoid_limit)
        judged = verdicts(dfa, language, images, STANDARD if own is None else (own,))
        try:
            levels, trouble = cascade(dfa, images), None
        except ValueError as error:  # too large to decompose; everything else is known
            levels, trouble = None, str(error)
    if draw is not None:
        draw_automaton(dfa, levels, draw)
    if as_json:
        out.print_json(json.dumps({**_to_json(dfa, language, judged, levels), "cascade_trouble": trouble}))
        return
    _print_size(dfa, language)
    if brief:
        _print_lines(judged)
    elif own is not None:
        _print_verdicts(judged)
    else:
        _print_classes(language)
        _print_verdicts(judged)
        _print_cascade(levels, trouble)
    if draw is not None:
        err.print(f"drawn: {draw}", markup=False, highlight=False)


def _to_json(dfa: DFA, language: LanguageClass, judged: tuple[Verdict, ...], levels: Cascade | None) -> dict[str, Any]:
    from eigentrack.expressivity import Construction

    return {
        "states": language.states,
        "letters": list(dfa.letters),
        "automaton": dfa.to_json(),
        "monoid_size": language.monoid_size,
        "summary": language.summary,
        "classes": language.classes,
        "witnesses": language.witnesses,
        "groups": [{"name": group.name, "order": group.order, "solvable": group.solvable} for group in language.subgroups],
        "cascade": None
        if levels is None
        else [
            {"points": level.points, "group": level.description, "group_order": level.group_order} for level in levels.levels
        ],
        "verdicts": [
            {
                "architecture": verdict.architecture.name,
                "verdict": verdict.answer,
                "theorem": verdict.theorem,
                "precision": verdict.precision,
                "reason": verdict.reason,
                "witness": verdict.witness.to_json() if isinstance(verdict.witness, Construction) else verdict.witness,
            }
            for verdict in judged
        ],
    }


def _print_size(dfa: DFA, language: LanguageClass) -> None:
    sizes = f"[bold]{language.states} states[/bold], monoid of {language.monoid_size} elements"
    out.print(f"{sizes}, letters {escape(_shortened(dfa.letters))}", highlight=False)
    out.print(escape(language.summary), highlight=False)


def _print_lines(judged: tuple[Verdict, ...]) -> None:
    """Print the answer and the name of each architecture, one line each."""
    out.print()
    widest = max(map(len, _COLOURS))
    for verdict in judged:
        answer = f"[{_COLOURS[verdict.answer]}]{verdict.answer:{widest}}[/{_COLOURS[verdict.answer]}]"
        out.print(f"{answer}  {escape(verdict.architecture.name)}", highlight=False, soft_wrap=True)


def _print_classes(language: LanguageClass) -> None:
    out.print()
    for name, holds in language.classes.items():
        why = f": {language.witnesses[name]}" if name in language.witnesses else ""
        out.print(
            f"  {'[green]yes[/green]' if holds else '[red]no[/red] '} {CLASS_IN_WORDS[name]}{escape(why)}", highlight=False
        )


def _print_verdicts(judged: tuple[Verdict, ...]) -> None:
    """Print the verdicts; architectures that share verdict, reason, theorem and witness share a paragraph."""
    from eigentrack.expressivity import Construction

    paragraphs: dict[tuple[str, str, str, Construction | None], list[str]] = {}
    for verdict in judged:
        why = verdict.reason if verdict.answer != "cannot" else f"{verdict.reason}: {verdict.witness}"
        source = f"{verdict.theorem}; {verdict.precision}" if verdict.answer != "unknown" else verdict.theorem
        network = verdict.witness if isinstance(verdict.witness, Construction) else None
        paragraphs.setdefault((verdict.answer, why, source, network), []).append(verdict.architecture.name)
    answers = {said for said, *_ in paragraphs}
    for answer, colour in _COLOURS.items():
        if answer not in answers and len(judged) == 1:
            continue
        out.print(f"\n[bold {colour}]{_HEADINGS[answer]}[/bold {colour}]", highlight=False)
        for (said, why, source, network), names in paragraphs.items():
            if said == answer:
                out.print(Padding(f"{escape(' · '.join(names))}", (0, 0, 0, 2)), highlight=False)
                out.print(Padding(f"[dim]{escape(why)} ({escape(source)})[/dim]", (0, 0, 0, 6)), highlight=False)
                if network is not None:
                    built = f"compile {network.options}: {network.sizes}"
                    out.print(Padding(f"[dim]{escape(built)}[/dim]", (0, 0, 0, 6)), highlight=False)


def _print_cascade(levels: Cascade | None, trouble: str | None) -> None:
    if levels is None:
        out.print(f"cascade: {trouble}", markup=False, highlight=False)
        return
    said = [f"{level.points} points, {level.description}" for level in levels.levels]
    out.print(f"\ncascade, top first: {'; '.join(said) or 'none needed'}", markup=False, highlight=False)


def _shortened(letters: tuple[str, ...], most: int = 8) -> str:
    shown = ", ".join(letters[:most])
    return shown if len(letters) <= most else f"{shown}, … ({len(letters)})"
