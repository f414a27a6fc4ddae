"""The view of a language: its automaton and class, a verdict for every architecture, the levels of its cascade."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from eigentrack.automata import DFA, LanguageClass, cascade, classify
from eigentrack.automata.language_class import CLASS_IN_WORDS
from eigentrack.explorer.automaton_drawing import draw_automaton
from eigentrack.explorer.language_choice import LanguageChoice
from eigentrack.explorer.markup import heading, paragraph, sheet, table
from eigentrack.expressivity import Construction, Verdict, verdicts
from eigentrack.processes import Line

MOST_LETTERS = 12  # the most letters that are listed


@dataclass(frozen=True)
class LanguageView:
    """The view of a language.

    `levels` has points and group of each level, top first; None if the cascade was given up, and `obstacle` says why.
    """

    title: str
    dfa: DFA
    language: LanguageClass
    verdicts: tuple[Verdict, ...]
    levels: tuple[tuple[int, str], ...] | None
    obstacle: str = ""


def view_language(choice: LanguageChoice) -> LanguageView:
    dfa = choice.automaton()
    language = classify(dfa)
    judged = verdicts(dfa, language)
    try:
        levels = tuple((level.points, level.description) for level in cascade(dfa).levels)
    except ValueError as error:  # too large to decompose; everything else is known
        return LanguageView(choice.title, dfa, language, judged, None, str(error))
    return LanguageView(choice.title, dfa, language, judged, levels)


def view_language_task(line: Line, choice: LanguageChoice) -> LanguageView:
    """Return the view of a language, in a worker."""
    return view_language(choice)


def show_language(view: LanguageView) -> str:
    dfa, language = view.dfa, view.language
    letters = ", ".join(dfa.letters[:MOST_LETTERS]) + (f", … ({len(dfa.letters)})" if len(dfa.letters) > MOST_LETTERS else "")
    return sheet(
        heading(view.title),
        paragraph(f"{language.states} states, monoid of {language.monoid_size} elements, letters {letters}"),
        f"<p id='class-in-words'><b>{_sentence(language.summary)}</b></p>",
        draw_automaton(dfa),
        paragraph("Green states accept. The arrow without a source leads to the start state.", "faint"),
        heading("Classes"),
        table(("class", "holds", "witness against it"), _class_rows(language), marked=1),
        heading("Cascade (Krohn–Rhodes), top level first"),
        _cascade(view),
        heading("Verdicts: which architectures recognise it at every length?"),
        table(
            ("architecture", "verdict", "why", "source", "precision model"), [_verdict_row(v) for v in view.verdicts], marked=1
        ),
    )


def _sentence(summary: str) -> str:
    return escape(summary[0].upper() + summary[1:] + ".")


def _class_rows(language: LanguageClass) -> list[tuple[str, str, str]]:
    return [
        (CLASS_IN_WORDS[name], "yes" if holds else "no", language.witnesses.get(name, ""))
        for name, holds in language.classes.items()
    ]


def _cascade(view: LanguageView) -> str:
    if view.levels is None:
        return paragraph(view.obstacle)
    if not view.levels:
        return paragraph("The cascade has no levels: the automaton has one state.")
    return table(("level", "points", "group"), [(number, *level) for number, level in enumerate(view.levels, start=1)])


def _verdict_row(verdict: Verdict) -> tuple[str, ...]:
    why = verdict.reason
    if isinstance(verdict.witness, Construction):
        why += f"; compile {verdict.witness.options}: {verdict.witness.sizes}"
    elif verdict.witness is not None:
        why += f": {verdict.witness}"
    return verdict.architecture.name, verdict.answer, why, verdict.theorem, verdict.precision
