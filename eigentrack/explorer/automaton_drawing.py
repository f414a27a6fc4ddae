"""The automaton as SVG: a row of up to three states, a ring of more; accepting ones are green, the current one is outlined.

An arrow bends to its left, so that there and back do not meet; a loop points away from the middle.
"""

from __future__ import annotations

import math
from html import escape

from eigentrack.automata import DFA

MOST_STATES = 40
ROW = 3  # states at most
MOST_NAMES = 4  # the most letters that an arrow names
RADIUS = 24  # the radius of a state's circle
GAP = 150  # between states of a row; about that of a ring, too

Point = tuple[float, float]


def draw_automaton(dfa: DFA, current: int | None = None) -> str:
    """Return the automaton as SVG, or a sentence if it has too many states to draw."""
    if dfa.states > MOST_STATES:
        return f"<p class='faint'>{dfa.states} states are too many to draw (at most {MOST_STATES}).</p>"
    places = _places(dfa.states)
    in_row = dfa.states <= ROW
    curves, labels = [_entry(places[dfa.start], (-1.0, 0.0) if in_row else (-0.64, -0.77))], []
    for (source, target), text in arrow_labels(dfa).items():
        if source == target:
            curve, middle = _loop(places[source], (0.0, -1.0) if in_row else _unit((0.0, 0.0), places[source]))
        else:
            curve, middle = _arrow(places[source], places[target])
        curves.append(_stroke(curve))
        labels.append(_label(middle, text))
    shapes = curves + labels  # no curve crosses a label out
    shapes += [_state(state, places[state], state in dfa.accepting, state == current) for state in range(dfa.states)]
    margin = 3.2 * RADIUS
    left, top = (min(place[axis] for place in places) - margin for axis in (0, 1))
    width, height = (max(place[axis] for place in places) + margin - low for axis, low in ((0, left), (1, top)))
    height -= RADIUS if in_row else 0  # no loops below a row
    return (
        f"<svg viewBox='{left:.0f} {top:.0f} {width:.0f} {height:.0f}' width='{width:.0f}' height='{height:.0f}' role='img' "
        f"aria-label='minimal automaton of {dfa.states} states' font-family='system-ui, sans-serif' font-size='14'>"
        "<defs><marker id='tip' viewBox='0 0 8 8' refX='7' refY='4' markerWidth='8' markerHeight='8' orient='auto'>"
        f"<path d='M0 0 L8 4 L0 8 z' fill='#4a5160'/></marker></defs>{''.join(shapes)}</svg>"
    )


def _places(states: int) -> list[Point]:
    if states <= ROW:
        return [(GAP * state, 0.0) for state in range(states)]
    ring = max(110.0, GAP * states / (2 * math.pi) * (1 if states <= 12 else 0.6))
    angles = [2 * math.pi * state / states + math.pi for state in range(states)]  # the first at the left, then upwards
    return [(ring * math.cos(angle), ring * math.sin(angle)) for angle in angles]


def arrow_labels(dfa: DFA) -> dict[tuple[int, int], str]:
    """Return, for each arrow from a state to a state, the letters that follow it, or how many they are."""
    letters: dict[tuple[int, int], list[str]] = {}
    for state, row in enumerate(dfa.transitions):
        for letter, target in zip(dfa.letters, row, strict=True):
            letters.setdefault((state, target), []).append(letter)
    return {ends: ", ".join(names) if len(names) <= MOST_NAMES else f"{len(names)} letters" for ends, names in letters.items()}


def _arrow(start: Point, end: Point) -> tuple[str, Point]:
    """Return the path and the place of its label, which is nearer to the source, as long arrows cross in the middle."""
    along = _unit(start, end)
    length = math.dist(start, end)
    bend = 0.16 * length + (14 if length < 1.5 * GAP else 24)
    crest = _moved(_mean([start, end]), (along[1], -along[0]), bend)
    leave, arrive = _moved(start, _unit(start, crest), RADIUS), _moved(end, _unit(end, crest), RADIUS + 2)
    at = 0.4
    label = tuple((1 - at) ** 2 * p + 2 * at * (1 - at) * q + at**2 * r for p, q, r in zip(leave, crest, arrive, strict=True))
    return f"M{_xy(leave)} Q{_xy(crest)} {_xy(arrive)}", (label[0], label[1])


def _loop(place: Point, out: Point) -> tuple[str, Point]:
    side = (-out[1], out[0])
    leave, arrive = (_moved(_moved(place, out, 0.85 * RADIUS), side, sign * 0.5 * RADIUS) for sign in (-1, 1))
    far = [_moved(_moved(place, out, 2.2 * RADIUS), side, sign * RADIUS) for sign in (-1, 1)]
    return f"M{_xy(leave)} C{_xy(far[0])} {_xy(far[1])} {_xy(arrive)}", _moved(place, out, 2.4 * RADIUS)


def _entry(place: Point, side: Point) -> str:
    return _stroke(f"M{_xy(_moved(place, side, RADIUS + 28))} L{_xy(_moved(place, side, RADIUS + 2))}")


def _stroke(path: str) -> str:
    return f"<path d='{path}' fill='none' stroke='#4a5160' stroke-width='1.4' marker-end='url(#tip)'/>"


def _label(place: Point, text: str) -> str:
    return (
        f"<text x='{place[0]:.1f}' y='{place[1] + 5:.1f}' text-anchor='middle' fill='#1f2430' stroke='#fff' stroke-width='5' "
        f"paint-order='stroke'>{escape(text)}</text>"
    )


def _state(state: int, place: Point, accepts: bool, is_current: bool) -> str:
    fill, edge = ("#cdebc8" if accepts else "#eceef2"), ("#c2410c" if is_current else "#4a5160")
    circle = f"cx='{place[0]:.1f}' cy='{place[1]:.1f}'"
    inner = f"<circle {circle} r='{RADIUS - 4}' fill='none' stroke='{edge}'/>" if accepts else ""
    return (
        f"<circle {circle} r='{RADIUS}' fill='{fill}' stroke='{edge}' stroke-width='{4 if is_current else 1.4}'/>{inner}"
        f"<text x='{place[0]:.1f}' y='{place[1] + 5:.1f}' text-anchor='middle' fill='#1f2430'>{state}</text>"
    )


def _mean(points: list[Point]) -> Point:
    return sum(x for x, _ in points) / len(points), sum(y for _, y in points) / len(points)


def _unit(start: Point, end: Point) -> Point:
    length = math.dist(start, end) or 1.0
    return (end[0] - start[0]) / length, (end[1] - start[1]) / length


def _moved(place: Point, direction: Point, by: float) -> Point:
    return place[0] + direction[0] * by, place[1] + direction[1] * by


def _xy(place: Point) -> str:
    return f"{place[0]:.1f},{place[1]:.1f}"
