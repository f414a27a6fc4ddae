"""The page on new layers and tasks: its layer passes the tests of all layers, its tasks are what they say."""

from __future__ import annotations

import torch

from eigentrack.tasks import Task
from eigentrack.tasks.registry import TASKS
from tests.docs.session import run_at_once
from tests.layers import test_conformance as conformance

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


def test_the_new_layer_conforms_and_the_new_tasks_are_what_they_say() -> None:
    namespace = run_at_once(EXTEND)
    assert namespace["accuracy"] > 0.9
    for options in ({"heads": 3}, {"heads": 2, "eigenvalues": namespace["EigenRange"](0, 1)}):
        for check in CONFORMANCE:
            check("retention", options)
    check_elevator(TASKS["elevator"](4))
    check_echo(TASKS["echo"](delay=3))


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
