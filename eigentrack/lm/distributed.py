"""The processes that train one model together, and the part of the model that each of them holds (FSDP2).

torchrun sets RANK, WORLD_SIZE and LOCAL_RANK. A single process needs no process group and makes none.
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
    """All processes of a training, as seen by one of them."""

    device: torch.device
    rank: int = 0  # the number of this process
    ranks: int = 1  # the number of processes
    # a process group for checkpoints alone: they are written during training, and the messages of both must not mix
    checkpoint_group: distributed.ProcessGroup | None = None

    @property
    def leads(self) -> bool:
        return self.rank == 0

    @property
    def is_one_gpu(self) -> bool:
        return self.device.type == "cuda" and self.ranks == 1

    def sum(self, tensor: Tensor) -> Tensor:
        """Sum a tensor over all processes, in place."""
        if self.ranks > 1:
            distributed.all_reduce(tensor)
        return tensor

    def wait(self) -> None:
        """Wait until all processes have made this call."""
        if self.ranks > 1:
            distributed.barrier()

    def any(self, here: bool) -> bool:
        """Return whether `here` is true in any of the processes, all of which make this call."""
        flag = torch.tensor(int(here), device="cpu")
        return bool(self.sum(flag).item())


@contextmanager
def join_world(device: str) -> Iterator[World]:
    """Yield the world of all processes that torchrun started, or of this process alone."""
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
    """The summed cross-entropy of a model; it is one module, so that FSDP gathers the whole head for the loss."""

    def __init__(self, model: SequenceModel) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, tokens: Int[Tensor, "B T"], targets: Int[Tensor, "B T"], cu_seqlens: Tensor | None = None
    ) -> Float[Tensor, ""]:
        """Return the cross-entropy in nats, summed over all targets that are not IGNORED."""
        x, _ = self.model.hidden(tokens, None, cu_seqlens)
        return summed_cross_entropy(
            x.flatten(0, 1), self.model.head.weight, targets.flatten(), backend=self.model.config.backend
        )


def share_out(loss: LanguageLoss, world: World, computed_in: torch.dtype) -> None:
    """Share out the parameters in float32 over all processes; a block is gathered, in `computed_in`, only while it runs.

    The projections of angles are never rounded, and gradients are summed in float32.
    """
    policy = MixedPrecisionPolicy(param_dtype=computed_in, reduce_dtype=torch.float32)
    mesh = distributed.device_mesh.init_device_mesh(world.device.type, (world.ranks,))
    for angles in [module for module in loss.modules() if isinstance(module, PreciseProjection)]:
        fully_shard(angles, mesh=mesh, mp_policy=MixedPrecisionPolicy(cast_forward_inputs=False))
    for block in loss.model.blocks:
        block.register_forward_hook(_without_gradient_of_the_state)  # before FSDP's own hook, which gets this hook's result
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(loss, mesh=mesh, mp_policy=policy)


def _without_gradient_of_the_state(
    block: nn.Module, inputs: tuple[object, ...], outputs: tuple[Tensor, MixerState]
) -> tuple[Tensor, MixerState]:
    """Return the outputs with the state detached: no loss depends on it, but FSDP would wait for its gradient and warn."""
    x, state = outputs
    return x, state.detach()


def sum_gradients_after(loss: LanguageLoss, is_last: bool) -> None:
    """Let FSDP sum the gradients over the processes only after the last micro-batch of a step."""
    if isinstance(loss, FSDPModule):
        loss.set_requires_gradient_sync(is_last)
