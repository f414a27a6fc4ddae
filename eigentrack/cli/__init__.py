"""The command line: one thin module for each command; parse, call, print.

Exit code 0: done; 1: done, but the claim did not hold; 2: bad input; 130 and 143: ended by Ctrl-C or SIGTERM. torch is imported
by the commands that need it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Annotated

import typer
from rich.markup import escape

from eigentrack.cli.compile import compile_command, run_command, verify_command
from eigentrack.cli.console import err, logged, out, with_verbosity
from eigentrack.cli.correct import correct
from eigentrack.cli.demo import demo
from eigentrack.cli.evaluate import evaluate
from eigentrack.cli.explain import explain
from eigentrack.cli.explore import explore
from eigentrack.cli.inspect import inspect
from eigentrack.cli.interruption import Interrupted, handled
from eigentrack.cli.lm import lm_app
from eigentrack.cli.options import join_eigenvalues, refuse_empty_paths
from eigentrack.cli.reproduce import reproduce
from eigentrack.cli.tasks_and_layers import layers, tasks
from eigentrack.cli.train import train

app = typer.Typer(
    name="eigentrack",
    help="Linear RNNs that can track state.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
COMMANDS: dict[str, Callable[..., None]] = {
    "demo": demo,
    "train": train,
    "evaluate": evaluate,
    "reproduce": reproduce,
    "explain": explain,
    "compile": compile_command,
    "verify": verify_command,
    "run": run_command,
    "inspect": inspect,
    "correct": correct,
    "explore": explore,
    "tasks": tasks,
    "layers": layers,
}
for name, command in COMMANDS.items():
    app.command(name)(with_verbosity(command))
app.add_typer(lm_app)


def main() -> None:
    """Run the command line; a bad value becomes one line, never a trace (set EIGENTRACK_TRACE=1 to see it)."""
    try:
        with handled(), logged():
            refuse_empty_paths(sys.argv[1:])
            code = app(join_eigenvalues(sys.argv[1:]), standalone_mode=False)
        sys.exit(code or 0)
    except Interrupted as stopped:
        err.print(str(stopped), markup=False, highlight=False, soft_wrap=True)
        sys.exit(stopped.exit_code)
    except (ValueError, OSError, RuntimeError, MemoryError) as error:
        said = _out_of_memory(error) if isinstance(error, (RuntimeError, MemoryError)) else _in_words(error)
        if said is None or os.environ.get("EIGENTRACK_TRACE"):
            raise
        _print_error(said)
        sys.exit(2)
    except Exception as error:
        if (said := _wrong_usage(error)) is not None:
            _print_error(said)
            sys.exit(2)
        if not hasattr(error, "show"):
            raise
        error.show()  # the help of a group of commands
        sys.exit(2)


def _print_error(said: str) -> None:
    err.print(f"[red]error:[/red] {escape(said)}", highlight=False, soft_wrap=True)


def _wrong_usage(error: Exception) -> str | None:
    """Return what to say of options that typer refuses; None if the error is another one, or help that was asked for."""
    if not hasattr(error, "format_message") or type(error).__name__ == "NoArgsIsHelpError":
        return None
    context = getattr(error, "ctx", None)
    path = "eigentrack" if context is None else context.command_path
    return f"{' '.join(error.format_message().split())} (`{path} --help` lists the options)"


def _in_words(error: ValueError | OSError) -> str:
    """Return the message of an error; the system's errors name the file first."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _out_of_memory(error: Exception) -> str | None:
    """Return what to say of an out-of-memory error; None if the error is another one."""
    found = str(error).splitlines()[-1:]
    if isinstance(error, MemoryError) or any("allocate memory" in line or "out of memory" in line for line in found):
        return f"out of memory ({''.join(found)[:200]}): take a smaller batch, width or length"
    return None


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False) -> None:
    if show:
        from eigentrack import __version__

        out.print(__version__, highlight=False)
        raise typer.Exit
