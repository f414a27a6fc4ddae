"""Twins of a small language model, eigenvalues in [0, 1] and in [-1, 1], on real Python code: same tokens, same order.

    python benchmarks/code_twins.py CORPUS [--models deltanet,mamba] [--seeds 0,1] [--jobs 4] [--runs FOLDER] [--out results]

CORPUS is made by the scripts in benchmarks/corpus (packages of the validation split are in no other). Each model is trained,
then asked for its perplexity by position on held-out code, on mathematics and on technical prose, and for the values of
variables after programs of swaps and assignments. A run that was stopped goes on, one that is finished is not run again.
Writes code_twins.json, .md and .png into the folder --out.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import multiprocessing
import statistics
import time
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

from eigentrack.experiments.reporting.markdown_table import markdown_table
from eigentrack.experiments.running.provenance import origin, provenance
from eigentrack.files import write_json
from eigentrack.lm.config import LanguageRunConfig, load_language_run
from eigentrack.lm.corpus import Corpus
from eigentrack.lm.language_model import load_language_model
from eigentrack.lm.perplexity import Windows, perplexity_by_position
from eigentrack.lm.probe import probe
from eigentrack.lm.tokenizer import bytes_of_tokens
from eigentrack.lm.train import run_language_training
from eigentrack.training.run import RUN_FILE

MODELS: dict[str, dict[str, Any]] = {
    "deltanet": {"mixer": "deltanet", "mixer_options": {"heads": 4}, "d_model": 512, "layers": 8, "mlp_width": 1408},
    "mamba": {"mixer": "mamba", "d_model": 512, "layers": 15, "mlp_width": 0},
}
FROM_HALF = "[-1, 1] from ½"  # DeltaNet's eigenvalues start where those of [0, 1] do
RANGES = {"[0, 1]": [0.0, 1.0], "[-1, 1]": [-1.0, 1.0], FROM_HALF: [-1.0, 1.0]}
COLOURS = {"[0, 1]": "tab:orange", "[-1, 1]": "tab:blue", FROM_HALF: "tab:green"}
TEXTS = {"validation": "held-out code", "math": "mathematics", "prose": "technical prose"}
TRAINING = {
    "batch": 32,
    "length": 1024,
    "warmup": 100,
    "learning_rate": 1.5e-3,
    "final_rate": 0.1,
    "weight_decay": 0.1,
    "clip": 1.0,
    "precision": "bfloat16",
    "reset_documents": False,
}
WINDOW, WINDOWS, BUCKETS, PROGRAMS = 16_384, 16, 32, 100
RESULT_FILE = "result.json"
QUESTION = "Does a small language model predict Python code better with eigenvalues in [-1, 1] than in [0, 1]?"
CAPTION = (
    "Perplexity (vertical; lower is better) by the position in the text (horizontal), one picture for each text, with one "
    "colour for each range."
)


@dataclasses.dataclass(frozen=True)
class Twin:
    model: str
    range: str
    seed: int

    def config(self, corpus: str, steps: int) -> LanguageRunConfig:
        model = {**MODELS[self.model], "eigenvalues": RANGES[self.range], "tie_embeddings": True}
        if self.range == FROM_HALF:
            model["initial"] = {"eigenvalue": 0.5}
        values = {
            "corpus": corpus,
            "model": model,
            "training": {**TRAINING, "steps": steps, "seed": self.seed},
            "validate_every": 200,
            "telemetry_every": 200,
            "checkpoint_every": 400,
        }
        return LanguageRunConfig.from_json(values)

    @property
    def folder(self) -> str:
        low, high = RANGES[self.range]
        start = "-from-half" if self.range == FROM_HALF else ""
        return f"{self.model}_{low:g}_{high:g}{start}-seed-{self.seed}"


def train_and_test(twin: Twin, corpus: str, steps: int, runs: Path, device: str) -> dict[str, Any]:
    folder, config = runs / twin.folder, twin.config(corpus, steps)
    if (folder / RESULT_FILE).exists():
        if dataclasses.replace(load_language_run(folder / RUN_FILE), corpus_fingerprint=None) != config:
            raise ValueError(f"{folder} holds the result of another training: name another --runs folder")
        return json.loads((folder / RESULT_FILE).read_text())
    start = time.perf_counter()
    trained = run_language_training(config, folder, resume=True, device=device)
    seconds = time.perf_counter() - start
    language_model = load_language_model(folder, device)
    sizes = bytes_of_tokens(language_model.tokenizer)
    windows = Windows(WINDOW, WINDOWS)
    result = {
        **dataclasses.asdict(twin),
        "parameters": sum(parameter.numel() for parameter in language_model.model.parameters()),
        "tokens": trained.tokens,
        "loss": trained.loss,
        "validation_loss": trained.validation_loss,
        "training_seconds": round(seconds, 1),
        "perplexity": {
            split: perplexity_by_position(
                language_model.model, Corpus.open(corpus, split), windows, buckets=BUCKETS, token_bytes=sizes
            ).to_json()
            for split in TEXTS
        },
        "probe": [dataclasses.asdict(answers) for answers in probe(language_model, programs=PROGRAMS)],
        "learning": learning_curve(folder / "metrics.jsonl"),
        "origin": origin(device),
    }
    write_json(folder / RESULT_FILE, result)
    print(f"{twin.folder}: loss {trained.validation_loss}, {seconds:.0f} s", flush=True)
    return result


def learning_curve(path: Path) -> list[dict[str, float]]:
    """Loss and gradient norm, the mean over every 20 steps; validation where there was one."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    curve = []
    for first in range(0, len(lines), 20):
        part = lines[first : first + 20]
        point = {name: statistics.fmean(line[name] for line in part) for name in ("loss", "gradient_norm")}
        found = [line["validation_loss"] for line in part if "validation_loss" in line]
        curve.append({"step": part[-1]["step"], **point, **({"validation_loss": found[-1]} if found else {})})
    return curve


