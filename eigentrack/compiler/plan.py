"""NetworkPlan: a compiled network as wiring, before any weight exists; and the tokens that it reads.

The residual stream is a set of channels. Channel 0 is always 1, channel 1 + a is 1 on letter a and else 0; on the begin token
no letter is on. Every block reads channels and writes others: its mixer from the past, its table (the MLP) from the present.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from eigentrack.automata import DFA

Channel = int
Vector = tuple[float, ...]

ALWAYS: Channel = 0


def letter_channel(letter: int) -> Channel:
    return 1 + letter


@dataclass(frozen=True)
class Factor:
    """S ← (I - beta key keyᵀ) S + beta key valueᵀ."""

    key: Vector
    beta: float
    value: Vector


@dataclass(frozen=True)
class Move:
    """What an input does to the state of a head: forget everything if told so, then apply the factors in order."""

    factors: tuple[Factor, ...] = ()
    forget: bool = False


@dataclass(frozen=True)
class Head:
    """A state matrix S [points, columns]; after each token column c of Sᵀ query goes to `outputs[c]`, times `scale`."""

    start: tuple[Vector, ...]
    moves: tuple[Move, ...]  # one for each input of the layer
    query: Vector
    outputs: tuple[Channel, ...]
    scale: float = 1.0


@dataclass(frozen=True)
class Products:
    """A DeltaNet layer: move i of every head is made when channel inputs[i] is 1, none when all are 0."""

    inputs: tuple[Channel, ...]
    heads: tuple[Head, ...]
    gated: bool

    @property
    def householders(self) -> int:
        return max(1, max((len(move.factors) for head in self.heads for move in head.moves), default=1))


@dataclass(frozen=True)
class Gates:
    """A GLA layer: heads with one point, whose factors act as the eigenvalue 1 - beta and the write beta value."""

    inputs: tuple[Channel, ...]
    heads: tuple[Head, ...]


@dataclass(frozen=True)
class FlipFlops:
    """An sLSTM layer: heads with one point that is only overwritten by 0 or 1 or kept, a flip-flop for each column.

    Before the first letter, when none of the channels `letters` is 1, every head goes to its start.
    """

    letters: tuple[Channel, ...]
    inputs: tuple[Channel, ...]
    heads: tuple[Head, ...]


@dataclass(frozen=True)
class Unit:
    """On after `letter` was read in `state`, which led to `goal`; without them, before the first letter."""

    state: int | None
    letter: Channel | None
    goal: int


@dataclass(frozen=True)
class ThresholdUnits:
    """An sLSTM layer with one unit that is on at a time; output s is 1 if that unit led to state s."""

    letters: tuple[Channel, ...]
    units: tuple[Unit, ...]
    outputs: tuple[Channel, ...]


@dataclass(frozen=True)
class Matrices:
    """A dense layer: maps[i][state] is where input i takes the state; output s is 1 in state s."""

    inputs: tuple[Channel, ...]
    maps: tuple[tuple[int, ...], ...]
    start: int
    outputs: tuple[Channel, ...]


@dataclass(frozen=True)
class Delay:
    """A convolution: each target is its source `lag` tokens ago."""

    lines: tuple[tuple[Channel, Channel, int], ...]  # source, target, lag


Mixer = Products | Gates | FlipFlops | ThresholdUnits | Matrices | Delay


@dataclass(frozen=True)
class Row:
    """If every channel in `when` has its bit, `weight` times `source` is added to `then`."""

    when: tuple[tuple[Channel, int], ...]
    then: Channel
    source: Channel = ALWAYS
    weight: float = 1.0


@dataclass(frozen=True)
class Block:
    mixer: Mixer
    table: tuple[Row, ...] = ()


@dataclass(frozen=True)
class Alphabet:
    """How a word becomes tokens: begin, then each letter and its fillers. Tokens are numbered: letters, begin, filler."""

    letters: int
    tokens_per_letter: int = 1

    @property
    def begin(self) -> int:
        return self.letters

    @property
    def filler(self) -> int:
        return self.letters + 1

    @property
    def size(self) -> int:
        """Different tokens; a filler is one of them only where it is used."""
        return self.letters + 1 + (self.tokens_per_letter > 1)

    def spelled(self, letter: int) -> list[int]:
        return [letter] + [self.filler] * (self.tokens_per_letter - 1)

    def tokens(self, word: Iterable[int]) -> list[int]:
        return [self.begin, *(token for letter in word for token in self.spelled(letter))]


@dataclass(frozen=True)
class NetworkPlan:
    """`readout[state]` weighs channels into the logit of that state; the highest logit is the network's answer."""

    dfa: DFA
    construction: str
    blocks: tuple[Block, ...]
    channels: int
    offsets: tuple[tuple[Channel, float], ...]  # what the embedding puts into a channel on every token
    readout: tuple[tuple[tuple[Channel, float], ...], ...]
    exact: bool = True
    tokens_per_letter: int = 1  # a letter, then tokens_per_letter - 1 fillers

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet(len(self.dfa.letters), self.tokens_per_letter)

    @property
    def householders(self) -> int:
        """Factors a token, in the layer that has most; 0 where there are none."""
        return max((block.mixer.householders for block in self.blocks if isinstance(block.mixer, Products)), default=0)

    @property
    def architecture(self) -> str:
        """diagonal, dense, slstm, deltanet (one factor, no gate), deltaproduct (several) or gated."""
        mixers = [block.mixer for block in self.blocks]
        if any(isinstance(mixer, (FlipFlops, ThresholdUnits)) for mixer in mixers):
            return "slstm"
        if any(isinstance(mixer, Matrices) for mixer in mixers):
            return "dense"
        if any(isinstance(mixer, Gates) for mixer in mixers):
            return "diagonal"
        if any(isinstance(mixer, Products) and mixer.gated for mixer in mixers):
            return "gated"
        return "deltanet" if self.householders == 1 else "deltaproduct"


class Wiring:
    """Hands out channels while a plan is drawn up."""

    def __init__(self, dfa: DFA) -> None:
        self.dfa = dfa
        self.letters: tuple[Channel, ...] = tuple(map(letter_channel, range(len(dfa.letters))))
        self.channels = 1 + len(dfa.letters)
        self.offsets: dict[Channel, float] = {ALWAYS: 1.0}

    def channel(self, offset: float = 0.0) -> Channel:
        self.channels += 1
        if offset:
            self.offsets[self.channels - 1] = offset
        return self.channels - 1

    def new_channels(self, count: int) -> tuple[Channel, ...]:
        return tuple(self.channel() for _ in range(count))

    def plan(
        self, name: str, blocks: Iterable[Block], readout: Iterable[Iterable[tuple[Channel, float]]], exact: bool = True
    ) -> NetworkPlan:
        offsets = tuple(sorted(self.offsets.items()))
        return NetworkPlan(self.dfa, name, tuple(blocks), self.channels, offsets, tuple(map(tuple, readout)), exact)
