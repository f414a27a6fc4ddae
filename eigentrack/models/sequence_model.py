"""SequenceModel: embedding, blocks of (norm, mixer, residual, norm, gated MLP, residual), norm, head.

The configuration names the mixer of each block.

B batch  T time  d model width
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from itertools import islice
from typing import Concatenate, ParamSpec, TypeVar, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.export import register_dataclass
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from eigentrack.layers import Mixer, MixerState
from eigentrack.layers.correction import Correction, CorrectionSize, Parts
from eigentrack.layers.norm import RMSNorm
from eigentrack.models.config import ModelConfig
from eigentrack.ops.shared.packing import Packing, sequence_count


@dataclass(frozen=True)
class ModelState:
    """The states of all layers, which hold everything that the model has kept of the tokens so far."""

    layers: tuple[MixerState, ...]
    phase: Tensor | None = None  # [B] the number of tokens since the last correction; None if there are no corrections

    @property
    def parts(self) -> tuple[Tensor, ...]:
        """Everything that the layers carry: all memories, then the windows of convolutions."""
        windows = tuple(layer.window for layer in self.layers if layer.window is not None)
        return (*(part for layer in self.layers for part in layer.memory), *windows)

    def with_parts(self, parts: Iterable[Tensor]) -> ModelState:
        """Return the same state with other `parts`."""
        rest = iter(parts)
        memories = [tuple(next(rest) for _ in layer.memory) for layer in self.layers]
        windows = [None if layer.window is None else next(rest) for layer in self.layers]
        return ModelState(tuple(map(MixerState, memories, windows)), self.phase)

    def select(self, rows: Tensor) -> ModelState:
        """Return the states of the sequences `rows`, in this order."""
        phase = None if self.phase is None else self.phase.index_select(0, rows)
        return ModelState(tuple(layer.select(rows) for layer in self.layers), phase)

    @staticmethod
    def stack(states: Sequence[ModelState]) -> ModelState:
        """Return one state with the sequences of all `states`, one after another."""
        phases = [state.phase for state in states if state.phase is not None]
        if phases and len(phases) < len(states):
            raise ValueError(f"{len(phases)} of {len(states)} states have a phase: states of one model belong together")
        layers = tuple(MixerState.stack(layer) for layer in zip(*(state.layers for state in states), strict=True))
        return ModelState(layers, torch.cat(phases) if phases else None)

    def detach(self) -> ModelState:
        """Return the same state without its gradient history, for truncated backpropagation."""
        return ModelState(tuple(layer.detach() for layer in self.layers), self.phase)


register_dataclass(ModelState, serialized_type_name="eigentrack.ModelState")


class GatedMLP(nn.Module):
    """A gated MLP: down(silu(gate(x)) ⊙ up(x))."""

    def __init__(self, d_model: int, width: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(d_model, width, bias=False)
        self.up_proj = nn.Linear(d_model, width, bias=False)
        self.down_proj = nn.Linear(width, d_model, bias=False)

    def forward(self, x: Float[Tensor, "... d"]) -> Float[Tensor, "... d"]:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    """One layer of the model: a mixer and a gated MLP, each with a norm and a residual connection."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        width = config.mlp_widths[layer]
        self.norm_after = config.norm_places[layer] == "after"
        self.mixer_norm = _norm(config)
        self.mixer = config.build_mixer(layer)
        self.mlp_norm = _norm(config) if width else None
        self.mlp = GatedMLP(config.d_model, width) if width else None

    def forward(
        self, x: Float[Tensor, "B T d"], state: MixerState | None, cu_seqlens: Tensor | Packing | None
    ) -> tuple[Float[Tensor, "B T d"], MixerState]:
        if self.norm_after:
            mixed, state = self.mixer(x, state, cu_seqlens)
            return self._add_mlp(x + self.mixer_norm(mixed)), state
        mixed, state = self.mixer(self.mixer_norm(x), state, cu_seqlens)
        return self._add_mlp(x + mixed), state

    def step(self, x: Float[Tensor, "B d"], state: MixerState | None) -> tuple[Float[Tensor, "B d"], MixerState]:
        if self.norm_after:
            mixed, state = self.mixer.step(x, state)
            return self._add_mlp(x + self.mixer_norm(mixed)), state
        mixed, state = self.mixer.step(self.mixer_norm(x), state)
        return self._add_mlp(x + mixed), state

    def _add_mlp(self, x: Tensor) -> Tensor:
        if self.mlp is None or self.mlp_norm is None:
            return x
        return x + (self.mlp_norm(self.mlp(x)) if self.norm_after else self.mlp(self.mlp_norm(x)))


