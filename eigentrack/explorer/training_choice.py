"""TrainingChoice: task, layer, ranges and sizes of a training on the page, and the runs of its twins.

The twins differ in nothing but the range: same weights at the start, same batches, same number of steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eigentrack.explorer.language_choice import LanguageChoice
from eigentrack.processes import Line
from eigentrack.spectrum import EigenRange
from eigentrack.training.run import RunConfig

MEMBER, STATE = "the language above: is the word in it?", "the language above: which state?"
# label → task and options; the language above is added where it is asked for
TASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "parity": ("parity", {}),
    "flip-flop": ("flip-flop", {}),
    "cycle of 5 places": ("cycle-navigation", {}),
    "word problem of S3": ("group", {"name": "S3"}),
    MEMBER: ("language", {}),
    STATE: ("language-state", {}),
}
# label → mixer and options
LAYERS: dict[str, tuple[str, dict[str, Any]]] = {
    "DeltaNet": ("deltanet", {"heads": 4, "conv": 0}),
    "DeltaProduct, 2 factors": ("deltanet", {"heads": 4, "conv": 0, "householders": 2}),
    "Mamba": ("mamba", {"state_size": 4, "conv": 0}),
    "Mamba-2": ("mamba2", {"heads": 4, "conv": 0}),
    "GLA": ("gla", {"heads": 4}),
    "S4D": ("s4d", {"state_size": 4}),
    "RWKV-7": ("rwkv7", {"heads": 4, "rank": 8}),
    "mLSTM": ("mlstm", {"heads": 4}),
}
RANGES = {"[0, 1]": EigenRange(0, 1), "[-1, 1]": EigenRange(-1, 1)}
MOST_STEPS, LONGEST_WORD, MOST_STATES = 2000, 128, 500
D_MODEL, BATCH, LEARNING_RATE, LABEL_SMOOTHING = 32, 128, 1e-2, 0.1


@dataclass(frozen=True)
class TrainingChoice:
    task: str
    layer: str
    ranges: tuple[str, ...]
    steps: int
    longest: int  # letters of a training word
    seed: int
    language: LanguageChoice | None = None  # what the tasks about the language above use

    def __post_init__(self) -> None:
        for name, known in (("task", TASKS), ("layer", LAYERS)):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} {getattr(self, name)!r} is not known; there are {', '.join(known)}")
        if not self.ranges:
            raise ValueError("tick at least one range of eigenvalues")
        if unknown := [name for name in self.ranges if name not in RANGES]:
            raise ValueError(f"range {unknown[0]!r} is not known; there are {', '.join(RANGES)}")
        for name, least, most in (("steps", 1, MOST_STEPS), ("longest", 3, LONGEST_WORD), ("seed", 0, 2**31)):
            value = getattr(self, name)
            if not isinstance(value, int) or not least <= value <= most:
                raise ValueError(f"{name}={value!r} must be a whole number from {least} to {most}")

    @property
    def title(self) -> str:
        about = f" ({self.language.title})" if self.task in (MEMBER, STATE) and self.language is not None else ""
        return f"{self.layer} on {self.task}{about}"

    def run(self, eigenvalues: str) -> RunConfig:
        """Return the run of the twin with this range."""
        task, options = named_task(self.task, self.language)
        mixer, mixer_options = LAYERS[self.layer]
        chosen = RANGES[eigenvalues]
        return RunConfig.from_json(
            {
                "task": task,
                "task_options": options,
                "model": {
                    "d_model": D_MODEL,
                    "layers": 1,
                    "mixer": mixer,
                    "mixer_options": mixer_options,
                    "eigenvalues": [chosen.low, chosen.high],
                },
                "training": {
                    "steps": self.steps,
                    "batch": BATCH,
                    "lengths": [3, self.longest],
                    "learning_rate": LEARNING_RATE,
                    "warmup": min(20, self.steps),
                    "label_smoothing": LABEL_SMOOTHING,
                    "seed": self.seed,
                },
            }
        )


def named_task(label: str, language: LanguageChoice | None) -> tuple[str, dict[str, Any]]:
    """Return the name and the options of the task that the page calls `label`."""
    task, options = TASKS[label]
    if label not in (MEMBER, STATE):
        return task, options
    if language is None:
        raise ValueError(f"task {label!r} needs a language")
    dfa = language.automaton()
    if dfa.states > MOST_STATES:
        raise ValueError(f"{dfa.states} states are too many for a small model: at most {MOST_STATES}")
    return task, {**options, "dfa": dfa.to_json()}


def draw_up_runs(line: Line, choice: TrainingChoice) -> dict[str, RunConfig]:
    """Return the run of each twin by its range, in a worker."""
    return {name: choice.run(name) for name in RANGES if name in choice.ranges}
