"""A whole training step of the paper's language models on a GPU: ours beside the peers', in one run.

    python benchmarks/lm_step.py [--settings 340m-b8,340m-b32,1.3b-b8,370m-b8] [--contenders 'ours*;flash*'] [--out FILE]

All keep weights, sums of gradients and AdamW's moments in float32, compute in bfloat16, clip, and learn from rows of 2048
random tokens. Medians by device events; the peak of allocated memory is that of the contender's whole life. Utilisation is a
share of the rate of a large bfloat16 matrix product, measured here; the FLOPs are the definition's (eigentrack/lm/flops.py),
the same for all. "6N" is the usual estimate, six FLOPs a parameter and token, as a share of the same rate.

The peers are flash-linear-attention's DeltaNet, with its own fused losses, and transformers' Mamba with mamba-ssm's scan; one
that is not installed is left out. A contender that fails is written down with its message. Every row is
written as soon as it is measured; a setting that is run again replaces its rows.
"""

from __future__ import annotations

import argparse
import fnmatch
import gc
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from record import median_step_ms
from torch import Tensor, nn

from eigentrack.experiments.running.provenance import provenance
from eigentrack.files import write_json
from eigentrack.lm.batches import PackedBatch
from eigentrack.lm.config import LanguageRunConfig
from eigentrack.lm.distributed import World
from eigentrack.lm.flops import matrix_product_rate, training_flops
from eigentrack.lm.step import Bfloat16Copy, LanguageStep
from eigentrack.models import ModelConfig, SequenceModel
from eigentrack.training.captured_step import CapturedStep
from eigentrack.training.optimizer import clip_gradients, set_rate

TIME, DOCUMENT, RATE, CLIP, WARM_UP = 2048, 700, 1e-4, 1.0, 8
DEVICE = torch.device("cuda")
Run = Callable[[int], Tensor]


@dataclass(frozen=True)
class Setting:
    preset: str
    batch: int
    vocabulary: int

    def model_config(self) -> ModelConfig:
        return LanguageRunConfig.from_json({"preset": self.preset, "corpus": ""}).build_model_config(self.vocabulary)

    def tokens(self) -> Tensor:
        return torch.randint(self.vocabulary, (self.batch, TIME), device=DEVICE)


SETTINGS = {
    "340m-b8": Setting("deltanet-340m", 8, 32_000),
    "340m-b32": Setting("deltanet-340m", 32, 32_000),
    "1.3b-b8": Setting("deltanet-1.3b", 8, 32_000),
    "370m-b8": Setting("mamba-370m", 8, 50_280),
}


@dataclass(frozen=True)
class FixedRows:
    """The same rows at every step, in place of a corpus."""

    rows: PackedBatch

    def take(self, step: int, rank: int, ranks: int, device: torch.device) -> PackedBatch:
        return self.rows


def ours(setting: Setting, *, packed: bool = False, captured: bool = False, **options: bool) -> Run:
    """`packed`: documents of DOCUMENT tokens, with a reset of the state at each."""
    training = {"steps": 10**6, "batch": setting.batch, "length": TIME, "precision": "bfloat16", "learning_rate": RATE}
    training |= {
        "reset_documents": packed,
        "activation_checkpointing": options.pop("recompute", False),
        "warmup": 0,
        "clip": CLIP,
    }
    values = {"preset": setting.preset, "corpus": "", "training": training}
    config = LanguageRunConfig.from_json(values).training
    tokens = setting.tokens()
    rows, bounds = PackedBatch(tokens, tokens.roll(-1, 1), None), set(range(0, tokens.numel() + 1, TIME))
    if packed:
        bounds |= set(range(0, tokens.numel(), DOCUMENT))
        rows = PackedBatch(rows.tokens.view(1, -1), rows.targets.view(1, -1), torch.tensor(sorted(bounds)))
    weights = SequenceModel(setting.model_config())
    step = LanguageStep(weights, FixedRows(rows), config, World(DEVICE), **options)  # type: ignore[arg-type]
    return CapturedStep(step) if captured else step


