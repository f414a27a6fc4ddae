"""Predicted horizon: the length at which a network will fail, from words no longer than those of training.

The joint states after words of t letters that lead to the same state c of the machine are a cloud, with a mean m(t) and, for
each of its numbers, a variance v(t). Straight lines through m and v over the last third of the training lengths say how fast a
cloud drifts and spreads per letter, m' and v'. By length T a joint state h of length L is expected at

    m(L) + (T - L) m' + √(v(T) / v(L)) (h - m(L)),    v(T) = max(0, v(L) + (T - L) v')

There the network itself reads one more letter. The predicted horizon is the longest T at which 99 % of these answers are right.

B words  D numbers of a joint state  Q states of the machine
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from eigentrack.analysis.horizon import HOLDS, WIDENING
from eigentrack.analysis.inspected_network import InspectedNetwork, require_fixed_size, shifted, state_vector
from eigentrack.tasks.counter_random import derived_seed

SHORTEST = 6  # letters of training words, of which three lengths then show the growth
FEWEST = 8  # words that a cloud must have at a length to count there
LEAST_VARIANCE = 1e-9  # below which a number of the state does not spread, as far as float32 shows


@dataclass(frozen=True)
class PredictedHorizon:
    """The horizon that the growth within the training lengths predicts for random words."""

    letters: int  # the predicted horizon; shorter than `trained_to` if the answers fail there already
    longest: int  # the length up to which it was looked for
    trained_to: int
    spread: float  # root mean square distance of a joint state from the mean of its cloud, one letter before `trained_to`
    drift: float  # by which a cloud's mean moves per letter, the mean over the words
    growth: float  # the growth of the square of `spread` per letter, as a share of it

    @property
    def is_open(self) -> bool:
        """Whether no failure is predicted as far as it was looked for."""
        return self.letters == self.longest


@torch.no_grad()
def predict_horizon(
    network: InspectedNetwork, trained_to: int, longest: int, *, rows: int = 1024, seed: int
) -> PredictedHorizon:
    """Return the predicted horizon; no word of more than `trained_to` letters is read.

    Args:
        network: the network and the machine that it should be.
        trained_to: the letters of the longest word in training.
        longest: the largest length that can be predicted.
        rows: the number of words.
        seed: of the words.
    """
    require_fixed_size(network.model)
    if trained_to < SHORTEST or longest < trained_to:
        raise ValueError(f"trained_to={trained_to} must be at least {SHORTEST} letters and at most longest={longest}")
    start = torch.full((rows,), network.machine.start)
    letters, states = network.walk(start, trained_to, derived_seed(seed, "predicted horizon"), 0)
    answers = torch.tensor(network.machine.outputs)[states[:, 1:]]
    base = trained_to - 1  # the length from which joint states are moved on
    _, state = network.begin(rows)
    vector, clouds, fails_at = state_vector(state).cpu(), None, None
    for length in range(1, base + 1):
        logits, state = network.step(letters[:, length - 1].to(network.device), state)
        if fails_at is None and _share(logits, answers[:, length - 1]) < HOLDS:
            fails_at = length
        if length >= round(2 * base / 3):
            vector = state_vector(state).cpu()
            clouds = clouds or _Clouds(len(network.machine.transitions), vector.shape[1])
            clouds.add(length, vector, states[:, length])
    assert clouds is not None
    last = states[:, base]
    mean, drift, variance, widening = clouds.at(base)
    from_mean = vector - mean[last]

    def holds(length: int) -> bool:
        factor = ((variance + (length - 1 - base) * widening).clamp_min(0) / variance).sqrt()
        moved = mean[last] + (length - 1 - base) * drift[last] + factor[last] * from_mean
        logits, _ = network.step(letters[:, base].to(network.device), shifted(state, (moved - vector).to(network.device)))
        return _share(logits, answers[:, base]) >= HOLDS

    reach = fails_at - 1 if fails_at is not None else _last_that_holds(holds, trained_to, longest)
    squares = float(from_mean.square().sum(1).mean())
    return PredictedHorizon(
        reach,
        longest,
        trained_to,
        spread=squares**0.5,
        drift=float(torch.linalg.vector_norm(drift[last], dim=1).mean()),
        growth=float(widening[last].sum(1).mean()) / squares if squares else 0.0,
    )


def _share(logits: Tensor, answers: Int[Tensor, " B"]) -> float:
    return float((logits.argmax(-1).cpu() == answers).double().mean())


def _last_that_holds(holds: Callable[[int], bool], first: int, longest: int) -> int:
    """Return the last of the lengths that widen from `first` to `longest` before one that does not hold."""
    length, reached = first, first - 1
    while holds(length):
        reached = length
        if length == longest:
            break
        length = min(longest, max(length + 1, int(length * WIDENING)))
    return reached


class _Clouds:
    """Least-squares lines over the length through the mean and the variances of every cloud."""

    def __init__(self, states: int, numbers: int) -> None:
        self._lines = {name: _Lines(states, numbers) for name in ("mean", "variance")}
        self._last: Float[Tensor, "Q D"] = torch.zeros(states, numbers, dtype=torch.float64)

    def add(self, length: int, vectors: Float[Tensor, "B D"], states: Int[Tensor, " B"]) -> None:
        """Add the joint states after words of one length."""
        for state in states.unique().tolist():
            cloud = vectors[states == state]
            self._last[state] = cloud.mean(0)
            if len(cloud) >= FEWEST:
                self._lines["mean"].add(state, length, cloud.mean(0))
                self._lines["variance"].add(state, length, cloud.var(0))

    def at(self, length: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the last means, their slopes, and the variances on their lines at a length with their slopes, all [Q, D]."""
        _, drift = self._lines["mean"].at(length)
        variance, widening = self._lines["variance"].at(length)
        return self._last, drift, variance.clamp_min(LEAST_VARIANCE), widening


class _Lines:
    """Sums from which least-squares lines follow, one for each state and number; a line needs two lengths."""

    def __init__(self, states: int, numbers: int) -> None:
        self._sums = torch.zeros(3, states, 1, dtype=torch.float64)  # the sums of 1, t and t²
        self._values = torch.zeros(2, states, numbers, dtype=torch.float64)  # the sums of y and t·y

    def add(self, state: int, length: int, values: Float[Tensor, " D"]) -> None:
        self._sums[:, state, 0] += torch.tensor([1, length, length**2])
        self._values[:, state] += torch.stack([values, length * values])

    def at(self, length: int) -> tuple[Float[Tensor, "Q D"], Float[Tensor, "Q D"]]:
        """Return the values of the lines at a length, and their slopes."""
        (count, t, tt), (y, ty) = self._sums, self._values
        slope = torch.where(count > 1, (count * ty - t * y) / (count * tt - t**2).clamp_min(1), 0.0)
        return (y - slope * t) / count.clamp_min(1) + slope * length, slope
