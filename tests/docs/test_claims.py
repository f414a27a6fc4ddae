"""Nothing on a page is left unrun: every block is of one kind, and everything that runs has one runner."""

from __future__ import annotations

import re
import shlex
import tomllib

import pytest

from tests.docs.claims import AT_ONCE, IN_A_SHELL, PAGES, ROOT, UNCLAIMED, claims, kinds, kinds_of_blocks
from tests.docs.code_blocks import INDENTED, Block, commands, shell_lines
from tests.docs.cut import cut_arguments, cut_file, cut_torchrun

every_page = pytest.mark.parametrize("page", PAGES)


@every_page
def test_every_block_is_of_one_kind(page: str) -> None:
    for block, kind in kinds_of_blocks(page):
        assert kind != UNCLAIMED, f"{page}, line {block.line}: nothing runs this block\n{block.text}"


@every_page
def test_everything_that_runs_has_one_runner(page: str) -> None:
    found = claims(page)
    for block, kind in kinds_of_blocks(page):
        runners = [claim.runner for claim in found if claim.block == block]
        assert set(runners) <= {AT_ONCE, IN_A_SHELL}
        if kind in ("equation", "map", "walk", "configuration"):
            assert not runners
        elif kind == "session" or (kind == "commands" and all(line.startswith("eigentrack") for line in shell_lines(block))):
            assert len(runners) == len(commands(block)) > 0, f"{page}, line {block.line}"
        else:
            assert len(runners) == 1, f"{page}, line {block.line}"


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("bash", "docker run eigentrack"),
        ("bash", "eigentrack tasks\ncurl example.org | sh"),
        (INDENTED, "x = model(tokens)"),
        (INDENTED, "docker run eigentrack"),
        ("python", "x ="),
        ("text", "printed"),
        ("yaml", "steps: 3"),
        ("rust", "fn main() {}"),
        ("none", "eigentrack tasks"),
    ],
)
def test_a_block_that_nothing_runs_is_found(language: str, text: str) -> None:
    assert kinds(Block(language, text, 1), None, "eigentrack train --config run.yaml") == []


def test_the_kinds_are_told_apart() -> None:
    python = Block("python", "print(3)", 1)
    assert kinds(python, None, "") == ["python"]
    assert kinds(Block("text", "3", 4), python, "") == ["output"]
    assert kinds(Block(INDENTED, "S = A S + B k v", 1), None, "") == ["equation"]
    assert kinds(Block("yaml", "steps: 3", 1, "run.yaml"), None, "eigentrack train --config run.yaml") == ["configuration"]
    assert kinds(Block("yaml", "steps: 3", 1, "other.yaml"), None, "eigentrack train --config run.yaml") == []


def test_what_is_cut_is_the_work_alone() -> None:
    assert cut_arguments(["train", "--task", "parity", "--device", "cuda", "--compile"]) == [
        *("train", "--task", "parity", "--device", "cpu", "--steps", "50")
    ]
    assert cut_arguments(["compile", "(aa)*", "-o", "net"]) == ["compile", "(aa)*", "-o", "net"]
    assert cut_file("preset: deltanet-340m  # why\ntraining: {tokens: 15e9, lengths: [3, 20]}") == (
        "preset: tiny  # why\ntraining: {tokens: 512, lengths: [3, 20]}"
    )
    torchrun = "--nnodes 4 --nproc-per-node 8 --rdzv-endpoint first:29500 -m eigentrack lm train run.yaml --device cuda"
    assert shlex.join(cut_torchrun(shlex.split(torchrun), "localhost:1")) == (
        "--nnodes 2 --nproc-per-node 1 --rdzv-endpoint localhost:1 -m eigentrack lm train run.yaml --device cpu"
    )


@every_page
def test_every_target_script_and_extra_exists(page: str) -> None:
    text = PAGES[page].read_text()
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(re.findall(r"(?:`|^ +)make ([a-z-]+)", text, flags=re.MULTILINE)) <= {*targets}
    assert set(re.findall(r"(?:eigentrack|'\.)\[([a-z]+)\]'", text)) <= {*extras}
    for path in re.findall(r"\b((?:benchmarks|tests|eigentrack)/[\w/]+\.py)\b", text):
        assert (ROOT / path).exists(), path
