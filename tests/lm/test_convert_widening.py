"""Widening: the same function at first, every eigenvalue of the new range within reach, and parity learnt after all."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from eigentrack.layers.widening import Widening
from eigentrack.lm.conversion import convert, widen
from eigentrack.models import ModelConfig, SequenceModel, load_model, save_model
from eigentrack.spectrum import EigenDisk, EigenRange

NARROW, WIDE, ODD = EigenRange(0, 1), EigenRange(-1, 1), EigenRange(-0.5, 0.9)
TOKENS = torch.randint(7, (2, 70), generator=torch.Generator().manual_seed(1))


def model_of(mixer, **options) -> SequenceModel:
    layers = len(mixer) if isinstance(mixer, tuple) else 2
    return SequenceModel(
        ModelConfig(vocab_size=7, d_model=16, layers=layers, mixer=mixer, **{"eigenvalues": NARROW, **options})
    )


@given(st.floats(0, 1), st.floats(-3, 3))
def test_the_shift_adds_to_the_logit_of_the_place_in_the_range(place, shift):
    """Against its definition: logit(place') = logit(place) - 2 shift, where place is (e - low) / (high - low)."""
    for after in (WIDE, EigenRange(-0.75, 1), EigenRange(-1, 0.5)):
        inner = EigenRange(after.low, after.high)
        before = EigenRange((inner.low + inner.high) / 2, inner.high)
        widening = Widening(before, after, 1, 1).double()
        eigenvalue = torch.tensor(after.low + (after.high - after.low) * place, dtype=torch.float64)
        moved = widening.eigenvalue(eigenvalue, torch.tensor(shift, dtype=torch.float64))
        expected = torch.sigmoid(torch.logit(torch.tensor(place, dtype=torch.float64)) - 2 * shift)
        assert (moved.item() - after.low) / (after.high - after.low) == pytest.approx(expected.item(), abs=1e-9)
        assert widening.eigenvalue(eigenvalue, torch.zeros(())).item() == pytest.approx(eigenvalue.item(), abs=1e-15)


@pytest.mark.parametrize("shift", [-1000.0, 1000.0])
@pytest.mark.parametrize("beta", [0.0, 1e-30, 1.0, 2.0])
def test_extreme_shifts_have_finite_values_and_gradients(beta, shift):
    widening = Widening(NARROW, WIDE, 1, 1)
    b, s = torch.tensor(beta, requires_grad=True), torch.tensor(shift, requires_grad=True)
    moved = widening.beta(b, s)
    assert 0 <= moved.item() <= 2
    assert all(torch.isfinite(gradient) for gradient in torch.autograd.grad(moved, [b, s]))


@pytest.mark.parametrize(
    ("mixer", "options"),
    [
        ("deltanet", {"gate": NARROW, "householders": 2}),
        ("mamba", {"state_size": 4}),
        ("mamba2", {}),
        ("gla", {}),
        (("deltanet", "attention", "mamba"), ({"heads": 2}, {}, {"eigenvalues": NARROW})),
    ],
    ids=str,
)
@pytest.mark.parametrize("tied", [True, False])
def test_a_widened_model_is_the_same_function(mixer, options, tied):
    model = model_of(mixer, mixer_options=options, tie_embeddings=tied)
    wide = widen(model, WIDE)
    assert wide.config.eigenvalues == WIDE
    before, after = model(TOKENS)[0], wide(TOKENS)[0]
    assert torch.equal(before, after) or (mixer != "deltanet" and (before - after).abs().max() <= 1e-6 * before.abs().max())
    assert wide.embedding.weight is model.embedding.weight or torch.equal(wide.embedding.weight, model.embedding.weight)
    gradients = torch.autograd.grad(after.square().sum(), [p for name, p in wide.named_parameters() if "widening" in name])
    assert gradients
    assert all(gradient.abs().max() > 0 for gradient in gradients)
    # eigenvalues below 0 are within reach
    for block in wide.blocks:
        if hasattr(block.mixer, "widening"):
            x = torch.randn(2, 9, 16)
            assert block.mixer.gates(x)["eigenvalue"].real.min() >= 0
            block.mixer.widening.shift.bias.data.fill_(9.0)
            assert block.mixer.gates(x)["eigenvalue"].real.min() < -0.9
    assert (wide(TOKENS)[0] - before).abs().max() > 1e-3


def test_widening_from_an_odd_range_and_on_disk(tmp_path):
    save_model(model_of("deltanet", eigenvalues=ODD).double(), tmp_path / "odd")
    done = convert(tmp_path / "odd", tmp_path / "wide", WIDE)
    assert done.comparisons[0].worst < 1e-6
    wide = load_model(tmp_path / "wide")
    assert wide.config.mixer_options == {"widened_from": ODD}
    assert (wide(TOKENS)[0] - load_model(tmp_path / "odd")(TOKENS)[0]).abs().max() < 1e-12


def test_what_cannot_be_widened_is_named():
    with pytest.raises(ValueError, match=r"eigenvalues=\[0.5, 1\] must be wider than widened_from=\[0, 1\]"):
        widen(model_of("deltanet"), EigenRange(0.5, 1))
    for nothing_to_widen in (model_of("attention"), model_of("deltanet", eigenvalues=WIDE)):
        with pytest.raises(ValueError, match=r"no layer has a narrower range than \[-1, 1\]: there is nothing to widen"):
            widen(nothing_to_widen, WIDE)
    with pytest.raises(ValueError, match="layer 0, a mlstm, cannot be widened"):
        widen(model_of("mlstm"), WIDE)
    with pytest.raises(ValueError, match=r"layer 0 has been widened before, from \[0, 1\] to \[-0.5, 1\]"):
        widen(widen(model_of("gla"), EigenRange(-0.5, 1)), WIDE)
    with pytest.raises(ValueError, match="eigenvalues disk have angles, and a model is widened to a real range only"):
        widen(model_of("gla"), EigenDisk())
    turning = SequenceModel(
        ModelConfig(vocab_size=3, d_model=8, mixer="gla", mixer_options={"key_dim": 2}, eigenvalues=EigenDisk())
    )
    with pytest.raises(ValueError, match="layer 0 has eigenvalues in disk: only a real range can be widened"):
        widen(turning, WIDE)


def train_on_parity(model: SequenceModel, steps: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-2)
    for _ in range(steps):
        bits = torch.randint(2, (64, 16), generator=generator)
        loss = F.cross_entropy(model(bits)[0].mT, bits.cumsum(1) % 2)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


def parity_accuracy(model: SequenceModel) -> float:
    """On bits 61..120, up to seven times the training length."""
    bits = torch.randint(2, (64, 120), generator=torch.Generator().manual_seed(99))
    with torch.no_grad():
        right = model(bits)[0].argmax(-1) == bits.cumsum(1) % 2
    return right[:, 60:].float().mean().item()


def test_continued_training_after_widening_learns_parity():
    """A DeltaNet trained in [0, 1] guesses at parity; widened, a short training makes it right far beyond what it saw."""
    config = ModelConfig(vocab_size=2, d_model=32, layers=1, mixer_options={"heads": 4, "conv": 0}, eigenvalues=NARROW)
    narrow = SequenceModel(config)
    train_on_parity(narrow, 40, seed=0)
    wide = widen(copy.deepcopy(narrow), WIDE)
    train_on_parity(wide, 100, seed=1)
    train_on_parity(narrow, 100, seed=1)
    assert parity_accuracy(narrow) < 0.6
    assert parity_accuracy(wide) > 0.99
