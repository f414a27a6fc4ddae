"""eigentrack lm train."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from eigentrack.cli.console import TrainingBar, out
from eigentrack.cli.interruption import resumable
from eigentrack.cli.options import Device, Overwrite, check_device, refuse_both


def train(
    config: Annotated[str, typer.Argument(help="A run in YAML or JSON, or the name of a preset, such as tiny.")],
    folder: Annotated[Path, typer.Option("--out", help="The run's folder: metrics, checkpoints and the model.")],
    corpus: Annotated[Path | None, typer.Option(help="The corpus of a preset, made by `eigentrack lm prepare`.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder.")] = False,
    overwrite: Overwrite = False,
    device: Device = "cpu",
    graph: Annotated[
        bool, typer.Option("--graph/--no-graph", help="On one GPU, without reset_documents: replay the step as a CUDA graph.")
    ] = True,
    compiled: Annotated[
        bool | None,
        typer.Option(
            "--compile/--no-compile",
            help="Without reset_documents: fuse each block with torch.compile. If not given: in long runs on one GPU.",
        ),
    ] = None,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Write events for TensorBoard, too.")] = False,
) -> None:
    """Train a language model on a prepared corpus; under torchrun, on many GPUs. Killed at any moment, it resumes.

    Example: eigentrack lm train tiny --corpus corpora/mine --out runs/tiny
    """
    from eigentrack.lm.config import LanguageRunConfig, load_language_run
    from eigentrack.lm.perplexity import perplexity_of
    from eigentrack.lm.presets import PRESETS
    from eigentrack.lm.train import run_language_training
    from eigentrack.training.driver import CHECKPOINTS

    refuse_both(resume, overwrite)
    check_device(device)
    if config in PRESETS:
        if corpus is None:
            raise ValueError(f"preset {config} needs --corpus: a folder made by `eigentrack lm prepare`")
        run_config = LanguageRunConfig.from_json({"preset": config, "corpus": str(corpus)})
    elif not Path(config).exists():
        raise ValueError(f"{config} is neither a file nor a preset; presets are {', '.join(PRESETS)}")
    elif corpus is not None:
        raise ValueError(f"--corpus goes with a preset ({', '.join(PRESETS)}); {config} is a file and names its own")
    else:
        run_config = load_language_run(Path(config))
    leads = os.environ.get("RANK", "0") == "0"
    given = [config, *([] if corpus is None else ["--corpus", str(corpus)]), "--out", str(folder), "--resume"]
    again = shlex.join(["eigentrack", "lm", "train", *given])
    with (
        resumable(again, folder / CHECKPOINTS) as is_over,
        TrainingBar(run_config.training.steps, _said, shown=leads) as bar,
    ):
        result = run_language_training(
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
    if not leads:
        return
    losses = {"loss": result.loss, "validation loss": result.validation_loss}
    said = "".join(
        f", {name} {loss:.4f} (perplexity {perplexity_of(loss, 1):.4g})" for name, loss in losses.items() if loss is not None
    )
    out.print(f"{result.steps} steps, {result.tokens:,} tokens{said}", highlight=False)
    out.print(f"model: {folder / 'model'}", markup=False, highlight=False)


def _said(metrics: dict[str, Any], _: float) -> str:
    used = f", {metrics['utilisation']:.0%} of the device" if "utilisation" in metrics else ""
    return f"{metrics['tokens_per_second']:,.0f} tokens/s{used}"
