"""eigentrack compile, verify and run."""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from eigentrack.automata.dfa import split_word
from eigentrack.cli.console import out, working
from eigentrack.cli.drawing import Draw, check_drawing, draw_automaton
from eigentrack.cli.language_options import (
    Alphabet,
    DfaFile,
    GroupName,
    ImageLimit,
    Letters,
    Named,
    Regex,
    check_limit,
    image_limit_or_default,
    read_automaton,
)
from eigentrack.cli.options import AsJson, Overwrite, check_folder

if TYPE_CHECKING:
    from eigentrack.compiler import Certificate, Robustness

Folder = Annotated[Path, typer.Argument(help="The folder of a compiled network.")]
StateLimit = Annotated[int, typer.Option(help="Give up the proof beyond so many joint states.")]


def compile_command(
    regex: Regex = None,
    folder: Annotated[Path | None, typer.Option("-o", "--out", help="Where network and certificate go.")] = None,
    alphabet: Alphabet = "",
    named: Named = None,
    dfa_file: DfaFile = None,
    group: GroupName = None,
    letters: Letters = None,
    architecture: Annotated[
        str | None,
        typer.Option(help="deltanet, deltaproduct, gated, diagonal, dense, rotation or slstm; else the smallest is taken."),
    ] = None,
    construction: Annotated[
        str | None, typer.Option(help="One of those that `eigentrack explain` names, such as permutation or cascade-gated.")
    ] = None,
    spread: Annotated[bool, typer.Option("--spread", help="One factor per token, and several tokens per letter.")] = False,
    dtype: Annotated[str, typer.Option(help="Of the weights: float32, float64, bfloat16 or float16.")] = "float32",
    state_limit: StateLimit = 200_000,
    image_limit: ImageLimit = None,
    draw: Draw = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Compile a network that recognises a regular language at every length, with the proof that it does.

    Example: eigentrack compile '(ab|ba)*' -o net
    """
    from eigentrack.compiler import DTYPES, choose_plan, compile_network, save_compiled
    from eigentrack.compiler.certificate import json_hash
    from eigentrack.compiler.compiled import ENTRIES
    from eigentrack.output_folder import Output, claimed

    if dtype not in DTYPES:
        raise ValueError(f"--dtype {dtype!r} is not known; there are {', '.join(DTYPES)}")
    if folder is None:
        raise ValueError("name the folder for the network: -o DIR")
    check_folder("--out", folder)
    check_limit("--state-limit", state_limit)
    images = image_limit_or_default(image_limit)
    if draw is not None:
        check_drawing(draw, overwrite)
    dfa = read_automaton(regex, alphabet, named, dfa_file, group, letters)
    settings = {
        "language": json_hash(dfa.to_json()),
        "architecture": architecture,
        "construction": construction,
        "spread": spread,
        "dtype": dtype,
        "images": images,
    }
    with claimed(folder, Output("compiled network", ENTRIES, settings), overwrite=overwrite):
        if draw is not None:  # first, as it may be refused
            from eigentrack.automata import cascade

            levels = None
            with contextlib.suppress(ValueError):  # too large to decompose: the automaton alone is drawn
                levels = cascade(dfa, images)
            draw_automaton(dfa, levels, draw)
        with working("drawing up plans, proving the best ..."):
            choice = choose_plan(dfa, architecture, construction, spread, images)
            compiled = compile_network(choice, DTYPES[dtype], state_limit)
        save_compiled(compiled, folder)
    certificate = compiled.certificate
    if as_json:
        robustness = None if compiled.robustness is None else compiled.robustness.to_json()
        found = {**compiled.summary, "states": dfa.states, "folder": str(folder), "certificate": certificate.to_json()}
        found["robustness"] = robustness
        out.print_json(json.dumps(found))
    else:
        _print_summary(compiled.summary)
        _print_certificate(certificate)
        _print_robustness(compiled.robustness)
        out.print(f"network and certificate: {folder}", markup=False, highlight=False)
    if not certificate.holds:
        raise typer.Exit(1)


def verify_command(
    folder: Folder,
    regex: Regex = None,
    alphabet: Alphabet = "",
    named: Named = None,
    dfa_file: DfaFile = None,
    group: GroupName = None,
    letters: Letters = None,
    independent: Annotated[
        bool,
        typer.Option(
            "--independent", help="By the second checker: exact numbers, no code of the compiler; linear layers only."
        ),
    ] = False,
    state_limit: StateLimit = 200_000,
    as_json: AsJson = False,
) -> None:
    """Prove a compiled network anew, from its files alone; with a language, also that it is this one.

    Example: eigentrack verify net '(ab|ba)*'
    """
    check_limit("--state-limit", state_limit)
    asked = any(value is not None for value in (regex, named, dfa_file, group, letters)) or bool(alphabet)
    language = read_automaton(regex, alphabet, named, dfa_file, group, letters) if asked else None
    if independent and asked:
        raise ValueError("--independent checks the automaton of the folder: leave out the language, or --independent")
    if independent:
        _verify_independently(folder, state_limit, as_json)
        return
    from eigentrack.compiler import verify
    from eigentrack.compiler.kept_network import is_kept

    if is_kept(folder):
        if asked:
            raise ValueError(f"{folder} is a corrected network: leave out the language, which its files name")
        _verify_kept(folder, as_json)
        return
    with working("proving ..."):
        found = verify(folder, state_limit, language)
    if as_json:
        robustness = None if found.robustness is None else found.robustness.to_json()
        result = {"holds": found.holds, "differences": found.differences, "certificate": found.certificate.to_json()}
        out.print_json(json.dumps({**result, "robustness": robustness}))
    else:
        for difference in found.differences:
            out.print(f"[red]differs[/red]: {escape(difference)}", highlight=False, soft_wrap=True)
        _print_certificate(found.certificate)
        _print_robustness(found.robustness)
        out.print("verified" if found.holds else "[red]not verified[/red]", highlight=False)
    if not found.holds:
        raise typer.Exit(1)


def _verify_kept(folder: Path, as_json: bool) -> None:
    from eigentrack.compiler.kept_network import verify_kept

    with working("proving ..."):
        found = verify_kept(folder)
    proof = found.proof
    if as_json:
        result = {"holds": found.holds, "differences": found.differences, "proof": None if proof is None else asdict(proof)}
        out.print_json(json.dumps(result))
    else:
        for difference in found.differences:
            out.print(f"[red]differs[/red]: {escape(difference)}", highlight=False, soft_wrap=True)
        if proof is not None:
            backends = " and ".join(proof.backends)
            out.print(
                f"[green]proved[/green] for every word of every length: {proof.codes} codes, corrected every {proof.every} "
                f"tokens, at most {proof.reach:.3g} from their code before (allowed: {proof.half_gap:.3g})\n"
                f"the trained read-out is right on all of these balls by at least {proof.margin:.3g}; backends {backends}, "
                f"{proof.weights_dtype}",
                highlight=False,
            )
        out.print("verified" if found.holds else "[red]not verified[/red]", highlight=False)
    if not found.holds:
        raise typer.Exit(1)


def _verify_independently(folder: Path, state_limit: int, as_json: bool) -> None:
    from eigentrack.checker import check_folder

    with working("computing every step exactly ..."):
        found = check_folder(folder, state_limit)
    if as_json:
        out.print_json(json.dumps({"agrees": found.agrees, **asdict(found)}))
    elif found.agrees:
        out.print(
            f"the independent checker [green]agrees[/green]: {found.joint_states} joint states, {found.transitions} "
            f"transitions, weights {found.weights_type}, state {found.state_type}\n"
            "it steps token by token and proves that no sum is rounded, in whatever order it is added; it does not check the "
            "computation in chunks",
            highlight=False,
        )
    else:
        out.print(
            f"the independent checker [red]differs[/red]: {escape(str(found.difference))}", highlight=False, soft_wrap=True
        )
    if not found.agrees:
        raise typer.Exit(1)


def run_command(
    folder: Folder,
    word: Annotated[str, typer.Option(help="The word; long letters are separated by commas; '' is the empty word.")],
    as_json: AsJson = False,
) -> None:
    """Run a word through a compiled network: accept or reject, and the state after each letter.

    Example: eigentrack run net --word abba
    """
    from eigentrack.compiler import load_compiled
    from eigentrack.compiler.compiled import check_hashes

    compiled = load_compiled(folder)
    check_hashes(compiled, folder)
    letters = split_word(word, compiled.dfa.letters)
    states = compiled.run(letters)
    accepted = states[-1] in compiled.dfa.accepting
    if as_json:
        out.print_json(json.dumps({"accept": accepted, "word": letters, "states": states}))
        return
    out.print("accept" if accepted else "reject", highlight=False)
    path = "".join(f" -{letter}-> {state}" for letter, state in zip(letters, states[1:], strict=True))
    out.print(f"{states[0]}{path}", markup=False, highlight=False, soft_wrap=True)


def _print_summary(summary: dict[str, Any]) -> None:
    out.print(
        f"[bold]{summary['construction']}[/bold] ({summary['architecture']}): layers {summary['layers']}, state size "
        f"{summary['state_size']}, factors per token {summary['householders']}, MLP width {summary['mlp_width']}, "
        f"parameters {summary['parameters']}",
        highlight=False,
    )
    out.print(f"why: {summary['why']}", markup=False, highlight=False)
    out.print(f"switched off: {'; '.join(summary['switched_off'])}", markup=False, highlight=False)


def _print_robustness(robustness: Robustness | None) -> None:
    if robustness is None:
        return
    if robustness.epsilon:
        out.print(
            f"[green]robust[/green]: an error of {robustness.epsilon:g} in every number of the state, after every letter, is "
            f"borne at every length ({robustness.boxes} boxes)",
            highlight=False,
        )
    else:
        out.print(f"no error is proved to be borne: {robustness.obstacle}", markup=False, highlight=False)


def _print_certificate(certificate: Certificate) -> None:
    if not certificate.holds:
        word = "".join(certificate.counterexample or ()) or "the empty word"
        told = "its length bound is 0" if certificate.counterexample is None else f"it goes wrong on {word!r}"
        out.print(f"[red]the proof fails[/red]: {told}", highlight=False)
        return
    reach = (
        "every word of every length"
        if certificate.length_bound is None
        else f"every word of at most {certificate.length_bound} letters"
    )
    out.print(
        f"[green]proved[/green] for {reach}: {certificate.reachable_states} joint states, weights {certificate.weights_dtype}, "
        f"state {certificate.state_dtype}",
        highlight=False,
    )
    if certificate.order_independent:
        out.print("no value is ever rounded: it holds for every backend, device and batch", highlight=False)
    for fault in certificate.faults:
        out.print(f"only for the {', '.join(certificate.backends)} backend: {fault}", markup=False, highlight=False)
