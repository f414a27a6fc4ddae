"""The worked examples of metric automata theory: what is robust, what collapses, and what only adds up its errors."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from eigentrack.analysis.dynamics import (
    Dynamics,
    Properties,
    Transitions,
    decide,
    kept_apart,
    letters_until_merged,
    no_linear_robustness,
    prove_robust,
    recheck,
    turning,
)
from eigentrack.analysis.example_dynamics import (
    FLIP_FLOP,
    keeps_sides,
    mamba_flip_flop,
    mamba_gate,
    sign_parity,
    slstm_flip_flop,
)
from eigentrack.analysis.state_geometry import merging_time
from eigentrack.automata import DFA, classify, minimal
from eigentrack.compiler.boxes import BoxCertificate, Undecided
from eigentrack.compiler.interval import Interval
from eigentrack.ops.slstm.reference import slstm


def tables(states: int, letters: int) -> st.SearchStrategy[Transitions]:
    row = st.tuples(*[st.integers(0, states - 1)] * letters)
    return st.tuples(*[row] * states)


def test_the_slstm_flip_flop_bears_an_error_of_a_twentieth() -> None:
    dynamics = slstm_flip_flop(input_radius=0.05)
    found = decide(dynamics, 0.05)
    assert isinstance(found, Properties)
    assert found.strongly_robust
    assert recheck(dynamics, found.certificate) is None
    # after a letter that sets, and after letters that are ignored: two components each, and the bit is which side they are on
    assert found.canonical == ((0, 1, 2), (0, 1, 3), (0, 1, 2), (0, 1, 3))
    assert found.aperiodic
    assert not found.contracting
    assert found.periods == {"contracting": "i repeated keeps the states 2 and 3 apart"}


def test_the_proof_is_about_the_layer_that_trains() -> None:
    """Its reference recurrence with these weights, with the worst errors of a sample, stays in the boxes."""
    found = prove_robust(slstm_flip_flop(), 0.05)
    assert isinstance(found, BoxCertificate)
    logits = {0: (-64.0, 0.0, -64.0, 64.0), 1: (64.0, 0.0, -64.0, 64.0), 2: (0.0, 0.0, 0.0, 64.0)}
    recurrent = torch.zeros(1, 4, 1, 1, dtype=torch.float64)
    recurrent[0, 0] = 4.0
    random, state, bit = np.random.default_rng(0), torch.tensor([-1.0, 1.0, -1.0, 0.0], dtype=torch.float64), 0
    for letter in random.integers(0, 3, 400).tolist():
        gates = torch.tensor(logits[letter], dtype=torch.float64).view(1, 1, 1, 4, 1)
        parts = tuple(part.view(1, 1, 1) for part in state)
        _, after = slstm(gates, recurrent=recurrent, initial_state=parts, packing=None)
        state = torch.cat([part.flatten() for part in after]) + 0.05 * torch.tensor(random.choice([-1.0, 1.0], 4))
        bit = FLIP_FLOP[bit][letter]
        holding = ((found.boxes.low <= state.numpy()) & (state.numpy() <= found.boxes.high)).all(1)
        assert {found.labels[box] for box in np.flatnonzero(holding)} == {bit}


def test_more_noise_is_not_decided_and_said_where() -> None:
    found = decide(slstm_flip_flop(), 0.2)
    assert isinstance(found, Undecided)
    assert found.letter == 2
    assert not isinstance(decide(slstm_flip_flop(input_radius=0.01), 0.05), Undecided)
    weakly = decide(slstm_flip_flop(input_radius=0.01), 0.05)
    assert isinstance(weakly, Properties)
    assert not weakly.strongly_robust  # the inputs have no ball of that radius


def test_a_start_outside_the_boxes_or_other_maps_do_not_pass() -> None:
    dynamics = slstm_flip_flop()
    found = prove_robust(dynamics, 0.05)
    assert isinstance(found, BoxCertificate)
    moved = dataclasses.replace(dynamics, start=Interval.at([[1.0, 1.0, 1.0, 0.0]]))
    assert recheck(moved, found) == Undecided("the start lies in no box of its state")
    swapped = dataclasses.replace(dynamics, maps=(dynamics.maps[1], dynamics.maps[0], dynamics.maps[2]))
    assert isinstance(recheck(swapped, found), Undecided)


@pytest.mark.parametrize(("noise", "letters"), [(0.1, 3), (0.01, 10), (0.001, 17)])
def test_mamba_collapses_on_flip_flop_as_early_as_the_worst_noise_can_make_it(noise: float, letters: int) -> None:
    dynamics = mamba_flip_flop()
    assert isinstance(prove_robust(dynamics, noise), Undecided)
    assert "i repeated" in no_linear_robustness(dynamics.transitions, dynamics.letters)
    merged = letters_until_merged(dynamics, noise, 100)
    assert merged is not None
    assert merged.letters == letters
    # by hand: set, then ignore under noise that always pulls to 0, from the weakest that setting leaves
    reach = [(-0.5, -0.5), None]  # the ends of each bit's states
    for _ in range(letters - 1):
        images = [
            (bit if letter == 2 else letter, gate * end + write + sign * noise)
            for bit, ends in enumerate(reach)
            if ends is not None
            for letter, (gate, write) in enumerate([(0.25, -0.5), (0.25, 0.5), (0.75, 0.0)])
            for end in ends
            for sign in (-1, 1)
        ]
        reach = [(min(own), max(own)) for bit in (0, 1) for own in [[*(reach[bit] or ()), *(x for b, x in images if b == bit)]]]
    assert reach[0] is not None
    assert reach[1] is not None
    assert reach[0][1] < reach[1][0]  # one letter earlier nothing touches yet
    # what claims to bear this noise, with components as far apart as they were once, must have merged by the bound
    assert merged.letters <= merging_time(diameter=2.0, gap=merged.gaps[0], noise=noise)


def test_mamba_collapses_only_if_there_is_noise_or_an_underflow() -> None:
    assert letters_until_merged(mamba_flip_flop(), 0.0, 500) is None
    state, letters = np.float32(1), 0
    while state >= np.finfo(np.float32).tiny:  # below, a device may flush to zero
        state, letters = state * np.float32(0.75), letters + 1
    assert letters == 304


def test_the_geometrically_constrained_view_keeps_the_bit() -> None:
    """Ignoring and setting map the open half-lines into themselves; by brute force on a grid, too."""
    grid = np.linspace(-1, 1, 2001)[1:-1]
    grid = grid[grid != 0]
    for gate, write in itertools.product((-0.5, 0.0, 0.25, 0.75, 1.0, 1.25), (-0.75, -0.5, 0.0, 0.5, 0.75)):
        images = gate * grid + write
        sides = [set(np.sign(images[grid * side > 0]).tolist()) for side in (-1, 1)]
        inside = bool((np.abs(images) < 1).all())
        kept = inside and all(len(found) == 1 and 0 not in found for found in sides)
        own = kept and (sides == [{-1.0}, {1.0}] if write == 0 else sides[0] == sides[1])
        assert keeps_sides(gate, write) == own, (gate, write)


@pytest.mark.parametrize("noise", [0.1, 0.01])
def test_parity_by_a_sign_is_exact_but_errors_add_up(noise: float) -> None:
    dynamics = sign_parity()
    assert letters_until_merged(dynamics, 0.0, 1000) is None
    assert isinstance(prove_robust(dynamics, noise), Undecided)
    merged = letters_until_merged(dynamics, noise, 1000)
    assert merged is not None
    assert merged.letters == round(1 / noise)
    assert np.allclose(merged.gaps, 2 - 2 * noise * np.arange(1, merged.letters))
    exact = decide(dynamics, 0.0)
    assert isinstance(exact, Properties)
    assert exact.canonical == dynamics.transitions
    assert exact.periods["aperiodic"] == "1 repeated leads state 0 round a cycle of 2"
    assert not exact.strongly_robust


def last_letter() -> Dynamics:
    """x ← x/4 ± ½: definite, so a linear recurrence may be robust."""
    maps = tuple(lambda box, w=w: Interval(box.low / 4 + w, box.high / 4 + w) for w in (-0.5, 0.5))
    return Dynamics(("0", "1"), maps, ((0, 1), (0, 1)), Interval.at([[-0.5]]), input_radius=0.1)


def test_a_definite_language_is_robust_and_contracting() -> None:
    found = decide(last_letter(), 0.1)
    assert isinstance(found, Properties)
    assert found.contracting
    assert found.aperiodic
    assert found.strongly_robust
    assert found.canonical == ((0, 1), (0, 1))
    assert no_linear_robustness(last_letter().transitions, ("0", "1")) == ""


@given(tables(4, 2))
def test_contracting_automata_are_the_definite_ones(table: Transitions) -> None:
    """For automata all of whose states differ: against the idempotents of the transition monoid."""
    for accepting in ({0}, {1}, {0, 2}):
        dfa = minimal(DFA(("a", "b"), table, frozenset(accepting)))
        assert (kept_apart(dfa.transitions, dfa.letters) == "") == classify(dfa).definite


@given(tables(4, 2))
def test_aperiodic_letters_settle(table: Transitions) -> None:
    """Against powers of each letter's map: a^4 = a^5 on 4 states."""
    settles = True
    for letter in range(2):
        powers = list(range(4))
        for _ in range(12):
            powers = [table[q][letter] for q in powers]
        settles &= powers == [table[q][letter] for q in powers]
    assert (turning(table, ("a", "b")) == "") == settles


def test_what_does_not_fit_together_is_named() -> None:
    with pytest.raises(ValueError, match="2 letters, 1 maps and 2 transitions"):
        Dynamics(("a", "b"), (lambda box: box,), ((0, 0),), Interval.at([[0.0]]))


def test_mamba_gates_lie_strictly_between_0_and_1() -> None:
    gate = mamba_gate(Interval.at([0.3]), Interval(np.array([-2.0]), np.array([1.0])))
    for logit in (-2.0, 0.0, 1.0):
        exact = float(torch.exp(-torch.nn.functional.softplus(torch.tensor(logit).double()) * np.exp(0.3)))
        assert gate.low[0] <= exact <= gate.high[0]
    assert 0 < gate.low[0] < gate.high[0] < 1
