"""Which construction: all that fit the language and the architecture are drawn up, and the best is taken.

Exact before inexact, then the fewest parameters (tables included), then the fewest layers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from eigentrack.automata import DFA
from eigentrack.compiler.constructions import cascade_plan, dense_plan, diagonal_plan, permutation_plan
from eigentrack.compiler.cyclic import rotation_plan, two_layer_plan
from eigentrack.compiler.network import model_config
from eigentrack.compiler.plan import Plan, Products
from eigentrack.compiler.spreading import spread
from eigentrack.models import SequenceModel

Construction = Callable[[DFA], Plan]


def _one_factor(construct: Construction) -> Construction:
    def constructed(dfa: DFA) -> Plan:
        plan = construct(dfa)
        if plan.architecture != "deltanet":
            raise ValueError(f"a letter needs {householders(plan)} factors")
        return plan

    return constructed


_DIRECT, _GATED = partial(permutation_plan, gated=False), partial(permutation_plan, gated=True)
_CASCADE, _GATED_CASCADE = partial(cascade_plan, gated=False), partial(cascade_plan, gated=True)

ARCHITECTURES: dict[str, tuple[str, tuple[Construction, ...]]] = {
    "deltanet": (
        "one Householder factor a token, eigenvalues in [-1, 1], no gate",
        (_one_factor(_DIRECT), _one_factor(_CASCADE), two_layer_plan),
    ),
    "deltaproduct": ("several factors a token, no gate", (_DIRECT, _CASCADE)),
    "gated": ("several factors and a gate in [0, 1]", (_GATED, _GATED_CASCADE)),
    "diagonal": ("gates only: eigenvalues in [0, 1] for star-free languages, in [-1, 1] with 2-groups", (diagonal_plan,)),
    "dense": ("full matrices", (dense_plan,)),
    "rotation": ("two reflections of the plane a token, for counting modulo m; inexact", (rotation_plan,)),
}
_AUTOMATIC = (_DIRECT, _GATED, _CASCADE, _GATED_CASCADE, diagonal_plan, dense_plan)


@dataclass(frozen=True)
class Choice:
    plan: Plan
    why: str  # what was compared


def choose_plan(dfa: DFA, architecture: str | None = None, spread_factors: bool = False) -> Choice:
    """`spread_factors`: one factor a token, by several tokens a letter."""
    if architecture is not None and architecture not in ARCHITECTURES:
        raise ValueError(f"architecture {architecture!r} is not known; there are {', '.join(ARCHITECTURES)}")
    if spread_factors:
        if architecture not in (None, "deltanet"):
            raise ValueError(f"--spread gives a deltanet, so it does not go with --architecture {architecture}")
        return Choice(
            spread(permutation_plan(dfa, gated=False)), "one factor a token, spread over several tokens a letter, as asked"
        )
    plans, reasons = [], []
    for construct in ARCHITECTURES[architecture][1] if architecture else _AUTOMATIC:
        try:
            plans.append(construct(dfa))
        except ValueError as reason:
            reasons.append(str(reason))
    if not plans:
        raise ValueError(f"no {architecture or ''} network can be built for this language: {'; '.join(dict.fromkeys(reasons))}")
    plans.sort(key=lambda plan: (not plan.exact, parameters(plan), len(plan.blocks)))
    compared = ", ".join(f"{plan.construction} ({plan.architecture}, {parameters(plan)})" for plan in plans)
    kind = "exact" if plans[0].exact else "inexact, as no exact one is known"
    return Choice(plans[0], f"{kind}, and the fewest parameters of: {compared}")


def parameters(plan: Plan) -> int:
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in SequenceModel(model_config(plan)).parameters())


def householders(plan: Plan) -> int:
    """Factors a token, in the layer that has most; 0 where there are none."""
    return max((block.mixer.householders for block in plan.blocks if isinstance(block.mixer, Products)), default=0)
