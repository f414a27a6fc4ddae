"""Trained networks that are corrected and proved: how far each is right before and after, with three seeds.

    python benchmarks/kept.py [--jobs 2] [--seeds 0,1,2] [--tasks parity,S5] [--minutes 60] [--runs FOLDER] [--out results]

One DeltaNet layer without convolution and MLP is trained on words of 3 to 40 letters, corrected (codes without labels, the
closing phase, the proof) and read for a million random letters. A cell that is finished is not run again. Writes kept.json,
.md and .png into the folder --out.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from eigentrack import EigenRange, ModelConfig, SequenceModel
from eigentrack.analysis import InspectedNetwork
from eigentrack.analysis.correction.closing import ClosingConfig
from eigentrack.analysis.correction.correct import LINEAR_SPEED, CorrectionConfig, NotCorrected, correct_network
from eigentrack.experiments.reporting.markdown_table import markdown_table
from eigentrack.experiments.running.provenance import provenance
from eigentrack.files import write_atomically, write_json
from eigentrack.processes import Failure, Line, News, Pool
from eigentrack.tasks import TrackingTask
from eigentrack.tasks.registry import make_task
from eigentrack.training import TrainingConfig, train

QUESTION = "Can trained linear RNNs be kept right for ever, with a proof?"
CAPTION = (
    "How far each trained network is right (vertical: letters of a random word up to the first wrong answer), uncorrected "
    "(circles) and corrected with a proof (triangles); the dotted line is the longest word of training, the dashed one the end "
    "of the test."
)
LONGEST, PIECE = 1_000_000, 2**14
TRAINED_TO = 40


@dataclass(frozen=True)
class Case:
    """A task and how one layer is trained on it."""

    name: str
    task: str
    options: dict[str, Any]
    householders: int
    steps: int


CASES = (
    Case("S5 from swaps", "group", {"name": "S5", "inputs": "swaps"}, 1, 500),
    Case("A5 from generators", "group", {"name": "A5", "inputs": "generators"}, 3, 500),
    Case("S4 from generators", "group", {"name": "S4", "inputs": "generators"}, 3, 500),
    Case("S3, all elements", "group", {"name": "S3", "inputs": "all"}, 2, 800),
    Case("S3 from generators", "group", {"name": "S3", "inputs": "generators"}, 2, 500),
    Case("Z5 from its generator", "group", {"name": "Z5", "inputs": "generators"}, 2, 800),
    Case("Tomita 5", "language", {"name": "tomita5"}, 1, 500),
    Case("Tomita 6", "language", {"name": "tomita6"}, 2, 800),
    Case("parity with resets", "language", {"name": "resettable-parity"}, 1, 500),
    Case("a then b", "language", {"name": "a-then-b"}, 1, 500),
    Case("flip-flop", "flip-flop", {}, 1, 500),
    Case("parity", "parity", {}, 1, 300),
)


def run_cell(case: Case, seed: int) -> dict[str, Any]:
    """Train, correct, prove and test one network."""
    torch.set_num_threads(1)
    task = make_task(case.task, case.options)
    assert isinstance(task, TrackingTask)
    started = time.perf_counter()
    model = trained(case, task, seed)
    trained_seconds = time.perf_counter() - started
    network = InspectedNetwork.from_task(model.eval(), task)
    result: dict[str, Any] = {"task": case.name, "seed": seed, "training_seconds": round(trained_seconds, 1)}
    result["before"] = first_wrong(model, task, seed, LONGEST // 10)
    started = time.perf_counter()
    try:
        found = correct_network(network, TRAINED_TO, CorrectionConfig(words=512, closing=ClosingConfig(steps=800), seed=seed))
    except NotCorrected as reason:
        return {**result, "reason": str(reason), "correction_seconds": round(time.perf_counter() - started, 1)}
    result["correction_seconds"] = round(time.perf_counter() - started, 1)
    return {
        **result,
        "clusters": found.clusters,
        "proof": asdict(found.kept.proof),
        "after": first_wrong(found.kept.model, task, seed, LONGEST),
    }


def trained(case: Case, task: TrackingTask, seed: int) -> SequenceModel:
    """Return a network that was trained on words of 3 to TRAINED_TO letters."""
    torch.manual_seed(seed)
    options = {"heads": 4, "conv": 0, "householders": case.householders}
    vocabulary, range_ = max(task.vocab_size, task.classes), EigenRange(-1, 1)
    config = ModelConfig(vocabulary, 64, 1, "deltanet", range_, options, mlp_width=0)
    model = SequenceModel(config)
    plan = TrainingConfig(
        steps=case.steps,
        batch=128,
        lengths=(3, TRAINED_TO),
        learning_rate=3e-3,
        weight_decay=0.0,
        label_smoothing=0.05,
        seed=seed,
    )
    train(model, task, plan)
    return model


@torch.no_grad()
def first_wrong(model: SequenceModel, task: TrackingTask, seed: int, longest: int) -> int:
    """Return how many letters of a random word are read before the first wrong answer; `longest` if there is none."""
    state, read = None, 0
    for tokens, answers in task.stream(1, longest, piece=PIECE, seed=10**6 + seed):
        logits, state = model(tokens, state)
        wrong = torch.nonzero((logits[..., : task.classes].argmax(-1) != answers)[0])
        if len(wrong):
            return read + int(wrong[0])
        read += tokens.shape[1] - int(task.begin_token and read == 0 and tokens.shape[1] == 1)
    return longest


def _work(line: Line, case: Case, seed: int) -> dict[str, Any]:
    return run_cell(case, seed)


def run_all(cases: list[Case], seeds: list[int], runs: Path, jobs: int, until: float) -> list[dict[str, Any]]:
    """Run the cells that are not finished, `jobs` at a time, and return the results of all that are."""
    runs.mkdir(parents=True, exist_ok=True)
    paths = {(case.name, seed): runs / f"{case.name.replace(' ', '_')}-{seed}.json" for case in cases for seed in seeds}
    waiting = [(case, seed) for case in cases for seed in seeds if not paths[case.name, seed].exists()]
    with Pool(jobs) as pool:
        while (waiting and time.time() < until) or pool.is_busy:
            while waiting and pool.has_room and time.time() < until:
                case, seed = waiting.pop(0)
                pool.begin((case.name, seed), _work, case, seed)
            if time.time() > until + 120:
                break
            for key, event in pool.wait():
                if isinstance(event, Failure):
                    print(f"{key}: {event.as_error()}", flush=True)
                elif not isinstance(event, News):
                    write_json(paths[key], event.value)
                    print(key, {name: event.value.get(name) for name in ("before", "after", "reason")}, flush=True)
    return [json.loads(path.read_text()) for path in paths.values() if path.exists()]


def answer(results: list[dict[str, Any]]) -> str:
    """Return the answer to the question, in a sentence or two."""
    proved = [result for result in results if "proof" in result]
    fast = [result for result in proved if result["proof"]["every"] >= LINEAR_SPEED]
    right = [result for result in proved if result["after"] == LONGEST]
    before = int(statistics.median(result["before"] for result in results))
    return (
        f"{len(proved)} of {len(results)} networks trained on words of up to {TRAINED_TO} letters are corrected with a proof "
        f"for every length, {len(fast)} of them with at least {LINEAR_SPEED} letters between corrections. {len(right)} of the "
        f"{len(proved)} answer all of a random word of {LONGEST:,} letters rightly, where the median network before its "
        f"correction is right for {before:,} letters."
    )


def page(record: dict[str, Any]) -> str:
    """Return the page for kept.json."""
    rows = []
    for result in record["results"]:
        proof = result.get("proof")
        rows.append(
            [
                result["task"],
                result["seed"],
                _letters(result["before"], LONGEST // 10),
                "–" if proof is None else _letters(result["after"], LONGEST),
                "–" if proof is None else proof["every"],
                "–" if proof is None else proof["largest_every"],
                "–" if proof is None else proof["codes"],
                "–" if proof is None else f"{proof['half_gap'] / proof['error']:.0f}",
                "–" if proof is None else f"{proof['noise']:.2g}",
                "no" if proof is None else " and ".join(proof["backends"]),
                f"{result['training_seconds']:.0f} + {result['correction_seconds']:.0f}",
            ]
        )
    head = [
        "task",
        "seed",
        "right to, before",
        "after",
        "C",
        "largest C",
        "codes",
        "r/ε",
        "noise for ever",
        "proved for",
        "seconds",
    ]
    failed = [
        f"- {result['task']}, seed {result['seed']}: {result['reason']}" for result in record["results"] if "reason" in result
    ]
    parts = [
        "# Kept for ever: trained networks with a proof\n",
        f"**{QUESTION}**\n",
        f"{answer(record['results'])}\n",
        "![how far networks are right before and after correction](kept.png)\n",
        f"*{CAPTION}*\n",
        "## Tables\n",
        "One DeltaNet layer in [-1, 1], d = 64, 4 heads, no convolution, no MLP, 300 to 800 steps of 128 words, AdamW at 3e-3 "
        "without weight decay. Codes are found from 512 words without labels; the closing phase takes 800 steps. C is the "
        "number of tokens between corrections; ε, r and the proof are those of "
        "`docs/derivations/correction.md`. Proved for: the backends whose rounding the proof encloses (the "
        "test ran in chunks). The noise is an error in the memory after every token, in its norm. Seconds are of training and "
        "of correction, on one core.\n",
        *markdown_table(head, [[str(cell) for cell in row] for row in rows]),
    ]
    if failed:
        parts += ["\n## Not corrected\n", "\n".join(failed)]
    parts += ["\n## Origin\n", "\n".join(f"- {name}: {value}" for name, value in record["provenance"].items())]
    return "\n".join(parts).rstrip() + "\n"


def _letters(count: int, longest: int) -> str:
    return f"beyond {count:,}" if count == longest else f"{count:,}"


def plot(results: list[dict[str, Any]], path: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = list(dict.fromkeys(result["task"] for result in results))
    figure, axes = pyplot.subplots(figsize=(9, 4.5), layout="constrained")
    for result in results:
        at = names.index(result["task"]) + (result["seed"] - 1) * 0.2
        axes.plot(at, max(1, result["before"]), "o", color="tab:blue", markersize=5)
        if "proof" in result:
            axes.plot(at, max(1, result["after"]), "^", color="tab:green", markersize=7)
    axes.axhline(LONGEST, linestyle="--", color="0.6", linewidth=1)
    axes.axhline(TRAINED_TO, linestyle=":", color="0.6", linewidth=1)
    axes.set(yscale="log", ylabel="letters before the first wrong answer")
    axes.set_xticks(range(len(names)), names, rotation=30, ha="right")
    axes.set_title("Trained networks, uncorrected (circles) and corrected with a proof (triangles)")
    figure.savefig(path, format="png", dpi=120)
    pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--tasks", default="", help="parts of names, separated by commas")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--runs", type=Path, default=Path("runs/kept"))
    parser.add_argument("--out", type=Path, default=Path("results"))
    given = parser.parse_args()
    wanted = [part for part in given.tasks.split(",") if part]
    cases = [case for case in CASES if not wanted or any(part in case.name for part in wanted)]
    seeds = [int(seed) for seed in given.seeds.split(",")]
    results = run_all(cases, seeds, given.runs, given.jobs, time.time() + 60 * given.minutes)
    record = {"benchmark": "kept", "provenance": provenance(), "results": results}
    given.out.mkdir(parents=True, exist_ok=True)
    write_json(given.out / "kept.json", record)
    (given.out / "kept.md").write_text(page(record))
    write_atomically(given.out / "kept.png", lambda path: plot(results, path))
    print(answer(results))


if __name__ == "__main__":
    main()
