"""The cross-entropy kernel compiles for sm_90 as it is launched; prints registers and spills."""

from __future__ import annotations

import os

import pytest

pytest.importorskip("triton")
if os.environ.get("TRITON_INTERPRET") == "1":
    pytest.skip("nothing is compiled where Triton interprets", allow_module_level=True)

from eigentrack.ops.cross_entropy.kernel import BLOCK, NUM_WARPS, rows_kernel
from tests.ops.sm90 import compile_for_sm90


@pytest.mark.parametrize("slope", [False, True])
@pytest.mark.parametrize("logits", ["*bf16", "*fp32"])
def test_it_compiles_without_spills(logits: str, slope: bool) -> None:
    arguments = {"logits": logits, "targets": "*i64", "losses": "*fp32", "vocabulary": "i32", "ignored": "i32"}
    found = compile_for_sm90(rows_kernel, arguments, {"SLOPE": slope, "BLOCK": BLOCK}, NUM_WARPS, 3)
    print(f"\n{logits} slope={slope}: {found}")
    assert found.spilled_bytes == 0
    assert found.registers > 16