def theirs(
    model: nn.Module, setting: Setting, loss_of: Callable[[nn.Module, Tensor], Tensor], *, compiled: bool = False
) -> Run:
    """Their model and loss in a step like ours: float32 weights, a bfloat16 copy that computes, clipping, fused AdamW."""
    weights = model.to(DEVICE)
    half = Bfloat16Copy(weights)  # type: ignore[arg-type]
    rate = torch.tensor(RATE, device=DEVICE)
    optimizer = torch.optim.AdamW(
        weights.parameters(), lr=rate, betas=(0.9, 0.95), weight_decay=0.1, fused=True, capturable=True
    )
    tokens = setting.tokens()
    compute = torch.compile(loss_of) if compiled else loss_of

    def run(number: int) -> Tensor:
        set_rate(optimizer, RATE)
        optimizer.zero_grad()
        loss = compute(half.model, tokens)
        loss.backward()
        norms = clip_gradients([list(weights.parameters())], CLIP)
        optimizer.step()
        half.refresh()
        return torch.cat([loss.detach().float()[None], norms])

    half.model.train()
    return run


def flash_linear_attention(setting: Setting, *, fused_head: bool = False, compiled: bool = False) -> Run:
    from fla.models import DeltaNetConfig, DeltaNetForCausalLM

    config = setting.model_config()
    (mlp_width,) = set(config.mlp_widths)
    model = DeltaNetForCausalLM(
        DeltaNetConfig(
            hidden_size=config.d_model,
            num_hidden_layers=config.layers,
            num_heads=config.options[0]["heads"],
            intermediate_size=mlp_width,
            hidden_ratio=None,
            vocab_size=setting.vocabulary,
            allow_neg_eigval=True,
            use_cache=False,
            fuse_cross_entropy=not fused_head,
            fuse_linear_cross_entropy=fused_head,
        )
    )
    return theirs(model, setting, lambda model, tokens: model(tokens, labels=tokens, use_cache=False).loss, compiled=compiled)


def transformers_mamba(setting: Setting) -> Run:
    from mamba_ssm.ops.selective_scan_interface import selective_scan_fn
    from transformers import MambaConfig, MambaForCausalLM
    from transformers.models.mamba import modeling_mamba

    def scan(u: Tensor, dt: Tensor, a: Tensor, b: Tensor, c: Tensor, **given: Any) -> Any:
        taken = ("D", "z", "delta_bias", "delta_softplus", "return_last_state")
        return selective_scan_fn(u, dt, a, b, c, **{name: given[name] for name in taken})

    modeling_mamba.mamba_selective_scan = scan
    modeling_mamba.mamba_inner_fn = lambda *given, **named: None  # needs causal-conv1d; without it transformers does the same
    config = setting.model_config()
    sizes = MambaConfig(
        hidden_size=config.d_model, num_hidden_layers=config.layers, vocab_size=setting.vocabulary, use_cache=False
    )
    return theirs(MambaForCausalLM(sizes), setting, lambda model, tokens: model(tokens, labels=tokens, use_cache=False).loss)


OURS: dict[str, Callable[[Setting], Run]] = {
    "ours, CUDA graph": lambda setting: ours(setting, captured=True),
    "ours, eager": ours,
    "ours, compiled": lambda setting: ours(setting, compiled=True),
    "ours, compiled, CUDA graph": lambda setting: ours(setting, compiled=True, captured=True),
    "ours, activation checkpointing": lambda setting: ours(setting, recompute=True),
    "ours, packed documents": lambda setting: ours(setting, packed=True),
}
PEERS: dict[str, dict[str, Callable[[Setting], Run]]] = {
    "deltanet": {
        "flash-linear-attention": flash_linear_attention,
        "flash-linear-attention, compiled": lambda setting: flash_linear_attention(setting, compiled=True),
        "flash-linear-attention, fused head": lambda setting: flash_linear_attention(setting, fused_head=True),
    },
    "mamba": {"transformers with mamba-ssm's scan": transformers_mamba},
}


