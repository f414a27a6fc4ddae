"""What a compiled block keeps for its backward pass (torch.compile partitions alike on a CPU), and when blocks are compiled."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from eigentrack.lm.config import LanguageTrainingConfig
from eigentrack.lm.distributed import World
from eigentrack.lm.step import compile_block, pays_to_compile
from eigentrack.models import ModelConfig, SequenceModel

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script_method. is deprecated")  # torch's own, while it compiles

WIDTH, INNER, TOKENS = 8, 24, 16


class GatedMLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(WIDTH, INNER), nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = F.rms_norm(x, (WIDTH,))
        return self.down(F.silu(self.gate(x)) * self.up(x))


@pytest.fixture(autouse=True)
def no_code_is_generated(monkeypatch: pytest.MonkeyPatch) -> None:
    compile_ = torch.compile

    def partition_only(function: Any, **options: Any) -> Any:
        return compile_(function, backend="aot_eager_decomp_partition", **options)

    monkeypatch.setattr(torch, "compile", partition_only)


def kept_and_gradients(module: GatedMLP, forward: Any) -> tuple[int, list[Tensor]]:
    """How many values of the inner width are kept for each token."""
    x = torch.linspace(-2, 2, TOKENS * WIDTH).view(TOKENS, WIDTH).requires_grad_()
    kept: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        if tuple(tensor.shape) == (TOKENS, INNER):
            kept[tensor.data_ptr()] = tensor.numel() // (TOKENS * INNER)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        y = forward(x)
    return sum(kept.values()), list(torch.autograd.grad(y.square().sum(), [x, *module.parameters()]))


def test_the_product_of_an_mlp_is_taken_again() -> None:
    module = GatedMLP()
    plain, _ = kept_and_gradients(module, torch.compile(module.forward, dynamic=False))
    torch._dynamo.reset()  # it would take what it has compiled of the same code
    lean, found = kept_and_gradients(module, compile_block(module.forward))
    assert plain == 3  # gate, up and their product
    assert lean == 2
    _, expected = kept_and_gradients(module, module.forward)
    for ours, reference in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, reference)


LONG = LanguageTrainingConfig(steps=2000, batch=2, length=8, warmup=0, reset_documents=False)
GPU = World(torch.device("cuda"))


@pytest.mark.parametrize(
    ("training", "world", "mixer", "pays"),
    [
        (LONG, GPU, "deltanet", True),
        (replace(LONG, steps=1999), GPU, "deltanet", False),
        (replace(LONG, reset_documents=True), GPU, "deltanet", False),
        (LONG, World(torch.device("cpu")), "deltanet", False),
        (LONG, replace(GPU, ranks=2), "deltanet", False),
        (LONG, GPU, "lstm", False),
    ],
)
def test_long_runs_on_one_gpu_are_compiled(training: LanguageTrainingConfig, world: World, mixer: str, pays: bool) -> None:
    model = SequenceModel(ModelConfig(vocab_size=5, d_model=8, layers=1, mixer=mixer, mixer_options={"heads": 1}))
    assert pays_to_compile(model, training, world) == pays
