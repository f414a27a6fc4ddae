"""Layers as torch traces them: compiled without a break and exported, each for sequences of any length.

Tests start this module as a program, in a process without the type checks that every test runs under: those break graphs.

    python -m tests.layers.traced_layers eager                         one variant of every layer
    python -m tests.layers.traced_layers aot_eager --all --packed      every variant, with packed sequences as well
"""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend

from eigentrack.layers import Mixer, MixerState
from tests.closeness import TOLERANCE, relative_error
from tests.layers.layer_cases import D_MODEL, LINEAR, OTHERS, build, case_name

LENGTHS = (70, 33, 131)  # whole chunks and a rest, less than a chunk, more chunks
PACKED = (torch.tensor([0, 1, 33, 40]), torch.tensor([0, 20, 39, 67]))
CASES = [*LINEAR, *OTHERS]
READS_BOUNDS = ("attention",)  # it cuts packed sequences apart on the host, which a graph cannot do


def assert_same(found: Any, expected: Any, name: str) -> None:
    ours, theirs = torch.utils._pytree.tree_leaves(found), torch.utils._pytree.tree_leaves(expected)
    assert len(ours) == len(theirs) > 0
    for n, (x, y) in enumerate(zip(ours, theirs, strict=True)):
        finite = y.isfinite()
        assert torch.equal(x.isfinite(), finite)
        error = relative_error(x.where(finite, 0), y.where(finite, 0))
        assert error <= TOLERANCE[torch.float32], f"{name} {n}: {error:.1e}"


def outputs_and_gradients(run: Any, mixer: Mixer, x: Tensor, *others: Any) -> tuple[Any, Any]:
    leaf = x.clone().requires_grad_()
    y, state = run(leaf, *others)
    loss = y.sin().sum() + sum(part.sin().sum() for part in state.memory[:1] if part.is_floating_point())
    return (y, state), torch.autograd.grad(loss, [leaf, *mixer.parameters()], allow_unused=True)


def compiles_once_for_all_lengths(mixer: Mixer, backend: str) -> None:
    torch._dynamo.reset()
    counter = CompileCounterWithBackend(backend)
    compiled = torch.compile(mixer, fullgraph=True, backend=counter, dynamic=True)
    compilations = []
    for time in LENGTHS:
        x, state = torch.randn(2, time, D_MODEL), mixer(torch.randn(2, 3, D_MODEL))[1].detach()
        (found, slopes), (expected, exact) = (outputs_and_gradients(run, mixer, x, state) for run in (compiled, mixer))
        assert_same(found, expected, f"output at {time}")
        assert_same([g for g in slopes if g is not None], [g for g in exact if g is not None], f"gradient at {time}")
        compilations.append(counter.frame_count)
    assert 0 < compilations[0] == compilations[-1], f"compilations after each length: {compilations}"


def compiles_for_packed_sequences(mixer: Mixer, backend: str) -> None:
    torch._dynamo.reset()
    counter = CompileCounterWithBackend(backend)
    compiled = torch.compile(mixer, fullgraph=True, backend=counter, dynamic=True)
    compilations = []
    for bounds in PACKED:
        x = torch.randn(1, int(bounds[-1]), D_MODEL)
        (found, slopes), (expected, exact) = (outputs_and_gradients(run, mixer, x, None, bounds) for run in (compiled, mixer))
        assert_same(found, expected, "packed output")
        assert_same([g for g in slopes if g is not None], [g for g in exact if g is not None], "packed gradient")
        compilations.append(counter.frame_count)
    assert 0 < compilations[0] == compilations[-1], f"compilations after each packing: {compilations}"


def exports_for_all_lengths(mixer: Mixer) -> None:
    """Batch and time are free; the state goes in and comes out as a MixerState."""
    x, state = torch.randn(2, 40, D_MODEL), mixer(torch.randn(2, 3, D_MODEL))[1].detach()
    batch, time = torch.export.Dim("batch", min=1, max=512), torch.export.Dim("time", min=2, max=2**20)
    free = torch.export.ShapesCollection()
    free[x] = {0: batch, 1: time}
    for part in {id(part): part for part in torch.utils._pytree.tree_leaves(state)}.values():
        free[part] = {0: batch}
    program = torch.export.export(mixer, (x, state), dynamic_shapes=free)
    for rows_now, time_now in ((2, 40), (3, 70), (1, 131)):
        x, state = torch.randn(rows_now, time_now, D_MODEL), mixer(torch.randn(rows_now, 3, D_MODEL))[1].detach()
        found, expected = program.module()(x, state), mixer(x, state)
        assert isinstance(found[1], MixerState)
        assert_same(found, expected, f"exported at {rows_now}, {time_now}")


def refuses_to_read_bounds_in_one_graph(mixer: Mixer) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(mixer, fullgraph=True, backend="eager")
    refusal = "reads the lengths of packed sequences on the host: leave out fullgraph=True"
    with pytest.raises(torch._dynamo.exc.Unsupported, match=refusal):
        compiled(torch.randn(1, 40, D_MODEL), None, PACKED[0])


def main(backend: str, *options: str) -> None:
    torch.set_num_threads(1)
    seen: set[str] = set()
    for name, variant in CASES:
        if "--all" in options or name not in seen:
            mixer = build(name, variant, torch.float32)
            exports_for_all_lengths(mixer)
            compiles_once_for_all_lengths(mixer, backend)
            if name in READS_BOUNDS:
                refuses_to_read_bounds_in_one_graph(mixer)
            elif "--packed" in options:
                compiles_for_packed_sequences(mixer, backend)
            print(f"traced {name} {case_name(variant)}", flush=True)
        seen.add(name)


if __name__ == "__main__":
    main(*sys.argv[1:])