def table(results: Sequence[dict[str, Any]]) -> list[str]:
    """Perplexities of whole windows, and of their last stretch, far beyond the trained length."""
    texts = (f"{label}: to {WINDOW:,} (last stretch)" for label in TEXTS.values())
    kinds = ("swaps", "swaps and assignments")
    head = ["model", "range", "seed", "validation loss", *texts, *(f"{kind} right (of 8 or more)" for kind in kinds)]
    rows = []
    for result in results:
        found = [result["perplexity"][split] for split in TEXTS]
        shown = [f"{text['perplexity']:.2f} ({text['buckets'][-1]['perplexity']:.2f})" for text in found]
        answers = [_right(result["probe"], kind) for kind in kinds]
        named = [result["model"], result["range"], str(result["seed"]), f"{result['validation_loss']:.4f}"]
        rows.append([*named, *shown, *answers])
    return markdown_table(head, rows)


def _right(answers: Sequence[dict[str, Any]], kind: str) -> str:
    chosen = [answer for answer in answers if answer["kind"] == kind]
    far = [answer["accuracy"] for answer in chosen if answer["statements"] >= 8]
    return f"{statistics.fmean(answer['accuracy'] for answer in chosen):.2f} ({statistics.fmean(far):.2f})"


def page(record: dict[str, Any]) -> str:
    """Return the page: the question and its answer, the plot, the table, and last how it was measured."""
    found, origin, training = record["results"], record["provenance"], record["training"]
    sizes = ", ".join(dict.fromkeys(f"{result['model']} {result['parameters'] / 1e6:.1f}M" for result in found))
    facts = [
        f"- models: {sizes} parameters, in both ranges; a pair shares its seed, hence its tokens and their order",
        f"- training: {found[0]['tokens'] / 1e6:.1f}M tokens of Python code, {record['steps']:,} steps of "
        f"{training['batch']} × {training['length']} tokens, rate {training['learning_rate']:g}, bfloat16",
        f"- test: {WINDOWS} windows of {WINDOW:,} tokens of each text, the state carried through; the trained length is "
        f"{training['length']:,}",
        f"- probe: the value of one of five variables after a program of swaps (and assignments), of {PROGRAMS} programs each; "
        f"a guess is right in {found[0]['probe'][0]['chance']:.2f} of them",
        *(f"- {name}: `{value}`" if name == "command" else f"- {name}: {value}" for name, value in origin.items()),
        f"- wall time: {record['seconds']:.0f} s for all, side by side",
    ]
    opening = ["# Twins of a small language model on Python code", "", f"**{QUESTION}**", "", answer(found), ""]
    picture = ["![perplexity by position](code_twins.png)", "", f"*{CAPTION}*", ""]
    meaning = (
        "Perplexities are those of whole windows, and in brackets of their last stretch, far beyond the trained length. Swaps: "
        "the share of right values after programs of all sizes, and in brackets of those with 8 statements or more."
    )
    tables = ["## Tables", "", meaning, "", *table(found), ""]
    return "\n".join([*opening, *picture, *tables, "## How it was measured", "", *facts, ""])


