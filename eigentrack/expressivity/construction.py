"""Constructions: the networks that the compiler builds for an automaton, by name and size.

permutation        one layer: letters permute or reset the states, or are one-to-one except on the states sent to a sink
cascade-products   any automaton: a layer for each of s levels and a delay layer between neighbours, 2s - 1 layers
cascade-gated      as cascade-products, with a gate that resets
diagonal-cascade   levels of registers and signs only, if all groups are 2-groups; one layer if the letters allow it
two-layer-cyclic   addition modulo m with one factor per token; exact if m divides 12
rotation           addition modulo m as a rotation of the plane, two factors per token; rounded
dense              any automaton: one layer of 0/1 matrices
threshold-units    any automaton: one sLSTM layer, a unit for each state and letter; tolerates noise
flip-flop-cascade  star-free: an sLSTM layer of flip-flops for each of s levels and a delay between neighbours; tolerates noise

`eigentrack compile --architecture ARCHITECTURE --construction NAME` builds it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from eigentrack.automata.cascade import Cascade, cascade, two_point_cascade
from eigentrack.automata.congruences import Transitions
from eigentrack.automata.dfa import DFA
from eigentrack.automata.letter_maps import changed_rank, counter_steps, injective_sink, is_permutation_or_constant, letter_maps
from eigentrack.automata.splitting import Action, split
from eigentrack.expressivity.architecture import Architecture
from eigentrack.spectrum import EigenRange

LARGEST_DENSE = 256  # the most states of a dense layer, which has states² parameters per letter
MOST_TUPLES = 20_000  # the most joint states of a cascade, since a table lists them
MOST_UNITS = 512  # the most pairs of a state and a letter; an sLSTM layer has pairs² parameters
MOST_STATES = 1000  # the most states for which constructions are sized: splitting S6, 720 states, takes 17 s

_FORGET, _FLIP = EigenRange(0, 1), EigenRange(-1, 1)

ROBUST = "slstm"  # the compiler's only architecture that tolerates noise

# layer of an architecture → the compiler's architectures that are made of such layers
_MADE_OF = {
    "diagonal": ("diagonal",),
    "complex-diagonal": ("diagonal",),
    "s4d-mamba": ("diagonal",),
    "deltanet": ("deltanet", "deltaproduct", "rotation"),
    "gated-deltanet": ("deltanet", "deltaproduct", "rotation", "gated"),
    "dense": ("dense",),
    "slstm": (ROBUST,),
}


@dataclass(frozen=True)
class Construction:
    """A network that the compiler can build, by name and size."""

    name: str  # the construction, as `eigentrack compile --construction` takes it
    architecture: str  # the compiler's name for the architecture, as `--architecture` takes it
    layers: int  # number of layers, delays included
    householders: int = 0  # factors per token; 0 for layers without factors
    eigenvalues: EigenRange | None = None  # None for a dense or an sLSTM layer, which has no range
    exact: bool = True  # whether the network computes without rounding errors

    def fits(self, architecture: Architecture) -> bool:
        """Return whether the network belongs to this architecture and is valid in its model of arithmetic."""
        if self.architecture not in _MADE_OF.get(architecture.layer, ()):
            return False
        if architecture.precision == "robust" and self.architecture != ROBUST:
            return False
        allowed = _FORGET if architecture.layer == "s4d-mamba" else architecture.eigenvalues
        return (
            (architecture.layers is None or self.layers <= architecture.layers)
            and (architecture.householders is None or self.householders <= architecture.householders)
            and (allowed is None or self.eigenvalues is None or _within(self.eigenvalues, allowed))
            and (self.exact or architecture.precision != "ieee")
        )

    @property
    def options(self) -> str:
        """The options of `eigentrack compile` that build this network."""
        return f"--architecture {self.architecture} --construction {self.name}"

    @property
    def sizes(self) -> str:
        said = [_counted(self.layers, "layer")]
        said += [f"{_counted(self.householders, 'factor')} per token"] if self.householders else []
        said += [f"eigenvalues in {self.eigenvalues}"] if self.eigenvalues else []
        said += ["rounded"] if not self.exact else []
        return ", ".join(said)

    def to_json(self) -> dict[str, Any]:
        ends = None if self.eigenvalues is None else [self.eigenvalues.low, self.eigenvalues.high]
        return {**asdict(self), "eigenvalues": ends}


@lru_cache(maxsize=32)
def constructions(dfa: DFA, image_limit: int) -> tuple[Construction, ...]:
    """Return all that the compiler can build for the automaton: exact before rounded, then by layers, then by factors.

    Cascades of more than `image_limit` image sets are left out.
    """
    if dfa.states > MOST_STATES:
        return ()
    found = [*_permutation(dfa), *_cyclic(dfa)]
    if dfa.states <= LARGEST_DENSE:
        found.append(Construction("dense", "dense", layers=1))
    if dfa.states * len(dfa.letters) <= MOST_UNITS:
        found.append(Construction("threshold-units", ROBUST, layers=1))
    direct = _diagonal_layer(dfa)
    found += direct
    try:
        levels = cascade(dfa, image_limit)
    except ValueError:  # too large
        levels = None
    if levels is not None and levels.levels and len(levels.outputs) <= MOST_TUPLES:
        found += _cascade(levels)
        found += [] if direct else _diagonal_cascade(levels)
        found += _flip_flops(levels)
    return tuple(sorted(found, key=lambda c: (not c.exact, c.layers, c.householders)))


def construction_for(dfa: DFA, architecture: Architecture, image_limit: int) -> Construction | None:
    """Return the first construction that fits the architecture, or None if there is none."""
    return next((found for found in constructions(dfa, image_limit) if found.fits(architecture)), None)


def _permutation(dfa: DFA) -> list[Construction]:
    if (actions := _actions(dfa)) is not None:
        return [_products("permutation", 1, actions, gated) for gated in (False, True)]
    if injective_sink(dfa) is None:
        return []
    factors = max(map(changed_rank, letter_maps(dfa).values()))
    kinds = ("deltanet" if factors == 1 else "deltaproduct", "gated")
    return [Construction("permutation", kind, 1, factors, _FLIP) for kind in kinds]


def _cyclic(dfa: DFA) -> list[Construction]:
    if dfa.states < 3 or counter_steps(dfa) is None:
        return []
    return [
        Construction("two-layer-cyclic", "deltanet", 2, 1, _FLIP, exact=12 % dfa.states == 0),
        Construction("rotation", "rotation", 1, 2, _FLIP, exact=False),
    ]


def _diagonal_layer(dfa: DFA) -> list[Construction]:
    actions = _actions(dfa)
    if actions is None or not all(action.is_register or action.points == 2 for action in actions):
        return []
    return [Construction("diagonal-cascade", "diagonal", 1, eigenvalues=_range(actions))]


def _cascade(levels: Cascade) -> list[Construction]:
    layers = 2 * len(levels.levels) - 1
    actions = [action for level in range(len(levels.levels)) for action in split(_transitions(levels, level))]
    return [_products(name, layers, actions, gated) for name, gated in (("cascade-products", False), ("cascade-gated", True))]


def _diagonal_cascade(levels: Cascade) -> list[Construction]:
    if not all(level.group.is_two_group for level in levels.levels):
        return []
    narrow = all(level.group_order == 1 for level in levels.levels)
    layers = 2 * len(two_point_cascade(levels).levels) - 1
    return [Construction("diagonal-cascade", "diagonal", layers, eigenvalues=_FORGET if narrow else _FLIP)]


def _flip_flops(levels: Cascade) -> list[Construction]:
    if any(level.group_order > 1 for level in levels.levels):
        return []
    return [Construction("flip-flop-cascade", ROBUST, 2 * len(levels.levels) - 1)]


def _products(name: str, layers: int, actions: list[Action], gated: bool) -> Construction:
    factors = max((action.factors(gated) for action in actions), default=1)
    kind = "gated" if gated else "deltanet" if factors == 1 else "deltaproduct"
    return Construction(name, kind, layers, factors, _range(actions))


def _actions(dfa: DFA) -> list[Action] | None:
    """Return the actions that the heads of one layer follow, or None unless every letter permutes or resets the states."""
    return list(split(dfa.transitions)) if all(map(is_permutation_or_constant, letter_maps(dfa).values())) else None


def _transitions(levels: Cascade, level: int) -> Transitions:
    return tuple(zip(*levels.maps(level), strict=True))


def _range(actions: list[Action]) -> EigenRange:
    return _FORGET if all(action.is_register for action in actions) else _FLIP


def _within(inner: EigenRange, outer: EigenRange) -> bool:
    return outer.low <= inner.low and inner.high <= outer.high


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number > 1 else ''}"
