"""What an inspected network reads and answers is what its model does; its joint state is a vector, and a vector moves it."""

from __future__ import annotations

import pytest
import torch

from eigentrack.analysis import InspectedNetwork
from eigentrack.analysis.inspected_network import shifted, state_vector
from eigentrack.automata import regex_dfa
from eigentrack.compiler import choose_plan, compile_network
from eigentrack.layers import MIXERS
from eigentrack.models import ModelConfig, ModelState, SequenceModel
from eigentrack.tasks.tracking import parity, word_problem


def test_letters_are_spelled_as_the_task_spells_them() -> None:
    task = word_problem("Z3", tokens_per_letter=2)
    model = SequenceModel(ModelConfig(vocab_size=task.model_vocab_size, d_model=8, layers=2, mixer_options={"heads": 2}))
    inspected = InspectedNetwork.from_task(model, task)
    batch = task.sample(3, (12, 12), seed=0, step=0)
    letters = batch.tokens[:, 1::2]
    _, state = inspected.begin(3)
    answers, _ = inspected.read(letters, state)
    logits, _ = model(batch.tokens)
    torch.testing.assert_close(answers, logits[:, 2::2, :3])
    # the machine's answer is the target of the token with which the letter is complete
    for word, targets in zip(letters.tolist(), batch.targets[:, 2::2].tolist(), strict=True):
        q = inspected.machine.start
        for letter, target in zip(word, targets, strict=True):
            q = inspected.machine.transitions[q][letter]
            assert inspected.machine.outputs[q] == target


@pytest.mark.parametrize("spread", [False, True])
def test_a_compiled_network_is_read_as_it_runs(spread: bool) -> None:
    compiled = compile_network(choose_plan(regex_dfa("(ab|ba)*"), spread_factors=spread))
    inspected = InspectedNetwork.from_compiled(compiled)
    word = "abbabaab"
    answers, state = inspected.begin(1)
    assert answers is not None
    said = [int(answers.argmax())]
    for letter in word:
        answers, state = inspected.step(torch.tensor(["ab".index(letter)]), state)
        said.append(int(answers.argmax()))
    assert said == compiled.run(word)


def test_reading_and_stepping_agree() -> None:
    inspected = InspectedNetwork.from_task(SequenceModel(ModelConfig(vocab_size=3, d_model=16, layers=2)), parity())
    letters = torch.randint(2, (4, 20))
    answers, end = inspected.read(letters, inspected.begin(4)[1])
    _, state = inspected.begin(4)
    for t in range(20):
        stepped, state = inspected.step(letters[:, t], state)
        torch.testing.assert_close(stepped, answers[:, t])
    torch.testing.assert_close(state_vector(state), state_vector(end), rtol=1e-4, atol=1e-5)


def test_the_joint_state_is_one_vector() -> None:
    inspected = InspectedNetwork.from_task(
        SequenceModel(ModelConfig(vocab_size=3, d_model=8, layers=2, mixer_options={"heads": 2})), parity()
    )
    _, state = inspected.read(torch.randint(2, (3, 9)), inspected.begin(3)[1])
    vector = state_vector(state)
    assert vector.shape == (3, 2 * (2 * 4 * 4 + 3 * 24))  # two layers: memory, and the window of q, k and v
    by = torch.randn_like(vector)
    torch.testing.assert_close(state_vector(shifted(state, by)), vector + by, rtol=1e-6, atol=1e-6)
    rows = [state.select(torch.tensor([row])) for row in (2, 0)]
    torch.testing.assert_close(state_vector(ModelState.stack(rows)), vector[[2, 0]])


def test_a_model_of_another_task_is_named() -> None:
    model = SequenceModel(ModelConfig(vocab_size=3, d_model=8, layers=1))
    with pytest.raises(ValueError, match="it was trained on another task"):
        InspectedNetwork.from_task(model, word_problem("S3"))


@torch.no_grad()
@pytest.mark.parametrize("mixer", sorted(set(MIXERS) - {"attention"}))  # whose state grows
def test_every_number_of_a_state_is_seen_and_moved(mixer: str) -> None:
    model = SequenceModel(ModelConfig(vocab_size=3, d_model=8, layers=1, mixer=mixer))
    tokens = torch.randint(3, (2, 5))
    _, state = model(tokens)
    before = state_vector(state)
    (layer,) = state.layers
    assert before.shape == (2, sum(part[0].numel() for part in (*layer.memory, layer.window) if part is not None))
    moved = shifted(state, torch.full_like(before, 0.25))
    torch.testing.assert_close(state_vector(moved), before + 0.25)
    logits, _ = model(tokens, moved)
    assert logits.isfinite().all()
    assert not torch.equal(logits, model(tokens, state)[0])
