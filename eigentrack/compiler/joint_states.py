"""The list of a network's joint states, the long half of a certificate: whoever has it can check the closure step by step.

joint_states.json   {"format": 1, "states": [{"label": q, "layers": [[number, ...], ...], "next": [n, ...]}, ...]}

The joint states are numbered breadth-first from 0, the one after the begin token, letters in the order of the automaton.
"label" is the state of the automaton that a joint state stands for, "layers" has the numbers of each layer's memories and then
of its window, row by row, and "next" the number of the joint state after each letter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from eigentrack.models.sequence_model import ModelState

FORMAT = 1


@dataclass(frozen=True)
class JointStates:
    """The joint states of a network and what each letter makes of them."""

    labels: tuple[int, ...]  # [joint state] → the automaton's state
    successors: tuple[tuple[int, ...], ...]  # [joint state][letter] → the number of the next joint state
    values: tuple[ModelState, ...]  # all joint states in the order of their numbers, in pieces of many rows

    def to_json_text(self) -> str:
        """Return the text of the file, with one line for each joint state."""
        lines = (
            f'{{"label": {label}, "layers": {layers}, "next": {list(after)}}}'
            for label, layers, after in zip(self.labels, self._written_layers(), self.successors, strict=True)
        )
        return f'{{"format": {FORMAT}, "states": [\n' + ",\n".join(lines) + "\n]}\n"

    def _written_layers(self) -> Iterator[str]:
        for piece in self.values:
            layers = [_rows([*layer.memory, *([] if layer.window is None else [layer.window])]) for layer in piece.layers]
            for row in zip(*layers, strict=True):
                yield f"[{', '.join(f'[{numbers}]' for numbers in row)}]"


def _rows(parts: list[Tensor]) -> list[str]:
    """Return the numbers of each row of the parts, whole numbers without a point; others can be read back exactly."""
    together = torch.cat([part.reshape(len(part), -1).double() for part in parts], 1)
    return [", ".join(str(int(x)) if x.is_integer() else repr(x) for x in row) for row in together.tolist()]
