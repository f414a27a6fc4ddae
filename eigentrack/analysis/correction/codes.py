"""Codes of a trained network: the automaton that its memories follow on words of the training lengths, found without labels.

1. Memories along random words are classed by the network's own answers: the one just given, and those that end a growing set of
   test words. A test word is added while a letter leads one class to two (as in learning automata from queries).
2. A code is the mean of a class. Where a class has several clusters (the network tracks a cover of the automaton), it is split
   into clusters, each with a code of its own.
3. Where a letter leads a code, and what is answered then, is what most words say.

Whether the automaton is the task's is asked afterwards, by whoever wants to know: nothing here sees an answer of the task.

W words  L letters of a word  N memories  D numbers of a memory  M codes  A letters
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from eigentrack.analysis.inspected_network import InspectedNetwork
from eigentrack.models import SequenceModel
from eigentrack.models.sequence_model import ModelState
from eigentrack.tasks.counter_random import derived_seed

PURE = 0.99  # a letter leads a class to one class if so many of its members go there
MOST_TESTS = 64  # the most test words
FEW = 4  # a class of fewer memories is left out: its members are on their way between others
STEPPED = 2048  # memories that read a letter together


class NoAutomaton(ValueError):
    """The error that a network's memories follow no automaton, with the classes that stay impure."""


@dataclass(frozen=True)
class CodeAutomaton:
    """Codes, and what tokens make of them; row p of the moves is a pair of a code and a token.

    Code 0 is where words start: the memory before the first token, or the code whose moves are the same.
    """

    codes: Float[Tensor, "M D"]
    sources: Int[Tensor, " P"]  # the code of each pair
    tokens: Int[Tensor, " P"]
    targets: Int[Tensor, " P"]  # the code that follows
    answers: Int[Tensor, " P"]  # what the network answers after the token

    def successors(self, vocab_size: int) -> Int[Tensor, "M vocab"]:
        """Return the code that each token makes of each code; code 0 where no word leads."""
        table = torch.zeros(len(self.codes), vocab_size, dtype=torch.int64)
        table[self.sources, self.tokens] = self.targets
        return table


def find_codes(
    network: InspectedNetwork, *, length: int, words: int, seed: int, clusters: int = 1, limit: int = 1024
) -> CodeAutomaton:
    """Find the codes of a network; raise NoAutomaton if its memories follow no automaton of at most `limit` states.

    Args:
        network: the network; of its machine only the sampler of words is used.
        length: letters of the words, at most the training length.
        words: the number of words.
        seed: of the words.
        clusters: how many clusters each class is split into.
        limit: the most codes.
    """
    require_correctable(network)
    seen = _Seen.of(network, length, words, derived_seed(seed, "codes"))
    classes = _classes(network, seen, limit)
    if clusters > 1:
        classes = _split(seen, classes, clusters, seed)
    return _automaton(network, seen, classes, limit)


def require_correctable(network: InspectedNetwork) -> None:
    """Raise ValueError if a network cannot be corrected by codes."""
    if network.tokens_per_letter != 1:
        raise ValueError(f"codes are found for one token per letter, and the task has {network.tokens_per_letter}")
    if "attention" in network.model.config.mixers:
        raise ValueError("attention's state grows with the word: it cannot be set to one of finitely many codes")
    if any(layer.window is not None for layer in network.model.initial_state(1).layers):
        raise ValueError("a short convolution carries the last tokens beside the memory: train with --layer-option conv=0")


def memory_vectors(state: ModelState) -> Float[Tensor, "B D"]:
    """Return all memories of each sequence as one vector."""
    return torch.cat([part.flatten(1) for part in state.parts], 1)


def state_of(model: SequenceModel, vectors: Float[Tensor, "B D"]) -> ModelState:
    """Return the state whose memories are the vectors."""
    like = model.initial_state(1)
    sizes = [part[0].numel() for part in like.parts]
    parts = [piece.view(-1, *part.shape[1:]) for piece, part in zip(vectors.split(sizes, 1), like.parts, strict=True)]
    return like.with_parts(parts)


@dataclass(frozen=True)
class _Seen:
    """The record of a walk along words: memories after each letter (and after the opening, if there is one), and answers."""

    memories: Float[Tensor, "W T D"]
    answers: Int[Tensor, "W T"]  # given when the memory was reached
    letters: Int[Tensor, "W T"]  # the letter that follows each memory; -1 after the last one
    first: Int[Tensor, " W"] | None  # without an opening, the first letter of each word: the memory before it is code 0

    @staticmethod
    @torch.no_grad()
    def of(network: InspectedNetwork, length: int, words: int, seed: int) -> _Seen:
        letters, _ = network.walk(torch.full((words,), network.machine.start), length, seed, 0)
        logits, state = network.begin(words)
        memories, answers = [], []
        if logits is not None:
            memories.append(memory_vectors(state))
            answers.append(logits.argmax(-1))
        for letter in letters.unbind(1):
            logits, state = network.step(letter, state)
            memories.append(memory_vectors(state))
            answers.append(logits.argmax(-1))
        has_opening = len(memories) > length
        follow = torch.cat([letters if has_opening else letters[:, 1:], torch.full_like(letters[:, :1], -1)], 1)
        return _Seen(torch.stack(memories, 1), torch.stack(answers, 1), follow, None if has_opening else letters[:, 0])


