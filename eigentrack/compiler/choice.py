"""The choice of a construction: all that fit the language and the architecture are planned and ranked.

Exact plans come before inexact ones, then the fewest parameters (tables included), then the fewest layers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter

import torch

from eigentrack.automata import DFA
from eigentrack.automata.image_sets import DEFAULT_LIMIT
from eigentrack.compiler.constructions import (
    cascade_plan,
    dense_plan,
    diagonal_plan,
    flip_flop_plan,
    permutation_plan,
    spread,
    threshold_plan,
)
from eigentrack.compiler.cyclic import rotation_plan, two_layer_plan
from eigentrack.compiler.network import model_config
from eigentrack.compiler.plan import NetworkPlan
from eigentrack.models import SequenceModel

Draw = Callable[[DFA, int], NetworkPlan]  # (the automaton, the most image sets that its cascade may have) → a plan


def _one_factor(draw: Draw) -> Draw:
    def drawn(dfa: DFA, image_limit: int) -> NetworkPlan:
        plan = draw(dfa, image_limit)
        if plan.architecture != "deltanet":
            raise ValueError(f"a letter needs {plan.householders} factors")
        return plan

    return drawn


_PRODUCTS: dict[str, Draw] = {
    "permutation": lambda dfa, _: permutation_plan(dfa, gated=False),
    "cascade-products": lambda dfa, image_limit: cascade_plan(dfa, False, image_limit),
}
_GATED: dict[str, Draw] = {
    "permutation": lambda dfa, _: permutation_plan(dfa, gated=True),
    "cascade-gated": lambda dfa, image_limit: cascade_plan(dfa, True, image_limit),
}

# architecture → (description, its constructions by name)
ARCHITECTURES: dict[str, tuple[str, dict[str, Draw]]] = {
    "deltanet": (
        "one Householder factor per token, eigenvalues in [-1, 1], no gate",
        {name: _one_factor(draw) for name, draw in _PRODUCTS.items()}
        | {"two-layer-cyclic": lambda dfa, _: two_layer_plan(dfa)},
    ),
    "deltaproduct": ("several factors per token, no gate", _PRODUCTS),
    "gated": ("several factors and a gate in [0, 1]", _GATED),
    "diagonal": (
        "gates only: eigenvalues in [0, 1] for star-free languages, in [-1, 1] with 2-groups",
        {"diagonal-cascade": diagonal_plan},
    ),
    "dense": ("full matrices", {"dense": lambda dfa, _: dense_plan(dfa)}),
    "rotation": (
        "two reflections of the plane per token, for counting modulo m; inexact",
        {"rotation": lambda dfa, _: rotation_plan(dfa)},
    ),
    "slstm": (
        "not linear: flip-flops for star-free languages, or threshold units; bears an error ε in every step, by proof",
        {"flip-flop-cascade": flip_flop_plan, "threshold-units": lambda dfa, _: threshold_plan(dfa)},
    ),
}
_AUTOMATIC = ("deltaproduct", "gated", "diagonal", "dense")  # "deltaproduct" includes plans of one factor


@dataclass(frozen=True)
class Choice:
    """The plans that fit, best first, and the reason for their order."""

    plans: tuple[NetworkPlan, ...]  # best first, at least one
    why: str  # the reason for the first plan, in words

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
    """Return the plans that fit an automaton, best first; raise ValueError if none does.

    Args:
        dfa: the automaton.
        architecture: a key of `ARCHITECTURES`; None means all that are tried by default.
        construction: the name of a construction of the architecture; None means all of them.
        spread_factors: whether to use one factor per token, and several tokens per letter.
        image_limit: the most image sets that a cascade may have.
    """
    wanted = _constructions(architecture, construction)
    if spread_factors:
        if architecture not in (None, "deltanet") or construction not in (None, "permutation"):
            raise ValueError("--spread gives a deltanet by the construction permutation: leave out what asks for another")
        return Choice(
            (spread(permutation_plan(dfa, gated=False)),),
            "one factor per token, spread over several tokens per letter, as asked",
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


def parameters(plan: NetworkPlan) -> int:
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
