"""Plans of compiled networks, which describe the wiring before any weight exists, and the tokens that the networks read.

The residual stream is a set of channels. Channel 0 is always 1. Channel 1 + a is 1 on letter a and 0 on all other tokens, the
begin token included. Every block reads some channels and writes others: its mixer from all tokens so far, its table (the MLP)
from the current token.
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
    """A step of a head's state: S ← (I - beta key keyᵀ) S + beta key valueᵀ."""

    key: Vector
    beta: float
    value: Vector


@dataclass(frozen=True)
class Move:
    """The change that an input makes to the state of a head."""

    factors: tuple[Factor, ...] = ()  # applied in order
    forget: bool = False  # whether to set the state to 0 before the factors are applied


@dataclass(frozen=True)
class Head:
    """A head with a state matrix S [points, columns], which adds `scale` times entry c of Sᵀ query to channel `outputs[c]`."""

    start: tuple[Vector, ...]  # S before the first token
    moves: tuple[Move, ...]  # one for each input of the layer
    query: Vector  # [points]
    outputs: tuple[Channel, ...]  # one channel per column
    scale: float = 1.0


@dataclass(frozen=True)
class Products:
    """A DeltaNet layer, whose heads make move i when channel inputs[i] is 1, and no move when all inputs are 0."""

    inputs: tuple[Channel, ...]
    heads: tuple[Head, ...]
    gated: bool  # whether the layer has a gate, which a move needs in order to forget

    @property
    def householders(self) -> int:
        return max(1, max((len(move.factors) for head in self.heads for move in head.moves), default=1))


@dataclass(frozen=True)
class Gates:
    """A GLA layer of heads with one point, whose factors become the eigenvalue 1 - beta and the write beta value."""

    inputs: tuple[Channel, ...]
    heads: tuple[Head, ...]


@dataclass(frozen=True)
class FlipFlops:
    """An sLSTM layer of heads with one point, with one flip-flop per column, whose bit is kept or overwritten.

    Before the first letter, when none of the channels `letters` is 1, every head is set to its start.
    """

    letters: tuple[Channel, ...]
    inputs: tuple[Channel, ...]
    heads: tuple[Head, ...]


@dataclass(frozen=True)
class Unit:
    """A threshold unit that is on after `letter` was read in `state`; the unit of the begin token has neither."""

    state: int | None
    letter: Channel | None
    goal: int  # the state after the letter


@dataclass(frozen=True)
class ThresholdUnits:
    """An sLSTM layer of threshold units, one of which is on at a time."""

    letters: tuple[Channel, ...]
    units: tuple[Unit, ...]
    outputs: tuple[Channel, ...]  # channel s is 1 if the goal of the unit that is on is state s


@dataclass(frozen=True)
class Matrices:
    """A dense layer, which applies the transition function itself."""

    inputs: tuple[Channel, ...]
    maps: tuple[tuple[int, ...], ...]  # [input][state] → the next state
    start: int  # the start state
    outputs: tuple[Channel, ...]  # channel s is 1 in state s


@dataclass(frozen=True)
class Delay:
    """A convolution layer that copies channels with a delay."""

    lines: tuple[tuple[Channel, Channel, int], ...]  # (source, target, lag): the target is the source `lag` tokens ago


Mixer = Products | Gates | FlipFlops | ThresholdUnits | Matrices | Delay


@dataclass(frozen=True)
class Row:
    """A row of a table, which adds `weight` times channel `source` to channel `then` if every channel in `when` has its bit."""

    when: tuple[tuple[Channel, int], ...]  # pairs of a channel and a bit
    then: Channel
    source: Channel = ALWAYS
    weight: float = 1.0


@dataclass(frozen=True)
class Block:
    """A block of the network: a mixer, then a table."""

    mixer: Mixer
    table: tuple[Row, ...] = ()


@dataclass(frozen=True)
class Alphabet:
    """The tokens of a word: begin, then each letter and its fillers.

    The letters have the first numbers, then comes the begin token, then the filler.
    """

    letters: int  # number of letters
    tokens_per_letter: int = 1  # a letter and its fillers

    @property
    def begin(self) -> int:
        return self.letters

    @property
    def filler(self) -> int:
        return self.letters + 1

    @property
    def size(self) -> int:
        """The number of distinct tokens; the filler counts only if it is used."""
        return self.letters + 1 + (self.tokens_per_letter > 1)

    def spelled(self, letter: int) -> list[int]:
        return [letter] + [self.filler] * (self.tokens_per_letter - 1)

    def tokens(self, word: Iterable[int]) -> list[int]:
        return [self.begin, *(token for letter in word for token in self.spelled(letter))]


@dataclass(frozen=True)
class NetworkPlan:
    """The plan of a network that tracks an automaton; the network's answer is the state with the largest logit."""

    dfa: DFA
    construction: str  # the name of the construction
    blocks: tuple[Block, ...]
    channels: int  # width of the residual stream
    offsets: tuple[tuple[Channel, float], ...]  # (channel, the value that the embedding gives it on every token)
    readout: tuple[tuple[tuple[Channel, float], ...], ...]  # [state] → pairs (channel, its weight in the logit of the state)
    exact: bool = True  # whether the network computes without rounding errors
    tokens_per_letter: int = 1  # a letter, then tokens_per_letter - 1 fillers

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet(len(self.dfa.letters), self.tokens_per_letter)

    @property
    def householders(self) -> int:
        """The number of factors per token in the layer that has most; 0 if no layer has factors."""
        return max((block.mixer.householders for block in self.blocks if isinstance(block.mixer, Products)), default=0)

    @property
    def architecture(self) -> str:
        """The kind of layers: diagonal, dense, slstm, deltanet (one factor, no gate), deltaproduct (several) or gated."""
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
    """A builder of plans, which allocates the channels."""

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
