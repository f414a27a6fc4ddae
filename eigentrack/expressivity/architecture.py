"""Architecture: a kind of layer, the range of its eigenvalues, how many layers and factors, and the precision to argue in.

A layer is H_t = A(x_t) H_(t-1) + B(x_t), y_t = dec(H_t, x_t) with any functions A, B and dec of what they see, and any width:
no convolution, no normalisation. Verdicts speak of this abstraction.
"""

from __future__ import annotations

from dataclasses import dataclass

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
    "dense": "dense matrices, PD-SSM",
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
    """`layers` and `householders` None: any finite number. The gate of a gated DeltaNet has the range [0, 1], channel gates
    have that of the factors, or [0, 1] in "kda"."""

    layer: str
    eigenvalues: EigenRange | None = None
    layers: int | None = None
    householders: int | None = None
    precision: str = "finite"

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
            raise ValueError(f"precision {self.precision!r}: floats close the open interval; ask for the layer 'diagonal'")
        if self.layer != "open-diagonal" and self.precision in ("eta-finite", "constrained"):
            raise ValueError(f"precision {self.precision!r} is for the layer 'open-diagonal' only, not for {self.layer!r}")

    @property
    def name(self) -> str:
        return ", ".join(filter(None, (self._kind, self._depth, self._model)))

    @property
    def _kind(self) -> str:
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
        if self.layer not in WITH_FACTORS or self.householders == 1:
            return layers
        return f"{'any number of' if self.householders is None else self.householders} factors, {layers}"

    @property
    def _model(self) -> str:
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
    Architecture("attention"),
    Architecture("attention", precision="log"),
    Architecture("slstm", layers=1),
    Architecture("slstm", precision="robust"),
    Architecture("lstm", layers=1),
)
