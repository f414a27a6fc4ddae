"""Architectures: a kind of layer, its eigenvalue range, the numbers of layers and factors, and the model of arithmetic.

A layer is H_t = A(x_t) H_(t-1) + B(x_t), y_t = dec(H_t, x_t) with arbitrary functions A, B and dec of their arguments, any
width, no convolution and no normalisation. Verdicts are about this abstraction.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from eigentrack.spectrum import EigenRange

# layer → its name in a table
LAYERS = {
    "diagonal": "diagonal (Mamba, GLA, Mamba-2)",
    "open-diagonal": "Mamba with gates strictly between",
    "complex-diagonal": "complex diagonal (Mamba, GLA, Mamba-2 in a disk)",
    "s4d": "S4D, complex",
    "s4d-real": "S4D, real",
    "s4d-mamba": "S4D with negative eigenvalues + Mamba",
    "mlstm": "mLSTM",
    "deltanet": "DeltaNet",
    "gated-deltanet": "gated DeltaNet",
    "channel-gated-deltanet": "DeltaNet with channel gates (KDA)",
    "kda": "DeltaNet with channel gates in [0, 1] (KDA), factors in",
    "rwkv7": "RWKV-7",
    "ttt": "TTT-Linear",
    "dense": "dense matrices",
    "pd_ssm": "PD-SSM",
    "sd_ssm": "SD-SSM",
    "attention": "transformer",
    "slstm": "sLSTM",
    "lstm": "LSTM, Elman",
}
LINEAR = frozenset(LAYERS) - {"ttt", "attention", "slstm", "lstm"}
WITH_FACTORS = frozenset({"deltanet", "gated-deltanet", "channel-gated-deltanet", "kda"})
WITH_RANGE = WITH_FACTORS | {"diagonal", "open-diagonal", "s4d-real", "mlstm", "rwkv7"}

# precision → its name in a table
PRECISIONS = {
    "finite": "finite precision",
    "ieee": "IEEE floats, token by token",
    "log": "log precision",
    "eta-finite": "η-finite",
    "constrained": "geometrically constrained",
    "robust": "robust to noise",
}


@dataclass(frozen=True)
class Architecture:
    """A stack of layers of one kind, about which a verdict is asked.

    The gate of a gated DeltaNet has the range [0, 1]; channel gates have the range of the factors, or [0, 1] in "kda".
    """

    layer: str  # a key of `LAYERS`
    eigenvalues: EigenRange | None = None  # the range of the eigenvalues; None for layers that have no range to choose
    layers: int | None = None  # number of layers; None means any finite number
    householders: int | None = None  # factors per token; None means any finite number
    precision: str = "finite"  # the model of arithmetic, a key of `PRECISIONS`

    def __post_init__(self) -> None:
        if self.layer not in LAYERS:
            raise ValueError(f"layer {self.layer!r} is not known; there are {', '.join(LAYERS)}")
        if self.precision not in PRECISIONS:
            raise ValueError(f"precision {self.precision!r} is not known; there are {', '.join(PRECISIONS)}")
        if self.eigenvalues is not None and self.eigenvalues.turns:
            raise ValueError(
                f"eigenvalues={self.eigenvalues} are complex: ask for the layer 'complex-diagonal', without a range"
            )
        if (self.eigenvalues is not None) != (self.layer in WITH_RANGE):
            needed = "needs an eigenvalue range" if self.layer in WITH_RANGE else "has no eigenvalue range"
            raise ValueError(f"layer {self.layer!r} {needed}: eigenvalues={self.eigenvalues}")
        for name in ("layers", "householders"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise ValueError(f"{name}={value!r} must be at least 1, or None for any number")
        if self.householders is not None and self.layer not in WITH_FACTORS:
            raise ValueError(f"layer {self.layer!r} has no Householder factors: householders={self.householders}")
        if self.layer == "open-diagonal" and self.precision not in ("eta-finite", "constrained"):
            raise ValueError(
                f"precision {self.precision!r}: floats close the open interval of the layer 'open-diagonal'; "
                "choose eta-finite or constrained, or ask for the layer 'diagonal'"
            )
        if self.layer != "open-diagonal" and self.precision in ("eta-finite", "constrained"):
            raise ValueError(f"precision {self.precision!r} is for the layer 'open-diagonal' only, not for {self.layer!r}")

    @property
    def any_depth(self) -> bool:
        """Whether the number of layers is left open."""
        return self.layers is None

    @property
    def kinds(self) -> tuple[Architecture, ...]:
        """The architecture of one layer for each layer; only once if their number is left open."""
        return (replace(self, layers=1),) * (self.layers or 1)

    @property
    def name(self) -> str:
        return ", ".join(filter(None, (self.kind, self._depth, self.arithmetic)))

    @property
    def kind(self) -> str:
        """The kind of layer in words, with its range."""
        if self.layer == "dense" and self.precision == "robust":
            return "any linear RNN"
        kind = LAYERS[self.layer]
        if self.layer in WITH_FACTORS and self.householders != 1:
            kind = kind.replace("DeltaNet", "DeltaProduct")
        if self.layer == "open-diagonal":
            return f"{kind} {self.eigenvalues.low:g} and {self.eigenvalues.high:g}" if self.eigenvalues else kind
        return kind if self.eigenvalues is None else f"{kind} {self.eigenvalues}"

    @property
    def _depth(self) -> str:
        layers = "any depth" if self.layers is None else f"{self.layers} layer{'s' if self.layers > 1 else ''}"
        return ", ".join(filter(None, (self.factors, layers)))

    @property
    def factors(self) -> str:
        """The number of factors in words; nothing if there is one or none."""
        if self.layer not in WITH_FACTORS or self.householders == 1:
            return ""
        return f"{'any number of' if self.householders is None else self.householders} factors"

    @property
    def arithmetic(self) -> str:
        """The model of arithmetic in words; nothing if it goes without saying."""
        return PRECISIONS[self.precision] if self.precision != "finite" or self.layer == "attention" else ""


_FORGET, _FLIP = EigenRange(0, 1), EigenRange(-1, 1)

STANDARD: tuple[Architecture, ...] = (
    Architecture("diagonal", _FORGET, layers=1),
    Architecture("diagonal", _FORGET),
    Architecture("diagonal", _FORGET, precision="ieee"),
    Architecture("diagonal", _FLIP, layers=1),
    Architecture("diagonal", _FLIP, layers=2),
    Architecture("diagonal", _FLIP),
    Architecture("diagonal", _FLIP, precision="log"),
    Architecture("open-diagonal", _FORGET, precision="eta-finite"),
    Architecture("open-diagonal", _FORGET, precision="constrained"),
    Architecture("complex-diagonal", layers=1),
    Architecture("complex-diagonal"),
    Architecture("s4d"),
    Architecture("s4d-mamba"),
    Architecture("mlstm", _FORGET),
    Architecture("deltanet", _FORGET, householders=1),
    Architecture("deltanet", _FORGET),
    Architecture("deltanet", _FLIP, layers=1, householders=1),
    Architecture("deltanet", _FLIP, layers=2, householders=1),
    Architecture("deltanet", _FLIP, layers=4, householders=1),
    Architecture("deltanet", _FLIP, householders=1),
    Architecture("deltanet", _FLIP, layers=1, householders=2),
    Architecture("deltanet", _FLIP, layers=1, householders=3),
    Architecture("deltanet", _FLIP, layers=1, householders=4),
    Architecture("deltanet", _FLIP, layers=3, householders=2),
    Architecture("deltanet", _FLIP, layers=1),
    Architecture("deltanet", _FLIP),
    Architecture("gated-deltanet", _FORGET, householders=1),
    Architecture("gated-deltanet", _FLIP, layers=1, householders=1),
    Architecture("gated-deltanet", _FLIP, householders=1),
    Architecture("gated-deltanet", _FLIP),
    Architecture("channel-gated-deltanet", _FORGET, householders=1),
    Architecture("channel-gated-deltanet", _FLIP, layers=1, householders=1),
    Architecture("channel-gated-deltanet", _FLIP, layers=1, householders=2),
    Architecture("rwkv7", _FORGET),
    Architecture("rwkv7", _FLIP, layers=1),
    Architecture("rwkv7", _FLIP),
    Architecture("ttt"),
    Architecture("dense", layers=1),
    Architecture("dense", precision="robust"),
    Architecture("pd_ssm", layers=1),
    Architecture("sd_ssm", layers=1),
    Architecture("attention"),
    Architecture("attention", precision="log"),
    Architecture("slstm", layers=1),
    Architecture("slstm", precision="robust"),
    Architecture("lstm", layers=1),
)
