"""Text from a language model, streamed while it is generated.

A character may take several tokens, so the bytes of an unfinished character are held back: the joined output equals the text
that the tokenizer decodes from all tokens together.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import islice

import torch

from eigentrack.lm.language_model import LanguageModel
from eigentrack.lm.tokenizer import Tokenizer
from eigentrack.training.config import check_seed

UNFINISHED = "\ufffd"  # how an incomplete character at the end of a text is decoded


class IncrementalDecoder:
    """A decoder that takes tokens one by one and returns text as soon as its characters are complete."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._rust = tokenizer.rust
        self._before: list[int] = []  # tokens already returned as text; they decide whether a space precedes the next
        self._held: list[int] = []  # tokens whose text is not complete
        self._out = 0  # how many characters of the held tokens have been returned

    def push(self, token: int) -> str:
        self._held.append(token)
        text = self._text()
        return self._take(text, text.removesuffix(UNFINISHED))

    def finish(self) -> str:
        text = self._text()
        return self._take(text, text)

    def _text(self) -> str:
        """Return the text of the held tokens."""
        return self._rust.decode(self._before + self._held)[len(self._rust.decode(self._before)) :]

    def _take(self, text: str, settled: str) -> str:
        new, self._out = settled[self._out :], len(settled)
        if settled == text:
            self._before, self._held, self._out = self._held, [], 0
        return new


def stream_text(
    language_model: LanguageModel,
    prompt: str,
    tokens: int,
    *,
    temperature: float = 0.8,
    top_k: int | None = 50,
    seed: int = 0,
) -> Iterator[str]:
    """Yield the text that follows the prompt, up to the end token or to `tokens` tokens."""
    model, tokenizer = language_model.model, language_model.tokenizer
    if not 1 <= tokens <= sys.maxsize:
        raise ValueError(f"tokens={tokens} must be at least 1 and at most {sys.maxsize}")
    check_seed(seed)
    try:
        prompt.encode()
    except UnicodeEncodeError:
        raise ValueError(f"the prompt {prompt!r:.60} is no text in UTF-8") from None
    (ids,) = tokenizer.encode([prompt], "int64")
    if not len(ids):
        raise ValueError("the prompt is empty: a model goes on from at least one token")
    device = model.embedding.weight.device
    drawn = model.stream(
        torch.from_numpy(ids)[None].to(device),
        temperature=temperature,
        top_k=None if top_k is None else min(top_k, model.config.vocab_size),
        generator=torch.Generator(device).manual_seed(seed),
    )
    decoder = IncrementalDecoder(tokenizer)
    for token in islice(drawn, tokens):
        if token.item() == tokenizer.end:
            break
        yield decoder.push(int(token))
    yield decoder.finish()