class SequenceModel(nn.Module):
    """A model that maps tokens to logits; `config` determines it, except for its weights."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.activation_checkpointing = (
            False  # in training: whether to keep only the input of each block and recompute the rest
        )
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.blocks = nn.ModuleList(Block(config, layer) for layer in range(config.layers))
        self.norm = _norm(config)
        self.head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        self.correction = None if config.correction is None else self._new_correction(config.correction)
        nn.init.normal_(self.embedding.weight, std=config.d_model**-0.5)
        if config.tie_embeddings:
            self.head.weight = self.embedding.weight

    @property
    def mixers(self) -> tuple[Mixer, ...]:
        """The mixer of every layer."""
        return tuple(cast(Block, block).mixer for block in self.blocks)

    def forward(
        self, tokens: Int[Tensor, "B T"], state: ModelState | None = None, cu_seqlens: Tensor | Packing | None = None
    ) -> tuple[Float[Tensor, "B T vocab"], ModelState]:
        """Return the logits after every token, and the state after the last token.

        Args:
            tokens: the tokens to read.
            state: the state before the first token, one row per sequence; None for the initial state.
            cu_seqlens: bounds of packed sequences in a batch of one row, [0, end of sequence 0, ..., T], or a `Packing` of
                them; None for a plain batch.
        """
        x, state = self.hidden(tokens, state, cu_seqlens)
        return self.head(x), state

    def hidden(
        self, tokens: Int[Tensor, "B T"], state: ModelState | None = None, cu_seqlens: Tensor | Packing | None = None
    ) -> tuple[Float[Tensor, "B T d"], ModelState]:
        """Return the input of the head instead of the logits, for a loss that does not hold all logits in memory at once."""
        self._check_tokens(tokens, 2, "[batch, time]")
        packing = Packing.of(tokens, cu_seqlens)
        checkpointed = self.activation_checkpointing and self.training and torch.is_grad_enabled()

        def read(
            tokens: Tensor, state: ModelState | None, packing: Packing | None
        ) -> tuple[Float[Tensor, "B T d"], ModelState]:
            def apply(block: nn.Module, x: Tensor, layer_state: MixerState | None) -> tuple[Tensor, MixerState]:
                if checkpointed:
                    # no layer draws random numbers; some versions of torch cannot save the random state inside a CUDA graph
                    return checkpoint(block, x, layer_state, packing, use_reentrant=False, preserve_rng_state=False)
                return block(x, layer_state, packing)

            return self._through_blocks(tokens, state, apply)

        if self.correction is None:
            return read(tokens, state, packing)
        before = self._state_with_phase(state, sequence_count(tokens, packing))

        def read_parts(tokens: Tensor, parts: Parts, packing: Packing | None) -> tuple[Tensor, Parts]:
            x, after = read(tokens, before.with_parts(parts), packing)
            return x, after.parts

        assert before.phase is not None
        x, parts, phase = self.correction.read(read_parts, tokens, before.parts, before.phase, packing, tokens)
        return x, replace(before.with_parts(parts), phase=phase)

    def step(self, token: Int[Tensor, " B"], state: ModelState | None = None) -> tuple[Float[Tensor, "B vocab"], ModelState]:
        """Return the logits after one token per sequence, and the new state.

        Except for attention, time and memory do not grow with the number of tokens before.
        """
        self._check_tokens(token, 1, "[batch]")
        before = state if self.correction is None else self._state_with_phase(state, token.shape[0])
        x, after = self._through_blocks(token, before, lambda block, x, layer_state: block.step(x, layer_state))
        if self.correction is not None and before is not None and before.phase is not None:
            parts, phase = self.correction.step(after.parts, before.phase)
            after = replace(after.with_parts(parts), phase=phase)
        return self.head(x), after

    def initial_state(self, sequences: int) -> ModelState:
        """Return the state before the first token; a correction's code 0, if there is one."""
        state = ModelState(tuple(mixer.initial_state(sequences) for mixer in self.mixers))
        if self.correction is None:
            return state
        codes = self.correction.start(sequences)
        parts = (*codes, *state.parts[len(codes) :])
        return ModelState(state.with_parts(parts).layers, torch.zeros(sequences, dtype=torch.int64, device=codes[0].device))

    def correct(self, codes: Sequence[Tensor], successors: Int[Tensor, "M vocab"], every: int) -> None:
        """Give the model a correction, or another one in place of its own.

        Args:
            codes: the value of each memory in every code, each [M, ...]; the first code is the memory before the first token.
            successors: the number of the code that each token makes of each code, which foretells codes and decides nothing.
            every: the number of tokens from one correction to the next.
        """
        size = CorrectionSize(len(successors), every)
        correction = self._new_correction(size).to(successors.device)
        shapes = [tuple(code.shape) for code in codes]
        if shapes != [(size.codes, *shape) for shape in correction.shapes]:
            raise ValueError(f"codes of the shapes {shapes} do not fit memories of the shapes {list(correction.shapes)}")
        if tuple(successors.shape) != (size.codes, self.config.vocab_size) or not bool(
            ((successors >= 0) & (successors < size.codes)).all()
        ):
            raise ValueError(f"successors must be {size.codes} rows of {self.config.vocab_size} numbers of codes")
        for buffer, value in zip(correction.buffers(), [*codes, successors], strict=True):
            buffer.copy_(value)
        self.correction, self.config = correction, replace(self.config, correction=size)

    def without_correction(self) -> SequenceModel:
        """Return a model with the same weights and no correction."""
        bare = SequenceModel(replace(self.config, correction=None))
        weights = self.state_dict()
        bare.load_state_dict({name: weights[name] for name in bare.state_dict()}, assign=True)
        return bare.train(self.training)

    def _new_correction(self, size: CorrectionSize) -> Correction:
        if growing := [name for name in self.config.mixers if name == "attention"]:
            raise ValueError(f"{growing[0]}'s state grows with the sequence: it cannot be set to one of finitely many codes")
        memories = [part for mixer in self.mixers for part in mixer.initial_state(1).memory]
        shapes = [tuple(part.shape[1:]) for part in memories]
        return Correction(shapes, size, self.config.vocab_size, memories[0].dtype)

    def _state_with_phase(self, state: ModelState | None, sequences: int) -> ModelState:
        if state is None:
            return self.initial_state(sequences)
        if state.phase is None:
            raise ValueError("the state has no phase: it comes from a model without a correction; start from None")
        return state

    def generate(
        self,
        tokens: Int[Tensor, "B T"],
        length: int,
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        generator: torch.Generator | None = None,
    ) -> Int[Tensor, "B length"]:
        """Return `length` new tokens after the prompt.

        Args:
            tokens: the prompts, all of one length.
            length: the number of new tokens per sequence.
            temperature: what the logits are divided by; 0 takes the most likely token.
            top_k: draw among this many most likely tokens; None: among all.
            generator: the source of random numbers; None: torch's default one.
        """
        if length < 1:
            raise ValueError(f"length={length} must be at least 1")
        drawn = self.stream(tokens, temperature=temperature, top_k=top_k, generator=generator)
        return torch.stack(list(islice(drawn, length)), dim=1)

    @torch.no_grad()
    def stream(
        self,
        tokens: Int[Tensor, "B T"],
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        generator: torch.Generator | None = None,
    ) -> Iterator[Int[Tensor, " B"]]:
        """Yield new tokens after the prompt without end, one per sequence at a time; for the arguments see `generate`."""
        if not temperature >= 0:  # also refuses NaN
            raise ValueError(f"temperature={temperature} must be 0 (greedy) or above")
        if top_k is not None and not 1 <= top_k <= self.config.vocab_size:
            raise ValueError(f"top_k={top_k} must lie between 1 and vocab_size={self.config.vocab_size}")
        x, state = self.hidden(tokens)
        logits = self.head(x[:, -1])
        while True:
            drawn = _draw(logits, temperature, top_k, generator)
            yield drawn
            logits, state = self.step(drawn, state)

    def _through_blocks(
        self, tokens: Tensor, state: ModelState | None, apply: Callable[..., tuple[Tensor, MixerState]]
    ) -> tuple[Tensor, ModelState]:
        if state is not None and len(state.layers) != self.config.layers:
            raise ValueError(f"the state has {len(state.layers)} layers, the model {self.config.layers}")
        before = (None,) * self.config.layers if state is None else state.layers
        x, after = self.embedding(tokens.long()), []
        for block, layer_state in zip(self.blocks, before, strict=True):
            x, new_state = apply(block, x, layer_state)
            after.append(new_state)
        return self.norm(x), ModelState(tuple(after), None if state is None else state.phase)

    def _check_tokens(self, tokens: Tensor, ndim: int, layout: str) -> None:
        if tokens.ndim != ndim or tokens.numel() == 0:
            raise ValueError(f"tokens have shape {list(tokens.shape)}, expected a non-empty {layout}")
        if tokens.is_floating_point() or tokens.dtype == torch.bool:
            raise ValueError(f"tokens have dtype {tokens.dtype}, expected integers")
        if tokens.device.type == "cpu" and not torch.compiler.is_compiling():  # on a GPU the check would wait for the device
            low, high = int(tokens.min()), int(tokens.max())
            if low < 0 or high >= self.config.vocab_size:
                wrong = low if low < 0 else high
                raise ValueError(f"token {wrong} is outside the vocabulary 0..{self.config.vocab_size - 1}")


