"""EigentrackForCausalLM: the SequenceModel with the methods that transformers, its Trainer, PEFT and lm-eval call.

Rows with padding run as packed sequences: tokens that the mask leaves out change neither a state nor another token's output.

B batch  T time  N tokens that the mask keeps  d model width
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from transformers import GenerationMixin, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast
from transformers.utils import can_return_tuple

from eigentrack.lm.hugging_face.cache import RecurrentCache
from eigentrack.lm.hugging_face.config import EigentrackConfig
from eigentrack.models import ModelState, SequenceModel

_UNSUPPORTED = ("inputs_embeds", "position_ids", "output_hidden_states", "output_attentions")


class EigentrackForCausalLM(PreTrainedModel, GenerationMixin):
    """A SequenceModel as a causal language model of transformers."""

    config_class = EigentrackConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _is_stateful = True
    _no_split_modules = ["Block"]  # noqa: RUF012
    _keep_in_fp32_modules_strict = ["turn_proj", "corner_proj"]  # noqa: RUF012, angles: layers/rotating_gates.py
    _tied_weights_keys = {"model.head.weight": "model.embedding.weight"}  # noqa: RUF012

    def __init__(self, config: EigentrackConfig) -> None:
        super().__init__(config)
        self.model = SequenceModel(config.model_config)
        self.post_init()

    @classmethod
    def around(cls, model: SequenceModel, **special_tokens: Any) -> EigentrackForCausalLM:
        """Wrap a model without copying it; special tokens are given as eos_token_id=0."""
        with torch.device("meta"):
            wrapper = cls(EigentrackConfig.of(model.config, **special_tokens))
        wrapper.model = model
        wrapper.config.dtype = model.embedding.weight.dtype
        return wrapper

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        past_key_values: RecurrentCache | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,
        **kwargs: Any,
    ) -> CausalLMOutputWithPast:
        """Return the logits, the cache and, with labels, the loss.

        Args:
            input_ids: tokens, [B, T].
            attention_mask: 0 for padding, [B, T], or [B, past + T] with a cache; None: no padding.
            past_key_values: the cache that an earlier call returned; None: a new one.
            labels: tokens to predict, [B, T], -100 where there is none; label t + 1 is compared with the logits of token t.
            use_cache: whether to return the cache; None: as configured, and not in training.
            logits_to_keep: the number of last positions whose logits are returned (0: all), or the positions themselves.
            kwargs: passed on to the loss; options of transformers that the model does not support raise an error.
        """
        for name in _UNSUPPORTED:
            if kwargs.get(name) is not None and kwargs[name] is not False:
                raise ValueError(f"{name} is not supported by {type(self).__name__}: leave it out")
        use_cache = (self.config.use_cache and not self.training) if use_cache is None else use_cache
        cache = RecurrentCache() if past_key_values is None else past_key_values
        if not isinstance(cache, RecurrentCache):
            raise ValueError(f"past_key_values is a {type(cache).__name__}: leave it out, or pass on what `forward` returned")
        mask = _newest_columns(attention_mask, input_ids)
        if input_ids.shape[1] == 1 and (mask is None or bool(mask.all())):
            logits, state = self.model.step(input_ids[:, 0], cache.state)
            logits = logits[:, None]
        else:
            x, state = _hidden_without_padding(self.model, input_ids, mask, cache.state)
            kept = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
            logits = self.model.head(x[:, kept])
        if use_cache:
            cache.advance(state, input_ids.shape[1])
        loss = None if labels is None else self.loss_function(logits, labels, vocab_size=self.config.vocab_size, **kwargs)
        return CausalLMOutputWithPast(loss=loss, logits=logits, past_key_values=cache if use_cache else None)

    def get_input_embeddings(self) -> nn.Module:
        return self.model.embedding

    def set_input_embeddings(self, value: nn.Module) -> None:
        self.model.embedding = value

    def get_output_embeddings(self) -> nn.Module:
        return self.model.head

    def set_output_embeddings(self, new_embeddings: nn.Module) -> None:
        self.model.head = new_embeddings

    def resize_token_embeddings(self, *args: Any, **kwargs: Any) -> nn.Embedding:
        embedding = super().resize_token_embeddings(*args, **kwargs)
        self.model.config = self.config.model_config
        return embedding

    @property
    def is_gradient_checkpointing(self) -> bool:
        return self.model.activation_checkpointing

    @classmethod
    def register_for_auto_class(cls, auto_class: str = "AutoModelForCausalLM") -> None:
        """Do nothing; otherwise save_pretrained would copy the source of this class into the folder."""

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        return False  # `forward` makes the cache

    def _set_gradient_checkpointing(
        self, enable: bool = True, gradient_checkpointing_func: Callable[..., Any] = checkpoint, every_n_layers: int = 1
    ) -> None:
        self.model.activation_checkpointing = enable

    def _init_weights(self, module: nn.Module) -> None:
        """Raise if loaded weights lack a parameter of the module; without loaded weights, SequenceModel has drawn them."""
        loaded = any(getattr(parameter, "_is_hf_initialized", False) for parameter in self.parameters())
        for prefix, own in self.named_modules():
            for name, parameter in own.named_parameters(recurse=False):
                if own is module and loaded and not getattr(parameter, "_is_hf_initialized", False):
                    raise ValueError(f"the checkpoint lacks {prefix}.{name}: it is cut short, or of another configuration")


def _hidden_without_padding(
    model: SequenceModel, tokens: Tensor, mask: Tensor | None, state: ModelState | None
) -> tuple[Tensor, ModelState]:
    """Return `model.hidden` for the tokens [B, T] where the mask [B, T] is not 0, zeros elsewhere; padding may be anywhere."""
    if mask is None or bool(mask.all()):
        return model.hidden(tokens, state)
    counts = mask.bool()
    lengths = counts.sum(1)
    if bool((lengths == 0).any()):
        raise ValueError(f"row {int(lengths.argmin())} of attention_mask is 0 throughout: a sequence needs at least one token")
    cu_seqlens = F.pad(lengths.cumsum(0), (1, 0))
    x, state = model.hidden(tokens[counts][None], state, cu_seqlens)  # [1, N, d]
    rows = x.new_zeros(*tokens.shape, x.shape[-1])
    return rows.index_put(counts.nonzero(as_tuple=True), x[0]), state


def _newest_columns(mask: Tensor | None, tokens: Tensor) -> Tensor | None:
    """Return the part of a mask over the whole past that belongs to the tokens [B, T] of this call."""
    if mask is None:
        return None
    if mask.ndim != 2 or mask.shape[0] != tokens.shape[0] or mask.shape[1] < tokens.shape[1]:
        raise ValueError(f"attention_mask has shape {list(mask.shape)}, expected one 0 or 1 a token, {list(tokens.shape)}")
    return mask[:, mask.shape[1] - tokens.shape[1] :].to(dtype=torch.bool)
