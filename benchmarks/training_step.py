"""A whole training step on a GPU, in the paper's synthetic setting: ours eager, as a CUDA graph, compiled, beside the peer's.

    python benchmarks/training_step.py [--out results/training_step.json] [--rounds 50]

DeltaNet, width 128, 2 layers, 4 heads, convolution of 4, batch 1024, T = 40, parity; then every other layer in the same place.
A step samples its batch and ends with AdamW. All contenders run in one process through the same step; medians by device events.
The peer is flash-linear-attention 0.6, which tunes its kernels for two minutes; without it, its rows are left out.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from eigentrack.experiments.running.provenance import provenance
from eigentrack.layers import MIXERS
from eigentrack.models import ModelConfig, SequenceModel
from eigentrack.models.storage import write_json
from eigentrack.tasks.tracking import parity
from eigentrack.training import TrainingConfig
from eigentrack.training.captured_step import CapturedStep
from eigentrack.training.step import TrainingStep

WIDTH, LAYERS, HEADS, WINDOW, BATCH, TIME = 128, 2, 4, 4, 1024, 40
PEER = "flash-linear-attention's DeltaNet"


@dataclass(frozen=True)
class Contender:
    model: str  # a mixer of ours, or the peer
    precision: str = "bfloat16"
    graph: bool = True
    compiled: bool = False


def contenders() -> list[Contender]:
    found = [Contender("deltanet", graph=False)]
    found += [Contender("deltanet", precision) for precision in ("float32", "tfloat32", "bfloat16")]
    found += [Contender("deltanet", compiled=True)]
    if peer() is not None:
        found += [Contender(PEER, graph=False), Contender(PEER)]
    return found + [Contender(mixer) for mixer in MIXERS if mixer != "deltanet"]


def main() -> None:
    parser = argparse.ArgumentParser(description="milliseconds of a training step on a GPU")
    parser.add_argument("--out", type=Path, default=Path("results/training_step.json"))
    parser.add_argument("--rounds", type=int, default=50)
    arguments = parser.parse_args()
    rows = []
    for contender in contenders():
        milliseconds, finite = median_step(contender, arguments.rounds)
        rows.append({**asdict(contender), "milliseconds": milliseconds, "finite": finite})
        how = ("CUDA graph" if contender.graph else "eager") + (", compiled" if contender.compiled else "")
        note = "" if finite else "  (loss not finite)"
        print(f"{contender.model:34} {contender.precision:9} {how:21} {milliseconds:8.3f} ms{note}", flush=True)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    setting = {"width": WIDTH, "layers": LAYERS, "heads": HEADS, "convolution": WINDOW, "batch": BATCH, "time": TIME}
    write_json(arguments.out, {"benchmark": "training step", "setting": setting, "provenance": provenance(), "rows": rows})
    print(f"written: {arguments.out}")


def median_step(contender: Contender, rounds: int) -> tuple[float, bool]:
    """Milliseconds, and whether the losses and gradients were finite to the end."""
    torch.manual_seed(0)
    model = (their_model() if contender.model == PEER else our_model(contender.model)).cuda()
    config = TrainingConfig(steps=10_000, batch=BATCH, lengths=(3, TIME), learning_rate=1e-4, precision=contender.precision)
    step = TrainingStep(model, parity(last_weight=1.0), config, compiled=contender.compiled)  # type: ignore[arg-type]
    run: Callable[[int], Tensor] = CapturedStep(step) if contender.graph else step
    for number in range(10):
        run(number)
    events = [torch.cuda.Event(enable_timing=True) for _ in range(rounds + 1)]
    events[0].record()
    for number, event in enumerate(events[1:], start=10):
        outcome = run(number)
        event.record()
    torch.cuda.synchronize()
    median = statistics.median(before.elapsed_time(after) for before, after in pairwise(events))
    return median, bool(torch.isfinite(outcome).all())


def our_model(mixer: str) -> nn.Module:
    # a dense mixer with a range cannot be captured; without one it is the paper's baseline
    options: dict[str, Any] = {"eigenvalues": None} if mixer == "dense" else {}
    vocabulary = parity().model_vocab_size
    return SequenceModel(ModelConfig(vocab_size=vocabulary, d_model=WIDTH, layers=LAYERS, mixer=mixer, mixer_options=options))


def peer() -> Any:
    try:
        from fla.models import delta_net
    except ImportError:
        return None
    return delta_net


def their_model() -> nn.Module:
    config = peer().DeltaNetConfig(
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_heads=HEADS,
        conv_size=WINDOW,
        allow_neg_eigval=True,
        intermediate_size=2 * WIDTH,
        hidden_ratio=None,
        vocab_size=parity().model_vocab_size,
        use_cache=False,
    )
    return TheirModel(peer().DeltaNetForCausalLM(config))


class TheirModel(nn.Module):
    """Takes and gives what our step expects."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor) -> tuple[Tensor, None]:
        return self.model(tokens, use_cache=False).logits, None


if __name__ == "__main__":
    main()
