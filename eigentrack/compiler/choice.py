"""Which construction: all that fit the language and the architecture are drawn up, and put in order.

Exact before inexact, then the fewest parameters (tables included), then the fewest layers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from operator import itemgetter

import torch

from eigentrack.automata import DFA
from eigentrack.automata.image_sets import DEFAULT_LIMIT
from eigentrack.compiler.constructions import cascade_plan, dense_plan, diagonal_plan, permutation_plan
from eigentrack.compiler.cyclic import rotation_plan, two_layer_plan
from eigentrack.compiler.network import model_config
from eigentrack.compiler.plan import Plan
from eigentrack.compiler.robust_cascade import flip_flop_plan
from eigentrack.compiler.spreading import spread
from eigentrack.compiler.threshold_units import threshold_plan
from eigentrack.models import SequenceModel

Draw = Callable[[DFA, int], Plan]  # the automaton and the most image sets that its cascade may have


def _without_cascade(draw: Callable[[DFA], Plan]) -> Draw:
    return lambda dfa, image_limit: draw(dfa)


def _one_factor(draw: Draw) -> Draw:
    def drawn(dfa: DFA, image_limit: int) -> Plan:
        plan = draw(dfa, image_limit)
        if plan.architecture != "deltanet":
            raise ValueError(f"a letter needs {plan.householders} factors")
        return plan

    return drawn


_DIRECT, _GATED = (_without_cascade(partial(permutation_plan, gated=gated)) for gated in (False, True))
_DENSE, _ROTATION, _TWO_LAYERS, _UNITS = map(_without_cascade, (dense_plan, rotation_plan, two_layer_plan, threshold_plan))


def _cascade(dfa: DFA, image_limit: int) -> Plan:
    return cascade_plan(dfa, False, image_limit)


def _gated_cascade(dfa: DFA, image_limit: int) -> Plan:
    return cascade_plan(dfa, True, image_limit)


# architecture → what it is, and its constructions by name
ARCHITECTURES: dict[str, tuple[str, dict[str, Draw]]] = {
    "deltanet": (
        "one Householder factor a token, eigenvalues in [-1, 1], no gate",
        {"permutation": _one_factor(_DIRECT), "cascade-products": _one_factor(_cascade), "two-layer-cyclic": _TWO_LAYERS},
    ),
    "deltaproduct": ("several factors a token, no gate", {"permutation": _DIRECT, "cascade-products": _cascade}),
    "gated": ("several factors and a gate in [0, 1]", {"permutation": _GATED, "cascade-gated": _gated_cascade}),
    "diagonal": (
        "gates only: eigenvalues in [0, 1] for star-free languages, in [-1, 1] with 2-groups",
        {"diagonal-cascade": diagonal_plan},
    ),
    "dense": ("full matrices", {"dense": _DENSE}),
    "rotation": ("two reflections of the plane a token, for counting modulo m; inexact", {"rotation": _ROTATION}),
    "slstm": (
        "not linear: flip-flops for star-free languages, or threshold units; bears an error ε in every step, by proof",
        {"flip-flop-cascade": flip_flop_plan, "threshold-units": _UNITS},
    ),
}
_AUTOMATIC = ("deltaproduct", "gated", "diagonal", "dense")  # one factor is a deltaproduct, too


@dataclass(frozen=True)
class Choice:
    """The plans, best first, and what was compared."""

    plans: tuple[Plan, ...]
    why: str

    def __post_init__(self) -> None:
        if not self.plans:
            raise ValueError("a choice needs at least one plan")


def choose_plan(
    dfa: DFA,
    architecture: str | None = None,
    construction: str | None = None,
    spread_factors: bool = False,
    image_limit: int = DEFAULT_LIMIT,
) -> Choice:
    """`spread_factors`: one factor a token, by several tokens a letter."""
    wanted = _constructions(architecture, construction)
    if spread_factors:
        if architecture not in (None, "deltanet") or construction not in (None, "permutation"):
            raise ValueError("--spread gives a deltanet by the construction permutation: leave out what asks for another")
        return Choice(
            (spread(permutation_plan(dfa, gated=False)),), "one factor a token, spread over several tokens a letter, as asked"
        )
    plans, reasons = [], []
    for draw in wanted:
        try:
            plans.append(draw(dfa, image_limit))
        except ValueError as reason:
            reasons.append(str(reason))
    if not plans:
        asked = " ".join(name for name in (architecture, construction, "network") if name)
        raise ValueError(f"no {asked} can be built for this language: {'; '.join(dict.fromkeys(reasons))}")
    ranked = sorted((((not plan.exact, parameters(plan), len(plan.blocks)), plan) for plan in plans), key=itemgetter(0))
    compared = ", ".join(f"{plan.construction} ({plan.architecture}, {size})" for (_, size, _), plan in ranked)
    best = ranked[0][1]
    kind = "exact" if best.exact else "inexact, as no exact one is known"
    return Choice(tuple(plan for _, plan in ranked), f"{kind}, and the fewest parameters of: {compared}")


def parameters(plan: Plan) -> int:
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in SequenceModel(model_config(plan)).parameters())


def _constructions(architecture: str | None, construction: str | None) -> list[Draw]:
    if architecture is not None and architecture not in ARCHITECTURES:
        raise ValueError(f"architecture {architecture!r} is not known; there are {', '.join(ARCHITECTURES)}")
    if construction is None:
        chosen = _AUTOMATIC if architecture is None else (architecture,)
        return [draw for name in chosen for draw in ARCHITECTURES[name][1].values()]
    names = list(ARCHITECTURES) if architecture is None else [architecture]
    found = [ARCHITECTURES[name][1][construction] for name in names if construction in ARCHITECTURES[name][1]]
    if not found:
        known = dict.fromkeys(known for name in names for known in ARCHITECTURES[name][1])
        raise ValueError(f"construction {construction!r} is not known for {' or '.join(names)}; there are {', '.join(known)}")
    return found