def _classes(network: InspectedNetwork, seen: _Seen, limit: int) -> Int[Tensor, "W T"]:
    """Return the class of every memory: equal answers to the letter just read and to all test words."""
    signatures = [seen.answers]
    tests: list[tuple[int, ...]] = [()]
    memories = seen.memories.flatten(0, 1)
    while True:
        stacked = torch.stack(signatures, -1).flatten(0, 1)
        _, classes = torch.unique(stacked, dim=0, return_inverse=True)
        classes = _without_rare(classes).view_as(seen.answers)
        count = int(classes.max()) + 1
        if count > limit:
            raise NoAutomaton(f"more than {limit} classes of memories: training found no automaton of at most {limit} states")
        impure = _most_impure(classes, seen.letters, count, len(network.machine.letters))
        if impure is None:
            return classes
        share, letter, one, other = impure
        if len(tests) > MOST_TESTS:
            raise NoAutomaton(
                f"after {MOST_TESTS} test words letter {network.machine.letters[letter]} still leads a class of memories to "
                f"two: only {share:.1%} of its members go to one of them; train longer, or on longer words"
            )
        differs = [
            test
            for place, test in enumerate(tests)
            if _typical(stacked, classes, one)[place] != _typical(stacked, classes, other)[place]
        ]
        test = (letter, *differs[0])
        if test in tests:
            raise NoAutomaton(
                f"letter {network.machine.letters[letter]} leads a class of memories to two, and no test word tells its "
                f"members apart: only {share:.1%} of them go to one; training found no automaton"
            )
        tests.append(test)
        signatures.append(_answers_to(network, memories, test).view_as(seen.answers))


def _typical(stacked: Int[Tensor, "N S"], classes: Int[Tensor, "W T"], number: int) -> list[int]:
    return stacked[classes.flatten() == number].mode(0).values.tolist()


def _without_rare(classes: Int[Tensor, " N"]) -> Int[Tensor, " N"]:
    """Return the classes numbered anew, with -1 for members of classes of fewer than FEW."""
    counts = classes.bincount()
    number = torch.where(counts >= FEW, (counts >= FEW).cumsum(0) - 1, -1)
    return number[classes]


def _transition_counts(
    classes: Int[Tensor, "W T"], letters: Int[Tensor, "W T"], count: int, alphabet: int
) -> Float[Tensor, "M A M"]:
    before, after, letter = classes[:, :-1], classes[:, 1:], letters[:, :-1]
    known = (before >= 0) & (after >= 0)
    place = (before[known] * alphabet + letter[known]) * count + after[known]
    return place.bincount(minlength=count * alphabet * count).view(count, alphabet, count).double()


def _most_impure(
    classes: Int[Tensor, "W T"], letters: Int[Tensor, "W T"], count: int, alphabet: int
) -> tuple[float, int, int, int] | None:
    """Return the share, the letter and the two targets of the pair that most memories contradict; None if all are pure."""
    counts = _transition_counts(classes, letters, count, alphabet)
    if count == 1:
        return None
    top = counts.topk(2, dim=-1)
    total = counts.sum(-1).clamp_min(1)
    share = top.values[..., 0] / total
    wrong = torch.where(share < PURE, top.values[..., 1], 0)
    if not bool((wrong >= 2).any()):
        return None
    place = int(wrong.flatten().argmax())
    code, letter = divmod(place, alphabet)
    one, other = top.indices[code, letter].tolist()
    return float(share[code, letter]), letter, one, other


@torch.no_grad()
def _answers_to(network: InspectedNetwork, memories: Float[Tensor, "N D"], test: tuple[int, ...]) -> Int[Tensor, " N"]:
    answers = []
    for piece in memories.split(STEPPED):
        state = state_of(network.model, piece)
        logits = None
        for letter in test:
            logits, state = network.step(torch.full((len(piece),), letter), state)
        assert logits is not None
        answers.append(logits.argmax(-1))
    return torch.cat(answers)