Rest = ParamSpec("Rest")
Found = TypeVar("Found")


def in_evaluation_mode(
    measure: Callable[Concatenate[SequenceModel, Rest], Found],
) -> Callable[Concatenate[SequenceModel, Rest], Found]:
    """Return a function that runs `measure` with its model in evaluation mode, and restores the mode afterwards."""

    @wraps(measure)
    def measured(model: SequenceModel, *args: Rest.args, **kwargs: Rest.kwargs) -> Found:
        was_training = model.training
        model.eval()
        try:
            return measure(model, *args, **kwargs)
        finally:
            model.train(was_training)

    return measured


def _norm(config: ModelConfig) -> nn.Module:
    return RMSNorm(config.d_model, eps=config.norm_eps) if config.norm == "rms" else nn.Identity()


def _draw(logits: Float[Tensor, "B vocab"], temperature: float, top_k: int | None, generator: torch.Generator | None) -> Tensor:
    if temperature < torch.finfo(torch.float32).tiny:  # 0, or too small to divide by in float32
        return logits.argmax(-1)
    logits = logits.float()
    scaled = (logits - logits.amax(-1, keepdim=True)) / temperature
    if top_k is not None:  # by index, so that exactly top_k tokens are left even if logits are equal
        best = scaled.topk(top_k)
        scaled = torch.full_like(scaled, -torch.inf).scatter(-1, best.indices, best.values)
    return torch.multinomial(torch.softmax(scaled, -1), 1, generator=generator)[:, 0]
