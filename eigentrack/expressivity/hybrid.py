"""Hybrids: stacks of layers of different kinds."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from eigentrack.expressivity.architecture import Architecture


@dataclass(frozen=True)
class Hybrid:
    """A stack whose layers differ, the first layer first; or, with `any_depth`, any number of such layers in any order."""

    kinds: tuple[Architecture, ...]  # one architecture of one layer for each layer; with `any_depth`, one for each kind
    any_depth: bool = False

    def __post_init__(self) -> None:
        if len(set(self.kinds)) < 2:
            raise ValueError("a hybrid has layers of at least two kinds; for one kind ask for an Architecture")
        if any(kind.layers != 1 for kind in self.kinds):
            raise ValueError("each kind of a hybrid is an architecture of one layer: layers=1")
        if len({kind.precision for kind in self.kinds}) > 1:
            raise ValueError("all layers of a hybrid must have the same precision")

    @property
    def precision(self) -> str:
        """The model of arithmetic, the same for all layers."""
        return self.kinds[0].precision

    @property
    def name(self) -> str:
        runs = [(kind, len(list(run))) for kind, run in groupby(self.kinds)]
        said = " + ".join((f"{count} × " if count > 1 else "") + _in_words(kind) for kind, count in runs)
        depth = "any depth" if self.any_depth else f"{len(self.kinds)} layers"
        return ", ".join(filter(None, (said, depth, self.kinds[0].arithmetic)))


def _in_words(kind: Architecture) -> str:
    return f"{kind.kind} ({kind.factors})" if kind.factors else kind.kind


Design = Architecture | Hybrid
