"""Noise that layers draw while they learn: it follows from the step's number, so that a run which is resumed draws the same, on
as many processes and in as many micro-batches."""

from __future__ import annotations

import torch

from eigentrack.tasks.counter_random import derived_seed


def seed_noise(device: torch.device, seed: int, number: int, rank: int = 0) -> None:
    """For all that the step draws in the process of this rank. A CUDA graph looks at its generator whenever it is replayed."""
    if device.type == "cuda":
        index = torch.cuda.current_device() if device.index is None else device.index
        generator = torch.cuda.default_generators[index]
    else:
        generator = torch.default_generator
    generator.manual_seed(derived_seed(seed, f"noise {number} {rank}") % 2**63)
