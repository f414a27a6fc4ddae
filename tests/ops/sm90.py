"""Compiles a kernel for sm_90 without a GPU, and says what it takes: registers, spills, shared memory, how it multiplies."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

_CUOBJDUMP = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"


@dataclass(frozen=True)
class Resources:
    registers: int
    spilled_bytes: int
    shared_bytes: int
    wgmma: int
    wgmma_from_registers: int  # the assembler of CUDA < 13.3 may overwrite such operands while they are read
    mma: int  # the other kind of product on tensor cores, in the program of one warp
    shuffles: int  # words from thread to thread


def compile_for_sm90(
    kernel: Any,
    arguments: Mapping[str, str],
    constants: Mapping[str, Any],
    num_warps: int,
    num_stages: int,
    even: Collection[str] = (),
) -> Resources:
    """`arguments` gives a type such as "*bf16" or "i32" to every argument that is not a constant; pointers are aligned, and
    the whole numbers named in `even` are multiples of 16."""
    signature = {name: "constexpr" if name in constants else arguments[name] for name in kernel.arg_names}
    places = [i for i, (name, kind) in enumerate(signature.items()) if kind.startswith("*") or name in even]
    aligned = {(i,): [["tt.divisibility", 16]] for i in places}
    source = ASTSource(kernel, signature, dict(constants), aligned)
    options = {"num_warps": num_warps, "num_stages": num_stages}
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.asm["cubin"])
        file.flush()
        command = [_CUOBJDUMP, "--dump-resource-usage", file.name]
        report = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    usage = re.search(r"REG:(\d+) STACK:(\d+)", report)
    assert usage is not None, report
    multiply = re.findall(r"wgmma\.mma_async[^\n]*", compiled.asm["ptx"])
    from_registers = [line for line in multiply if line.count("{") == 2]
    small, shuffles = (len(re.findall(rf"{name}\.sync", compiled.asm["ptx"])) for name in ("mma", "shfl"))
    counts = (len(multiply), len(from_registers), small, shuffles)
    return Resources(int(usage[1]), int(usage[2]), compiled.metadata.shared, *counts)
