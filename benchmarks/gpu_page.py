"""results/gpu.md: the tables of the GPU benchmarks in one page, from their JSON files, each row beside its target.

    python benchmarks/gpu_page.py [--results results]

All verdicts are computed, and so is what was refused or not measured. A note gives causes and attempts; it is shown where its
table misses a target or has a refusal.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gpu_cold_start
import gpu_decode
import gpu_gated_linear
import gpu_ops
import gpu_selective_scan

from eigentrack.experiments.reporting.markdown_table import markdown_table
from eigentrack.files import write_atomically

SHORT_NOTE = (
    "At T = 40 three forms were tried. One chunk of 64 rows, mostly padding: 0.308 ms as a graph at B1024 H4 D32. Chunks of 32 "
    "and 16: 0.242–0.244, predicted 0.20–0.23. At D32 four warps in place of two take 0.406 ms. At D128, ours alone at commit "
    "3005c70: 0.618 ms as a graph; 0.544 with all of V in a block and 0.593 with eight warps besides, both without loads that "
    "run ahead; 0.521 with two stages of loads in place of three, which is in use (one stage, 0.519, is compiled into wrong "
    "addresses). Called one by one, the host's time decides. Tried there: a Function of autograd in place of an operator of "
    "torch, which costs a tenth of a millisecond a call; plans that are kept; compiled kernels that are found by a small key "
    "in place of Triton's binder (the last two together 0.63 to 0.46 ms on a quiet host). The eager ratios of three runs of "
    "the same kernels on three hosts: 3.46, 5.42, 3.90; 8.76, 3.71, 2.44; and those above."
)
PRODUCT_NOTE = "Where flash-linear-attention refuses, ours is tested against float64."
SCAN_NOTE = (
    "Time, at the three large shapes in bfloat16 as graphs. Tried: one channel a thread (3.70 ms at the first, where the form "
    "in use then had 2.77; one warp a scheduler hides no latency), two lanes a channel (2.35 there, but 4.41 and 10.5 at the "
    "next two), and 2e by a 1 in the exponent, which is in use (2.49, 4.04, 9.83). Backward in stretches of 8 tokens, two at a "
    "time, in use: 2.45, 3.84, 9.56, where four at a time took 2.46, 4.00, 9.75; with more warps and registers that spill 2.55 "
    "to 4.2 at the first and 11.0 to 16.7 at the third. Backward alone, the states of 16 tokens walked once, written to memory "
    "and read back a token ahead, predicted to take two thirds of the time: 1.86, 3.16 and 7.36 where the form in use then "
    "took 1.76, 3.01 and 6.87. Addresses in 32 bits within a chunk, in use: 2.38, 3.73, 9.29 with the memory of before (and "
    "one slot a program, that it had not), and a tenth more with what saves memory now. Rows of channels that each thread "
    "loads for itself, where they had passed through shared memory (5 barriers a token in place of 13, predicted 2.3 at the "
    "first): forward alone, in use, 0.525, 0.657, 2.28 in place of 0.577, 0.736 and 2.40; backward, not in use, 2.64, 3.94, "
    "10.2 in all where that with the exchange had 2.58, 4.09 and 9.95. Backward one token at a time, three warps a scheduler "
    "at 168 registers and 40 bytes of spills: 2.58 at the first, 2.60 in the same run without.\n\nMemory: states kept every 16 "
    "tokens and one launch for all partial sums take 2.38, 3.73, 9.29 ms and 521, 1,032, 2,059 MiB; windows alone 2.47, 3.92, "
    "9.48 and 409, 810, 1,611; states every 64 tokens alone 2.49, 3.98, 9.80 and 437, 852, 1,687; both, in use, 2.59, 4.15, "
    "9.97 and 324, 630, 1,239; both, with stretches of 4 tokens, 2.53, 3.97, 9.73 and 341, 646, 1,255; these and states every "
    "32 tokens 2.43, 3.77, 9.29 and 357, 694, 1,367. B1024 T40 D256 in bfloat16 took 228 MiB and 0.624 ms with states every 16 "
    "tokens. Tried, one block of channels a program unless said: these states in no more room than they need, 220 and 0.609; "
    "no kept states, but slots for those between stretches, 236 and 0.603; slots and four blocks a program, which share their "
    "partial sums, 158 and 0.668; eight, 145 and 0.676; eight without slots, 137 and 0.742. 32 MiB of each are what torch "
    "takes to add up the gradients of the decay; eight blocks and slots with the partial sums freed before that, in use, stand "
    "above."
)
GATED_NOTE = (
    "Where flash-linear-attention refuses, mamba-ssm's SSD below is the only peer. With a gate for each channel three forms "
    "were timed, as graphs at H32 V64 and at H4 V256 (the peer: 4.92 and 1.04 ms): blocks that double from 1 to 64 tokens, "
    "7.08 and 1.48; each thread with channels of its own through 16 tokens, 2.97 and 1.12, predicted 3.9 and 1.0; walks and "
    "outputs that read queries and keys which come carried, in use: 2.67 and 0.81, predicted 2.5 and 0.9."
)
LONG_NOTE = "Ours alone."
DECODE_NOTE = "Called one by one, the host's time decides."
COLD_START_NOTE = (
    "The kernels of an op are compiled side by side. With one gate per channel the longest is that of the gradients, and two "
    "fifths of its time are one pass of the compiler, which looks at the whole program for every load."
)

SHORT_AND_LONG = (2**16, 2**20)  # tokens
MOST_FLOORS, DECODE_BATCH = 1.5, 128  # a graph of one token takes at most so many floors, at this batch
MOST_SECONDS = 10.0  # of a first call
SHAPES: dict[str, list[Any]] = {
    "gpu_ops": gpu_ops.SHAPES,
    "gpu_selective_scan": gpu_selective_scan.SHAPES,
    "gpu_gated_linear": gpu_gated_linear.SHAPES,
}


@dataclass(frozen=True)
class Section:
    """Rows of one file. Targets are ratios, the peer's time to ours, forward and backward; None: there is none."""

    title: str
    file: str
    groups: tuple[str, ...]  # of the rows
    ours: str
    peer: str
    eager: float | None
    graph: float | None
    mean: float | None = None  # of the eager ratios, geometric
    memory: bool = True  # at most the peer's is wanted
    about: str = ""
    note: str = ""


