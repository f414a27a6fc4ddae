"""Curricula: the order in which the letters of a task come into training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eigentrack.automata.letter_stages import ORDERS, letter_stages
from eigentrack.tasks.task import Task
from eigentrack.tasks.tracking import TrackingTask


@dataclass(frozen=True)
class Curriculum:
    """A curriculum: training begins with letters that generate all others, and draws more of them stage by stage."""

    order: str  # the order of the letters: "rank" or "words" (see `automata.letter_stages`)
    share: float = 0.995  # the share of the answers at the training lengths that must be right before the next stage begins

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            raise ValueError(f"curriculum {self.order!r} is not known; there are {', '.join(ORDERS)}, and none")
        if isinstance(self.share, bool) or not isinstance(self.share, (int, float)) or not 0 < self.share <= 1:
            raise ValueError(f"the curriculum's share={self.share!r} must be above 0 and at most 1")

    @classmethod
    def from_json(cls, value: Any) -> Curriculum | None:
        """Return the curriculum that a file or a flag names: an order, none, or an object with order and share."""
        if value is None or value == "none":
            return None
        if isinstance(value, dict) and "order" in value and not set(value) - {"order", "share"}:
            return cls(**value)
        if isinstance(value, str):
            return cls(value)
        raise ValueError(f"curriculum={value!r} must be {', '.join(ORDERS)}, none, or an object with order and share")

    def stages(self, task: Task) -> tuple[tuple[int, ...], ...]:
        """Return the letters of every stage; letters that the task never draws are in none."""
        if not isinstance(task, TrackingTask):
            raise ValueError(
                f"curriculum {self.order!r} orders the letters of an automaton, and this task has none: use no curriculum"
            )
        shares = task.shares or (1.0,) * task.letters
        drawn = [letter for letter, share in enumerate(shares) if share > 0]
        return letter_stages(task.points or task.transitions, self.order, drawn)
