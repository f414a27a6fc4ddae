"""The network that configuration and weights describe, as its equations for one token.

x = embedding[token];   for each block: x ← x + mixer(x), x ← x + W (silu(W x) ⊙ W x);   logits = W x

Only what the equations cover is in scope. Every option of a layer is named here with the values that the checker knows, so that
nothing that acts on the answers can be passed over; `OutOfScope` names what is not known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from eigentrack.checker.files import Tensor, is_count
from eigentrack.checker.float_types import FLOAT_TYPES, STATE_TYPES, FloatType, silu
from eigentrack.checker.linear_layers import GLA, REMEMBERED, Convolution, DeltaNet, Dense, Layer, Linear, Take, Vector, at

State = tuple[Vector, ...]  # one flat tuple for each layer

RANGES = ([0, 1], [-1, 1])
LAYERS: dict[str, type[Any]] = {"deltanet": DeltaNet, "gla": GLA, "dense": Dense, "convolution": Convolution}
# the options that must be given, each with the values that are known; () stands for any positive whole number
GIVEN: dict[str, dict[str, tuple[Any, ...]]] = {
    "deltanet": {
        **{"heads": (), "key_dim": (), "value_dim": (), "householders": ()},
        **{"eigenvalues": RANGES, "conv": (0,), "bare": (True,)},
    },
    "gla": {
        **{"heads": (), "key_dim": (), "value_dim": (), "gate_rank": ()},
        **{"eigenvalues": RANGES, "gate_temperature": (1,), "bare": (True,)},
    },
    "dense": {"state_size": (), "eigenvalues": (None,), "bare": (True,)},
    "convolution": {"channels": (), "width": ()},
}
# the options that may be left out
OPTIONAL: dict[str, dict[str, tuple[Any, ...]]] = {
    "deltanet": {
        **{"gate": (None, *RANGES), "learn_initial_state": (False, True)},
        **{"widened_from": (None,), "gate_per_channel": (False,), "output_gate": (False,)},
    },
    "gla": {
        "learn_initial_state": (False, True),
        "widened_from": (None,),
        "conv": (0,),
        "key_norm": (False,),
        "writes": (True,),
    },
    "dense": {"heads": (), "learn_initial_state": (False, True), "conv": (0,)},
    "convolution": {},
}
WITHOUT_EFFECT = ("backend", "norm_eps")  # on a network without norms
# the entries of a configuration that are read
ENTRIES = ("vocab_size", "d_model", "layers", "mixer", "mixer_options", "mlp_width", "norm")
MORE_ENTRIES = ("eigenvalues", "initial", "norm_place", "tie_embeddings", *WITHOUT_EFFECT)


class OutOfScope(ValueError):
    """The error that the checker does not cover a network, which may be right or wrong.

    Args:
        what: the part of the network that is not covered.
    """

    def __init__(self, what: str) -> None:
        super().__init__(
            f"the independent checker cannot say: {what}; it covers linear layers all of whose values are floats exactly"
        )


class Block:
    """A layer and the MLP that follows it, if there is one."""

    def __init__(self, number: int, layer: Layer, mlp: tuple[Linear, Linear, Linear] | None, kind: FloatType) -> None:
        self.layer = layer
        self._number, self._mlp, self._kind = number, mlp, kind
        self._after_mlp = lru_cache(REMEMBERED)(self._with_mlp)

    def step(self, x: Vector, state: Vector) -> tuple[Vector, Vector]:
        """Return the sum of x and what layer and MLP make of it, and the new state of the layer."""
        with at(f"layer {self._number}"):
            mixed, state = self.layer.step(x, state)
            return self._after_mlp(self._sum(x, mixed)), state

    def _with_mlp(self, x: Vector) -> Vector:
        if self._mlp is None:
            return x
        gate, up, down = self._mlp
        with at("the MLP"):
            units = [self._kind.product(silu(g), u) for g, u in zip(gate(x), up(x), strict=True)]
            return self._sum(x, down(units))

    def _sum(self, x: Vector, y: Vector) -> Vector:
        return tuple(map(self._kind.total, zip(x, y, strict=True)))


class Network:
    """A network whose every step is computed exactly; a step that floats may round raises `Rounded`."""

    def __init__(self, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """Build the equations of the configuration `config` with the weights `tensors`."""
        mixers = known_mixers(config)
        kinds = {tensor.kind for tensor in tensors.values()}
        if len(kinds) != 1:
            raise ValueError(f"the weights have the types {', '.join(sorted(kinds)) or 'of none'}: the compiler writes one")
        self.weights_type = kinds.pop()
        self.state_type = STATE_TYPES[self.weights_type]
        weights, state = FLOAT_TYPES[self.weights_type], FLOAT_TYPES[self.state_type]
        self.answers, width, taken = config["vocab_size"], config["d_model"], set[str]()

        def at_prefix(prefix: str) -> Take:
            def take(name: str, *shape: int) -> Tensor:
                found = tensors.get(prefix + name)
                if found is None or found.shape != shape or len(found.values) != math.prod(shape):
                    has = "is missing" if found is None else f"has the shape {list(found.shape)}"
                    raise ValueError(f"the weight {prefix + name!r} {has}, the configuration asks for {list(shape)}")
                taken.add(prefix + name)
                return found

            return take

        table = at_prefix("embedding.")("weight", self.answers, width).values
        self._embedding = [table[token * width : (token + 1) * width] for token in range(self.answers)]
        self._head = Linear(weights, at_prefix(""), "head", self.answers, width)
        self._blocks = []
        for number, (name, options, units) in enumerate(mixers, start=1):
            take = at_prefix(f"blocks.{number - 1}.mixer.")
            with at(f"layer {number}"):
                layer: Layer = LAYERS[name](take, width, options, weights, state)
            take, mlp = at_prefix(f"blocks.{number - 1}.mlp."), None
            if units:
                gate, up = (Linear(weights, take, part, units, width) for part in ("gate_proj", "up_proj"))
                mlp = gate, up, Linear(weights, take, "down_proj", width, units)
            self._blocks.append(Block(number, layer, mlp, weights))
        if extra := sorted(set(tensors) - taken):
            raise ValueError(f"the weight {extra[0]!r} has no place in the configuration")

    def start(self) -> State:
        """Return the joint state before the first token."""
        return tuple(block.layer.start for block in self._blocks)

    def step(self, token: int, state: State) -> tuple[Vector, State]:
        """Return the logits after a token in a joint state, and the next joint state."""
        x, after = self._embedding[token], []
        for block, part in zip(self._blocks, state, strict=True):
            x, new = block.step(x, part)
            after.append(new)
        return self._head(x), tuple(after)


def known_mixers(config: Any) -> list[tuple[str, dict[str, Any], int]]:
    """Return the name, the options and the MLP's width of each layer of a configuration; raise OutOfScope if one is not known.

    Args:
        config: the value of config.json.
    """
    if not isinstance(config, dict):
        raise ValueError("config.json is no object")
    if missing := [name for name in ENTRIES if name not in config]:
        raise ValueError(f"config.json is no configuration of a compiled network: it lacks {missing[0]!r}")
    for name in ("vocab_size", "d_model", "layers"):
        if not is_count(config[name]) or not config[name]:
            raise ValueError(f"config.json: {name}={config[name]!r} must be a positive whole number")
    if unknown := [name for name in config if name not in (*ENTRIES, *MORE_ENTRIES)]:
        raise OutOfScope(f"the entry {unknown[0]!r} of config.json is not known")
    if config["norm"] != "none":
        raise OutOfScope("the model has norms, whose roots are no floats")
    if config.get("tie_embeddings", False) is not False or config.get("initial"):
        raise OutOfScope("tied embeddings and initial values are not known")
    names, options, widths = (_per_layer(config, name) for name in ("mixer", "mixer_options", "mlp_width"))
    found = []
    for number, (name, given, width) in enumerate(zip(names, options, widths, strict=True), start=1):
        if not is_count(width):
            raise ValueError(f"config.json: mlp_width={width!r} of layer {number} must be a whole number")
        found.append((name, _known_options(number, name, given, config.get("eigenvalues")), width))
    return found


def _per_layer(config: Mapping[str, Any], name: str) -> list[Any]:
    value, layers = config[name], config["layers"]
    if not isinstance(value, list):
        return [value] * layers
    if len(value) != layers:
        raise ValueError(f"config.json: {name} has {len(value)} entries for {layers} layers")
    return value


def _known_options(number: int, name: Any, given: Any, eigenvalues: Any) -> dict[str, Any]:
    if not isinstance(name, str) or name not in LAYERS:
        raise OutOfScope(f"layer {number} is {name!r}, and the layers that it knows are {', '.join(LAYERS)}")
    if not isinstance(given, dict):
        raise ValueError(f"config.json: the options of layer {number} are no object")
    options = {key: value for key, value in given.items() if key not in WITHOUT_EFFECT}
    if "eigenvalues" in GIVEN[name]:
        options.setdefault("eigenvalues", eigenvalues)
    known = GIVEN[name] | OPTIONAL[name]
    for key in (*GIVEN[name], *options):
        if key not in known:
            raise OutOfScope(f"the option {key!r} of layer {number}, {name}, is not known")
        if key not in options:
            raise OutOfScope(f"layer {number}, {name}, leaves {key!r} to its default")
        if not _is_known(options[key], known[key]):
            raise OutOfScope(f"layer {number}, {name}, has {key}={options[key]!r}")
    return options


def _is_known(value: Any, known: tuple[Any, ...]) -> bool:
    if not known:
        return is_count(value) and value > 0
    return any(value == other and isinstance(value, bool) == isinstance(other, bool) for other in known)