DELTA = Section("Delta rule beside flash-linear-attention", "gpu_ops", ("delta",), "ours", "fla", 1.5, 1.3, 2.0)
SHORT = Section("Delta rule on short sequences", "gpu_ops", ("small",), "ours", "fla", 4.0, 2.0, note=SHORT_NOTE)
PRODUCT = Section("Products of n factors", "gpu_ops", ("product",), "ours", "fla", 1.5, None, note=PRODUCT_NOTE)
SCAN = Section(
    "Selective scan in [-1, 1] beside mamba-ssm's in [0, 1]",
    *("gpu_selective_scan", ("scan", "small"), "ours", "mamba", 2.0, 2.0),
    note=SCAN_NOTE,
)
SIGN = Section(
    "Selective scan: [-1, 1] beside our own [0, 1]",
    *("gpu_selective_scan", ("scan", "small"), "ours", "unsigned", None, 1 / 1.05),
    memory=False,
)
GATED = Section(
    "Gated linear attention, signed, beside the unsigned flash-linear-attention",
    *("gpu_gated_linear", ("head", "channel", "head-small", "channel-small"), "signed", "fla", 1.0, 1.0),
    note=GATED_NOTE,
)
PER_HEAD = ("head", "head-small")
SSD = Section("… beside mamba-ssm's SSD", "gpu_gated_linear", PER_HEAD, "signed", "mamba", 1.0, 1.0)
ONE_GROUP = Section(
    "… beside mamba-ssm's SSD with keys and queries that all heads share",
    *("gpu_gated_linear", PER_HEAD, "signed", "mamba 1", None, None),
    memory=False,
    about="It reads and differentiates one head's keys and queries where ours has those of all.",
)
SECTIONS = (DELTA, SHORT, PRODUCT, SCAN, SIGN, GATED, SSD, ONE_GROUP)
PEERS = (DELTA, SHORT, PRODUCT, SCAN, GATED, SSD)  # of other projects, with inputs of the same sizes
QUESTION = "Are our kernels faster than those of flash-linear-attention and mamba-ssm on an H200?"
READING = (
    "Times are milliseconds of a forward pass and all gradients; a ratio is the peer's time over ours, so that more than 1 is "
    "faster. ✓ and ✗ say whether a target is met."
)
METHOD = (
    "Times are medians by device events. Floors: memory traffic at the rate of a large copy, then arithmetic at the rate of a "
    "large matrix product (scan: exponentials). In the rows of commits d14bee8f46c5, b51bafb9b6b2 and e51047e86589 the peers' "
    "own tuners had 25 ms for each configuration (`--tuning-ms 25`); they take 125 by themselves."
)
LONG = {  # the op → its file, and which contender is ours
    "Delta rule": ("gpu_ops_long", "ours"),
    "Gated linear attention": ("gpu_gated_linear_long", "signed"),
    "Selective scan": ("gpu_selective_scan_long", "ours"),
}


