"""Compiled networks on the Triton kernels: on a GPU, or here in a process where Triton interprets them (float32 only)."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import pytest
import torch

from eigentrack.automata import language
from tests.compiler.automata_cases import random_word, states_after_each_letter
from tests.compiler.test_networks import compiled, on_backend

pytest.importorskip("triton")
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
runs_kernels = pytest.mark.skipif(DEVICE == "cpu" and not INTERPRETED, reason="needs a GPU, or TRITON_INTERPRET=1")
NETWORKS = [("shell-game5", "deltaproduct"), ("tomita3", "gated"), ("d4", "diagonal")]


@pytest.mark.skipif(DEVICE == "cuda" or INTERPRETED, reason="the kernels run in this very process")
@pytest.mark.slow
def test_under_the_interpreter() -> None:
    command = [sys.executable, "-m", "pytest", __file__, "-q", "-p", "no:xdist", "-p", "no:cacheprovider"]
    run = subprocess.run(command, env=os.environ | {"TRITON_INTERPRET": "1"}, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout[-4000:]
    assert f"{len(NETWORKS)} passed" in run.stdout


@runs_kernels
@pytest.mark.filterwarnings("ignore:Conversion of an array with ndim > 0:DeprecationWarning")  # in the interpreter
@pytest.mark.parametrize("length", [150, *([10_000] if DEVICE == "cuda" else [])])
@pytest.mark.parametrize("batch", [1, 3, 64] if DEVICE == "cuda" else [2])
@pytest.mark.parametrize(("name", "architecture"), NETWORKS)
def test_long_words(name: str, architecture: str, batch: int, length: int) -> None:
    dfa = language(name)
    network = compiled(dfa, architecture, "bfloat16" if DEVICE == "cuda" else "float32")
    rng = random.Random(length)
    words = [random_word(rng, dfa, length) for _ in range(batch)]
    tokens = torch.tensor([network.alphabet.tokens([dfa.letters.index(letter) for letter in word]) for word in words])
    with torch.no_grad():
        logits, _ = on_backend(network.model, "triton").to(DEVICE)(tokens.to(DEVICE))
    assert logits.argmax(-1).tolist() == [states_after_each_letter(dfa, word) for word in words]
