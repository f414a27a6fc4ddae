"""How many bytes of text each token stands for, where the tokenizer spells bytes: for bits per byte."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from eigentrack.lm.tokenizer import Tokenizer


def bytes_of_tokens(tokenizer: Tokenizer) -> NDArray[np.int64] | None:
    """By token id; special tokens have none. A byte-level tokenizer writes every byte as one letter; of others: None."""
    from tokenizers import decoders

    if not isinstance(tokenizer.rust.decoder, decoders.ByteLevel):
        return None
    sizes = np.zeros(tokenizer.vocab_size, np.int64)
    added = tokenizer.rust.get_added_tokens_decoder()
    for token, number in tokenizer.rust.get_vocab(with_added_tokens=True).items():
        if number not in added:
            sizes[number] = len(token)
        elif not added[number].special:
            sizes[number] = len(token.encode())
    return sizes
