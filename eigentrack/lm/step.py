"""One step of language-model training, whose rows are shared out over processes and micro-batches.

The loss is the mean over all targets of the whole batch, however it is shared out.

P parts of the model
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
import torch._functorch.config
from jaxtyping import Float
from torch import Tensor, nn

from eigentrack.layers import scheduled
from eigentrack.lm.batches import PackedBatch, PackedBatches
from eigentrack.lm.config import LanguageTrainingConfig
from eigentrack.lm.distributed import LanguageLoss, World, share_out, sum_gradients_after
from eigentrack.models import SequenceModel
from eigentrack.ops.cross_entropy.op import IGNORED
from eigentrack.training.compilation import looping_mixers
from eigentrack.training.optimizer import clip_gradients, make_optimizer, model_parts, set_rate
from eigentrack.training.step import matrix_products

STEPS_TO_PAY = 2000  # from so many steps on torch.compile saves more time than it takes, at most a minute for equal blocks
_TAKE_AGAIN = dict.fromkeys(
    ("ban_recompute_materialized_backward", "ban_recompute_used_far_apart", "ban_recompute_long_fusible_chains"), False
)


class LanguageStep:
    """The training step: `step(number)` takes it and returns one tensor on the device, [loss, *gradient norm of each part].

    `weights` is the model that the optimiser updates, in float32; `model` is the one that computes, the same or a copy in
    bfloat16. With `compiled`, torch.compile fuses each block, once per kind of block, which makes the first step slow.
    """

    def __init__(
        self,
        weights: SequenceModel,
        batches: PackedBatches,
        config: LanguageTrainingConfig,
        world: World,
        *,
        compiled: bool = False,
    ) -> None:
        if compiled and config.reset_documents:
            raise ValueError(
                "--compile needs reset_documents: false; where documents are packed, shapes change with every batch, "
                "and torch.compile would start again each time"
            )
        self.weights, self.batches, self.config, self.world = weights, batches, config, world
        self.device = world.device
        weights.activation_checkpointing = config.activation_checkpointing
        if world.ranks == 1:  # with more ranks, FSDP moves each process's part
            weights.to(world.device)
        self._copy = Bfloat16Copy(weights) if config.computed_in == torch.bfloat16 and world.ranks == 1 else None
        self.model = weights if self._copy is None else self._copy.model
        self._scheduled = [module for model in {self.weights, self.model} for module in scheduled(model)]
        if compiled:
            for block in self.model.blocks:
                block.forward = compile_block(block.forward)
        self.loss = LanguageLoss(self.model)
        if world.ranks > 1:
            share_out(self.loss, world, config.computed_in)
        self.optimizer = make_optimizer(weights, config)
        self.parts = model_parts(weights)
        # the parts that this process holds; while FSDP has gathered a block, the model itself shows whole parameters
        self.parameters = dict(weights.named_parameters())

    def __call__(self, number: int) -> Float[Tensor, " 1+P"]:
        self.prepare(number)
        return self.learn(self.sample(number))

    def prepare(self, number: int) -> None:
        """Set the learning rate of a step, and tell modules with a schedule of their own."""
        set_rate(self.optimizer, self.config.rate(number))
        self.at_step(number)

    def at_step(self, number: int) -> None:
        """Tell the modules that have a schedule the number of the step."""
        for module in self._scheduled:
            module.at_step(number)

    def sample(self, number: int) -> list[PackedBatch]:
        """Return this process's micro-batches of the step."""
        return self.shares(self.batches, number)

    @property
    def can_be_captured(self) -> bool:
        """Whether the step can be a CUDA graph: on one GPU, and without resets, since packed documents change the shapes."""
        return self.world.is_one_gpu and not self.config.reset_documents

    def feed(self, stream: torch.cuda.Stream) -> Callable[[int], list[PackedBatch]]:
        return self.sample

    def tensors(self, batch: list[PackedBatch]) -> list[Tensor]:
        return [tensor for share in batch for tensor in (share.tokens, share.targets)]

    def shares(self, batches: PackedBatches, number: int) -> list[PackedBatch]:
        """Return this process's micro-batches; the rows of the step are the same for any number of processes."""
        count = self.config.accumulation
        places = range(self.world.rank * count, (self.world.rank + 1) * count)
        return [batches.take(number, place, self.world.ranks * count, self.device) for place in places]

    def learn(self, shares: list[PackedBatch]) -> Float[Tensor, " 1+P"]:
        """Update the weights; the host waits for the device only if documents are packed, for their bounds."""
        self.loss.train()
        self.optimizer.zero_grad()
        asked = self.world.sum(torch.stack([(share.targets != IGNORED).sum() for share in shares]).sum()).clamp_min(1)
        total = torch.zeros((), device=self.device)
        for place, share in enumerate(shares):
            sum_gradients_after(self.loss, place == len(shares) - 1)
            with matrix_products(self.config.precision):
                # times the number of ranks, as FSDP takes the mean over the processes
                loss = self.loss(share.tokens, share.targets, share.cu_seqlens) * (self.world.ranks / asked)
                loss.backward()
            total += loss.detach()
        gradient_norms = clip_gradients(self.parts.values(), self.config.clip)
        self.optimizer.step()
        self.refresh()
        return torch.cat([(self.world.sum(total) / self.world.ranks)[None], gradient_norms])

    def refresh(self) -> None:
        """Update the bfloat16 copy, if there is one, after the weights have changed."""
        if self._copy is not None:
            self._copy.refresh()

    @torch.no_grad()
    def look(self, number: int, tokens: int) -> None:
        """Run the model on the first tokens of the step's batch, for the hooks that record its layers."""
        share = self.sample(number)[0]
        with torch.compiler.set_stance("force_eager"):  # compiled blocks do not call the hooks
            self.loss(share.tokens[:1, :tokens], share.targets[:1, :tokens])

    @torch.no_grad()
    def mean_loss(self, batches: PackedBatches, count: int) -> float:
        """Return the mean loss per target over the first `count` batches, for validation."""
        self.loss.eval()
        total = torch.zeros(2, dtype=torch.float64, device=self.device)
        for number in range(count):
            for share in self.shares(batches, number):
                total[0] += self.loss(share.tokens, share.targets, share.cu_seqlens)
                total[1] += (share.targets != IGNORED).sum()
        summed, asked = self.world.sum(total).tolist()
        return summed / max(asked, 1)


