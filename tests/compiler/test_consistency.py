"""Compiler and expressivity agree: what is built is called "can", and a "cannot" is never built."""

from __future__ import annotations

import pytest

from eigentrack.automata import LANGUAGES, classify, language
from eigentrack.compiler import ARCHITECTURES, choose_plan
from eigentrack.compiler.choice import householders
from eigentrack.compiler.plan import Delay, Plan
from eigentrack.expressivity import Architecture, judge
from eigentrack.spectrum import EigenRange
from tests.compiler.automata_cases import random_dfa

WIDE = EigenRange(-1, 1)
SMALL = [name for name in LANGUAGES if language(name).states <= 6]


def architecture_of(plan: Plan) -> Architecture:
    """As expressivity speaks of it; a delay is no layer of its own there, so a plan with one is of any depth."""
    depth = None if any(isinstance(block.mixer, Delay) for block in plan.blocks) else len(plan.blocks)
    if plan.architecture == "dense":
        return Architecture("dense", layers=depth)
    if plan.architecture == "diagonal":
        return Architecture("diagonal", WIDE, layers=depth)
    layer = "gated-deltanet" if plan.architecture == "gated" else "deltanet"
    return Architecture(layer, WIDE, layers=depth, householders=householders(plan))


@pytest.mark.parametrize("name", [*SMALL, *range(6)])
def test_what_is_built_can_be(name: str | int) -> None:
    dfa = language(name) if isinstance(name, str) else random_dfa(name, states=4, letters=2)
    facts = classify(dfa)
    for architecture in ARCHITECTURES:
        try:
            plan = choose_plan(dfa, architecture).plan
        except ValueError:
            continue
        if plan.exact:
            verdict = judge(dfa, facts, architecture_of(plan))
            assert verdict.answer == "can", (architecture, verdict)
