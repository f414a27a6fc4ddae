"""The cost of the batch-invariant mode: the time of `forward` and of `step` in the mode over the time without, in one run.

    python benchmarks/batch_invariance.py [--device cuda] [--out results/batch_invariance.json] [--rounds 15]

One layer of every kind, with its norm and MLP. Both ways take turns; the ratio is that of their medians. The last column counts
the sequences of the batch that have other bits alone: without the mode, and in it, where there must be none.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from record import write_record
from torch import Tensor

from eigentrack import ModelConfig, SequenceModel, batch_invariant
from eigentrack.layers import MIXERS

WAYS: dict[str, Callable[[], AbstractContextManager[Any]]] = {"as it is": nullcontext, "invariant": batch_invariant}
# device → the width, the sequences and tokens of a forward pass, the sequences of a step, and the type of the weights
SIZES = {"cpu": (128, 8, 128, 8, torch.float32), "cuda": (1024, 16, 2048, 64, torch.bfloat16)}


def main() -> None:
    parser = argparse.ArgumentParser(description="the cost of the batch-invariant mode")
    parser.add_argument("--device", default="cpu", choices=SIZES)
    parser.add_argument("--out", type=Path, default=Path("results/batch_invariance.json"))
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    torch.set_default_device(arguments.device)
    torch.manual_seed(0)
    width, batch, length, steps, dtype = SIZES[arguments.device]
    rows = []
    for mixer in MIXERS:
        model = SequenceModel(ModelConfig(vocab_size=512, d_model=width, layers=1, mixer=mixer)).to(dtype).eval()
        tokens = torch.randint(512, (batch, length))
        forward = measure(model, lambda model, tokens: model(tokens)[0], tokens, arguments.rounds)
        step = measure(model, lambda model, tokens: model.step(tokens)[0], torch.randint(512, (steps,)), arguments.rounds)
        rows.append({"mixer": mixer, "forward": forward, "step": step})
        print(f"{mixer:12s} forward {described(forward)}   step {described(step)}", flush=True)
    sizes = {
        "threads": torch.get_num_threads(),
        "width": width,
        "batch": batch,
        "length": length,
        "sequences_of_a_step": steps,
        "dtype": str(dtype),
    }
    write_record(arguments.out, "batch_invariance", device=arguments.device, **sizes, rounds=arguments.rounds, rows=rows)


@torch.no_grad()
def measure(
    model: SequenceModel, run: Callable[[SequenceModel, Tensor], Tensor], tokens: Tensor, rounds: int
) -> dict[str, Any]:
    """Return the ratio, the milliseconds of both ways, and how many sequences have other bits alone."""
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    differing = {}
    for way, mode in WAYS.items():  # this also compiles what is needed
        with mode():
            together = run(model, tokens)
            alone = [run(model, tokens[row : row + 1])[0] for row in range(len(tokens))]
        differing[way] = sum(not torch.equal(ours, theirs) for ours, theirs in zip(together, alone, strict=True))
    for _ in range(rounds):
        for way, mode in WAYS.items():
            with mode():
                finish(tokens)
                started = time.perf_counter()
                run(model, tokens)
                finish(tokens)
                times[way].append(1000 * (time.perf_counter() - started))
    medians = {way: statistics.median(found) for way, found in times.items()}
    ratio = medians["invariant"] / medians["as it is"]
    return {"ratio": ratio, "milliseconds": medians, "sequences_with_other_bits_alone": differing}


def finish(x: Tensor) -> None:
    if x.is_cuda:
        torch.cuda.synchronize()


def described(found: dict[str, Any]) -> str:
    before, after = found["milliseconds"].values()
    others = " → ".join(str(count) for count in found["sequences_with_other_bits_alone"].values())
    return f"{before:8.2f} → {after:8.2f} ms  {found['ratio']:5.2f} times  other bits alone: {others}"


if __name__ == "__main__":
    main()
