"""What each process holds of a model, and in which precision."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import distributed

from eigentrack.lm.distributed import LanguageLoss, World, share_out
from eigentrack.models import ModelConfig, SequenceModel
from eigentrack.spectrum import EigenDisk, EigenPolygon, Eigenvalues


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'meeting'}", rank=0, world_size=1)
    yield World(torch.device("cpu"))
    distributed.destroy_process_group()


@pytest.mark.parametrize(("eigenvalues", "angles"), [(EigenDisk(), "turn_proj"), (EigenPolygon(3), "corner_proj.logits")])
def test_blocks_are_gathered_in_bfloat16_and_angles_in_float32(world: World, eigenvalues: Eigenvalues, angles: str) -> None:
    config = ModelConfig(
        vocab_size=11, d_model=8, layers=1, mixer="gla", mixer_options={"heads": 1, "key_dim": 4}, eigenvalues=eigenvalues
    )
    loss = LanguageLoss(SequenceModel(config))
    share_out(loss, world, torch.bfloat16)
    seen: dict[str, torch.dtype] = {}
    mixer = loss.model.blocks[0].mixer
    for name, module in mixer.named_modules():
        if isinstance(module, torch.nn.Linear):
            module.register_forward_pre_hook(lambda module, _, name=name: seen.update({name: module.weight.dtype}))
    tokens = torch.randint(11, (2, 5))
    loss(tokens, tokens, None).sum().backward()
    assert seen[angles] == torch.float32
    assert seen["q_proj"] == torch.bfloat16
    assert all(parameter.grad is not None and parameter.grad.dtype == torch.float32 for parameter in mixer.parameters())