def measure(run: Run, rounds: int) -> dict[str, float]:
    milliseconds, outcome = median_step_ms(run, warm_up=WARM_UP, rounds=rounds)
    if not torch.isfinite(outcome).all():
        raise ValueError(f"the loss or a gradient is not finite: {outcome.tolist()[:2]}")
    return {"milliseconds": milliseconds, "peak_gib": torch.cuda.max_memory_allocated() / 2**30, "loss": outcome[0].item()}


def row(setting: Setting, make: Callable[[Setting], Run], rounds: int, peak_rate: float) -> dict[str, Any]:
    torch.manual_seed(0)
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    try:
        found = measure(make(setting), rounds)
    except ImportError as error:
        return {"left_out": str(error)}
    except Exception as error:  # a peer may fail in any way; the other rows still count
        return {"failed": f"{type(error).__name__}: {str(error).splitlines()[0][:200] if str(error) else ''}"}
    with torch.device("meta"):
        model = SequenceModel(setting.model_config())
    parameters = sum(parameter.numel() for parameter in model.parameters())
    speed = setting.batch * TIME / found["milliseconds"] * 1000
    flops = training_flops(model)
    assert flops is not None
    shares = {"utilisation": flops * speed / peak_rate, "utilisation_6n": 6 * parameters * speed / peak_rate}
    return {**found, "tokens_per_second": speed, **shares, "parameters": parameters}


def line(name: str, found: dict[str, Any]) -> str:
    if "milliseconds" not in found:
        return f"  {name:38} {found.get('failed') or 'left out: ' + found['left_out']}"
    return (
        f"  {name:38} {found['milliseconds']:9.1f} ms {found['tokens_per_second']:10,.0f} tokens/s  {found['utilisation']:6.1%}"
        f"  6N {found['utilisation_6n']:6.1%}  {found['peak_gib']:6.1f} GiB  loss {found['loss']:.3f}"
    )


def best(rows: dict[str, dict[str, Any]], is_ours: bool) -> float:
    """Tokens a second; packed documents are another task, and recomputation another memory."""
    names = [name for name in rows if name.startswith("ours") == is_ours and "packed" not in name]
    return max((rows[name].get("tokens_per_second", 0.0) for name in names), default=0.0)


def main() -> None:
    parser = argparse.ArgumentParser(description="training steps of language models on a GPU")
    parser.add_argument("--settings", default=",".join(SETTINGS), help="of " + ", ".join(SETTINGS))
    parser.add_argument("--contenders", default="*", help="semicolons between names, in which * stands for anything")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("results/lm_step.json"))
    arguments = parser.parse_args()
    wanted = tuple(name.strip() for name in arguments.contenders.split(";"))
    stored = json.loads(arguments.out.read_text())["settings"] if arguments.out.exists() else {}
    peak_rate = matrix_product_rate(DEVICE, torch.bfloat16)
    print(f"a large bfloat16 matrix product: {peak_rate / 1e12:.0f} TFLOP/s")
    for name in arguments.settings.split(","):
        setting = SETTINGS[name]
        print(f"{name}: {setting.preset}, B{setting.batch} T{TIME}, vocabulary {setting.vocabulary:,}", flush=True)
        contenders = {**OURS, **PEERS[setting.model_config().mixers[0]]}
        rows: dict[str, dict[str, Any]] = {}
        stored[name] = {"peak_tflops": peak_rate / 1e12, "provenance": provenance(), "rows": rows}
        for contender, make in contenders.items():
            if any(fnmatch.fnmatch(contender, name) for name in wanted):
                rows[contender] = row(setting, make, arguments.rounds, peak_rate)
                print(line(contender, rows[contender]), flush=True)
                arguments.out.parent.mkdir(parents=True, exist_ok=True)
                write_json(arguments.out, {"benchmark": "language-model training step", "time": TIME, "settings": stored})
        if best(rows, True) and best(rows, False):
            print(f"  ours / peer: {best(rows, True) / best(rows, False):.2f}")
    print(f"written: {arguments.out}")


if __name__ == "__main__":
    main()
