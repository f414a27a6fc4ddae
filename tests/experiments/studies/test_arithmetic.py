"""What is said of networks that do modular arithmetic: how they are wrong, and how their heads turn."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch

from eigentrack.experiments.paper.parity_and_arithmetic import ARITHMETIC
from eigentrack.experiments.questions.arithmetic import EXPERIMENT, LOSS_ABOVE_FLOOR, SMOOTHING
from eigentrack.experiments.running.cell import run_cell
from eigentrack.experiments.running.task_cell import CellResult
from eigentrack.experiments.studies import arithmetic_measures as offsets
from eigentrack.experiments.studies.arithmetic import StudiedResult, loss_floor, millionths, rank_correlation, study
from eigentrack.experiments.studies.arithmetic_measures import head_errors, repeated_term_reach, signed_terms, turning_error
from eigentrack.models import load_model
from eigentrack.tasks.modular_arithmetic import ModularArithmetic
from tests.experiments.toy import toy_result


def test_networks_that_were_kept_are_studied(tmp_path: Path) -> None:
    settings, said = EXPERIMENT.settings["smoke"], []
    kept, lost = cells = EXPERIMENT.cells(settings, (0,))[:2]
    results = [run_cell(kept, tmp_path / kept.name, "cpu"), run_cell(lost, tmp_path / "elsewhere", "cpu")]
    first, second = study(results, cells, tmp_path, settings, said.append)  # type: ignore[arg-type]
    assert sum(first.offsets) == offsets.SEQUENCES
    assert (second.offsets, second.turning_error, second.scores) == ((), None, results[1].scores)  # type: ignore[union-attr]
    assert said == [f"{lost.name}: the network was not kept, so nothing is said about its wrong answers and its heads"]
    off_by, turning, again = EXPERIMENT.columns[-3:]
    assert off_by.show([first, second]) == f"{', '.join(map(str, first.offsets[1:]))} at {first.offsets_at}; –"
    assert first.offsets_at == first.trained_to  # an untrained network fails at once
    model = load_model(tmp_path / kept.name / "model")
    assert turning.show([first, second]) == f"{turning_error(model, ModularArithmetic(5)):.2f}, –"
    assert first.repeated == repeated_term_reach(model, ModularArithmetic(5), settings.test.lengths[1], kept.seed)
    assert again.show([replace(first, repeated=(256, *[40] * 5, 52, 64, 76)), second]) == "256, 40 (40–76); –"


class Adder(torch.nn.Module):
    """Right, but that every `a digit` after a minus adds a thirtieth too much."""

    def __init__(self, digit: int) -> None:
        super().__init__()
        self.digit = digit

    def forward(self, tokens: torch.Tensor) -> tuple[torch.Tensor, None]:
        digits, operators = tokens[:, ::2], tokens[:, 1::2] - 5
        value = ModularArithmetic(5).prefix_values(digits, operators)[:, -1]
        wrong = ((digits[:, 1:] == self.digit) & (operators[:, :-1] == 1)).sum(1)
        answer = (value + torch.div(wrong, 30, rounding_mode="floor")) % 5
        return torch.nn.functional.one_hot(answer, 10)[:, None].expand(-1, tokens.shape[1], -1), None


def test_a_term_that_adds_too_much_shows_when_it_comes_again() -> None:
    found = repeated_term_reach(Adder(3), ModularArithmetic(5), 256, seed=0)  # type: ignore[arg-type]
    wrong = signed_terms(5).index((1, 3))
    assert [reach for place, reach in enumerate(found) if place != wrong] == [256] * 8
    assert found[wrong] in (64, 76)  # 30 of them are 60 tokens, after 16 of a start that has some of them


def test_repeated_terms_are_held_against_the_score() -> None:
    runs = [made_up(0.9, repeated=(256, *[100] * 8)), made_up(0.2, repeated=(256, *[40] * 8))]
    (line,) = [line for line in EXPERIMENT.found(runs) if line.startswith("When one term")]
    assert "2 of 2 networks are right up to length 256, where the test ends, if the term is 0. " in line
    assert "If it is one of ±1 to ±4, none is right so far and the worst up to length 40, in the median" in line
    far = made_up(0.9, repeated=(256, *[256] * 8))
    assert "1 is right so far" in " ".join(EXPERIMENT.found([*runs, far]))


def turning(degrees: list[float], modulus: float = 1.0, flip: bool = False) -> torch.Tensor:
    """A head that turns by so much with each digit 1, 2, 3, 4, and back with minus: [W, 10, 1, 3, 3], half a term a token.

    A third direction stays.
    """
    words = []
    for angle in [*degrees, *(-angle for angle in degrees)]:
        half = math.radians(angle) / 2
        matrix = torch.eye(3, dtype=torch.float64)
        cos, sin = math.cos(half), math.sin(half)
        matrix[:2, :2] = torch.tensor([[cos, -sin], [sin, cos]], dtype=torch.float64) * modulus**0.5
        flipped = matrix * torch.tensor([-1.0, -1.0, 1.0]) if flip else matrix
        words.append(torch.stack([matrix, flipped] * 5))
    return torch.stack(words)[:, :, None]


FIFTHS = [72.0, 144.0, 216.0, 288.0]


@pytest.mark.parametrize(
    ("head", "error"),
    [
        (turning(FIFTHS), 0.0),
        (turning([2 * angle for angle in FIFTHS]), 0.0),  # k = 2
        (turning(FIFTHS, flip=True), 0.0),  # with a sign
        (turning([75, 144, 216, 288]), 2 * math.sin(math.radians(1.5))),
        (turning(FIFTHS, 0.95), 0.05),
        (turning([72.0] * 4), 2 * math.sin(math.radians(18))),  # the same for every digit is no addition
        (turning([0.0] * 4), 2 * math.sin(math.radians(36))),
    ],
)
def test_how_far_a_head_is_from_turning_by_fifths(head: torch.Tensor, error: float) -> None:
    assert head_errors(head, 5).tolist() == pytest.approx([error], abs=1e-9)


def test_real_eigenvalues_come_no_nearer() -> None:
    matrices = torch.diag_embed(torch.rand(8, 10, 1, 3, dtype=torch.float64) * 2 - 1)
    assert head_errors(matrices, 5).item() >= math.sin(math.radians(72)) - 1e-9


def test_every_term_and_the_best_head_count() -> None:
    off = turning(FIFTHS)
    off[3, :2] = turning([72, 144, 216, 296])[3, :2]  # one of the last five terms of one word
    assert head_errors(off, 5).item() == pytest.approx(2 * math.sin(math.radians(4)))
    heads = torch.cat([off, turning(FIFTHS)], 2)
    assert head_errors(heads, 5).tolist() == pytest.approx([2 * math.sin(math.radians(4)), 0.0], abs=1e-9)


def made_up(score: float = 0.0, **studied: object) -> StudiedResult:
    values = {field.name: getattr(toy_result(), field.name) for field in fields(CellResult)}
    values |= {"panel": ARITHMETIC, "series": "1 factor", "scores": replace(values["scores"], scaled_accuracy=score)}
    return StudiedResult(**values, **studied)  # type: ignore[arg-type]


def test_neighbouring_offsets_are_told() -> None:
    near, far = made_up(offsets=(900, 30, 5, 5, 60), offsets_at=90), made_up(offsets=(900, 25, 25, 20, 30), offsets_at=90)
    assert "are off by ±1, or at least 75% by ±2, in 1 of 2 networks. " in " ".join(EXPERIMENT.found([near, far]))
    assert "Where answers begin" not in " ".join(EXPERIMENT.found([made_up(offsets=(1020, 1, 1, 1, 1), offsets_at=90)]))


def test_turning_heads_are_told() -> None:
    runs = [made_up(score, turning_error=1 - score) for score in (0.9, 0.2, 0.5, 0.7, 0.3)]
    assert (
        "have a rank correlation of -1.00. The median score is 0.500 in the 5 networks whose best head has an error of 0.05 "
        in (" ".join(EXPERIMENT.found(runs)))
    )
    one_turns = [made_up(0.99, turning_error=0.01), *runs]
    assert "is 0.990 in the 1 network whose best head has an error below 0.05 and 0.500 in" in " ".join(
        EXPERIMENT.found(one_turns)
    )
    assert "rank correlation" not in " ".join(EXPERIMENT.found(runs[:3]))
    assert rank_correlation([(1, 5), (2, 9), (3, 7)]) == pytest.approx(0.5)
    assert rank_correlation([(1, 1), (1, 2), (1, 3), (2, 0)]) == pytest.approx(-0.7746, abs=1e-4)  # ties share their rank


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.4])
def test_no_logits_have_a_loss_below_the_floor(smoothing: float) -> None:
    classes, answer = ModularArithmetic(5).vocab_size, torch.tensor([3])
    wrong = smoothing / classes
    exact = torch.full((1, classes), wrong or 1e-30, dtype=torch.float64)
    exact[0, 3] = 1 - (classes - 1) * wrong
    losses = [
        torch.nn.functional.cross_entropy(logits, answer, label_smoothing=smoothing).item()
        for logits in (exact.log(), exact.log() * 1.1, exact.log() * 0.9)
    ]
    assert losses[0] == pytest.approx(loss_floor(smoothing), abs=1e-12)
    assert min(losses) >= losses[0]


def test_what_the_loss_goes_with() -> None:
    smoothed = next(name for name, smoothing in SMOOTHING.items() if smoothing == 0.1)
    runs = [
        replace(run, series=smoothed, record=replace(run.record, last_loss=loss_floor(0.1) + excess))
        for run, excess in ((made_up(score), (1 - score) / 1e5) for score in (0.9, 0.2, 0.5, 0.75, 0.3))
    ]
    assert LOSS_ABOVE_FLOOR.above_floor(runs[1]) == pytest.approx(8e-6, rel=1e-6)
    (line,) = [line for line in EXPERIMENT.found(runs) if "above its floor" in line]
    assert line.startswith("In the 5 networks with labels smoothed by 0.1,")
    assert "rank correlation of -1.00" in line
    assert millionths(4e-7) == "below 0.5"
    assert "above its floor" not in " ".join(EXPERIMENT.found([*runs[:4], made_up(0.3)]))