def mark(is_met: bool) -> str:
    return "✓" if is_met else "✗"


def entry(found: dict[str, Any] | None, name: str) -> str:
    return "–" if found is None or name not in found else f"{found[name]:.3f}"


def times(found: dict[str, Any] | None, names: tuple[str, str] = ("both_ms", "both_graph_ms")) -> str:
    return ", ".join(entry(found, name) for name in names)


def mib(found: dict[str, Any] | None) -> str:
    return "–" if found is None or "peak_mib" not in found else f"{found['peak_mib']:,.0f}"


def verdict(ratio: float | None, target: float | None) -> str:
    if ratio is None:
        return "–"
    if target is None:
        return f"{ratio:.2f}"
    digits = 3 if ratio < target and round(ratio, 2) >= round(target, 2) else 2  # where two would hide that it is missed
    return f"{ratio:.{digits}f} {mark(ratio >= target)}"


def ratio(ours: dict[str, Any] | None, peer: dict[str, Any] | None, name: str) -> float | None:
    """The peer's to ours."""
    return None if ours is None or peer is None or name not in peer or name not in ours else peer[name] / ours[name]


def memory(section: Section, ours: dict[str, Any], peer: dict[str, Any] | None) -> str:
    both = f"{mib(ours)} / {mib(peer)}"
    if not section.memory or peer is None or "peak_mib" not in ours or "peak_mib" not in peer:
        return both
    return f"{both} {mark(round(ours['peak_mib']) <= round(peer['peak_mib']))}"


def floors(row: dict[str, Any] | None) -> str:
    found = {} if row is None else row["floors"]
    return ", ".join(f"{value:.3f}" for name, value in found.items() if name.startswith("both_")) or "–"


