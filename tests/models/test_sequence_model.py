"""One model for every mixer: step ≡ forward, the state is the whole past, generation, clear errors."""

from __future__ import annotations

import pytest
import torch

from eigentrack.layers import MIXERS, Attention
from eigentrack.models import ModelConfig, ModelState, SequenceModel
from tests.closeness import assert_close


def small_model(mixer: str | tuple[str, ...] = "deltanet", **options: object) -> SequenceModel:
    layers = len(mixer) if isinstance(mixer, tuple) else 2
    return SequenceModel(ModelConfig(vocab_size=7, d_model=16, layers=layers, mixer=mixer, **options)).double()  # type: ignore[arg-type]


@pytest.mark.parametrize("mixer", [*MIXERS, ("mamba", "attention", "gla")], ids=str)
def test_steps_and_pieces_equal_the_whole(mixer: str | tuple[str, ...]) -> None:
    norms = {"norm_place": ("before", "after", "after")} if isinstance(mixer, tuple) else {}
    model, tokens = small_model(mixer, **norms), torch.randint(7, (2, 30))
    whole, _ = model(tokens)
    head, state = model(tokens[:, :11])
    stepped = []
    for token in tokens[:, 11:].unbind(1):
        logits, state = model.step(token, state)
        stepped.append(logits)
    assert_close(torch.cat([head, torch.stack(stepped, 1)], 1), whole)


def test_packed_documents_do_not_see_each_other() -> None:
    model, tokens = small_model(("mamba", "deltanet", "attention")), torch.randint(7, (1, 20))
    packed, _ = model(tokens, cu_seqlens=torch.tensor([0, 8, 20]))
    assert_close(packed[:, :8], model(tokens[:, :8])[0])
    assert_close(packed[:, 8:], model(tokens[:, 8:])[0])


def test_a_block_without_mlp_and_tied_embeddings() -> None:
    model = small_model(mlp_width=0, tie_embeddings=True)
    assert not any("mlp" in name for name, _ in model.named_parameters())
    assert model.head.weight is model.embedding.weight


def test_greedy_generation_is_the_argmax_of_forward() -> None:
    model, prompt = small_model(), torch.randint(7, (3, 5))
    new = model.generate(prompt, 6, temperature=0)
    logits, _ = model(torch.cat([prompt, new], 1))
    assert torch.equal(new, logits[:, 4:-1].argmax(-1))


def test_sampling_follows_the_generator_and_top_k() -> None:
    model, prompt = small_model(), torch.randint(7, (64, 5))
    generators = [torch.Generator(torch.get_default_device()).manual_seed(seed) for seed in (0, 0, 1)]
    draws = [model.generate(prompt, 8, temperature=2.0, generator=generator) for generator in generators]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    one = model.generate(prompt, 8, temperature=5.0, top_k=1)
    assert torch.equal(one, model.generate(prompt, 8, temperature=0))


def test_top_k_keeps_k_of_equal_logits_and_tiny_temperatures_are_greedy() -> None:
    model, prompt = small_model(), torch.randint(7, (64, 5))
    with torch.no_grad():
        model.head.weight.copy_(model.head.weight[:1].expand_as(model.head.weight))  # every logit is the same
    assert len(model.generate(prompt, 1, top_k=1).unique()) == 1
    assert len(model.generate(prompt, 1).unique()) > 3
    other = small_model()
    assert torch.equal(other.generate(prompt, 3, temperature=1e-40), other.generate(prompt, 3, temperature=0))


def test_attention_is_softmax_over_rotated_pairs() -> None:
    """Against the definition in complex numbers, one query at a time."""
    layer, x = Attention(8, heads=2).double(), torch.randn(1, 6, 8, dtype=torch.float64)
    q, k, v = layer.qkv_proj(x).unflatten(-1, (3, 2, 4))[0].unbind(1)  # [T, H, D]
    speed = 10_000.0 ** -(torch.arange(2, dtype=torch.float64) / 2)
    turn = torch.exp(1j * torch.arange(6)[:, None] * speed)[:, None]  # [T, 1, D/2]
    q_turned, k_turned = (torch.complex(part[..., :2], part[..., 2:]) * turn for part in (q, k))
    outputs = []
    for t in range(6):
        scores = (q_turned[t].conj() * k_turned[: t + 1]).real.sum(-1) / 2  # √D = 2; [T, H]
        outputs.append((scores.softmax(0)[..., None] * v[: t + 1]).sum(0).flatten())
    assert_close(layer(x)[0][0], layer.out_proj(torch.stack(outputs)))


