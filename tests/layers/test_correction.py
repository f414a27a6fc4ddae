"""Corrected recurrences: forward, step, splits, packing and unequal phases agree, whatever the successors foretell."""

import pytest
import torch

from eigentrack.layers.correction import CorrectionSize
from eigentrack.models import ModelConfig, SequenceModel, load_model, save_model
from eigentrack.models.sequence_model import ModelState

EVERY, LENGTH, VOCAB = 7, 41, 5
LAYERS = [
    ("deltanet", {"conv": 0, "heads": 2}),
    ("deltanet", {"conv": 4, "heads": 2}),
    ("mamba", {"conv": 0}),
    ("gla", {"heads": 2}),
    ("mlstm", {"heads": 2}),
    ("slstm", {"heads": 2}),
]


def corrected_model(mixer: str, options: dict, layers: int = 2, successors: torch.Tensor | None = None) -> SequenceModel:
    """A model whose codes are states along random words, so that corrections move its memory far."""
    torch.manual_seed(0)
    config = ModelConfig(vocab_size=VOCAB, d_model=16, layers=layers, mixer=mixer, mixer_options=options)
    model = SequenceModel(config).double().eval()
    state, seen = None, []
    with torch.no_grad():
        for token in words().unbind(1)[:20]:
            _, state = model.step(token, state)
            seen.append(state)
    found = ModelState.stack(seen[4::3])
    start = model.initial_state(1)
    codes = [
        torch.cat([before.nan_to_num(neginf=-5.0), after])
        for layer, first in zip(found.layers, start.layers, strict=True)
        for before, after in zip(first.memory, layer.memory, strict=True)
    ]
    table = torch.randint(len(codes[0]), (len(codes[0]), VOCAB)) if successors is None else successors
    model.correct(codes, table, EVERY)
    return model.double()


def words() -> torch.Tensor:
    return torch.randint(VOCAB, (3, LENGTH), generator=torch.Generator().manual_seed(1))


def stepped(model: SequenceModel, tokens: torch.Tensor) -> tuple[torch.Tensor, ModelState]:
    state, logits = None, []
    for token in tokens.unbind(1):
        found, state = model.step(token, state)
        logits.append(found)
    return torch.stack(logits, 1), state


@pytest.fixture(params=LAYERS, ids=lambda layer: f"{layer[0]}-{layer[1].get('conv', 0)}")
def model(request):
    return corrected_model(*request.param)


def close(x, y):
    torch.testing.assert_close(x, y, rtol=1e-9, atol=1e-10)


@torch.no_grad()
def test_forward_is_step_after_step(model):
    whole, state = model(words())
    by_step, last = stepped(model, words())
    close(whole, by_step)
    assert state.phase.tolist() == last.phase.tolist() == [LENGTH % EVERY] * 3
    bare, _ = model.without_correction()(words())
    assert (whole - bare)[:, : EVERY - 1].abs().max() < (whole - bare).abs().max()  # corrections do move the memory


@torch.no_grad()
@pytest.mark.parametrize("cuts", [(10, 23), (7, 14), (1, 40), (13, 14)])
def test_any_split_gives_the_same(model, cuts):
    whole, _ = model(words())
    state, found = None, []
    for start, end in zip((0, *cuts), (*cuts, LENGTH), strict=True):
        logits, state = model(words()[:, start:end], state)
        found.append(logits)
    close(torch.cat(found, 1), whole)


@torch.no_grad()
def test_packed_sequences_of_unequal_phases(model):
    whole, _ = model(words())
    bounds = torch.tensor([0, 3, 3 + 20, 3 + 20 + LENGTH])
    row = torch.cat([words()[0, :3], words()[1, :20], words()[2]])[None]
    packed, state = model(row, None, bounds)
    close(packed[0, :3], whole[0, :3])
    close(packed[0, 3:23], whole[1, :20])
    close(packed[0, 23:], whole[2])
    assert state.phase.tolist() == [3, 20 % EVERY, LENGTH % EVERY]
    on = torch.cat([words()[:2, 20:37], words()[2:, :17]])
    first = ModelState.stack([model(words()[:2, :20])[1], model.initial_state(1)])
    close(model(on, first)[0][:2], whole[:2, 20:37])


