"""Enclosures hold the steps of real layers and networks, and families of boxes prove only what is true."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from eigentrack.compiler.boxed_network import BoxedNetwork, lstm_boxes, numbers, slstm_boxes
from eigentrack.compiler.boxes import BoxCertificate, BoxStep, Undecided, check_boxes, find_boxes
from eigentrack.compiler.interval import Arithmetic, Interval
from eigentrack.models import ModelConfig, SequenceModel
from eigentrack.models.sequence_model import ModelState
from eigentrack.ops.lstm.reference import lstm
from eigentrack.ops.slstm.reference import slstm

REAL = Arithmetic()


def inside(box: Interval, values: torch.Tensor) -> bool:
    found = numbers(values)
    return bool((box.low <= found).all() and (found <= box.high).all())


def points(box: Interval, count: int, random: np.random.Generator) -> torch.Tensor:
    """Of a box [1, ...]: some corners, and some inner points."""
    shape = (count, *box.shape[1:])
    shares = np.concatenate([np.round(random.random(shape)), random.random(shape)])
    return torch.tensor(box.low + shares * (box.high - box.low)).clamp(torch.tensor(box.low), torch.tensor(box.high))


@given(st.integers(0, 10**6), st.sampled_from([1, 3]))
@settings(max_examples=25, deadline=None)
def test_one_step_of_slstm_and_lstm_is_enclosed(seed: int, width: int) -> None:
    random = np.random.default_rng(seed)
    recurrent, gates = random.normal(size=(2, 4, width, width)), 2 * random.normal(size=(1, 2, 4, width))
    c, n, h, m = (
        Interval.at(random.normal(size=(1, 2, width)) + shift).inflated(radius)
        for shift, radius in ((0.0, 0.1), (4.0, 0.5), (0.0, 0.1), (0.0, 0.1))
    )
    inputs = torch.tensor(gates).expand(40, -1, -1, -1)[:, None]
    start = [points(part, 20, random) for part in (c, n, h, m)]
    _, after = slstm(inputs, recurrent=torch.tensor(recurrent), initial_state=tuple(start), packing=None)
    enclosed = slstm_boxes(Interval.at(gates), recurrent, (c, n, h, m), REAL)
    assert all(inside(box, values) for box, values in zip(enclosed, after, strict=True))
    _, after = lstm(inputs, recurrent=torch.tensor(recurrent), initial_state=(start[0], start[2]), packing=None)
    enclosed = lstm_boxes(Interval.at(gates), recurrent, (c, h), REAL)
    assert all(inside(box, values) for box, values in zip(enclosed, after, strict=True))


@pytest.mark.parametrize("norm_place", ["before", "after"])
@pytest.mark.parametrize("mixer", [("slstm", "convolution"), ("lstm", "slstm")], ids="-".join)
def test_a_step_of_a_trained_kind_of_network_is_enclosed(mixer: tuple[str, str], norm_place: str) -> None:
    """In float32 all its points, from boxes of a joint state that a word leads to."""
    torch.manual_seed(0)
    config = ModelConfig(vocab_size=4, d_model=8, layers=2, mixer=mixer, norm_place=norm_place)
    model, random = SequenceModel(config).eval(), np.random.default_rng(0)
    network = BoxedNetwork(model)
    with torch.no_grad():
        _, state = model(torch.tensor([[1, 2, 3, 0]]))
        parts = [part for layer in state.layers for part in (*layer.memory, layer.window) if part is not None]
        centre = Interval.at(np.concatenate([numbers(part).reshape(1, -1) for part in parts], 1))
        box = centre.inflated(1.1e-4)
        logits, after = network.step(np.array([2]), box)
        rows = points(centre.inflated(1e-4), 30, random).float()  # in the box, though it is rounded
        moved = ModelState(
            tuple(
                dataclasses.replace(
                    layer,
                    memory=tuple(next(sizes).view(-1, *part.shape[1:]) for part in layer.memory),
                    window=None if layer.window is None else next(sizes).view(-1, *layer.window.shape[1:]),
                )
                for sizes in [iter(rows.split([part.numel() for part in parts], 1))]
                for layer in state.layers
            )
        )
        found, then = model.step(torch.full((len(rows),), 2), moved)
    assert inside(logits, found)
    landed = [part.flatten(1) for layer in then.layers for part in (*layer.memory, layer.window) if part is not None]
    assert inside(after, torch.cat(landed, 1))
    at_a_point, _ = network.step(np.array([2]), centre)
    assert 0 < float((at_a_point.high - at_a_point.low).max()) < 0.5  # float32 rounding, widened by every layer and norm


def test_a_network_begins_where_the_model_does() -> None:
    model = SequenceModel(ModelConfig(vocab_size=3, d_model=4, layers=1, mixer="slstm")).eval()
    network = BoxedNetwork(model)
    with torch.no_grad():
        logits, state = model.step(torch.tensor([1]))
        enclosed, after = network.step(np.array([1]), network.start)
    assert inside(enclosed, logits)
    assert inside(after, torch.cat([part.flatten(1) for part in state.layers[0].memory], 1))


@pytest.mark.parametrize("width", [1, 3])
def test_a_step_of_a_convolution_is_enclosed(width: int) -> None:
    """With width 1 it carries nothing."""
    torch.manual_seed(0)
    options = {"channels": 2, "width": width}
    model = SequenceModel(ModelConfig(vocab_size=3, d_model=4, layers=1, mixer="convolution", mixer_options=options)).eval()
    network = BoxedNetwork(model)
    with torch.no_grad():
        logits, state = model.step(torch.tensor([1, 2]))
        enclosed, after = network.step(np.array([1, 2]), network.start[[0, 0]])
        assert inside(enclosed, logits)
        assert after.shape == (2, 2 * (width - 1))
        logits, _ = model.step(torch.tensor([0, 1]), state)
    assert inside(network.step(np.array([0, 1]), after)[0], logits)


def test_a_layer_without_an_enclosure_is_named() -> None:
    with pytest.raises(ValueError, match="no enclosure for a layer of DeltaNet"):
        BoxedNetwork(SequenceModel(ModelConfig(vocab_size=2, d_model=8, layers=1)))


def line_step(*maps: tuple[float, float]) -> BoxStep:
    """x ← a x + b for each letter, on a line."""

    def step(letters: NDArray[np.int_], boxes: Interval, _: NDArray[np.int_]) -> tuple[Interval, NDArray[np.float64]]:
        gates, writes = (np.array([pair[part] for pair in maps])[letters, None] for part in (0, 1))
        image = REAL.plus(REAL.times(Interval.at(gates), boxes), Interval.at(writes))
        return image, np.ones(len(letters))

    return step


# the last letter decides: x ← x/4 ± 1/2
LAST_LETTER, RESETS = line_step((0.25, -0.5), (0.25, 0.5)), ((0, 1), (0, 1))
START = Interval.at([[-0.5]])


def test_boxes_are_found_up_to_the_noise_at_which_none_exist() -> None:
    """|x| ≤ (½ + ε)/(1 - ¼) and |x| ≥ ½ - ε - ¼|x|: the gap closes at ε = 0.25 exactly."""
    for epsilon, decided in ((0.01, True), (0.2, True), (0.23, True), (0.2501, False), (0.3, False)):
        found = find_boxes(LAST_LETTER, START, 0, RESETS, epsilon, 100)
        assert isinstance(found, BoxCertificate) == decided
        if isinstance(found, BoxCertificate):
            assert check_boxes(LAST_LETTER, START, 0, RESETS, found) is None
            assert found.boxes.low.min() <= -(0.5 + epsilon) / 0.75 * (1 - 1e-9)
        else:
            assert "touches a box of another state" in str(found)


def test_a_failed_attempt_names_the_letter_and_the_state() -> None:
    """Letter 0 moves state 1 by little: not out of its box."""
    found = find_boxes(line_step((1.0, -0.01), (0.0, 1.0)), Interval.at([[-1.0]]), 0, RESETS, 0.01, 100)
    assert isinstance(found, Undecided)
    assert (found.letter, found.label) == (0, 1)
    assert str(found).startswith("not decided at this resolution: letter 0 from a box of state 1: ")


def test_limits_are_an_answer() -> None:
    growing = find_boxes(line_step((1.0, 9.0)), Interval.at([[0.0]]), 0, ((0,),), 0.01, 5)
    assert isinstance(growing, Undecided)
    assert growing.reason == "more than 5 boxes"
    drifting = find_boxes(line_step((1.0, 0.5)), Interval.at([[0.0]]), 0, ((0,),), 1.0, 5)
    assert isinstance(drifting, Undecided)
    assert "still grow" in drifting.reason


def test_a_certificate_that_was_changed_does_not_pass() -> None:
    found = find_boxes(LAST_LETTER, START, 0, RESETS, 0.1, 100)
    assert isinstance(found, BoxCertificate)
    assert check_boxes(LAST_LETTER, START, 0, RESETS, found) is None
    narrower = Interval(found.boxes.low * 0.9, found.boxes.high)
    swapped = tuple(tuple(reversed(row)) for row in found.successors)
    for wrong in (
        dataclasses.replace(found, epsilon=0.2),
        dataclasses.replace(found, boxes=narrower),
        dataclasses.replace(found, successors=swapped),
        dataclasses.replace(found, labels=tuple(1 - label for label in found.labels)),
        dataclasses.replace(found, boxes=found.boxes.inflated(1.0)),
    ):
        assert isinstance(check_boxes(LAST_LETTER, START, 0, RESETS, wrong), Undecided)
    assert isinstance(check_boxes(line_step((0.5, -0.5), (0.5, 0.5)), START, 0, RESETS, found), Undecided)  # another system
    with pytest.raises(ValueError, match="must be among its boxes"):
        dataclasses.replace(found, successors=((0, 99),) * len(found.labels))


def test_a_start_outside_its_boxes_and_no_box_at_all_prove_nothing() -> None:
    found = find_boxes(LAST_LETTER, START, 0, RESETS, 0.1, 100)
    assert isinstance(found, BoxCertificate)
    for start, label in ((Interval.at([[-9.0]]), 0), (START, 1), (START.inflated(1.0), 0)):
        assert check_boxes(LAST_LETTER, start, label, RESETS, found) == Undecided("the start lies in no box of its state")
    with pytest.raises(ValueError, match="at least one box"):
        BoxCertificate(0.1, Interval.at(np.zeros((0, 1))), (), (), 1.0)
