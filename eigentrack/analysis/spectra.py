"""Spectra: the eigenvalues of A(x_t) for every layer, head and token, and of the products A(x_t) ··· A(x_{t-m+1}) over words.

A depends on the layer's input, hence on earlier tokens: the matrices are taken from whole sequences, each token repeated and
random words, and grouped by token. Both theorems' conditions (expressivity/eigenvalue_conditions.py) are necessary only.

B sequences  T time  H heads  n state size of a head  C contexts of a token  m tokens of a word
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from eigentrack.analysis.inspected_network import model_mixers
from eigentrack.expressivity.eigenvalue_conditions import has_complex_eigenvalue, has_eigenvalue_off_the_nonnegative_axis
from eigentrack.layers import LinearMixer
from eigentrack.layers.mixer import matrix_eigenvalues
from eigentrack.models import SequenceModel
from eigentrack.models.sequence_model import in_evaluation_mode
from eigentrack.training.telemetry import RANGES, histogram

TOLERANCE = 1e-4  # the error of an eigenvalue: the matrices are float32, and a defective matrix loses twice as many digits
MOVED = 1e-2  # a direction counts as moved from this change on, root mean square over all positions
ENTRIES = 2**21  # the most entries of a layer's matrices that are held at once
MOST_HEADS = 64  # heads of a layer that are looked at; if it has more, they are sampled at equal steps
MOST_EIGENVALUES = 1000  # about the most that are kept for the plot per layer and token, from the first contexts
WORD_LENGTHS = (1, 2, 4, 8)


@dataclass(frozen=True)
class HeadSpectrum:
    """Measures of A(x) for one head and one token, each the extreme over the contexts in which the token was seen."""

    to_minus_one: float  # the smallest |λ + 1|
    from_one: float  # the largest |λ - 1|: 0 for a head that keeps everything
    to_circle: float  # the smallest | |λ| - 1 | over λ ≠ 1: how well the head keeps what it moves
    largest_modulus: float
    orthogonality_defect: float  # the largest |AᵀA - I|
    context_spread: float  # the largest |A - mean of A|: 0 if A depends on the token alone


@dataclass(frozen=True)
class TokenSpectrum:
    """The eigenvalues of A(x) for one token."""

    token: str
    contexts: int  # how often the token was seen
    heads: tuple[HeadSpectrum, ...]
    eigenvalues: tuple[complex, ...]  # those of all heads, in the first contexts


@dataclass(frozen=True)
class WordSpectrum:
    """Measures of the eigenvalues of all products of `length` successive matrices."""

    length: int
    off_the_nonnegative_axis: bool  # whether any eigenvalue lies off the nonnegative real axis
    complex_eigenvalues: bool  # whether any eigenvalue is not real
    largest_modulus: float
    lowest_real: float


@dataclass(frozen=True)
class LayerSpectrum:
    """The spectra of one layer on the sequences that it was run on."""

    layer: int  # counted from 1
    mixer: str
    eigenvalue_range: str
    tokens: tuple[TokenSpectrum, ...]
    words: tuple[WordSpectrum, ...]
    key_ranks: tuple[int, ...]  # per head, the number of directions, out of `state_size`, that some token moves
    state_size: int
    histograms: Mapping[str, Any]  # one histogram per gate, by name
    may_flip: bool  # whether the necessary condition of Theorem 1 holds
    may_count: bool  # whether the necessary condition of Theorem 2 holds


@torch.no_grad()
def layer_spectra(
    model: SequenceModel,
    tokens: Int[Tensor, "B T"],
    names: Mapping[int, str],
    progress: Callable[[], None] | None = None,
) -> tuple[LayerSpectrum, ...]:
    """Return the spectra of the linear layers of a model.

    Args:
        model: the model to analyse.
        tokens: the sequences on which its layers are run, [B, T].
        names: the tokens to report, with their names.
        progress: called after each layer; None: nobody is told.
    """
    found = []
    layers = zip(model.config.mixers, model_mixers(model), layer_inputs(model, tokens), strict=True)
    for number, (name, mixer, seen) in enumerate(layers, start=1):
        if isinstance(mixer, LinearMixer):
            found.append(_layer_spectrum(number, name, mixer, seen, tokens, names))
        if progress is not None:
            progress()
    return tuple(found)


def sampled_words(letters: list[int], opening: tuple[int, ...], rows: int, length: int, seed: int) -> Int[Tensor, "B T"]:
    """Return each letter repeated `length` times, then `rows` random words, all after the opening tokens."""
    generator = torch.Generator().manual_seed(seed)
    alone = torch.tensor(letters)[:, None].expand(-1, length)
    mixed = torch.tensor(letters)[torch.randint(len(letters), (rows, length), generator=generator)]
    words = torch.cat([alone, mixed])
    return torch.cat([torch.tensor(opening, dtype=torch.long).expand(len(words), -1), words], 1)


@in_evaluation_mode
def layer_inputs(model: SequenceModel, tokens: Int[Tensor, "B T"]) -> list[Float[Tensor, "B T d"]]:
    """Return the input of each layer on the tokens."""
    inputs: dict[int, Tensor] = {}
    hooks = [
        mixer.register_forward_pre_hook(lambda _, given, number=number: inputs.update({number: given[0].detach()}))
        for number, mixer in enumerate(model_mixers(model))
    ]
    try:
        model(tokens.to(model.embedding.weight.device))
    finally:
        for hook in hooks:
            hook.remove()
    return [inputs[number] for number in sorted(inputs)]


def _layer_spectrum(
    number: int, name: str, mixer: LinearMixer, x: Float[Tensor, "B T d"], tokens: Int[Tensor, "B T"], names: Mapping[int, str]
) -> LayerSpectrum:
    heads, size = mixer.memory_shape[:2]
    rows = max(2, ENTRIES // (x.shape[1] * heads * size * size))
    if len(x) > rows:  # evenly spaced, so that repeated letters and random words are both among them
        keep = torch.linspace(0, len(x) - 1, rows).round().long()
        x, tokens = x[keep.to(x.device)], tokens[keep]
    matrices = mixer.transitions(x)[:, :, :: -(-heads // MOST_HEADS)].double().cpu()  # B T H n n
    period = min(2 ** (number - 1), matrices.shape[1])  # on σσσ… the inputs of this layer may have this period
    lengths = sorted({*(length for length in WORD_LENGTHS if length <= matrices.shape[1]), period})
    words = {length: _word_spectrum(matrices, length) for length in lengths}
    return LayerSpectrum(
        layer=number,
        mixer=name,
        eigenvalue_range="none" if mixer.eigenvalues is None else str(mixer.eigenvalues),
        tokens=tuple(_token_spectrum(names[t], matrices[tokens == t]) for t in names if bool((tokens == t).any())),
        words=tuple(words.values()),
        key_ranks=_key_ranks(matrices),
        state_size=matrices.shape[-1],
        histograms={gate: histogram(values, *RANGES[gate]) for gate, values in mixer.gates(x).items()},
        may_flip=words[1].off_the_nonnegative_axis,
        may_count=words[period].complex_eigenvalues,
    )


def _token_spectrum(name: str, matrices: Float[Tensor, "C H n n"]) -> TokenSpectrum:
    values = matrix_eigenvalues(matrices)  # C H n
    identity = torch.eye(matrices.shape[-1], dtype=matrices.dtype)
    defect = torch.linalg.matrix_norm(matrices.mT @ matrices - identity, ord=2).amax(0)
    spread = torch.linalg.matrix_norm(matrices - matrices.mean(0), ord=2).amax(0)
    from_one, modulus = (values - 1).abs(), values.abs()
    moved = torch.where(from_one > TOLERANCE, (modulus - 1).abs(), torch.inf).flatten(2).amin((0, 2))
    heads = tuple(
        HeadSpectrum(*row)
        for row in torch.stack(
            [
                (values + 1).abs().amin((0, 2)),
                from_one.amax((0, 2)),
                torch.where(moved.isinf(), 0.0, moved),
                modulus.amax((0, 2)),
                defect,
                spread,
            ],
            1,
        ).tolist()
    )
    some = values[: max(1, MOST_EIGENVALUES // values[0].numel())]
    return TokenSpectrum(name, len(matrices), heads, tuple(some.flatten().tolist()))


def _word_spectrum(matrices: Float[Tensor, "B T H n n"], length: int) -> WordSpectrum:
    products = _products(matrices, length).numpy()
    values = np.linalg.eigvals(products)
    return WordSpectrum(
        length,
        has_eigenvalue_off_the_nonnegative_axis(products, TOLERANCE),
        has_complex_eigenvalue(products, TOLERANCE),
        float(np.abs(values).max()),
        float(values.real.min()),
    )


def _products(matrices: Float[Tensor, "B T H n n"], length: int) -> Float[Tensor, "B W H n n"]:
    """Return the products of all `length` successive matrices, later ones on the left."""
    windows = matrices.shape[1] - length + 1
    product = matrices[:, :windows]
    for shift in range(1, length):
        product = matrices[:, shift : shift + windows] @ product
    return product


def _key_ranks(matrices: Float[Tensor, "B T H n n"]) -> tuple[int, ...]:
    """Return the rank of each head's matrices I - A(x_t), stacked; with Householder factors it is the rank of the keys."""
    change = torch.eye(matrices.shape[-1], dtype=matrices.dtype) - matrices
    moved = torch.einsum("bthij,bthik->hjk", change, change) / (matrices.shape[0] * matrices.shape[1])
    return tuple((torch.linalg.eigvalsh(moved) > MOVED**2).sum(-1).tolist())
