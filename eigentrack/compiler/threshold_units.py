"""Any regular language by one sLSTM layer of threshold units that bear noise.

A unit (q, a) for each state and letter is 1 if a was read in state q, else -1; one more unit is 1 on the begin token only and
leads to the start. The unit (q, a) is on after letter a if the units that lead to q, one of which is on, sum up to more than ½:

    h_{q,a} ← tanh(64 (Σ_{(p,b): δ(p,b) = q} (1 + h_{p,b})/2 - 1/2 - M (1 - [letter is a])))

with M at least the number of units that lead to a state: no sum of them outweighs a wrong letter. Forget gates are 0, input and
output gates 1, as in the flip-flops. Errors do not add up, and n units that lead to a state bear ε < 1/n. That sigmoid networks
hold automata stably is long known (Omlin and Giles, 1996); here the boxes prove it for these weights.
"""

from __future__ import annotations

from eigentrack.automata import DFA
from eigentrack.compiler.plan import Block, Plan, ThresholdUnits, Unit, Wiring
from eigentrack.expressivity.construction import MOST_UNITS


def threshold_plan(dfa: DFA) -> Plan:
    pairs = [(q, a) for q in range(dfa.states) for a in range(len(dfa.letters))]
    if len(pairs) > MOST_UNITS:
        raise ValueError(f"{len(pairs)} pairs of a state and a letter are too many units for one layer; at most {MOST_UNITS}")
    wiring = Wiring(dfa)
    states = wiring.new_channels(dfa.states)
    wiring.new_channels(max(0, len(pairs) + 2 - wiring.channels))  # the layer is as wide as the stream: a cell for every unit
    units = [Unit(None, None, dfa.start)]
    units += [Unit(q, wiring.letters[a], dfa.transitions[q][a]) for q, a in pairs]
    layer = ThresholdUnits(wiring.letters, tuple(units), states)
    return wiring.plan("threshold-units", [Block(layer)], [[(state, 1.0)] for state in states])