def test_states_can_be_forked() -> None:
    model = small_model(("mamba", "attention"))
    _, state = model(torch.randint(7, (2, 5)))
    forked, _ = model.step(torch.tensor([3, 3]), state.select(torch.tensor([1, 1])).detach())
    assert torch.equal(forked[0], forked[1])
    assert not torch.equal(forked[0], model.step(torch.tensor([3, 3]), state)[0][0])


def test_states_after_prompts_of_different_lengths_can_be_stacked() -> None:
    model = small_model(("mamba", "attention", "deltanet"))
    prompts = [torch.randint(7, (1, length)) for length in (3, 8, 5)]
    states, token = [model(prompt)[1] for prompt in prompts], torch.tensor([2, 0, 6])
    together, state = model.step(token, ModelState.stack(states))
    again, _ = model.step(token, state)
    for row, prompt in enumerate(prompts):
        whole, _ = model(torch.cat([prompt, token[row].expand(1, 2)], 1))
        assert_close(torch.stack([together[row], again[row]]), whole[0, -2:])


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (torch.tensor([[0, 7]]), r"token 7 is outside the vocabulary 0\.\.6"),
        (torch.tensor([[0, -1]]), r"token -1 is outside the vocabulary 0\.\.6"),
        (torch.zeros(0, 3, dtype=torch.long), r"shape \[0, 3\], expected a non-empty \[batch, time\]"),
    ],
)
def test_bad_tokens_are_named(tokens: torch.Tensor, message: str) -> None:
    """On the CPU: on a GPU the look at the values would stall the device."""
    with pytest.raises(ValueError, match=message):
        small_model().cpu()(tokens.cpu())


def test_bad_calls_are_named() -> None:
    model, tokens = small_model(), torch.zeros(1, 2, dtype=torch.long)
    _, deep = small_model(("mamba", "mamba", "mamba"))(tokens)
    with pytest.raises(ValueError, match="the state has 3 layers, the model 2"):
        model(tokens, deep)
    with pytest.raises(ValueError, match="length=0 must be at least 1"):
        model.generate(tokens, 0)
    with pytest.raises(ValueError, match=r"temperature=-1.0 must be 0 \(greedy\) or above"):
        model.generate(tokens, 1, temperature=-1.0)
    with pytest.raises(ValueError, match="top_k=9 must lie between 1 and vocab_size=7"):
        model.generate(tokens, 1, top_k=9)


@pytest.mark.parametrize("mixer", MIXERS)
def test_training_under_autocast(mixer: str) -> None:
    """bfloat16 autocast over float32 weights: finite gradients for every parameter, memories in float32."""
    model = small_model(mixer).float()
    tokens = torch.randint(7, (2, 70))
    with torch.autocast(tokens.device.type, dtype=torch.bfloat16):
        logits, state = model(tokens)
        loss = torch.nn.functional.cross_entropy(logits.mT, tokens)
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    assert all(torch.isfinite(gradient).all() for gradient in gradients)
    if mixer not in ("attention", "convolution"):  # their memory is a window on the input
        assert all(layer.memory[0].dtype == torch.float32 for layer in state.layers)
    if mixer == "pd_ssm":  # where two matrices are nearly as likely, rounding chooses the other one
        return
    exact, _ = model(tokens)
    assert (logits.float() - exact).norm() / exact.norm() < 0.1


def test_hidden_is_what_the_head_reads() -> None:
    model, tokens = small_model(("mamba", "attention")), torch.randint(7, (2, 9))
    _, state = model(tokens)
    x, _ = model.hidden(tokens, state)
    assert torch.equal(model.head(x), model(tokens, state)[0])


def test_checkpointing_changes_no_gradient_and_computes_blocks_twice() -> None:
    model, tokens = small_model(), torch.randint(7, (2, 9))
    calls = []
    model.blocks[0].register_forward_pre_hook(lambda *_: calls.append(None))
    gradients = []
    for model.activation_checkpointing in (False, True):
        logits, _ = model(tokens)
        gradients.append(torch.autograd.grad(logits.square().sum(), list(model.parameters())))
    assert all(torch.equal(kept, again) for kept, again in zip(*gradients, strict=True))
    assert len(calls) == 3
