"""One token for every sequence on a GPU: the fused step of our kernels against the peers', in one run.

    python benchmarks/gpu_decode.py [--out results/gpu_decode.json]

Medians by device events, as eager calls and as replays of a CUDA graph that takes a step from each of several states, over
their number: at B = 128 none is in the cache when its turn comes, at B = 1 all are. The floor is the state, read and written
once, over the bandwidth of a large copy. Peers: flash-linear-attention's recurrent delta rule and gated linear attention, and
mamba-ssm's state update. A contender that refuses or fails is written down with its message.

B batch  H heads  K key dim  V value dim  D channels  N state size
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import torch
from gpu_table import captured, ceilings, median_ms, parse_arguments
from torch import Tensor
from torch.nn import functional as F

from eigentrack.experiments.running.provenance import provenance
from eigentrack.models.storage import write_json
from eigentrack.ops import delta_rule, gated_linear, selective_scan
from eigentrack.spectrum import EigenRange

HEADS, DIM, CHANNELS, SIZE = 16, 128, 4096, 16
CACHE_BYTES = 2**28  # several times what the card's L2 holds
Step = Callable[[Tensor], Any]  # from a state


@dataclass(frozen=True)
class Row:
    op: str
    batch: int
    contenders: dict[str, Callable[[int], Step]]
    state: tuple[int, ...]


def half(*shape: int) -> Tensor:
    return torch.randn(shape, device="cuda").bfloat16()


def delta_operands(batch: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    k = F.normalize(half(batch, 1, HEADS, 1, DIM), dim=-1)
    return half(batch, 1, HEADS, DIM), k, half(batch, 1, HEADS, 1, DIM), half(batch, 1, HEADS, 1).sigmoid() * 2


def our_delta_rule(batch: int) -> Step:
    operands = delta_operands(batch)
    return lambda state: delta_rule(*operands, initial_state=state, backend="triton")


def fla_delta_rule(batch: int) -> Step:
    from fla.ops.delta_rule import fused_recurrent_delta_rule

    q, k, v, beta = delta_operands(batch)
    k, v, beta = k[:, :, :, 0].contiguous(), v[:, :, :, 0].contiguous(), beta[..., 0].contiguous()
    return lambda state: fused_recurrent_delta_rule(
        q, k, v, beta, scale=1.0, initial_state=state, output_final_state=True, use_qk_l2norm_in_kernel=False
    )


def gated_operands(batch: int, *gates: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`gates` of a head: none for a single one, or the number of its channels. They have both signs."""
    q, k, v = (half(batch, 1, HEADS, DIM) for _ in range(3))
    return q, k, v, torch.randn(batch, 1, HEADS, *gates, device="cuda").tanh()


def our_gated_linear(batch: int, *gates: int) -> Step:
    operands = gated_operands(batch, *gates)
    return lambda state: gated_linear(*operands, initial_state=state, backend="triton")


def our_gated_channels(batch: int) -> Step:
    return our_gated_linear(batch, DIM)


def fla_gated_linear(batch: int) -> Step:
    """Takes the gate as a logarithm, made outside the clock: without its sign."""
    from fla.ops.simple_gla import fused_recurrent_simple_gla

    q, k, v, a = gated_operands(batch)
    log_gate = a.abs().log()
    return lambda state: fused_recurrent_simple_gla(
        q, k, v, g=log_gate, scale=1.0, initial_state=state, output_final_state=True
    )


def fla_gated_channels(batch: int) -> Step:
    from fla.ops.gla import fused_recurrent_gla

    q, k, v, a = gated_operands(batch, DIM)
    log_gate = a.abs().log()
    return lambda state: fused_recurrent_gla(q, k, v, gk=log_gate, scale=1.0, initial_state=state, output_final_state=True)


