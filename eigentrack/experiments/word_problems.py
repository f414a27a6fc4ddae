"""Group word problems with DeltaNet, Mamba and a full matrix: what Figures 3 and 6 share. Trained at one length, tested to 500.

The settings are those of the ICLR version's text: d = 128, 4 heads, no convolution in DeltaNet, AdamW with weight decay 0.01,
rate 1e-4, clipping at 1, batch 512, 100 passes over 1.6 million sequences (312,500 steps), 3 seeds, 40,000 test sequences,
a begin token, the loss on every answer. The workshop version trained for 30 and 90 passes, with one seed.
"""

from __future__ import annotations

from dataclasses import replace

from eigentrack.experiments.experiment import Panel, Score, Series, Settings
from eigentrack.experiments.length_test import LengthTest
from eigentrack.training import TrainingConfig

SCORE = Score("length up to which 90 % of the sequences are right", lambda result: result.scores.right_to, digits=0)

PAPER = Settings(
    d_model=128,
    training=TrainingConfig(
        steps=312_500, batch=512, lengths=(32, 32), warmup=0, weight_decay=0.01, betas=(0.9, 0.999), clip=1.0
    ),
    rates=(1e-4,),
    floor=None,
    seeds=(0, 1, 2),
    test=LengthTest((33, 500), 40_000),
)
SHORT = replace(
    PAPER,
    training=replace(PAPER.training, steps=3000, batch=128, warmup=150, precision="bfloat16"),
    rates=(3e-3, 1e-3),  # few steps need long ones, and a slow end
    pilot=True,
    floor=1e-6,
    test=replace(PAPER.test, sequences=4096),
    validate_every=5000,
    checkpoint_every=5000,
)
SMOKE = replace(
    SHORT,
    d_model=16,
    heads=2,
    training=replace(PAPER.training, steps=10, batch=16),
    rates=(1e-3,),
    seeds=(0,),
    test=LengthTest((33, 80), 32),
    validate_every=10,
    checkpoint_every=5,
)
SETTINGS = {"smoke": SMOKE, "short": SHORT, "paper": PAPER}

DIFFERENCES = (
    "Every training sequence is new; the paper draws from 1.6 million stored ones.",
    "The paper's budget is that of the ICLR version; the workshop version had one seed, and 30 or 90 passes over the data.",
    "The paper does not give Mamba's depth: it has 5 blocks here.",
    "The short budget uses a piloted rate of 3e-3 or 1e-3, warm-up and a cosine to 1e-6 in place of the paper's constant 1e-4.",
)


def group_panel(label: str, group: str, inputs: str = "all", tokens: int = 1) -> Panel:
    """Training sequences of 32 tokens, or of 64 where an element takes several."""
    options = {"name": group, "inputs": inputs, "tokens_per_letter": tokens, "begin_token": True}
    trained = 32 if tokens == 1 else 64
    return Panel(label, "group", options, training={"lengths": (trained, trained)})


def linear_series(settings: Settings) -> list[Series]:
    """DeltaNet with 1 and 5 blocks and Mamba with 5, in both ranges."""
    delta = {"mixer": "deltanet", "mixer_options": {"heads": settings.heads, "conv": 0}}
    mamba = {"mixer": "mamba", "layers": 5}
    ranges = ([0.0, 1.0], [-1.0, 1.0])
    return [
        *(
            Series(f"DeltaNet [{low:g}, {high:g}], {layers} {'block' if layers == 1 else 'blocks'}", model)
            for layers in (1, 5)
            for low, high in ranges
            for model in [{**delta, "layers": layers, "eigenvalues": [low, high]}]
        ),
        *(Series(f"Mamba [{low:g}, {high:g}], 5 blocks", {**mamba, "eigenvalues": [low, high]}) for low, high in ranges),
    ]


def full_matrix_series(settings: Settings) -> Series:
    """One layer, S_0 = I, no bound on the eigenvalues, a linear read-out; n = 32 at the paper's width."""
    options = {"state_size": settings.d_model // 4, "eigenvalues": None}
    return Series("full matrix, 1 block", {"mixer": "dense", "mixer_options": options, "layers": 1, "mlp_width": 0})
