from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from eigentrack.analysis import InspectedNetwork, find_horizons, input_patterns
from eigentrack.analysis import horizon as horizon_module
from eigentrack.analysis.horizon import FAR_ROWS, LONGEST_PIECE
from eigentrack.analysis.word_patterns import LEAD_IN, MOST_CYCLES, Pattern, PatternStream
from eigentrack.automata import regex_dfa
from eigentrack.compiler import choose_plan, compile_network
from eigentrack.models.sequence_model import ModelState
from eigentrack.training import horizon
from tests.analysis.scripted import Scripted, exact_parity, scripted

FLIP_FLOP = ((0, 1, 0), (0, 1, 1))


def forgetful_flip_flop(memory: int):
    """Remembers the last bit written through `memory` ignored letters, then says 0: x is ±(letters left to remember)."""

    def move(x, letter):
        written = (2.0 * letter - 1) * (memory + 1)
        return torch.where(letter == 2, x.sign() * (x.abs() - 1).clamp_min(0), written)

    return scripted(FLIP_FLOP, (0, 1), move, lambda x: (x > 0).long(), shares=(0.1, 0.1, 0.8))


def streamed(inspected: InspectedNetwork, pattern: Pattern, pieces: list[int], seed: int) -> tuple[Tensor, Tensor]:
    stream = PatternStream(inspected, pattern, seed)
    letters, states = zip(*map(stream.read, pieces), strict=True)
    return torch.cat(letters, 1), torch.cat(states, 1)


@pytest.mark.parametrize("pattern", [Pattern("random", 5), Pattern("a for ever", 3, (0,)), Pattern("b, c in turn", 4, (1, 2))])
def test_streams_follow_the_machine(pattern: Pattern) -> None:
    inspected = scripted(FLIP_FLOP, (0, 1), lambda x, _: x, lambda x: x.long())
    letters, states = streamed(inspected, pattern, [LEAD_IN, 7, 7, 7, 7], seed=3)
    assert letters.shape == states.shape == (pattern.rows, LEAD_IN + 4 * 7)
    if pattern.cycle:
        expected = list(itertools.islice(itertools.cycle(pattern.cycle), 4 * 7))
        assert letters[:, LEAD_IN:].tolist() == [expected] * pattern.rows
    for word, visited in zip(letters.tolist(), states.tolist(), strict=True):
        state = 0
        for letter, after in zip(word, visited, strict=True):
            state = FLIP_FLOP[state][letter]
            assert state == after


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_orbits_are_walks_of_any_machine(data: st.DataObject) -> None:
    """Machines with tails before their cycles, and rows that are dropped on the way."""
    states = data.draw(st.integers(1, 9))
    row = st.tuples(*[st.integers(0, states - 1)] * 3)
    table = tuple(data.draw(row) for _ in range(states))
    inspected = scripted(table, (0,) * states, lambda x, _: x, lambda x: x.long())
    cycle = data.draw(st.lists(st.integers(0, 2), min_size=1, max_size=3).map(tuple))
    stream = PatternStream(inspected, Pattern("cycle", 4, cycle), data.draw(st.integers(0, 99)))
    _, after = stream.read(5)
    walked, turn = after[:2, -1].tolist(), itertools.cycle(cycle)
    stream.keep(2)
    for count in data.draw(st.lists(st.integers(1, 12), max_size=3)):
        letters, after = stream.read(count)
        for letter_of_rows, state_of_rows in zip(letters.T.tolist(), after.T.tolist(), strict=True):
            letter = next(turn)
            walked = [table[state][letter] for state in walked]
            assert letter_of_rows == [letter] * 2
            assert state_of_rows == walked


def test_patterns_name_the_ignored_letter_and_favour_the_rare_ones() -> None:
    patterns = {pattern.name: pattern for pattern in input_patterns(forgetful_flip_flop(9), 4, 2, seed=0)}
    assert next(iter(patterns)) == "random"
    assert {"a for ever", "b for ever", "ignored c for ever", "a, b in turn"} < set(patterns)
    shares = patterns["rare letters"].shares
    assert shares is not None
    assert min(shares[:2]) > 4 * shares[2]  # a and b come an eighth as often as c
    assert "rare letters" not in {pattern.name for pattern in input_patterns(exact_parity(), 4, 2, seed=0)}


def test_large_alphabets_are_sampled() -> None:
    names = input_patterns(scripted(((0,) * 8,), (0,), lambda x, _: x, lambda x: x.long()), 1, 1, seed=0)
    assert len(names) == 1 + 8 + 28
    wide = scripted(((0,) * 20,), (0,), lambda x, _: x, lambda x: x.long())
    assert len(input_patterns(wide, 1, 1, seed=0)) == 1 + 20 + MOST_CYCLES


