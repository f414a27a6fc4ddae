"""The parts of a model that telemetry and error messages speak of: embedding, the mixer and the MLP of each block, head."""

from __future__ import annotations

from torch import nn

from eigentrack.models import SequenceModel


def model_parts(model: SequenceModel) -> dict[str, list[nn.Parameter]]:
    """The trained parameters of each part, in the order of the forward pass; a norm belongs to what it feeds."""
    parts: dict[str, list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            parts.setdefault(_part_of(name), []).append(parameter)
    return parts


def _part_of(parameter: str) -> str:
    top, *path = parameter.split(".")
    if top == "blocks":
        number, module, *_ = path
        return f"blocks.{number}.{'mixer' if module.startswith('mixer') else 'mlp'}"
    return "embedding" if top == "embedding" else "head"
