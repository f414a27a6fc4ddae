"""The kernels under FSDP2 and activation checkpointing: a process group of one, on a GPU."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, distributed
from torch.distributed.tensor import DTensor

from eigentrack.lm.distributed import LanguageLoss, World, share_out
from eigentrack.models import ModelConfig, SequenceModel

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="needs a GPU; gloo on a CPU is tested in test_distributed.py"
)

LAYERS = {
    "delta rule": {"mixer": "deltanet", "mixer_options": {"heads": 2}},
    "gated products": {"mixer": "deltanet", "mixer_options": {"heads": 2, "householders": 2, "gate": [0.0, 1.0]}},
    "gated linear": {"mixer": "gla", "mixer_options": {"heads": 2}},
    "selective scan": {"mixer": "mamba"},
}


@pytest.fixture
def alone(tmp_path) -> Iterator[World]:
    device = torch.device("cuda", 0)
    distributed.init_process_group(
        "cpu:gloo,cuda:nccl", init_method=f"file://{tmp_path}/rendezvous", rank=0, world_size=1, device_id=device
    )
    yield World(device)
    distributed.destroy_process_group()


def loss_and_gradients(name: str, world: World | None, *, recompute: bool) -> dict[str, Tensor]:
    torch.manual_seed(0)
    values = {"d_model": 64, "layers": 2, "vocab_size": 50, "eigenvalues": [-1.0, 1.0], **LAYERS[name]}
    model = SequenceModel(ModelConfig.from_json(values)).cuda()
    model.activation_checkpointing = recompute
    loss = LanguageLoss(model)
    tokens = torch.randint(50, (3, 130), device="cuda")
    if world is None:
        model.bfloat16()
    else:
        share_out(loss, world, torch.bfloat16)
    value = loss(tokens, tokens.roll(-1, 1))
    value.backward()
    found = {name: parameter.grad for name, parameter in model.named_parameters()}
    whole = {
        name: part.full_tensor() if isinstance(part, DTensor) else part for name, part in found.items() if part is not None
    }
    return {"loss": value.detach(), **whole}


@pytest.mark.parametrize("recompute", [False, True], ids=["kept", "recomputed"])
@pytest.mark.parametrize("name", LAYERS)
def test_shared_out_and_recomputed_it_is_the_same(name: str, recompute: bool, alone: World) -> None:
    plain = loss_and_gradients(name, None, recompute=False)
    shared = loss_and_gradients(name, alone, recompute=recompute)
    assert plain.keys() == shared.keys()
    for key, expected in plain.items():
        error = (shared[key].float() - expected.float()).norm() / expected.float().norm()
        assert error <= 2e-2, (key, float(error))  # both round to bfloat16, the shared one sums in float32