class Bfloat16Copy:
    """A copy in bfloat16 that computes for a model in float32.

    The optimiser updates the float32 weights; the copy is their rounding. Each gradient of the copy is added to the float32
    weight's as soon as it is computed, and freed: micro-batches are summed in float32, as in FSDP2's mixed precision.
    """

    def __init__(self, exact: SequenceModel) -> None:
        self.model = copy.deepcopy(exact).to(torch.bfloat16)
        self._exact: list[Tensor] = list(exact.parameters())
        self._rounded: list[Tensor] = list(self.model.parameters())
        for weight, rounded in zip(exact.parameters(), self.model.parameters(), strict=True):
            rounded.register_post_accumulate_grad_hook(lambda rounded, weight=weight: _hand_over(rounded, weight))

    @torch.no_grad()
    def refresh(self) -> None:
        """Round the weights again after they have changed."""
        torch._foreach_copy_(self._rounded, self._exact)


def _hand_over(rounded: Tensor, weight: nn.Parameter) -> None:
    assert rounded.grad is not None
    if weight.grad is None:
        weight.grad = rounded.grad.to(weight.dtype)
    else:
        weight.grad += rounded.grad
    rounded.grad = None


def compile_block(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Compile the forward pass of a block so that it saves few tensors for the backward pass.

    By default torch.compile saves what a matrix product of the backward pass reads, such as silu(gate) · up of an MLP, although
    gate and up are saved, too. Elementwise operations and norms are cheap to recompute, so their results are not saved here.
    """
    compiled = torch.compile(forward, dynamic=False)

    def run(*given: Any, **named: Any) -> Any:
        with torch._functorch.config.patch(_TAKE_AGAIN):  # torch reads these settings when it compiles, at the first call
            return compiled(*given, **named)

    return run


def pays_to_compile(model: SequenceModel, training: LanguageTrainingConfig, world: World) -> bool:
    """Return whether compiling saves time: in a long run on one GPU, without packed documents, which change the shapes."""
    return world.is_one_gpu and not training.reset_documents and training.steps >= STEPS_TO_PAY and not looping_mixers(model)