def grid(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    return [*markdown_table(head, rows), ""]


def origin(source: dict[str, str]) -> str:
    return f"`{source['command']}`, commit {source['commit']}, {source['date']}, {source['hardware']}, {source['versions']}."


def paragraphs(*texts: str) -> list[str]:
    return [line for text in texts if text for line in (text, "")]


def listed(what: str, names: Iterable[str]) -> str:
    found = list(names)
    return f"{what}: {'; '.join(found)}." if found else ""


def noted(lines: list[str], note: str) -> list[str]:
    """With the note, where something is missed or refused."""
    return [*lines, *paragraphs(note if any("✗" in line or "refused:" in line.lower() for line in lines) else "")]


def by_value(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Names with the same value stand together behind it."""
    names: dict[str, list[str]] = {}
    for name, value in pairs:
        names.setdefault(" ".join(value.split()), []).append(name)  # messages may have several lines
    return [f"{value} ({', '.join(found)})" for value, found in names.items()]


def refusals(rows: list[dict[str, Any]], label: str, contenders: Iterable[str]) -> list[str]:
    found = [(name, row[label], row[name]["refused"]) for name in contenders for row in rows if "refused" in row.get(name, {})]
    return [listed(f"{name} refused", by_value((row, why) for who, row, why in found if who == name)) for name in contenders]


def is_measured(shape: Any, rows: list[dict[str, Any]]) -> bool:
    sizes = {name: str(value) for name, value in asdict(shape).items() if name != "group"}
    return any(all(str(row.get(name)).removeprefix("torch.") == value for name, value in sizes.items()) for row in rows)


def geometric_mean(ratios: list[float | None]) -> float | None:
    """None where one is missing."""
    known = [ratio for ratio in ratios if ratio is not None]
    return math.exp(sum(map(math.log, known)) / len(known)) if known and len(known) == len(ratios) else None


def table(section: Section, stored: dict[str, Any]) -> list[str]:
    """Eager times from a busy host are shown, and not judged."""
    source = stored["provenance"]
    is_busy = "beside" in source
    rows = [row for row in stored["rows"] if row.get("group", section.groups[0]) in section.groups]
    wanted = [f"{name} at least {value:.3g}" for name, value in (("eager", section.eager), ("graph", section.graph)) if value]
    wanted += ["peak memory at most the peer's"] if section.memory else []
    cells, eager_ratios = [], []
    for row in rows:
        ours, peer = row[section.ours], row.get(section.peer)
        eager_ratios.append(ratio(ours, peer, "both_ms"))
        eager = verdict(eager_ratios[-1], None if is_busy else section.eager)
        graph = verdict(ratio(ours, peer, "both_graph_ms"), section.graph)
        cells.append([row["shape"], times(ours), times(peer), eager, graph, floors(row), memory(section, ours, peer)])
    head = ("shape", "ours, ms: eager, graph", f"{section.peer}, ms: eager, graph", "eager", "graph", "floors, ms", "MiB")
    lines = paragraphs(f"Beside: {source['beside']}." if is_busy else "", section.about, listed("Target", wanted)) + grid(
        head, cells
    )
    mean = None if is_busy or section.mean is None else geometric_mean(eager_ratios)
    if mean is not None:
        lines += paragraphs(f"Geometric mean of the eager ratios: {verdict(mean, section.mean)}, of {section.mean:.2f} wanted.")
    shapes = [shape for shape in SHAPES[section.file] if shape.group in section.groups]
    lines += paragraphs(
        *refusals(rows, "shape", (section.ours, section.peer)),
        listed("Not measured", (shape.name for shape in shapes if not is_measured(shape, rows))),
    )
    return noted(lines, section.note)


def long_table(contender: str, stored: dict[str, Any]) -> list[str]:
    """A row for each shape, both lengths in it."""
    pairs: dict[str, dict[int, dict[str, Any]]] = {}
    for row in stored["rows"]:
        pairs.setdefault(row["shape"].replace(f" T{row['time']}", ""), {})[row["time"]] = row
    cells = []
    for shape, found in pairs.items():
        short, long = (found.get(length, {}).get(contender) for length in SHORT_AND_LONG)
        growth = verdict(ratio(short, long, "both_graph_ms"), None)
        cells.append(
            [shape, times(short), times(long), growth, floors(found.get(SHORT_AND_LONG[1])), f"{mib(short)} / {mib(long)}"]
        )
    lengths = [f"{length:,} tokens, ms: eager, graph" for length in SHORT_AND_LONG]
    linear = SHORT_AND_LONG[1] // SHORT_AND_LONG[0]
    lines = grid(("shape", *lengths, f"graph, times (linear: {linear})", "floors of the longer, ms", "MiB"), cells)
    return [*lines, *paragraphs(*refusals(stored["rows"], "shape", (contender,)))]


def decode_table(stored: dict[str, Any]) -> list[str]:
    rows = [row | {"name": f"{row['op']} B{row['batch']}"} for row in stored["rows"]]
    kinds, cells = ("eager_ms", "graph_ms"), []
    for row in rows:
        ours, peer = row["ours"], row.get("fla") or row.get("mamba")
        ratios = [verdict(ratio(ours, peer, kind), 1.0) for kind in kinds]
        floor = {"graph_ms": row["floor_ms"]}
        judged = ratio(floor, ours, "graph_ms") if row["batch"] == DECODE_BATCH else None
        above = "–" if judged is None else f"{judged:.2f} {mark(round(judged, 2) <= MOST_FLOORS)}"
        cells.append(
            [row["op"], str(row["batch"]), times(ours, kinds), times(peer, kinds), *ratios, f"{row['floor_ms']:.4f}", above]
        )
    head = ("op", "batch", "ours, ms: eager, graph", "peer, ms: eager, graph", "eager", "graph", "floor, ms", "graph / floor")
    target = f"ratios at least 1.00; at B = {DECODE_BATCH} a graph within {MOST_FLOORS:g} times the floor"
    unmeasured = {f"{row.op} B{row.batch}" for row in gpu_decode.ROWS} - {row["name"] for row in rows}
    lines = paragraphs(f"Target: {target}.") + grid(head, cells)
    lines += paragraphs(*refusals(rows, "name", ("ours", "fla", "mamba")), listed("Not measured", sorted(unmeasured)))
    return noted(lines, DECODE_NOTE)


def cold_start_table(stored: dict[str, Any]) -> list[str]:
    seconds = {row["op"]: row["seconds"] for row in stored["rows"] if "seconds" in row}
    lines = paragraphs(
        f"Target: at most {MOST_SECONDS:g} s, of a forward and a backward pass with nothing compiled before.",
    ) + grid(("op", "seconds"), ((op, f"{found:.1f} {mark(found <= MOST_SECONDS)}") for op, found in seconds.items()))
    lines += paragraphs(
        listed("Refused", by_value((row["op"], row["refused"]) for row in stored["rows"] if "refused" in row)),
        listed("Not measured", (op for op in gpu_cold_start.OPS if op not in {row["op"] for row in stored["rows"]})),
    )
    return noted(lines, COLD_START_NOTE)


def answer(folder: Path, lines: list[str]) -> str:
    """Say in how many shapes ours are faster than a peer's, and how many of the page's targets are met."""
    ratios: dict[str, list[float]] = {"both_graph_ms": [], "both_ms": []}
    for section in PEERS:
        path = folder / f"{section.file}.json"
        for row in json.loads(path.read_text())["rows"] if path.exists() else []:
            if row.get("group", section.groups[0]) in section.groups:
                for name, found in ratios.items():
                    known = ratio(row[section.ours], row.get(section.peer), name)
                    found += [] if known is None else [known]
    said = [
        f"{sum(found > 1 for found in all_found)} of {len(all_found)} comparisons {words}, {geometric_mean([*all_found]):.2f} "
        "times in the geometric mean"
        for all_found, words in zip(ratios.values(), ("as CUDA graphs", "when called one by one"), strict=True)
        if all_found
    ]
    met, missed = (sum(line.count(sign) for line in lines) for sign in "✓✗")
    if not said:
        return "Nothing is measured yet."
    return f"Ours are faster in {', and in '.join(said)}. {met} of the {met + missed} targets on this page are met."


def measured(folder: Path) -> list[str]:
    """Return the origin of every file, with the commits of its rows where they have their own."""
    lines = []
    for name in dict.fromkeys(
        [*(s.file for s in SECTIONS), *(file for file, _ in LONG.values()), "gpu_decode", "gpu_cold_start"]
    ):
        if (path := folder / f"{name}.json").exists():
            stored = json.loads(path.read_text())
            rows = [(row.get("shape", row.get("op")), row["commit"]) for row in stored["rows"] if "commit" in row]
            lines.append(
                " ".join(filter(None, [f"- {path.name}: {origin(stored['provenance'])}", listed("Commits", by_value(rows))]))
            )
    return lines


def page(folder: Path) -> str:
    """Return the page: the question and its answer, the tables, and last how it was measured."""

    def of_file(name: str, tabulate: Callable[[dict[str, Any]], list[str]]) -> list[str]:
        path = folder / f"{name}.json"
        return tabulate(json.loads(path.read_text())) if path.exists() else [f"Not measured: {path.name} is not there.", ""]

    lines = []
    for section in SECTIONS:
        lines += [f"## {section.title}", "", *of_file(section.file, partial(table, section))]
    lines += ["## One long sequence", "", *paragraphs(LONG_NOTE)]
    for op, (file, contender) in LONG.items():
        lines += [f"### {op}", "", *of_file(file, partial(long_table, contender))]
    lines += ["## One token", "", *of_file("gpu_decode", decode_table)]
    lines += ["## The first call", "", *of_file("gpu_cold_start", cold_start_table)]
    opening = paragraphs("# Kernels on an H200", f"**{QUESTION}**", answer(folder, lines), READING)
    return "\n".join([*opening, *lines, "## How it was measured", "", *paragraphs(METHOD), *measured(folder), ""])


def main() -> None:
    parser = argparse.ArgumentParser(description="one page from the JSON files of the GPU benchmarks")
    parser.add_argument("--results", type=Path, default=Path("results"))
    folder = parser.parse_args().results
    text = page(folder)
    write_atomically(folder / "gpu.md", lambda temporary: Path(temporary).write_text(text))
    print(f"written: {folder / 'gpu.md'}")


if __name__ == "__main__":
    main()