def scan_operands(batch: int) -> tuple[dict[str, Tensor], Tensor, Tensor]:
    sequences = {name: half(batch, CHANNELS) for name in ("x", "z")} | {name: half(batch, SIZE) for name in ("b", "c")}
    sequences["dt"] = F.softplus(half(batch, CHANNELS) - 2)
    log_decay = -torch.arange(1.0, SIZE + 1, device="cuda").repeat(CHANNELS, 1)
    return sequences, log_decay, torch.randn(CHANNELS, device="cuda")


def our_scan(batch: int) -> Step:
    given, log_decay, skip = scan_operands(batch)
    tokens = [given[name][:, None] for name in ("x", "dt", "b", "c", "z")]
    constants = {"log_decay": log_decay, "skip": skip, "eigenvalues": EigenRange(-1, 1), "backend": "triton"}
    return lambda state: selective_scan(*tokens, **constants, initial_state=state)


def mamba_scan(batch: int) -> Step:
    from mamba_ssm.ops.triton.selective_state_update import selective_state_update

    given, log_decay, skip = scan_operands(batch)
    x, dt, bias = given["x"], given["dt"], torch.zeros(CHANNELS, device="cuda")  # without a bias it fails
    return lambda state: selective_state_update(
        state, x, dt, log_decay, given["b"], given["c"], D=skip, z=given["z"], dt_bias=bias
    )


OPS: dict[str, tuple[dict[str, Callable[[int], Step]], tuple[int, ...]]] = {  # contenders, and the state of a sequence
    "delta rule": ({"ours": our_delta_rule, "fla": fla_delta_rule}, (HEADS, DIM, DIM)),
    "gated linear": ({"ours": our_gated_linear, "fla": fla_gated_linear}, (HEADS, DIM, DIM)),
    "gated linear per channel": ({"ours": our_gated_channels, "fla": fla_gated_channels}, (HEADS, DIM, DIM)),
    "selective scan": ({"ours": our_scan, "mamba": mamba_scan}, (CHANNELS, SIZE)),
}
ROWS = [Row(op, batch, contenders, (batch, *state)) for op, (contenders, state) in OPS.items() for batch in (1, 128)]


def measure(step: Step, states: list[Tensor]) -> dict[str, float]:
    turn = cycle(states)
    with torch.no_grad():
        step(next(turn))
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        step(next(turn))
        found = {"peak_mib": (torch.cuda.max_memory_allocated() - before) / 2**20}
        found["eager_ms"] = median_ms(lambda: step(next(turn)))
        # all copies in one graph: a graph of one kernel would show how fast the host starts graphs
        found["graph_ms"] = median_ms(captured(lambda: [step(state) for state in states])) / len(states)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="decoding steps against the peers, on a GPU")
    parser.add_argument("--out", type=Path, default=Path("results/gpu_decode.json"))
    arguments = parse_arguments(parser)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    bandwidth, rows = ceilings()["bytes_per_s"], []
    for row in ROWS:
        size = 4 * torch.Size(row.state).numel()
        states = [torch.randn(row.state, device="cuda") for _ in range(min(8, max(1, CACHE_BYTES // size)))]
        found: dict[str, Any] = {"op": row.op, "batch": row.batch, "floor_ms": 2e3 * size / bandwidth}
        for name, make in row.contenders.items():
            try:
                found[name] = measure(make(row.batch), states)
                text = f"{found[name]['eager_ms']:8.4f} eager {found[name]['graph_ms']:8.4f} graph"
                text += f" {found[name]['peak_mib']:7.1f} MiB"
            except Exception as error:
                found[name] = {"refused": f"{type(error).__name__}: {error}"[:300]}
                text = found[name]["refused"][:90]
            print(f"{row.op:25s} B{row.batch:<4d} {name:6s} {text}   floor {found['floor_ms']:.4f} ms", flush=True)
        rows.append(found)
        write_json(arguments.out, {"benchmark": "gpu_decode", "provenance": provenance(), "rows": rows})
    print(f"written: {arguments.out}")


if __name__ == "__main__":
    main()
