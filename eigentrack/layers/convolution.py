"""Convolution: y_t = W_out Σ_w filter_w ⊙ W_in x_{t - width + 1 + w}; linear, it sees the last `width` tokens and no others.

B batch  T time  d model width
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from eigentrack.layers.mixer import Mixer, MixerState, ShortConvolution
from eigentrack.layers.validation import require_positive
from eigentrack.ops.shared.packing import Packing
from eigentrack.ops.short_convolution.reference import Part


class Convolution(Mixer):
    """A linear convolution over time; with width 2 and the filter (1, 0) it delays its input by one token.

    Args:
        d_model: the width of the input and the output.
        channels: the number of channels that are convolved; None: d_model.
        width: the number of taps of the filter.
        backend: "auto" for the fastest backend that can run, or one by name: "reference", "chunked" or "triton".
    """

    def __init__(self, d_model: int, *, channels: int | None = None, width: int = 4, backend: str = "auto") -> None:
        super().__init__(d_model, backend)
        channels = d_model if channels is None else channels
        require_positive(channels=channels, width=width)
        self.in_proj = nn.Linear(d_model, channels, bias=False)
        self.convolution = ShortConvolution(channels, width, bias=False)
        self.out_proj = nn.Linear(channels, d_model, bias=False)

    def initial_state(self, sequences: int) -> MixerState:
        return MixerState((), self.convolution.initial_window(sequences))

    def _mix(
        self, x: Float[Tensor, "B T d"], state: MixerState, packing: Packing | None, backend: str
    ) -> tuple[Float[Tensor, "B T d"], MixerState]:
        assert state.window is not None  # initial_state made it
        (y,), window, _ = self.convolution([Part(self.in_proj(x))], state.window, packing, backend=backend)
        return self.out_proj(y), MixerState((), window)
