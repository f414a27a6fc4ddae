"""Composing maps, multiplying group elements and following letter by letter are one and the same walk."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from eigentrack.automata import group, language
from eigentrack.tasks import automaton_walk
from eigentrack.tasks.automaton_walk import AutomatonWalk


def walk_of(name: str, escape: float) -> AutomatonWalk:
    dfa = language(name)
    return AutomatonWalk(dfa.transitions, None, dfa.live_states(), escape, None)


@pytest.mark.parametrize("escape", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("name", ["parity", "tomita3", "abab", "d12", "dyck2-3", "cycle5"])
def test_composing_is_following(name: str, escape: float, monkeypatch: pytest.MonkeyPatch) -> None:
    walk = walk_of(name, escape)
    start = torch.arange(30) % len(walk.transitions)
    assert len(walk.transitions) <= automaton_walk.FEW_STATES
    letters, states = walk(start, 33, seed=5, step=2)
    monkeypatch.setattr(automaton_walk, "FEW_STATES", 0)
    followed_letters, followed_states = walk(start, 33, seed=5, step=2)
    assert torch.equal(letters, followed_letters)
    assert torch.equal(states, followed_states)
    assert torch.equal(states[:, 0], start)


@pytest.mark.parametrize("name", ["S3", "A5", "Q8", "Z2xZ3"])
def test_multiplying_is_following(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = group(name)
    walk = AutomatonWalk(chosen.table, None, None, 1.0, chosen.table)
    start = torch.arange(20) % chosen.order
    letters, states = walk(start, 17, seed=1, step=0)
    monkeypatch.setattr(automaton_walk, "FEW_STATES", 0)
    followed_letters, followed_states = replace(walk, products=None)(start, 17, seed=1, step=0)
    assert torch.equal(letters, followed_letters)
    assert torch.equal(states, followed_states)


def test_a_large_automaton_is_followed() -> None:
    """A counter modulo 40, one letter to go on and one to stay."""
    walk = AutomatonWalk(tuple(((state + 1) % 40, state) for state in range(40)), None, None, 1.0, None)
    letters, states = walk(torch.zeros(8, dtype=torch.int64), 90, seed=0, step=0)
    assert torch.equal(states[:, 1:], (letters == 0).cumsum(1) % 40)
