"""The horizon is predicted from training lengths: near for a known drift, open for an exact network, no longer word is read."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from eigentrack.analysis import InspectedNetwork, find_horizons, predict_horizon
from eigentrack.analysis.predicted_horizon import _Lines
from eigentrack.analysis.word_patterns import Pattern
from eigentrack.automata import regex_dfa
from eigentrack.compiler import choose_plan, compile_network
from eigentrack.tasks.automaton_walk import AutomatonWalk
from tests.analysis.scripted import Scripted, scripted


def test_lines_are_those_of_least_squares() -> None:
    lines = _Lines(2, 1)
    points = {3: 1.0, 4: 4.0, 7: 5.0}
    for length, value in points.items():
        lines.add(1, length, torch.tensor([value]))
    lines.add(0, 3, torch.tensor([9.0]))  # one length shows no slope
    lengths, values = torch.tensor([*points]).double(), torch.tensor([*points.values()]).double()
    slope = ((lengths - lengths.mean()) * values).sum() / (lengths - lengths.mean()).square().sum()
    value, found = lines.at(10)
    assert found.flatten().tolist() == pytest.approx([0, slope.item()])
    assert value.flatten().tolist() == pytest.approx([9, (values.mean() + slope * (10 - lengths.mean())).item()])


def test_an_exact_network_is_predicted_to_hold() -> None:
    network = InspectedNetwork.from_compiled(compile_network(choose_plan(regex_dfa("(aa)*"))))
    found = predict_horizon(network, 12, 5000, rows=64, seed=0)
    assert found.is_open
    assert (found.letters, found.drift, found.growth) == (5000, 0, 0)


def drifting(step: float, by_letter: tuple[float, ...]) -> Scripted:
    """Return parity of the last letter as a number near 0 or 1, which moves by `step` and by what each letter adds."""
    flips = (*(0 for _ in by_letter[:-1]), 1)
    table = tuple(tuple(state ^ flip for flip in flips) for state in (0, 1))
    moves = torch.tensor(by_letter, dtype=torch.float64)

    def move(x: torch.Tensor, letter: torch.Tensor) -> torch.Tensor:
        flipped = torch.where(letter == len(flips) - 1, 1 - 2 * (x > 0.5).double(), 0.0)
        return x + flipped + step + moves[letter]

    return scripted(table, (0, 1), move, lambda x: (x > 0.5).long())


def test_a_steady_drift_ends_where_it_reaches_the_threshold() -> None:
    """States at 0 reach the threshold of one half after 50 letters; predictions widen by a tenth."""
    found = predict_horizon(drifting(0.01, (0.0, 0.0)), 20, 1000, seed=0)
    assert 44 <= found.letters <= 50
    assert found.drift == pytest.approx(0.01)
    assert found.spread == pytest.approx(0, abs=1e-9)


def test_a_spread_ends_where_one_in_a_hundred_is_beyond_the_threshold() -> None:
    """A random walk of ±0.02 on two letters of three: one in a hundred is 0.5 away after about 170 letters."""
    network = drifting(0.0, (0.02, -0.02, 0.0))
    (measured,) = find_horizons(network, [Pattern("random", 2048)], 1000, seed=0)
    found = predict_horizon(network, 40, 1000, rows=4096, seed=0)
    assert not found.is_open
    assert measured.letters / 1.6 <= found.letters <= 1.6 * measured.letters
    assert found.growth > 0


class Counted(AutomatonWalk):
    """A walk that refuses to be longer than the training words."""

    def __call__(self, start, count, seed, step, stage=None):
        assert count <= 24
        return super().__call__(start, count, seed, step, stage)


def test_no_longer_word_is_read(trained_parity: InspectedNetwork) -> None:
    walk = trained_parity.walk
    short = Counted(walk.transitions, walk.shares, walk.live, walk.escape, walk.products)
    again = replace(trained_parity, walk=short)
    assert predict_horizon(again, 24, 4000, rows=64, seed=3) == predict_horizon(trained_parity, 24, 4000, rows=64, seed=3)


def test_a_network_that_fails_within_training_lengths_is_measured_there(trained_parity: InspectedNetwork) -> None:
    other = replace(trained_parity.machine, outputs=(1, 0))
    found = predict_horizon(replace(trained_parity, machine=other), 24, 4000, rows=64, seed=0)
    assert found.letters == 0


def test_too_short_a_training_is_named(trained_parity: InspectedNetwork) -> None:
    with pytest.raises(ValueError, match="trained_to=5 must be at least 6 letters and at most longest=100"):
        predict_horizon(trained_parity, 5, 100, seed=0)
