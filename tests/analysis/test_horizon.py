from __future__ import annotations

import itertools

import pytest
import torch

from eigentrack.analysis import Subject, compiled_subject, find_horizons, input_patterns
from eigentrack.analysis.horizon import LONGEST_PIECE
from eigentrack.analysis.input_patterns import LEAD_IN, MOST_CYCLES, Pattern, stream_pattern
from eigentrack.automata import regex_dfa
from eigentrack.compiler import choose_plan, compile_network
from eigentrack.training import horizon
from tests.analysis.scripted import exact_parity, scripted

FLIP_FLOP = ((0, 1, 0), (0, 1, 1))


def forgetful_flip_flop(memory: int):
    """Remembers the last bit written through `memory` ignored letters, then says 0: x is ±(letters left to remember)."""

    def move(x, letter):
        written = (2.0 * letter - 1) * (memory + 1)
        return torch.where(letter == 2, x.sign() * (x.abs() - 1).clamp_min(0), written)

    return scripted(FLIP_FLOP, (0, 1), move, lambda x: (x > 0).long(), shares=(0.1, 0.1, 0.8))


@pytest.mark.parametrize("pattern", [Pattern("random", 5), Pattern("a for ever", 3, (0,)), Pattern("b, c in turn", 4, (1, 2))])
def test_streams_follow_the_machine(pattern: Pattern) -> None:
    subject = scripted(FLIP_FLOP, (0, 1), lambda x, _: x, lambda x: x.long())
    pieces = list(itertools.islice(stream_pattern(subject, pattern, 7, seed=3), 5))
    letters, states = (torch.cat(parts, 1) for parts in zip(*pieces, strict=True))
    assert letters.shape == states.shape == (pattern.rows, LEAD_IN + 4 * 7)
    if pattern.cycle:
        expected = list(itertools.islice(itertools.cycle(pattern.cycle), 4 * 7))
        assert letters[:, LEAD_IN:].tolist() == [expected] * pattern.rows
    for word, visited in zip(letters.tolist(), states.tolist(), strict=True):
        state = 0
        for letter, after in zip(word, visited, strict=True):
            state = FLIP_FLOP[state][letter]
            assert state == after


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
    subject = forgetful_flip_flop(memory)
    found = {item.pattern: item for item in find_horizons(subject, input_patterns(subject, 16, 8, 0), 6000, seed=0)}
    run = found["ignored c for ever"]
    # the ignored letters before the run of them count, too: at most those of the lead-in
    assert memory < run.letters <= LEAD_IN + memory
    assert not run.is_open
    assert 2 * run.letters <= run.tested < 6000  # given up
    assert all(item.is_open and item.letters == 6000 for name, item in found.items() if name != run.pattern)


def test_the_curve_holds_the_accuracy_between_its_points() -> None:
    subject = forgetful_flip_flop(300)
    (found,) = find_horizons(subject, [Pattern("run", 64, (2,))], 2000, seed=1)
    lengths = [length for length, _ in found.curve]
    assert lengths == sorted(set(lengths))
    assert lengths[-1] == found.tested
    pieces = itertools.islice(stream_pattern(subject, Pattern("run", 64, (2,)), 1024, 1), 2)
    letters, states = (torch.cat(parts, 1) for parts in zip(*pieces, strict=True))
    logits, _ = subject.read(letters, subject.begin(64)[1])
    right = (logits.argmax(-1) == states).double().mean(0)
    first = 0
    for length, accuracy in found.curve:
        assert accuracy == pytest.approx(float(right[first:length].mean()), abs=1e-3)
        first = length
    assert min(accuracy for _, accuracy in found.curve) < 0.8


def test_a_compiled_network_never_fails() -> None:
    subject = compiled_subject(compile_network(choose_plan(regex_dfa("(ab|ba)*"), spread_factors=True)))
    longest = LONGEST_PIECE + 100
    found = find_horizons(subject, input_patterns(subject, 4, 2, 0), longest, seed=0)
    assert {item.letters for item in found} == {longest}
    assert all(item.is_open for item in found)


def test_streaming_agrees_with_one_long_pass(trained_parity: Subject) -> None:
    for pattern in (Pattern("random", 32), Pattern("b for ever", 8, (1,))):
        (found,) = find_horizons(trained_parity, [pattern], 4000, seed=0)
        pieces = itertools.islice(stream_pattern(trained_parity, pattern, 2048 if pattern.rows == 32 else 4096, 0), 3)
        letters, states = (torch.cat(parts, 1)[:, :4000] for parts in zip(*pieces, strict=True))
        with torch.no_grad():
            logits, _ = trained_parity.model(letters)
        curve = (logits[..., :2].argmax(-1) == states).double().mean(0)
        assert found.letters > 24
        assert found.letters == horizon(curve)


def test_progress_and_bad_values() -> None:
    subject, seen = exact_parity(), []
    find_horizons(subject, [Pattern("random", 2)], 100, seed=0, progress=seen.append)
    assert seen[-1] == 100
    assert seen == sorted(seen)
    with pytest.raises(ValueError, match="longest=0 must be at least 1"):
        find_horizons(subject, [], 0, seed=0)
    with pytest.raises(ValueError, match="random_rows=0"):
        input_patterns(subject, 0, 1, 0)
