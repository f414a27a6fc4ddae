"""The tests that want a GPU, in chunks over processes: a kernel that ends its process takes no more than a chunk with it.

    python tests/on_gpu.py [--jobs 12] [--minutes 30] [--out tests.json] [FILE ...]

By file: how many passed, failed, were skipped, crashed (their process ended without a report) or were not reached in time.
pytest and hypothesis are needed, no plug-in. Most of the time goes into compiling kernels, which all processes find in
Triton's cache afterwards.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as xml
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent
FILES = [
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests/ops").rglob("test_triton*.py")),
    "tests/layers/test_batch_invariance.py",
    "tests/layers/test_conformance.py",
    "tests/layers/test_spectral_norm.py",
    "tests/compiler/test_forgery.py",
    "tests/compiler/test_networks_on_triton.py",
    "tests/ops/shared/test_launch.py",
    "tests/ops/test_backends_agree.py",
    "tests/ops/test_batch_invariance.py",
    "tests/ops/test_hard_cases.py",
    "tests/tasks/test_registry.py",
    "tests/training/test_captured_step.py",
    "tests/lm/test_captured_step.py",
    "tests/lm/test_sharing_on_gpu.py",
    "tests/lm/test_convert_fla_on_gpu.py",
]
CHUNK = 8  # tests
PYTEST = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
ON_THE_DEFAULT_DEVICE = (
    "test_batch_invariance.py",
    "test_conformance.py",
    "test_spectral_norm.py",
    "test_backends_agree.py",
    "test_hard_cases.py",
)  # all others choose their own


def environment(file: str) -> dict[str, str]:
    device = "cuda" if file.endswith(ON_THE_DEFAULT_DEVICE) else "cpu"
    return os.environ | {"OMP_NUM_THREADS": "1", "EIGENTRACK_TEST_DEVICE": device}


def collected(files: list[str]) -> dict[str, list[str]]:
    """By file, the tests in it."""
    found = subprocess.run([*PYTEST, "--collect-only", *files], cwd=ROOT, env=environment(""), capture_output=True, text=True)
    tests: dict[str, list[str]] = {}
    for name in (line for line in found.stdout.splitlines() if "::" in line):
        tests.setdefault(name.split("::")[0], []).append(name)
    if found.returncode:
        raise SystemExit(f"cannot collect {', '.join(files)}: {found.stdout[-1500:]}")
    return tests


def chunks(tests: dict[str, list[str]]) -> list[list[str]]:
    """Neighbours, which are slow together, into different ones; those of a file, which want much memory together, far apart."""
    counts = {file: -(-len(names) // CHUNK) for file, names in tests.items()}
    places = [((piece + 0.5) / count, tests[file][piece::count]) for file, count in counts.items() for piece in range(count)]
    return [names for _, names in sorted(places, key=lambda place: place[0])]


def run_chunk(names: list[str], deadline: float) -> dict[str, tuple[str, str]]:
    """By test, its outcome and what it said."""
    left = deadline - time.time()
    if left <= 0:
        return dict.fromkeys(names, ("not reached", ""))
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [*PYTEST, f"--junitxml={report}", "--tb=short", *names]
        try:
            ended = subprocess.run(
                command, cwd=ROOT, env=environment(names[0].split("::")[0]), capture_output=True, text=True, timeout=left
            )
        except subprocess.TimeoutExpired:
            return dict.fromkeys(names, ("not reached", ""))
        if not report.exists():
            return dict.fromkeys(names, ("crashed", ended.stdout[-1500:] + ended.stderr[-500:]))
        cases = {case_name(case): case for case in xml.parse(report).getroot().iter("testcase")}
    return {name: outcome(cases[named(name)]) if named(name) in cases else ("crashed", ended.stdout[-1500:]) for name in names}


def named(test: str) -> tuple[str, str]:
    """As the report has it: the module, and the function with its parameters."""
    file, _, function = test.partition("::")
    return Path(file).stem, function


def case_name(case: xml.Element) -> tuple[str, str]:
    return case.get("classname", "").rpartition(".")[2], case.get("name", "")


def outcome(case: xml.Element) -> tuple[str, str]:
    for kind, word in (("failure", "failed"), ("error", "failed"), ("skipped", "skipped")):
        if (found := case.find(kind)) is not None:
            return word, (found.get("message") or "")[:400]
    return "passed", ""


def main() -> None:
    parser = argparse.ArgumentParser(description="the tests that want a GPU, over many processes")
    parser.add_argument("files", nargs="*", default=FILES, help="all by default")
    parser.add_argument("--jobs", type=int, default=max(1, len(os.sched_getaffinity(0)) - 1))
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--out", type=Path, help="a JSON file of all outcomes")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("no GPU: `make test` runs what needs none")
    deadline = time.time() + 60 * arguments.minutes
    tests = collected(arguments.files)
    outcomes: dict[str, tuple[str, str]] = {}
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for found in pool.map(lambda names: run_chunk(names, deadline), chunks(tests)):
            outcomes |= found
    for file, names in tests.items():
        counts = Counter(outcomes[name][0] for name in names)
        print(f"{file:60s} " + ", ".join(f"{count} {word}" for word, count in counts.most_common()))
    bad = {name: said for name, (word, said) in outcomes.items() if word in ("failed", "crashed")}
    for name, said in bad.items():
        print(f"{outcomes[name][0]}: {name}: {said}")
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(outcomes, indent=1))
    raise SystemExit(1 if any(word != "passed" and word != "skipped" for word, _ in outcomes.values()) else 0)


if __name__ == "__main__":
    main()