@torch.no_grad()
def test_the_table_of_successors_decides_nothing():
    """A table that is right lets segments be read at once; one that is wrong must give the same."""
    model = corrected_model("deltanet", {"conv": 0, "heads": 2}, layers=1)
    whole, _ = stepped(model, words())
    close(model(words())[0], whole)
    count = model.correction.size.codes
    right = torch.zeros(count, VOCAB, dtype=torch.int64)
    one_token = corrected_model("deltanet", {"conv": 0, "heads": 2}, layers=1)
    one_token.correct(list(model.correction.codes), right, 1)
    for code in range(count):
        state = one_token.initial_state(VOCAB)
        parts = [part[code : code + 1].expand(VOCAB, *part.shape[1:]) for part in model.correction.codes]
        _, after = one_token.step(torch.arange(VOCAB), state.with_parts(parts))
        right[code] = one_token.correction.nearest(after.parts)
    one_token.correct(list(model.correction.codes), right, 1)
    expected, _ = stepped(one_token, words())
    reads = []
    read_in_turn = type(one_token.correction)._read_in_turn
    one_token.correction._read_in_turn = lambda *given: reads.append(1) or read_in_turn(one_token.correction, *given)
    close(one_token(words())[0], expected)
    assert not reads, "with a table that is right, nothing is read in turn"


@torch.no_grad()
def test_it_is_saved_and_generates(tmp_path):
    model = corrected_model("deltanet", {"conv": 0, "heads": 2})
    save_model(model, tmp_path)
    loaded = load_model(tmp_path)
    assert loaded.config.correction == CorrectionSize(len(model.correction.codes[0]), EVERY)
    close(loaded(words())[0], model(words())[0])
    prompt = words()[:, :9]
    drawn, tokens = model.generate(prompt, 12, temperature=0.0), prompt
    for number in range(12):
        logits, _ = model(tokens)
        tokens = torch.cat([tokens, logits[:, -1:].argmax(-1)], 1)
        assert torch.equal(tokens[:, -1], drawn[:, number])


def test_gradients_do_not_pass_a_correction():
    model = corrected_model("deltanet", {"conv": 0, "heads": 2})
    embedded = model.embedding.weight
    logits, _ = model(words())
    late = torch.autograd.grad(logits[:, EVERY + 1].sum(), embedded, retain_graph=True)[0]
    used = torch.unique(words()[:, EVERY : EVERY + 2])
    unused = [token for token in range(VOCAB) if token not in used.tolist()]
    assert late[used].abs().max() > 0
    assert not unused or late[unused].abs().max() == 0


def test_a_model_without_one_has_no_trace_of_it(tmp_path):
    model = SequenceModel(ModelConfig(vocab_size=VOCAB, d_model=16, mixer_options={"heads": 2}))
    assert "correction" not in model.config.to_json()
    assert not [name for name in model.state_dict() if "correction" in name]
    assert model(words())[1].phase is None


def test_wrong_corrections_are_named():
    model = SequenceModel(ModelConfig(vocab_size=VOCAB, d_model=16, mixer_options={"heads": 2, "conv": 0}, layers=1))
    memory = model.initial_state(1).parts[0].expand(3, -1, -1, -1)
    table = torch.zeros(3, VOCAB, dtype=torch.int64)
    with pytest.raises(ValueError, match="every=0"):
        model.correct([memory], table, 0)
    with pytest.raises(ValueError, match="do not fit"):
        model.correct([memory[:, :1]], table, 4)
    with pytest.raises(ValueError, match="numbers of codes"):
        model.correct([memory], table + 3, 4)
    with pytest.raises(ValueError, match="codes and every"):
        ModelConfig.from_json({"vocab_size": 3, "correction": {"codes": 2}})
    attention = SequenceModel(
        ModelConfig(vocab_size=VOCAB, d_model=16, layers=1, mixer="attention", mixer_options={"heads": 2})
    )
    with pytest.raises(ValueError, match="attention's state grows"):
        attention.correct([memory], table, 4)
    bare = model(words())[1]
    model.correct([memory], table, 4)
    with pytest.raises(ValueError, match="no phase"):
        model(words(), bare)
