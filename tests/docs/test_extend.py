"""The page on new layers and tasks: its layer passes the tests of all layers, its tasks are what they say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from eigentrack.layers import INITIALISERS, MIXERS, PROJECTIONS, LinearMixer
from eigentrack.models import ModelConfig
from eigentrack.spectrum import SETS, eigenvalues_from_json, parse_eigenvalues
from eigentrack.tasks import Task
from eigentrack.tasks.registry import TASKS
from tests.docs.session import run_at_once
from tests.layers import test_conformance as conformance
from tests.layers.layer_cases import D_MODEL, build

EXTEND = "docs/how_to/extend.md"
CONFORMANCE = (
    conformance.test_steps_equal_forward,
    conformance.test_pieces_equal_the_whole,
    conformance.test_packed_sequences_do_not_see_each_other,
    conformance.test_backends_agree_on_values_and_parameter_gradients,
    conformance.test_transitions_are_what_forward_applies,
    conformance.test_eigenvalues_lie_in_the_range,
    conformance.test_states_can_be_selected_and_detached,
    conformance.test_half_precision_layers_keep_a_float32_memory,
)


@pytest.fixture(autouse=True)
def tables_as_they_were() -> Iterator[None]:
    """What the page adds is gone afterwards: other tests walk through the tables."""
    tables: tuple[dict[Any, Any], ...] = (MIXERS, INITIALISERS, PROJECTIONS, SETS, TASKS)
    before = [dict(table) for table in tables]
    yield
    for table, entries in zip(tables, before, strict=True):
        table.clear()
        table.update(entries)


def test_the_new_layer_conforms_and_the_new_tasks_are_what_they_say() -> None:
    namespace = run_at_once(EXTEND)
    assert namespace["accuracy"] > 0.9
    for options in ({"heads": 3}, {"heads": 2, "eigenvalues": namespace["EigenRange"](0, 1)}):
        for check in CONFORMANCE:
            check("retention", options)
    check_sector(namespace["EigenSector"])
    check_elevator(TASKS["elevator"](4))
    check_echo(TASKS["echo"](delay=3))


def check_sector(sector: type) -> None:
    """Layers that turn take the set from outside, the others refuse it."""
    text = sector(0.1)
    assert parse_eigenvalues(str(text)) == eigenvalues_from_json(text.to_json()) == text
    cases = {"gla": {"heads": 3, "key_dim": 4}, "mamba": {"state_size": 4}, "mamba2": {"heads": 3, "state_size": 4}}
    for name, options in cases.items():
        options["eigenvalues"] = text
        for check in CONFORMANCE:
            if check is not conformance.test_eigenvalues_lie_in_the_range:
                check(name, options)
        mixer = build(name, options)
        assert isinstance(mixer, LinearMixer)
        angles = mixer.gates(torch.randn(2, 9, D_MODEL, dtype=torch.float64))["eigenvalue"].angle().abs() / (2 * torch.pi)
        assert 0 < angles.max() <= 0.1
    with pytest.raises(ValueError, match=r"S4D: eigenvalues=sector 0\.1 must be an EigenRange or EigenDisk"):
        ModelConfig(vocab_size=3, d_model=D_MODEL, mixer="s4d", eigenvalues=text).build_mixer(0)


def check_elevator(task: Task) -> None:
    batch = task.sample(16, (20, 20), seed=1, step=2)
    floor = torch.zeros(16, dtype=torch.int64)
    for letter, target in zip(batch.tokens.unbind(1), batch.targets.unbind(1), strict=True):
        floor = (floor + torch.tensor([1, -1, 0])[letter]).clamp(0, 3)
        assert torch.equal(target, floor)


def check_echo(task: Task) -> None:
    batch = task.sample(16, (5, 9), seed=1, step=2)
    asked = batch.weight > 0
    torch.testing.assert_close(batch.weight.sum(1), torch.ones(16))
    assert not asked[:, :3].any()
    assert torch.equal(batch.targets[:, 3:][asked[:, 3:]], batch.tokens[:, :-3][asked[:, 3:]])