def test_the_horizon_is_where_the_memory_ends() -> None:
    memory = 500
    inspected = forgetful_flip_flop(memory)
    found = {item.pattern: item for item in find_horizons(inspected, input_patterns(inspected, 16, 8, 0), 6000, seed=0)}
    run = found["ignored c for ever"]
    # the ignored letters before the run of them count, too: at most those of the lead-in
    assert memory < run.letters <= LEAD_IN + memory
    assert not run.is_open
    assert 2 * run.letters <= run.tested < 6000  # given up
    assert all(item.is_open and item.letters == 6000 for name, item in found.items() if name != run.pattern)


def test_the_curve_holds_the_accuracy_between_its_points() -> None:
    inspected = forgetful_flip_flop(300)
    (found,) = find_horizons(inspected, [Pattern("run", 64, (2,))], 2000, seed=1)
    lengths = [length for length, _ in found.curve]
    assert lengths == sorted(set(lengths))
    assert lengths[-1] == found.tested
    letters, states = streamed(inspected, Pattern("run", 64, (2,)), [LEAD_IN, 1024], seed=1)
    logits, _ = inspected.read(letters, inspected.begin(64)[1])
    right = (logits.argmax(-1) == states).double().mean(0)
    first = 0
    for length, accuracy in found.curve:
        assert accuracy == pytest.approx(float(right[first:length].mean()), abs=1e-3)
        first = length
    assert min(accuracy for _, accuracy in found.curve) < 0.8


def test_a_compiled_network_never_fails() -> None:
    inspected = InspectedNetwork.from_compiled(compile_network(choose_plan(regex_dfa("(ab|ba)*"), spread_factors=True)))
    longest = LONGEST_PIECE + 100
    found = find_horizons(inspected, input_patterns(inspected, 4, 2, 0), longest, seed=0)
    assert {item.letters for item in found} == {longest}
    assert all(item.is_open for item in found)


def test_few_rows_go_far_and_the_memory_of_the_words_stays_flat(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network that forgets beyond FAR is found out, by the rows that are left."""
    far, memory = 300, 900
    monkeypatch.setattr(horizon_module, "FAR", far)
    monkeypatch.setattr(horizon_module, "LONGEST_PIECE", 256)
    inspected, shapes = forgetful_flip_flop(memory), []

    def read(letters: Tensor, state: ModelState) -> tuple[Tensor, ModelState]:
        shapes.append(tuple(letters.shape))
        return Scripted.read(inspected, letters, state)

    object.__setattr__(inspected, "read", read)
    patterns = [Pattern("random", 32), Pattern("run", 24, (2,)), Pattern("both", 3, (0, 1))]
    random, run, both = find_horizons(inspected, patterns, 3000, seed=0)
    assert random.letters == both.letters == 3000
    assert memory < run.letters <= LEAD_IN + memory
    lengths = list(itertools.accumulate(count for _, count in shapes))
    widths = {rows for (rows, count), length in zip(shapes, lengths, strict=True) if length - count < far}
    assert widths == {32 + 24 + 3}
    assert {rows for rows, _ in shapes} == {59, 2 * FAR_ROWS + 3, FAR_ROWS + 3}
    assert max(rows * count for rows, count in shapes) <= horizon_module.TOKENS_AT_ONCE


def test_streaming_agrees_with_one_long_pass(trained_parity: InspectedNetwork) -> None:
    for pattern in (Pattern("random", 32), Pattern("b for ever", 8, (1,))):
        (found,) = find_horizons(trained_parity, [pattern], 4000, seed=0)
        piece = 2048 if pattern.rows == 32 else 4096
        letters, states = (part[:, :4000] for part in streamed(trained_parity, pattern, [LEAD_IN, piece, piece], seed=0))
        with torch.no_grad():
            logits, _ = trained_parity.model(letters)
        curve = (logits[..., :2].argmax(-1) == states).double().mean(0)
        assert found.letters > 24
        assert found.letters == horizon(curve)


def test_progress_and_bad_values() -> None:
    inspected, seen = exact_parity(), []
    find_horizons(inspected, [Pattern("random", 2)], 100, seed=0, progress=seen.append)
    assert seen[-1] == 100
    assert seen == sorted(seen)
    with pytest.raises(ValueError, match="longest=0 must be at least 1"):
        find_horizons(inspected, [], 0, seed=0)
    with pytest.raises(ValueError, match="random_rows=0"):
        input_patterns(inspected, 0, 1, 0)
