"""One step of language-model training: its rows, shared out over processes and micro-batches; the loss is the mean over all
targets of the whole batch, however it is shared out.

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

STEPS_TO_PAY = 2000  # for torch.compile: a minute at most is spent on blocks that are all alike
_TAKE_AGAIN = dict.fromkeys(
    ("ban_recompute_materialized_backward", "ban_recompute_used_far_apart", "ban_recompute_long_fusible_chains"), False
)


class LanguageStep:
    """`step(number)` takes the step; its outcome is one tensor on the device, [loss, *gradient norm of each part].

    `weights` is the model that the optimiser moves, in float32, `model` the one that computes: the same one, or its copy in
    bfloat16. `compiled` lets torch.compile fuse each block, once for all of one kind, which takes it a while at the first step.
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
        if world.ranks == 1:  # else each process moves its part of them
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
        # as this process holds them: while FSDP has put a block together, the model itself shows the whole
        self.parameters = dict(weights.named_parameters())

    def __call__(self, number: int) -> Float[Tensor, " 1+P"]:
        self.prepare(number)
        return self.learn(self.sample(number))

    def prepare(self, number: int) -> None:
        """Set what the number decides besides the rows: the rate, and modules with a schedule of their own."""
        set_rate(self.optimizer, self.config.rate(number))
        self.at_step(number)

    def at_step(self, number: int) -> None:
        """Tell the modules that have a schedule at which step training is."""
        for module in self._scheduled:
            module.at_step(number)

    def sample(self, number: int) -> list[PackedBatch]:
        """Return this process's micro-batches of the step."""
        return self.shares(self.batches, number)

    @property
    def can_be_captured(self) -> bool:
        """On one GPU, if states run on from document to document: packed documents change the shapes with every batch."""
        return self.world.is_one_gpu and not self.config.reset_documents

    def feed(self, stream: torch.cuda.Stream) -> Callable[[int], list[PackedBatch]]:
        return self.sample

    def tensors(self, batch: list[PackedBatch]) -> list[Tensor]:
        return [tensor for share in batch for tensor in (share.tokens, share.targets)]

    def shares(self, batches: PackedBatches, number: int) -> list[PackedBatch]:
        """This process's micro-batches: the rows of the step are the same for any number of processes."""
        count = self.config.accumulation
        places = range(self.world.rank * count, (self.world.rank + 1) * count)
        return [batches.take(number, place, self.world.ranks * count, self.device) for place in places]

    def learn(self, shares: list[PackedBatch]) -> Float[Tensor, " 1+P"]:
        """Moves the weights. The host waits for nothing here but, where documents are packed, for their bounds."""
        self.loss.train()
        self.optimizer.zero_grad()
        asked = self.world.sum(torch.stack([(share.targets != IGNORED).sum() for share in shares]).sum()).clamp_min(1)
        total = torch.zeros((), device=self.device)
        for place, share in enumerate(shares):
            sum_gradients_after(self.loss, place == len(shares) - 1)
            with matrix_products(self.config.precision):
                # FSDP takes the mean over the processes
                loss = self.loss(share.tokens, share.targets, share.cu_seqlens) * (self.world.ranks / asked)
                loss.backward()
            total += loss.detach()
        gradient_norms = clip_gradients(self.parts.values(), self.config.clip)
        self.optimizer.step()
        self.refresh()
        return torch.cat([(self.world.sum(total) / self.world.ranks)[None], gradient_norms])

    def refresh(self) -> None:
        """After the weights have moved: so does their copy, where there is one."""
        if self._copy is not None:
            self._copy.refresh()

    @torch.no_grad()
    def look(self, number: int, tokens: int) -> None:
        """Takes the model over the first tokens of the step's batch, for those who watch its layers."""
        share = self.sample(number)[0]
        with torch.compiler.set_stance("force_eager"):  # compiled blocks do not tell the watchers
            self.loss(share.tokens[:1, :tokens], share.targets[:1, :tokens])

    @torch.no_grad()
    def mean_loss(self, batches: PackedBatches, count: int) -> float:
        """Over the first `count` batches, in the order of the training split: for validation."""
        self.loss.eval()
        total = torch.zeros(2, dtype=torch.float64, device=self.device)
        for number in range(count):
            for share in self.shares(batches, number):
                total[0] += self.loss(share.tokens, share.targets, share.cu_seqlens)
                total[1] += (share.targets != IGNORED).sum()
        summed, asked = self.world.sum(total).tolist()
        return summed / max(asked, 1)


class Bfloat16Copy:
    """A model in bfloat16 that computes for one in float32.

    The optimiser moves the float32 weights; the copy is their rounding. A gradient of the copy is added to the float32 weight's
    as soon as it is there, and forgotten: micro-batches are summed in float32, as in FSDP2's mixed precision on many devices.
    """

    def __init__(self, exact: SequenceModel) -> None:
        self.model = copy.deepcopy(exact).to(torch.bfloat16)
        self._exact: list[Tensor] = list(exact.parameters())
        self._rounded: list[Tensor] = list(self.model.parameters())
        for weight, rounded in zip(exact.parameters(), self.model.parameters(), strict=True):
            rounded.register_post_accumulate_grad_hook(lambda rounded, weight=weight: _hand_over(rounded, weight))

    @torch.no_grad()
    def refresh(self) -> None:
        """Round the weights again after they have moved."""
        torch._foreach_copy_(self._rounded, self._exact)


def _hand_over(rounded: Tensor, weight: nn.Parameter) -> None:
    assert rounded.grad is not None
    if weight.grad is None:
        weight.grad = rounded.grad.to(weight.dtype)
    else:
        weight.grad += rounded.grad
    rounded.grad = None


def compile_block(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Compile the forward pass of a block, with a backward pass that keeps little.

    torch.compile keeps what a matrix product of the backward pass reads, such as the product silu(gate) · up of an MLP, though
    gate and up are kept too. Elementwise passes and norms are cheap to take again: these are not kept.
    """
    compiled = torch.compile(forward, dynamic=False)

    def run(*given: Any, **named: Any) -> Any:
        with torch._functorch.config.patch(_TAKE_AGAIN):  # asked when it compiles, which is at the first call
            return compiled(*given, **named)

    return run


def pays_to_compile(model: SequenceModel, training: LanguageTrainingConfig, world: World) -> bool:
    """In a long run on one GPU whose shapes stay the same: packed documents change them with every batch."""
    return world.is_one_gpu and not training.reset_documents and training.steps >= STEPS_TO_PAY and not looping_mixers(model)
