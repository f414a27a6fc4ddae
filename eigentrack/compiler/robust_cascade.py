"""Star-free languages by sLSTM flip-flops that bear noise (Metric Automata Theory, Theorem 5).

A star-free language has a cascade whose levels are only reset. A level's point is written in binary, a flip-flop for each bit:

    h ← tanh(32 h + 256 s),     s = 1, -1, 0 to set, to clear, to keep

an sLSTM cell with forget gate 0, input gate 1 and output gate 1. tanh pulls h back to ±1 after every letter, so errors do not
add up. Between the levels lie a delay and a table, as in the other cascades; the table's threshold is half-way between a bit's
two values, so that it decides rightly as long as the errors of the bits that it reads stay below one half together.
"""

from __future__ import annotations

from eigentrack.automata import DFA, MonoidTooLarge, cascade, classify
from eigentrack.automata.image_sets import DEFAULT_LIMIT
from eigentrack.compiler.constructions import plan_cascade
from eigentrack.compiler.plan import FlipFlops, Plan, letter_channel


def flip_flop_plan(dfa: DFA, image_limit: int = DEFAULT_LIMIT) -> Plan:
    levels = cascade(dfa, image_limit)
    if groups := [level for level in levels.levels if level.group_order > 1]:
        raise ValueError(f"flip-flops make star-free languages only: {_witness(dfa, groups[0].description)}")
    letters = tuple(map(letter_channel, range(len(dfa.letters))))
    return plan_cascade(
        dfa, "flip-flop-cascade", levels, lambda inputs, tracked: FlipFlops(letters, inputs, tracked.heads), gated=False
    )


def _witness(dfa: DFA, group: str) -> str:
    try:
        return classify(dfa).witnesses.get("star_free", f"a level of this cascade moves by the group {group}")
    except MonoidTooLarge:
        return f"a level of its cascade moves by the group {group}"