def _split(seen: _Seen, classes: Int[Tensor, "W T"], clusters: int, seed: int) -> Int[Tensor, "W T"]:
    """Return the classes, each split into clusters by k-means from starts far apart."""
    memories, flat = seen.memories.flatten(0, 1), classes.flatten()
    result, used = torch.full_like(flat, -1), 0
    for number in range(int(flat.max()) + 1):
        members = (flat == number).nonzero()[:, 0]
        own = _k_means(memories[members], min(clusters, len(members) // FEW), seed)
        result[members] = _without_rare(own) + used
        used = int(result.max()) + 1
    return result.view_as(classes)


def _k_means(points: Float[Tensor, "n D"], clusters: int, seed: int, rounds: int = 20) -> Int[Tensor, " n"]:
    first = torch.randint(len(points), (1,), generator=torch.Generator().manual_seed(seed))
    centres = points[first]
    while len(centres) < clusters:
        centres = torch.cat([centres, points[torch.cdist(points, centres).amin(1).argmax()][None]])
    nearest = torch.cdist(points, centres).argmin(1)
    for _ in range(rounds):
        counts = nearest.bincount(minlength=len(centres)).clamp_min(1)
        sums = torch.zeros_like(centres).index_add_(0, nearest, points)
        centres = torch.where((nearest.bincount(minlength=len(centres)) > 0)[:, None], sums / counts[:, None], centres)
        nearest = torch.cdist(points, centres).argmin(1)
    return nearest


@torch.no_grad()
def _automaton(network: InspectedNetwork, seen: _Seen, classes: Int[Tensor, "W T"], limit: int) -> CodeAutomaton:
    model, alphabet = network.model, len(network.machine.letters)
    flat = classes.flatten()
    flat = _without_gaps(flat)
    classes = flat.view_as(classes)
    count = int(flat.max()) + 1
    if count > limit:
        raise NoAutomaton(f"{count} codes are more than {limit}")
    memories = seen.memories.flatten(0, 1)
    kept = flat >= 0
    sums = torch.zeros(count, memories.shape[1]).index_add_(0, flat[kept], memories[kept])
    means = sums / flat[kept].bincount(minlength=count)[:, None]
    counts = _transition_counts(classes, seen.letters, count, alphabet)
    letters = torch.arange(alphabet).repeat(count)
    targets = counts.argmax(-1).flatten()
    logits, after = network.step(letters, state_of(model, means.repeat_interleave(alphabet, 0)))
    unseen = counts.sum(-1).flatten() == 0
    targets = torch.where(unseen, torch.cdist(memory_vectors(after), means).argmin(1), targets)
    answers = _majority_answers(seen, classes, count, alphabet, logits.argmax(-1))
    start = memory_vectors(model.initial_state(1))
    spelling = torch.tensor([spelled[0] for spelled in network.spelling])
    if seen.first is None:
        opening = torch.tensor(network.opening[-1:])
        first_targets, first_answers = _mode(classes[:, 0])[None], seen.answers[:, 0].mode().values[None]
        first_tokens = opening
    else:
        first_tokens = spelling
        reached = [(seen.first == letter) & (classes[:, 0] >= 0) for letter in range(alphabet)]
        if any(not bool(rows.any()) for rows in reached):
            raise NoAutomaton("some letter never came first in the words: use more words")
        first_targets = torch.stack([_mode(classes[rows, 0]) for rows in reached])
        first_answers = torch.stack([seen.answers[rows, 0].mode().values for rows in reached])
    found = CodeAutomaton(
        torch.cat([start, means]),
        torch.cat([torch.zeros_like(first_tokens), torch.arange(count).repeat_interleave(alphabet) + 1]),
        torch.cat([first_tokens, spelling[letters]]),
        torch.cat([first_targets, targets]) + 1,
        torch.cat([first_answers, answers]),
    )
    return found if seen.first is None else _started_at_its_twin(found, alphabet)


def _started_at_its_twin(found: CodeAutomaton, alphabet: int) -> CodeAutomaton:
    """Return the automaton without code 0 if another code has the same moves, which then becomes code 0."""
    count = len(found.codes)
    moves = torch.stack([found.targets, found.answers], 1).view(count, -1)
    twins = (moves[1:] == moves[0]).all(1).nonzero()[:, 0]
    if len(twins) == 0:
        return found
    twin = int(twins[0]) + 1
    order = torch.tensor([twin, *(number for number in range(1, count) if number != twin)])
    number = torch.zeros(count, dtype=torch.int64)
    number[order] = torch.arange(len(order))
    rows = (order[:, None] * alphabet + torch.arange(alphabet)).flatten()
    return CodeAutomaton(
        found.codes[order],
        number[found.sources[rows]],
        found.tokens[rows],
        number[found.targets[rows]],
        found.answers[rows],
    )


def _mode(numbers: Int[Tensor, " n"]) -> Int[Tensor, ""]:
    return numbers[numbers >= 0].mode().values


def _without_gaps(flat: Int[Tensor, " N"]) -> Int[Tensor, " N"]:
    """Return the numbers of classes without gaps; -1 stays."""
    known, inverse = torch.unique(flat, return_inverse=True)
    return inverse - int((known < 0).any())


def _majority_answers(
    seen: _Seen, classes: Int[Tensor, "W T"], count: int, alphabet: int, otherwise: Int[Tensor, " P"]
) -> Int[Tensor, " P"]:
    """Return what the network answered most often to each letter in each class, or else what it answers at the mean."""
    before, letter, answer = classes[:, :-1], seen.letters[:, :-1], seen.answers[:, 1:]
    known = before >= 0
    most = int(max(answer.max(), otherwise.max())) + 1
    place = (before[known] * alphabet + letter[known]) * most + answer[known]
    counts = place.bincount(minlength=count * alphabet * most).view(count * alphabet, most)
    return torch.where(counts.sum(1) == 0, otherwise, counts.argmax(1))
