"""Rows with padding, run as packed sequences: tokens that the mask leaves out touch neither a state nor an output.

B batch  T time  N tokens that count  d model width
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from eigentrack.models import ModelState, SequenceModel


def hidden_without_padding(
    model: SequenceModel, tokens: Tensor, mask: Tensor | None, state: ModelState | None
) -> tuple[Tensor, ModelState]:
    """`model.hidden` on the tokens [B, T] where the mask [B, T] is not 0; zeros elsewhere. Padding may stand anywhere."""
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


def newest_columns(mask: Tensor | None, tokens: Tensor) -> Tensor | None:
    """The part of a mask over the whole past that belongs to the tokens [B, T] of this call."""
    if mask is None:
        return None
    if mask.ndim != 2 or mask.shape[0] != tokens.shape[0] or mask.shape[1] < tokens.shape[1]:
        raise ValueError(f"attention_mask has shape {list(mask.shape)}, expected one 0 or 1 a token, {list(tokens.shape)}")
    return mask[:, mask.shape[1] - tokens.shape[1] :].to(dtype=torch.bool)