def answer(results: Sequence[dict[str, Any]]) -> str:
    """Say in how many pairs and texts [-1, 1] has the lower perplexity, and how often the probe is answered rightly."""
    pairs = [
        (narrow, wide)
        for narrow in results
        for wide in results
        if (narrow["range"], wide["range"]) == ("[0, 1]", "[-1, 1]")
        if (narrow["model"], narrow["seed"]) == (wide["model"], wide["seed"])
    ]
    if not pairs:
        return ""
    lower = sum(
        wide["perplexity"][text]["perplexity"] < narrow["perplexity"][text]["perplexity"]
        for narrow, wide in pairs
        for text in TEXTS
    )
    code, right = (
        [statistics.median(of(result) for result in side) for side in zip(*pairs, strict=True)]
        for of in (lambda result: result["perplexity"]["validation"]["perplexity"], _share_right)
    )
    return (
        f"In {lower} of {len(pairs) * len(TEXTS)} comparisons (a pair of twins and a text) [-1, 1] has the lower perplexity; "
        f"on held-out code the median is {code[1]:.2f} in [-1, 1] and {code[0]:.2f} in [0, 1]. In [-1, 1] the twins follow "
        f"{right[1]:.2f} and in [0, 1] {right[0]:.2f} of the programs of swaps, where a guess is right in "
        f"{pairs[0][0]['probe'][0]['chance']:.2f}."
    )


def _share_right(result: dict[str, Any]) -> float:
    """Return the share of right values after programs of swaps alone."""
    return statistics.fmean(found["accuracy"] for found in result["probe"] if found["kind"] == "swaps")


def plot(results: Sequence[dict[str, Any]], path: Path) -> None:
    """A colour for each range, dashes for each seed."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    models = list(dict.fromkeys(result["model"] for result in results))
    dashes = dict(zip(sorted({result["seed"] for result in results}), cycle(("-", "--", ":", "-.")), strict=False))
    trained, positions = TRAINING["length"], f"position in tokens, by stretches of {WINDOW // BUCKETS}"
    size = 14.5, 0.6 + 3.6 * len(models)
    figure, grid = pyplot.subplots(len(models), len(TEXTS), figsize=size, squeeze=False, layout="constrained")
    for row, model in zip(grid, models, strict=True):
        for axes, (split, label) in zip(row, TEXTS.items(), strict=True):
            for result in (result for result in results if result["model"] == model):
                buckets = result["perplexity"][split]["buckets"]
                axes.plot(
                    [bucket["last"] for bucket in buckets],
                    [bucket["perplexity"] for bucket in buckets],
                    color=COLOURS[result["range"]],
                    linestyle=dashes[result["seed"]],
                    label=f"{result['range']}, seed {result['seed']}",
                )
            axes.axvline(trained, color="0.7", linewidth=3, zorder=1, label=f"trained length: {trained:,}")
            axes.set(title=f"{model}: {label}", xscale="log", xlabel=positions, ylabel="perplexity (lower is better)")
            axes.xaxis.set_major_formatter("{x:,.0f}")
    shown = {name: line for axes in grid.flat for line, name in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(shown.values(), shown.keys(), loc="outside right center", fontsize="small")
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description="trains and tests twins of a small language model")
    parser.add_argument("corpus")
    parser.add_argument("--models", default="deltanet")
    parser.add_argument("--seeds", default="0,1")
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--runs", type=Path, default=Path("runs/code_twins"))
    parser.add_argument("--out", type=Path, default=Path("results"))
    given = parser.parse_args()
    seeds = [int(seed) for seed in given.seeds.split(",")]
    models = given.models.split(",")
    twins = [
        Twin(model, kind, seed)
        for model in models
        for seed in seeds
        for kind in RANGES
        if (model, kind) != ("mamba", FROM_HALF)
    ]
    start = time.perf_counter()
    with multiprocessing.get_context("spawn").Pool(given.jobs, maxtasksperchild=1) as pool:
        jobs = [(twin, given.corpus, given.steps, given.runs, given.device) for twin in twins]
        results = pool.starmap(train_and_test, jobs, chunksize=1)
    record = {
        "provenance": provenance(),
        "steps": given.steps,
        "training": TRAINING,
        "models": MODELS,
        "seconds": round(time.perf_counter() - start, 1),
        "results": results,
    }
    given.out.mkdir(parents=True, exist_ok=True)
    write_json(given.out / "code_twins.json", record)
    (given.out / "code_twins.md").write_text(page(record))
    plot(results, given.out / "code_twins.png")
    print("\n".join(table(results)))


if __name__ == "__main__":
    main()
