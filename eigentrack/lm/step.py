"""One step of language-model training: its rows, shared out over processes and micro-batches; the loss is the mean over all
targets of the whole batch, however it is shared out.

P parts of the model
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from eigentrack.layers import scheduled
from eigentrack.lm.batches import PackedBatch, PackedBatches
from eigentrack.lm.compiled_block import compile_block
from eigentrack.lm.config import LanguageTrainingConfig
from eigentrack.lm.distributed import World, share_out, sum_gradients_after
from eigentrack.lm.half_copy import HalfCopy
from eigentrack.lm.loss import LanguageLoss
from eigentrack.models import SequenceModel
from eigentrack.ops.cross_entropy.op import IGNORED
from eigentrack.training.gradient_norms import clip_gradients
from eigentrack.training.optimizer import make_optimizer, set_rate
from eigentrack.training.parts import model_parts
from eigentrack.training.step import matrix_products


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
        self._half = HalfCopy(weights) if config.computed_in == torch.bfloat16 and world.ranks == 1 else None
        self.model = weights if self._half is None else self._half.model
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
        return self.learn(self.shares(self.batches, number))

    def prepare(self, number: int) -> None:
        """Set what the number decides besides the rows: the rate, and modules with a schedule of their own."""
        set_rate(self.optimizer, self.config.rate(number))
        self.at_step(number)

    def at_step(self, number: int) -> None:
        """Tell the modules that have a schedule at which step training is."""
        for module in self._scheduled:
            module.at_step(number)

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
        if self._half is not None:
            self._half.refresh()

    @torch.no_grad()
    def look(self, number: int, tokens: int) -> None:
        """Takes the model over the first tokens of the step's batch, for those who watch its layers."""
        share = self.shares(self.batches, number)[0]
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
