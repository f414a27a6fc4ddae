"""eigentrack train."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from eigentrack.cli.console import TrainingBar, out
from eigentrack.cli.correct import correct_run_in
from eigentrack.cli.interruption import resumable
from eigentrack.cli.options import Device, Overwrite, check_device, named_values, refuse_both

# options that may stand beside a stored configuration, by their names in `train`
KEPT_FLAGS = (
    "folder",
    "config",
    "resume",
    "overwrite",
    "device",
    "graph",
    "compiled",
    "tensorboard",
    "keep",
    "verbose",
    "quiet",
)


def train(
    context: typer.Context,
    folder: Annotated[Path, typer.Option("--out", help="The run's folder: metrics, checkpoints and the model.")],
    config: Annotated[
        Path | None, typer.Option(help="A run in YAML or JSON, such as another's run.json, instead of options.")
    ] = None,
    task: Annotated[str, typer.Option(help="One of `eigentrack tasks`.")] = "parity",
    task_option: Annotated[list[str] | None, typer.Option(help="As name=value; may be repeated.")] = None,
    layer: Annotated[str, typer.Option(help="One of `eigentrack layers`.")] = "deltanet",
    layer_option: Annotated[list[str] | None, typer.Option(help="As name=value; may be repeated.")] = None,
    eigenvalues: Annotated[
        str | None, typer.Option(help="The range, as low,high; or disk, or annulus INNER OUTER.", show_default="-1,1")
    ] = None,
    layers_count: Annotated[int, typer.Option("--layers", help="How many blocks.")] = 1,
    d_model: Annotated[int, typer.Option(help="Width of the model.")] = 32,
    mlp_width: Annotated[
        int | None, typer.Option(help="Width of the MLPs; 0: none, as suits --keep.", show_default="twice d-model")
    ] = None,
    steps: Annotated[int, typer.Option(help="At most so many steps.")] = 1000,
    batch: Annotated[int, typer.Option(help="Sequences a step.")] = 128,
    lengths: Annotated[str, typer.Option(help="Shortest and longest training sequence.")] = "3,40",
    learning_rate: Annotated[float, typer.Option("--lr", help="Peak learning rate.")] = 1e-2,
    label_smoothing: Annotated[float, typer.Option(help="Of the targets.")] = 0.1,
    weight_decay: Annotated[float, typer.Option(help="Of the matrices; it also pulls at eigenvalues near -1 and 1.")] = 0.01,
    curriculum: Annotated[
        str, typer.Option(help="Letters come in stage by stage: by rank, by words, or none: all at once.")
    ] = "none",
    precision: Annotated[str, typer.Option(help="float32, tfloat32 or bfloat16, over float32 weights.")] = "float32",
    seed: Annotated[int, typer.Option(help="Of the weights and of the batches.")] = 0,
    validate_every: Annotated[int, typer.Option(help="Steps between validations.")] = 100,
    checkpoint_every: Annotated[int, typer.Option(help="Steps between checkpoints.")] = 100,
    telemetry_every: Annotated[int, typer.Option(help="Steps between looks at gradients and gates; 0: never.")] = 100,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder.")] = False,
    overwrite: Overwrite = False,
    device: Device = "cpu",
    graph: Annotated[bool, typer.Option("--graph/--no-graph", help="On a GPU, replay the step as a CUDA graph.")] = True,
    compiled: Annotated[
        bool, typer.Option("--compile", help="Fuse the step with torch.compile: starts later, runs faster.")
    ] = False,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Write events for TensorBoard, too.")] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Then correct the network and prove it right at every length (`eigentrack correct`).")
    ] = False,
) -> None:
    """Train any layer, in any eigenvalue range, on any task; stops when solved. Killed at any moment, it resumes.

    Example: eigentrack train --task group --task-option name=S3 --layer deltanet --eigenvalues -1,1 --out runs/s3
    """
    from eigentrack.spectrum import parse_eigenvalues
    from eigentrack.training.run import CHECKPOINTS, RUN_FILE, RunConfig, load_run_file, run_training

    refuse_both(resume, overwrite)
    if config is not None and not config.exists():
        raise ValueError(f"--config {config} is not there: name a run in YAML or JSON")
    check_device(device)
    stored = config or (folder / RUN_FILE if resume and (folder / RUN_FILE).exists() else None)
    if stored is not None:
        _refuse_flags(context, stored, except_for=KEPT_FLAGS)
        run_config = load_run_file(stored)
    else:
        run_config = RunConfig.from_json(
            {
                "task": task,
                "task_options": named_values("--task-option", task_option),
                "model": {
                    "d_model": d_model,
                    "layers": layers_count,
                    "mixer": layer,
                    "mixer_options": named_values("--layer-option", layer_option),
                    "eigenvalues": parse_eigenvalues(_range_for(layer, eigenvalues)).to_json(),
                    **({} if mlp_width is None else {"mlp_width": mlp_width}),
                },
                "training": {
                    "steps": steps,
                    "batch": batch,
                    "lengths": _pair("--lengths", lengths),
                    "learning_rate": learning_rate,
                    "label_smoothing": label_smoothing,
                    "weight_decay": weight_decay,
                    "seed": seed,
                    "precision": precision,
                    "curriculum": curriculum,
                },
                "validate_every": validate_every,
                "checkpoint_every": checkpoint_every,
                "telemetry_every": telemetry_every,
            }
        )
    again = shlex.join(["eigentrack", "train", "--out", str(folder), "--resume"])
    with resumable(again, folder / CHECKPOINTS) as is_over, TrainingBar(run_config.training.steps, _said) as bar:
        result = run_training(
            run_config,
            folder,
            resume=resume,
            overwrite=overwrite,
            device=device,
            graph=graph,
            compiled=compiled,
            tensorboard=tensorboard,
            is_over=is_over,
            report=bar.report,
        )
    verdict = "solved" if result.solved else "not solved"
    out.print(f"{verdict} after {result.steps} steps, validation accuracy {result.validation_accuracy:.4f}", highlight=False)
    if result.stages is not None:
        reached, last = result.stages
        short = "" if reached == last else ": letters of later stages were never drawn, so train for more steps"
        out.print(f"curriculum: stage {reached} of {last}{short}", highlight=False)
    out.print(f"model: {folder / 'model'}", markup=False, highlight=False)
    if keep:
        correct_run_in(folder, overwrite)


def _said(metrics: dict[str, Any], steps_per_second: float) -> str:
    stage = f"  stage {metrics['stage']}" if "stage" in metrics else ""
    return f"accuracy {metrics['accuracy']:.3f}{stage}  {steps_per_second:.1f} steps/s"


def _refuse_flags(context: typer.Context, stored: Path, except_for: tuple[str, ...]) -> None:
    """Raise if a flag is given beside a stored configuration, where it would be ignored."""
    for name in context.params:
        source = context.get_parameter_source(name)
        if name not in except_for and source is not None and source.name == "COMMANDLINE":
            flag = next(option.opts[0] for option in context.command.params if option.name == name)
            raise ValueError(f"{flag} is given on the command line and in {stored}: leave it out, or edit the file")


def _range_for(layer: str, given: str | None) -> str:
    from eigentrack.layers import MIXERS
    from eigentrack.options import accepted_options

    if given is not None and layer in MIXERS and "eigenvalues" not in accepted_options(MIXERS[layer]):
        raise ValueError(f"--eigenvalues {given}: the layer {layer!r} has no eigenvalues to choose; leave the flag out")
    return "-1,1" if given is None else given


def _pair(flag: str, text: str) -> list[int]:
    parts = text.replace(",", " ").split()
    if len(parts) != 2 or not all(part.isdigit() for part in parts):
        raise ValueError(f"{flag} {text!r} must be two whole numbers, such as 3,40")
    return [int(part) for part in parts]
