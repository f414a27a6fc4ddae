"""The loss is the mean over the targets that are asked for; a bfloat16 copy computes, float32 weights move."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from eigentrack.lm.batches import PackedBatches
from eigentrack.lm.config import LanguageTrainingConfig
from eigentrack.lm.corpus import Corpus
from eigentrack.lm.distributed import World
from eigentrack.lm.step import Bfloat16Copy, LanguageStep
from eigentrack.models import ModelConfig, SequenceModel
from tests.lm.runs import VOCAB, write_learnable_corpus

WORLD = World(torch.device("cpu"))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return Corpus.open(write_learnable_corpus(tmp_path_factory.mktemp("corpus")))


def make_step(corpus: Corpus, tie: bool = False, **training: object) -> LanguageStep:
    torch.manual_seed(0)
    values = {"steps": 20, "batch": 4, "length": 16, "warmup": 0, "learning_rate": 1e-2, **training}
    config = LanguageTrainingConfig.from_json(values)
    model = SequenceModel(ModelConfig(vocab_size=VOCAB, d_model=8, layers=1, tie_embeddings=tie))
    batches = PackedBatches(corpus, batch=4, length=16, seed=0, reset_documents=config.reset_documents)
    return LanguageStep(model, batches, config, WORLD)


@pytest.mark.parametrize("tie", [False, True])
@pytest.mark.parametrize("reset_documents", [False, True])
def test_loss_and_gradient_norms_are_those_of_plain_cross_entropy(corpus: Corpus, tie: bool, reset_documents: bool) -> None:
    step, twin = (make_step(corpus, tie, reset_documents=reset_documents, accumulation=2) for _ in range(2))
    loss, *norms = step(0).tolist()
    batch = twin.batches.take(0)
    logits, _ = twin.weights(batch.tokens, None, batch.cu_seqlens)
    expected = F.cross_entropy(logits.flatten(0, 1), batch.targets.flatten(), ignore_index=-100)
    assert loss == pytest.approx(expected.item(), rel=1e-5)
    for norm, parameters in zip(norms, twin.parts.values(), strict=True):
        gradients = torch.autograd.grad(expected, parameters, retain_graph=True)
        assert norm == pytest.approx(torch.cat([gradient.flatten() for gradient in gradients]).norm().item(), rel=1e-3)


def test_bfloat16_follows_float32(corpus: Corpus) -> None:
    half, full = (make_step(corpus, precision=precision, learning_rate=1e-3) for precision in ("bfloat16", "float32"))
    assert half.model is not half.weights
    assert {parameter.dtype for parameter in half.model.parameters()} == {torch.bfloat16}
    assert {parameter.dtype for parameter in half.weights.parameters()} == {torch.float32}
    for number in range(10):
        assert half(number)[0].item() == pytest.approx(full(number)[0].item(), abs=0.03)


def test_the_copy_hands_its_gradients_over_and_follows_the_weights() -> None:
    model = SequenceModel(ModelConfig(vocab_size=5, d_model=8, layers=1, tie_embeddings=True))
    half, tokens = Bfloat16Copy(model), torch.randint(5, (2, 7))
    sums = [torch.zeros_like(parameter) for parameter in model.parameters()]
    for part in tokens:
        loss = half.model(part[None])[0].float().square().sum()
        for total, gradient in zip(sums, torch.autograd.grad(loss, list(half.model.parameters())), strict=True):
            total += gradient
        half.model(part[None])[0].float().square().sum().backward()
    for total, exact, rounded in zip(sums, model.parameters(), half.model.parameters(), strict=True):
        assert rounded.grad is None
        torch.testing.assert_close(exact.grad, total, rtol=0, atol=0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 1e-5  # less than bfloat16 resolves: it must not be lost on the way
    half.refresh()
    for exact, rounded in zip(model.parameters(), half.model.parameters(), strict=True):
        assert torch.equal(rounded, exact.to(torch.bfloat16))


def test_packed_documents_are_not_compiled(corpus: Corpus) -> None:
    step = make_step(corpus)
    with pytest.raises(ValueError, match="--compile needs reset_documents: false"):
        LanguageStep(step.weights, step.batches, step.config, WORLD, compiled=True)


def test_a_batch_without_any_target_moves_nothing_to_infinity(corpus: Corpus) -> None:
    step = make_step(corpus)
    (share,) = step.shares(step.batches, 0)
    share.targets.fill_(-100)
    assert step.learn([share]).tolist() == [0.0] * (1 + len(step.parts))


def test_validation_is_the_mean_over_all_targets(corpus: Corpus) -> None:
    step, total, count = make_step(corpus, accumulation=4), 0.0, 0
    for number in range(3):
        batch = step.batches.take(number)
        logits, _ = step.weights(batch.tokens, None, batch.cu_seqlens)
        total += F.cross_entropy(logits[0], batch.targets[0], ignore_index=-100, reduction="sum").item()
        count += int((batch.targets != -100).sum())
    assert step.mean_loss(step.batches, 3) == pytest.approx(total / count, rel=1e-5)
