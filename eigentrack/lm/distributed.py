"""The processes that train one model together: who they are, and what each holds of the model (FSDP2).

torchrun sets RANK, WORLD_SIZE and LOCAL_RANK. A process that is alone needs no process group, and makes none.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, distributed, nn
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

from eigentrack.layers import MixerState
from eigentrack.layers.rotating_gates import PreciseProjection
from eigentrack.models import SequenceModel
from eigentrack.ops.cross_entropy.op import summed_cross_entropy


@dataclass(frozen=True)
class World:
    device: torch.device
    rank: int = 0
    ranks: int = 1
    # of their own: checkpoints are written while training goes on, and the two must not mix their messages
    checkpoint_group: distributed.ProcessGroup | None = None

    @property
    def leads(self) -> bool:
        return self.rank == 0

    @property
    def is_one_gpu(self) -> bool:
        return self.device.type == "cuda" and self.ranks == 1

    def sum(self, tensor: Tensor) -> Tensor:
        """Over all processes, in place."""
        if self.ranks > 1:
            distributed.all_reduce(tensor)
        return tensor

    def wait(self) -> None:
        """Until all processes are here."""
        if self.ranks > 1:
            distributed.barrier()


@contextmanager
def join_world(device: str) -> Iterator[World]:
    """Of all processes that torchrun started, or of this one alone."""
    rank, ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if device == "cuda":
        device = f"cuda:{os.environ.get('LOCAL_RANK', 0)}"
        torch.cuda.set_device(device)
    if ranks == 1:
        yield World(torch.device(device))
        return
    distributed.init_process_group("cpu:gloo,cuda:nccl" if device.startswith("cuda") else "gloo")
    try:
        yield World(torch.device(device), rank, ranks, distributed.new_group(backend="gloo"))
    finally:
        distributed.destroy_process_group()


class LanguageLoss(nn.Module):
    """Tokens and targets in, summed cross-entropy out; one module, so that FSDP has the head whole for the loss."""

    def __init__(self, model: SequenceModel) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, tokens: Int[Tensor, "B T"], targets: Int[Tensor, "B T"], cu_seqlens: Tensor | None = None
    ) -> Float[Tensor, ""]:
        """In nats, over all targets that are asked for."""
        x, _ = self.model.hidden(tokens, None, cu_seqlens)
        return summed_cross_entropy(
            x.flatten(0, 1), self.model.head.weight, targets.flatten(), backend=self.model.config.backend
        )


def share_out(loss: LanguageLoss, world: World, computed_in: torch.dtype) -> None:
    """Each process keeps its part of every parameter, in float32 on its device; a block is whole, rounded, only while it runs.

    Angles are never rounded, and gradients are summed in float32.
    """
    policy = MixedPrecisionPolicy(param_dtype=computed_in, reduce_dtype=torch.float32)
    mesh = distributed.device_mesh.init_device_mesh(world.device.type, (world.ranks,))
    for angles in [module for module in loss.modules() if isinstance(module, PreciseProjection)]:
        fully_shard(angles, mesh=mesh, mp_policy=MixedPrecisionPolicy(cast_forward_inputs=False))
    for block in loss.model.blocks:
        block.register_forward_hook(_without_gradient_of_the_state)  # before FSDP's own hook, which takes what this one returns
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(loss, mesh=mesh, mp_policy=policy)


def _without_gradient_of_the_state(
    block: nn.Module, inputs: tuple[object, ...], outputs: tuple[Tensor, MixerState]
) -> tuple[Tensor, MixerState]:
    """The loss ends with the rows, so no gradient comes through a state; FSDP would wait for one, and warn of a view."""
    x, state = outputs
    return x, state.detach()


def sum_gradients_after(loss: LanguageLoss, is_last: bool) -> None:
    """Of the micro-batches of a step only the last one needs the other processes."""
    if isinstance(loss, FSDPModule):
        loss.set_requires_gradient_sync(is_last)
